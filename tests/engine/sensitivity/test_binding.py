"""Slopes where a limit binds are those of the problem solved again, and of its closed form."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxroof as jr
from jaxroof.engine.sensitivity.binding import met_at, slopes_at_limit
from tests.helpers.pools import Plan, estimator, example

PATHS = ("system.rate", "system.latency", "prompt", "limits.each", "system.memory")


def asked(each: float = 0.02):
    start = example()
    limits = dataclasses.replace(start.limits, each=np.float64(each))
    return dataclasses.replace(start, limits=limits, plan=Plan(prefill=2.0, decode=4.0, batch=8.0))


def test_slopes_at_a_bound_of_the_machine_are_those_of_its_closed_form():
    found = slopes_at_limit(estimator, asked(), limit="each", field="batch", parameters=PATHS)
    rate, latency, bound, prompt = 1e3, 1e-4, 0.02, 1024.0
    batch = (bound - 4 * latency) * 4 * rate - 8.0
    token = 64.0 * 4 * bound  # decode_cost = token / batch
    price = 64.0 * 4 / batch - token / batch**2 * 4 * rate
    held = {
        "system.rate": -prompt / rate**2 - token / batch**2 * 4 * (bound - 4 * latency),
        "system.latency": 2.0**2 + token / batch**2 * 16 * rate,
        "prompt": 1.0 / rate,
        "limits.each": price,
        "system.memory": 0.0,
    }
    np.testing.assert_allclose(float(found.batch), batch, rtol=1e-12)
    np.testing.assert_allclose(float(found.price), price, rtol=1e-12)
    np.testing.assert_allclose(found.slope_held, [held[path] for path in PATHS], rtol=1e-11)
    assert float(found.slope.sel(parameter="limits.each")) == 0.0
    scale = [rate, latency, prompt, bound, 16e9]
    np.testing.assert_allclose(found.elasticity_held * found.cost, found.slope_held * scale)


def test_slopes_at_a_bound_that_parameters_move():
    inputs = asked(1e9)
    found = slopes_at_limit(
        estimator, inputs, limit="cache", field="batch", parameters=["system.memory"]
    )
    assert float(found.batch) == pytest.approx(64.0, rel=1e-14)  # 1e9 batch / decode = memory
    batch, rate = 64.0, 1e3
    slope = -64.0 * 4 / batch**2 * (8.0 / (4 * rate) + 4e-4)  # of the cost with the batch
    np.testing.assert_allclose(found.price, slope * 4 / 1e9, rtol=1e-12)
    np.testing.assert_allclose(found.slope_held, [slope * 4 / 1e9], rtol=1e-12)
    np.testing.assert_array_equal(found.slope, [0.0])


def test_a_limit_that_is_not_there_or_never_met_is_refused():
    with pytest.raises(jr.InputError, match="limit: eech"):
        slopes_at_limit(estimator, asked(), limit="eech", field="batch")
    with pytest.raises(jr.InputError, match="first: has no bound"):
        slopes_at_limit(estimator, asked(), limit="first", field="batch")
    with pytest.raises(jr.InputError, match="no value makes each its bound"):
        slopes_at_limit(estimator, asked(1e-5), limit="each", field="batch")


@given(st.floats(1e-3, 1e3), st.floats(-3.0, 3.0), st.sampled_from([0.3, 1.0, 2.5, -1.0]))
def test_where_a_result_is_its_bound(start, exponent, power):
    bound = 10.0**exponent
    found = met_at(lambda x: x**power, start, bound)
    assert found is not None
    assert math.isclose(found, bound ** (1.0 / power), rel_tol=1e-12)
