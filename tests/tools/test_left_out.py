"""The fit of the constants of experts without one model: its rows, its errors, its bounds."""

import numpy as np
import pytest

from jaxroof.catalog.chip import SharedConstants
from jaxroof.validation.steps import packaged_answers
from tools.rows.left_out import PRIORS, errors, fitted, left_out, measured_rows


@pytest.fixture(scope="module")
def rows():
    return measured_rows()


@pytest.mark.slow
def test_errors_at_the_constants_of_2026_are_those_of_validate(rows):
    logs = np.log([getattr(SharedConstants(), name) for name in PRIORS])
    found = packaged_answers().dropna(subset="error")
    model = found["model"].str.removesuffix(" cut")
    routed = model.isin(rows.models) & found["regime"].str.contains("expert|not dense")
    routed &= ~found["regime"].str.startswith("MaxText")
    said = np.log1p(found["error"][routed])
    np.testing.assert_allclose(np.sort(errors(rows, logs)), np.sort(said), atol=1e-12)


@pytest.mark.slow
def test_a_model_is_predicted_by_the_others(rows):
    """One step of the fit already: it moves towards the rows that it has, inside the bounds."""
    name, some = next(left_out(rows, 2))
    own = rows.models == name
    assert len(some) == own.sum() < len(rows.times)
    likely, deviation = np.array([*PRIORS.values()]).T
    start, end = (fitted(rows, ~own, most) for most in (1, 2))
    assert (np.abs(end - np.log(likely)) <= 2.0 * deviation + 1e-9).all()
    before, after = (np.median(np.abs(errors(rows, logs)[~own])) for logs in (start, end))
    assert after < before
    np.testing.assert_array_equal(some, errors(rows, end)[own])
