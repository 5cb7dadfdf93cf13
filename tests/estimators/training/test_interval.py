"""Intervals of step times: the table of the sheet, and the envelope of measured runs."""

import dataclasses
import re

import jax
import numpy as np
import pandas as pd
import pytest
from places import ROOT

from jaxroof.estimators.training import interval as envelope
from jaxroof.estimators.training.interval import (
    LEVELS,
    REGIMES,
    WORDS,
    half_width,
    half_width_within_source,
    interval,
    of_own_runs,
    regime,
)
from jaxroof.estimators.training.step import example, training
from jaxroof.records import get_at, replace_at
from jaxroof.validation.sources import packaged_rows
from jaxroof.validation.steps import step_answers

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
    own = {"own_dense_16_bit": 0.2, "own_dense_8_or_4_bit": 0.0, "own_experts": 0.05}
    changed = {
        "model.experts": routed,
        "software.fp8": bits,
        "plan.offload_optimizer": 1 - measured,
    }
    changed |= {f"system.chip.{name}": np.float64(half) for name, half in own.items()}
    for calibrated in (0.0, 1.0):
        inputs = replace_at(example(), "system.chip.calibrated", np.float64(calibrated))
        for path, value in changed.items():
            inputs = replace_at(inputs, path, value)
        low, high, place = interval(inputs, 3.0)
        half = np.log(high / 3.0)
        np.testing.assert_allclose(np.log(3.0 / low), half, rtol=1e-12)
        usual = np.array([half_width(float(one)) for one in place.ravel()]).reshape(place.shape)
        np.testing.assert_allclose(half[..., 0], usual[..., 0], rtol=1e-12)
        np.testing.assert_array_equal(place[0, :, 0], 3.0)
        assert half[0, 0, 1] == pytest.approx(0.2)
        np.testing.assert_allclose(half[1, :, 1], 0.05, rtol=1e-12)
        assert place[0, 0, 1] == 0.0
        assert place[0, 1, 1] == (1.0 if calibrated else 3.0)
        found = np.broadcast_to(of_own_runs(low, high, place), place.shape)
        assert found.tolist() == (np.abs(half - usual) > 1e-9).tolist()
        assert found[..., 0].sum() == 0


# ---- The envelope -------------------------------------------------------------------------------

NOT_CALIBRATED = float(WORDS.index("not_calibrated"))


@pytest.fixture(scope="module")
def measured():
    """Return every measured row that has a prediction, with its extent, as columns."""
    rows = packaged_rows("steps")
    found, extent = step_answers(rows), np.full((len(rows.frame), len(EXTENT)), np.nan)
    for places, inputs, _ in rows.groups:
        for column, path in enumerate(EXTENT):
            extent[places, column] = get_at(inputs, path)
    found = found.join(pd.DataFrame(extent, columns=EXTENT)).dropna(subset="error")
    degrees = [f"plan.{name}" for name in ("data", "tensor", "context", "pipeline")]
    return found.assign(gpus=found[degrees].prod(axis=1))


EXTENT = [
    *(f"plan.{name}" for name in ("data", "tensor", "context", "pipeline")),
    *("model.sequence", "system.fast_domain", "software.tensor_overlap"),
]


def test_the_limits_are_those_of_the_measured_rows(measured):
    assert measured["gpus"].max() == envelope.MOST_GPUS
    assert measured["model.sequence"].max() == envelope.LONGEST_SEQUENCE
    tensor = measured["plan.tensor"]
    assert tensor[tensor <= measured["system.fast_domain"]].max() == envelope.WIDEST_TENSOR


def test_no_measured_row_lies_outside_but_wide_tensor_groups_without_overlap(measured):
    wide = measured["plan.tensor"] > measured["system.fast_domain"]
    assert 0 < wide.sum() < 5
    names = ["gpus", "plan.tensor", "model.sequence", "system.fast_domain"]
    for numbers, out in zip(measured[names].to_numpy().tolist(), wide, strict=True):
        inside = float(envelope.inside(*numbers))
        assert inside == float(not out)
        assert bool(inside) == (not list(envelope.reasons_outside(*numbers)))
    out = measured[wide]
    assert (out["software.tensor_overlap"] == 0.0).all()
    assert out["covered"].all()
    assert (out["regime"] == "not calibrated").all()


def moved(path, value):
    """Return the example with one field changed, on as many accelerators as its plan takes."""
    inputs = replace_at(example(), path, np.float64(value))
    degrees = [getattr(inputs.plan, name) for name in ("data", "tensor", "context", "pipeline")]
    return dataclasses.replace(inputs, gpus=np.float64(np.prod(degrees)))


OUTSIDE = {
    "model.sequence": 2.0 * envelope.LONGEST_SEQUENCE,
    "plan.data": 2.0 * envelope.MOST_GPUS,
    "plan.tensor": 2.0 * envelope.WIDEST_TENSOR,
    "system.fast_domain": 1.0,
}


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_plan_outside_has_the_interval_of_no_kind(path):
    assert float(training.evaluate(example()).regime) == 0.0
    assert get_at(example(), path) != OUTSIDE[path]
    report = training.evaluate(moved(path, OUTSIDE[path]))
    assert float(report.regime) == NOT_CALIBRATED
    half = REGIMES[int(NOT_CALIBRATED)].half_widths[1]
    assert float(report.step_time_high / report.step_time) == pytest.approx(np.exp(half))


def test_runs_of_ones_own_say_nothing_of_plans_outside():
    own = "system.chip.own_dense_16_bit"
    report = training.evaluate(replace_at(example(), own, np.float64(0.2)))
    assert float(report.step_time_high / report.step_time) == pytest.approx(np.exp(0.2))
    half = REGIMES[int(NOT_CALIBRATED)].half_widths[1]
    for path, value in (("plan.offload_optimizer", 1.0), ("plan.tensor", 16.0)):
        other = training.evaluate(replace_at(moved(path, value), own, np.float64(0.2)))
        assert float(other.regime) == NOT_CALIBRATED
        assert float(other.step_time_high / other.step_time) == pytest.approx(np.exp(half))
