"""Intervals of step times: the table of the sheet, and that both executors broadcast it."""

import re

import numpy as np
import pytest
from places import ROOT

from jaxroof.errors import InputError
from jaxroof.estimators.training.interval import (
    LEVELS,
    REGIMES,
    half_width,
    half_width_within_source,
    interval,
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
    for column, level in enumerate(LEVELS):
        expected = np.array([one.half_widths[column] for one in REGIMES])[found.astype(int)]
        np.testing.assert_array_equal(half_width(found, level), expected)
        low, high = interval(2.0, found, level)
        np.testing.assert_allclose(np.log(high / low), 2.0 * expected, rtol=1e-14)
        np.testing.assert_allclose(low * high, 4.0, rtol=1e-14)


def test_jax_gives_the_same():
    import jax
    import jax.numpy as jnp

    places = np.arange(4.0)
    np.testing.assert_allclose(
        jax.jit(interval)(jnp.full(4, 3.0), jnp.asarray(places)), interval(np.full(4, 3.0), places)
    )


def test_a_level_that_was_not_measured_is_refused():
    with pytest.raises(InputError, match="99: no such level of an interval"):
        half_width(0.0, 99)
