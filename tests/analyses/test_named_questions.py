"""Questions by name are the questions of the records that the names stand for."""

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.analyses.named_questions import estimator_for

QUESTION = {"model": "llama3-8b", "system": "h100-nvs8", "gpus": 8, "global_batch": 64}
RECORD = {
    "model": jr.architecture("llama3-8b"),
    "system": jr.training_system("h100-nvs8"),
    "gpus": np.float64(8),
    "global_batch": np.float64(64),
}


@pytest.mark.parametrize("name", ["search", "survey", "pareto"])
def test_a_question_by_name_is_that_of_the_record(name):
    asked = getattr(jr, name)
    by_name = asked("training", **QUESTION, where="off=0,tp<=2")
    by_record = asked(jr.training, jr.TrainingInputs(**RECORD), where="off=0,tp<=2")
    assert by_name.identical(by_record)


def test_fields_may_change_what_a_name_stands_for():
    slower = jr.search("training", **QUESTION, settings={"system.hbm_bandwidth": "1 TB/s"})
    assert float(slower.step_time) > float(jr.search("training", **QUESTION).step_time)


def test_a_model_on_an_axis_brings_its_choices():
    rest = {name: value for name, value in QUESTION.items() if name != "model"}
    names = ["llama3-8b", "gpt2-1.5b"]
    found = jr.search("training", **rest, axes={"model": names})
    each = [float(jr.search("training", **{**rest, "model": name}).step_time) for name in names]
    assert found.step_time.values.tolist() == each


def test_plan_fields_may_be_short():
    short = jr.evaluate("training", **QUESTION, dp=4, tp=2)
    long = jr.evaluate("training", **QUESTION, **{"plan.data": 4, "plan.tensor": 2})
    assert short.identical(long)
    with pytest.raises(jr.InputError, match=r"tp: given twice, as plan\.tensor too"):
        jr.evaluate("training", **QUESTION, tp=2, **{"plan.tensor": 2})


def test_an_explanation_follows_the_record():
    assert estimator_for(jr.TrainingInputs(**RECORD)) is jr.training
    assert estimator_for(jr.published.example()) is jr.published
    assert jr.explain(jr.TrainingInputs(**RECORD)).best.attrs["estimator"] == "training"
    with pytest.raises(jr.InputError, match="a int; expected inputs of an estimator"):
        jr.explain(3)
