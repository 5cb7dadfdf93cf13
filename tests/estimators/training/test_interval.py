"""Intervals of step times: the table of the sheet, and the envelope of measured runs."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from places import ROOT

from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.estimators.training import interval as envelope
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.interval import (
    REGIMES,
    WORDS,
    half_width_within_source,
)
from jaxroof.estimators.training.step import example, training
from jaxroof.records import get_at, replace_at
from jaxroof.validation.sources import packaged_rows
from jaxroof.validation.steps import step_answers

PAGES = ROOT / "docs" / "models"
DENSE = ("dense_16_bit", "dense_8_or_4_bit", "not_calibrated")


def section(page, first, after):
    """Return a section of a page, and the half widths of its table."""
    text = (PAGES / page).read_text(encoding="utf-8").partition(first)[2].partition(after)[0]
    rows = re.findall(r"^\|[^|]+\|((?: [\d.]+ \|){4})$", text, flags=re.MULTILINE)
    return text, [tuple(map(float, row.split("|")[:-1])) for row in rows]


def test_half_widths_are_those_of_the_sheets():
    of_dense, (first, second, _, rough) = section("training_step_today.md", "## 12.", "## 13.")
    of_others, (experts, unknown) = section("layers_2026.md", "## 8.", "## 9.")
    found = dict(zip(WORDS, (one.half_widths for one in REGIMES), strict=True))
    assert [found[name] for name in DENSE] == [first, second, rough]
    assert found["experts"] == found["hybrid"] == experts
    assert found["not_dense_not_calibrated"] == unknown
    dense = re.search(r"then h 80 % is ([\d.]+) dense", of_dense)
    others = re.search(r"Within a source, h 80 % is ([\d.]+)", of_others)
    last = re.search(r"= ([\d.]+)\. Far off", of_others)
    assert dense is not None
    assert others is not None
    assert last is not None
    within = {name: half_width_within_source(float(WORDS.index(name))) for name in WORDS}
    assert {within[name] for name in DENSE} == {float(dense[1])}
    assert within["experts"] == within["hybrid"] == float(others[1])
    assert within["not_dense_not_calibrated"] == float(last[1])


KINDS = [  # model, layers that it has, whether 8 bits and calibrated, what its interval is
    ("llama3-8b", {}, (0.0, 1.0), "dense_16_bit"),
    ("llama3-8b", {}, (1.0, 1.0), "dense_8_or_4_bit"),
    ("llama3-8b", {"windowed_layers": 16.0}, (0.0, 1.0), "dense_16_bit"),
    ("llama3-8b", {}, (1.0, 0.0), "not_calibrated"),
    ("mixtral-8x7b", {}, (1.0, 1.0), "experts"),
    ("mixtral-8x7b", {}, (0.0, 0.0), "not_dense_not_calibrated"),
    ("mixtral-8x7b", {"mamba_layers": 16.0}, (0.0, 1.0), "experts"),
    ("llama3-8b", {"mamba_layers": 16.0}, (1.0, 1.0), "hybrid"),
    *(
        (model, {f"{kind}_layers": 8.0}, (0.0, 1.0), "not_dense_not_calibrated")
        for model in ("llama3-8b", "mixtral-8x7b")
        for kind in ("delta", "kda", "index")
    ),
]


@pytest.mark.parametrize(("name", "layers", "of_run", "word"), KINDS)
def test_the_interval_is_that_of_the_kind_of_model(name, layers, of_run, word):
    """Layers that were counted and never measured have the widest."""
    model = dataclasses.replace(architecture_with_choices(name)[0], **layers)
    assert WORDS[int(envelope.regime(model, *of_run))] == word


# ---- The envelope -------------------------------------------------------------------------------

NOT_CALIBRATED = float(WORDS.index("not_calibrated"))


@pytest.fixture(scope="module")
def measured():
    """Return every measured row that has a prediction, with its extent, as columns."""
    rows = packaged_rows("steps")
    found, extent = step_answers(rows), np.full((len(rows.frame), len(EXTENT)), np.nan)
    for places, inputs, _ in rows.groups:
        if isinstance(inputs.plan, TrainingPlan):  # not on a torus
            for column, path in enumerate(EXTENT):
                extent[places, column] = get_at(inputs, path)
    found = found.join(pd.DataFrame(extent, columns=EXTENT)).dropna(subset=["error", *EXTENT])
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
