"""The picture of predicted against measured step times: every run is a point."""

import numpy as np
import pytest

from jaxroof.errors import InputError
from jaxroof.validation.steps import packaged_answers
from jaxroof.views.plots.step_accuracy import predicted_measured


@pytest.fixture(scope="module")
def found():
    return packaged_answers("simumax_b200")


def test_every_run_is_a_point(found):
    made = predicted_measured(found)
    left, right = made.axes
    drawn = [line for line in left.lines if len(line.get_xdata()) > 2]
    measured = np.sort(np.concatenate([line.get_xdata() for line in drawn]))
    np.testing.assert_allclose(measured, sorted(found["measured"]), rtol=1e-12)
    assert all(line.get_ydata()[-1] == 100.0 for line in right.lines)
    assert len(made.legends[0].get_texts()) == 2, "dense, experts"


def test_nothing_measured_is_refused():
    with pytest.raises(InputError, match="no measured step to draw"):
        predicted_measured(packaged_answers("mt_nlg_a100")[:0])
