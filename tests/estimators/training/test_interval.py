"""Intervals of step times: the table of the sheet, and the envelope of measured runs."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from places import ROOT

from jaxroof.estimators.training import interval as envelope
from jaxroof.estimators.training.interval import (
    REGIMES,
    WORDS,
    half_width_within_source,
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
