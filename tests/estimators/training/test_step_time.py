"""Step time of today's training: every measured row of the sheet, part by part, and its laws."""

import dataclasses

import numpy as np
import pytest
from measured_steps import CHIPS, rows, steps

from jaxroof.catalog.chip import SharedConstants
from jaxroof.estimators.training.step_time import StepTime, step_time
from jaxroof.records import leaves, replace_at

RTOL = 1e-10
SHARED = SharedConstants()
DIFFERENCES = ("data_comm", "tensor_comm", "context_comm")  # of near numbers: 1e-10 of the step


def times(asked, **changed):
    system, chip, shared, software = (
        changed.get(name, value)
        for name, value in (
            ("system", asked.system),
            ("chip", asked.chip),
            ("shared", SHARED),
            ("software", asked.software),
        )
    )
    return step_time(asked.model, asked.sequence, asked.plan, system, chip, shared, software)


@pytest.mark.parametrize("kind", CHIPS)
def test_every_part_of_every_measured_row(kind):
    asked = steps(kind)
    found = times(asked)
    assert set(StepTime._fields) == set(asked.expected)
    for name, expected in asked.expected.items():
        atol = RTOL * asked.expected["step_time"] if name in DIFFERENCES else 0.0
        error = np.abs(getattr(found, name) - expected) - RTOL * np.abs(expected)
        worst = int(np.argmax(error - atol))
        assert np.all(error <= atol), (name, asked.names[worst])


def test_all_rows_are_asked():
    assert sum(len(steps(kind).names) for kind in CHIPS) == len(rows()) == 1312


PRINTED = {  # section 13 of the sheet
    "korthikanti_t5_175B_full": 19.007123729489777,
    "mpt-077": 158.5349367642458,
    "mlm-weak-7": 8.54705169959921,
    "mbridge-000": 11.785510423682899,
    "automodel-3": 22.38535285598505,
    "simumax-b200-22": 4.04658655468291,
}


@pytest.mark.parametrize(("name", "seconds"), PRINTED.items())
def test_check_values_of_the_sheet(name, seconds):
    kind = next(row["chip"] for row in rows() if row["row_id"] == name)
    asked = steps(kind)
    found = times(asked).step_time[asked.names.index(name)]
    assert found == pytest.approx(seconds, rel=RTOL)


RATES = {
    "system": ("matrix_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth"),
    "chip": ("fp8_flops", "fp4_flops"),
}
LATENCIES = {
    "chip": ("step",),
    "shared": ("launch", "base", "fast_hop", "slow_hop", "host", "host_moe", "sync"),
}


def scaled(asked, which, factor):
    """Return the records of a question with some numbers times a factor."""
    records = {"system": asked.system, "chip": asked.chip, "shared": SHARED}
    for record, names in which.items():
        for name in names:
            value = getattr(records[record], name)
            if value is not None:
                records[record] = dataclasses.replace(records[record], **{name: value * factor})
    return records


@pytest.mark.parametrize("kind", CHIPS)
def test_a_machine_twice_as_fast_takes_half_as_long(kind):
    """A step is homogeneous of degree -1 in rates and inverse latencies."""
    asked = steps(kind)
    fast, quick = scaled(asked, RATES, 2.0), scaled(asked, LATENCIES, 0.5)
    records = {
        "system": fast["system"],
        "chip": dataclasses.replace(fast["chip"], step=quick["chip"].step),
        "shared": quick["shared"],
    }
    both = times(asked, **records).step_time
    np.testing.assert_allclose(2.0 * both, asked.expected["step_time"], rtol=2e-9)


@pytest.mark.parametrize("kind", CHIPS)
def test_no_faster_part_slows_a_step(kind):
    asked = steps(kind)
    before = asked.expected["step_time"]
    for which, factor in ((RATES, 1.3), (LATENCIES, 0.7)):
        for record, names in which.items():
            for name in names:
                after = times(asked, **scaled(asked, {record: (name,)}, factor)).step_time
                assert np.all(after <= before * (1.0 + 1e-12)), name


def test_jax_and_numpy_agree():
    """Value and slopes; the slopes along every number of chip and constants are differences."""
    import jax

    asked = steps("gb200")
    jitted = jax.jit(lambda chip, shared: times(asked, chip=chip, shared=shared))
    expected = times(asked)
    for name, value in zip(StepTime._fields, jitted(asked.chip, SHARED), strict=True):
        np.testing.assert_allclose(value, getattr(expected, name), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("path", [path for path, _, value in leaves(SHARED) if value > 0.0])
def test_slopes_are_those_of_a_complex_step(path):
    """Every constant may be fitted: its slope is finite, and that of a difference."""
    from jaxroof.dual import slope_of, value_of
    from jaxroof.engine.sensitivity.moved_inputs import with_slopes

    asked = steps("h100")
    moved = with_slopes(SHARED, [path], np.ones((1, 1)))
    found = times(asked, shared=moved).step_time
    up, down = (
        times(asked, shared=replace_at(SHARED, path, getattr(SHARED, path) * (1.0 + h))).step_time
        for h in (1e-7, -1e-7)
    )
    slope = np.broadcast_to(slope_of(found), (1, len(up)))[0]
    assert np.all(np.isfinite(slope))
    here = value_of(found)
    near = np.abs(slope - (up - down) / 2e-7) <= 1e-6 * here + 1e-4 * np.abs(slope)
    assert np.all(near)
