"""The envelope of measured runs: its limits are those of the rows, and widen an interval alone."""

import dataclasses
import functools

import numpy as np
import pytest

from jaxroof.catalog import lookup
from jaxroof.estimators.training import envelope
from jaxroof.estimators.training.interval import REGIMES, WORDS
from jaxroof.estimators.training.step import example, training
from jaxroof.records import get_at, replace_at
from jaxroof.validation.steps.scores import packaged_answers

NOT_CALIBRATED = float(WORDS.index("not_calibrated"))


@pytest.fixture(scope="module")
def measured():
    return [
        one
        for some in packaged_answers().values()
        for one in some
        if one.step is not None and one.error is not None
    ]


def gpus_of(step):
    degrees = ("data", "tensor", "context", "pipeline")
    return np.prod([step.settings[f"plan.{name}"] for name in degrees])


@functools.cache
def domain_of(system):
    return float(lookup.system(system).fast_domain)


def domain(step):
    return domain_of(step.system)


def test_the_limits_are_those_of_the_measured_rows(measured):
    steps = [one.step for one in measured]
    assert max(gpus_of(one) for one in steps) == envelope.MOST_GPUS
    assert max(one.settings["model.sequence"] for one in steps) == envelope.LONGEST_SEQUENCE
    tensor = np.array([one.settings["plan.tensor"] for one in steps])
    within = tensor[tensor <= [domain(one) for one in steps]]
    assert max(within) == envelope.WIDEST_TENSOR


def test_no_measured_row_lies_outside_but_wide_tensor_groups_without_overlap(measured):
    out = [one for one in measured if one.step.settings["plan.tensor"] > domain(one.step)]
    assert 0 < len(out) < 5
    for one in measured:
        tensor, sequence = (one.step.settings[path] for path in ("plan.tensor", "model.sequence"))
        numbers = (gpus_of(one.step), tensor, sequence, domain(one.step))
        inside = float(envelope.inside(*numbers))
        assert inside == float(one not in out)
        assert bool(inside) == (not list(envelope.reasons_outside(*numbers)))
    for one in out:
        assert one.step.settings["software.tensor_overlap"] == 0.0
        assert one.covered
        assert one.regime == "not calibrated"


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
