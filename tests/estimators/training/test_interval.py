"""Intervals of step times: the table of the sheet, and that both executors broadcast it."""

import re

import jax
import numpy as np
import pytest
from places import ROOT

from jaxroof.estimators.training.interval import (
    LEVELS,
    REGIMES,
    OwnRuns,
    half_width,
    half_width_within_source,
    interval_of_runs,
    of_own_runs,
    regime,
)

SHEET = (ROOT / "docs" / "models" / "training_step_today.md").read_text(encoding="utf-8")


def test_half_widths_are_those_of_the_sheet():
    section = SHEET.partition("## 12.")[2].partition("## 13.")[0]
    printed = re.findall(r"^\|[^|]+\|((?: [\d.]+ \|){4})$", section, flags=re.MULTILINE)
    table = [[float(cell) for cell in row.split("|")[:-1]] for row in printed]
    assert table == [list(one.half_widths) for one in REGIMES]
    within = re.search(r"then h 80 % is ([\d.]+) dense, ([\d.]+) MoE", section)
    assert within is not None
    assert [half_width_within_source(place) for place in (0.0, 2.0)] == [
        *map(float, within.groups())
    ]


def test_a_regime_broadcasts():
    routed, bits, known = (
        np.array([0.0, 1.0]).reshape(s) for s in ((2, 1, 1), (1, 2, 1), (1, 1, 2))
    )
    found = regime(routed, bits, known)
    assert found.tolist() == [[[3.0, 0.0], [3.0, 1.0]], [[2.0, 2.0], [2.0, 2.0]]]
    expected = np.array([one.half_widths[LEVELS.index(80)] for one in REGIMES])[found.astype(int)]
    np.testing.assert_array_equal(half_width(found), expected)
    np.testing.assert_array_equal(jax.jit(half_width)(found), expected)


def test_own_runs_go_before_the_regime_for_plans_of_their_kind():
    routed, bits, measured = (
        np.array([0.0, 1.0]).reshape(s) for s in ((2, 1, 1), (1, 2, 1), (1, 1, 2))
    )
    own = OwnRuns(0.2, 0.0, 0.05)
    for calibrated in (0.0, 1.0):
        low, high, place = interval_of_runs(3.0, routed, bits, calibrated, measured, own)
        half = np.log(high / 3.0)
        np.testing.assert_allclose(np.log(3.0 / low), half, rtol=1e-12)
        usual = np.array([half_width(float(one)) for one in place.ravel()]).reshape(place.shape)
        np.testing.assert_allclose(half[..., 0], usual[..., 0], rtol=1e-12)
        np.testing.assert_array_equal(place[0, :, 0], 3.0)
        assert half[0, 0, 1] == pytest.approx(0.2)
        np.testing.assert_allclose(half[1, :, 1], 0.05, rtol=1e-12)
        assert place[0, 0, 1] == 0.0
        assert place[0, 1, 1] == (1.0 if calibrated else 3.0)
        own_runs = np.broadcast_to(of_own_runs(low, high, place), place.shape)
        assert own_runs.tolist() == (np.abs(half - usual) > 1e-9).tolist()
        assert own_runs[..., 0].sum() == 0
