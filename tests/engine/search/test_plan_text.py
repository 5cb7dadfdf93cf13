"""Plans as people write them: one parser for --plan, --mine and Python."""

import pytest

from jaxroof.engine.search.plan_text import parse_plan, plan_items
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.step import training

SHORT = training.short_names


def test_short_names_fields_and_the_words_of_an_answer_are_one_plan():
    texts = ("dp=4,tp=8,off=0", "dp 4 tp 8 off 0", "data=4, tensor = 8 offload_optimizer 0")
    plans = [parse_plan("--plan", text, TrainingPlan, SHORT) for text in texts]
    assert plans == [{"data": 4, "tensor": 8, "offload_optimizer": 0}] * 3


def test_every_field_has_a_short_name_that_is_read():
    assert {*SHORT.values()} == {*training.plan_fields}
    text = " ".join(f"{short} 1" for short in SHORT)
    assert parse_plan("", text, TrainingPlan, SHORT) == dict.fromkeys(SHORT.values(), 1)


def test_fields_may_be_fewer():
    with pytest.raises(InputError, match="pp: no such plan field; expected one of dp, tp"):
        parse_plan("--plan", "pp=2", TrainingPlan, SHORT, ["data", "tensor"])


@pytest.mark.parametrize(("text", "said"), [
    ("", "expected FIELD=NUMBER, such as tp=8, given ''"),
    ("tp", "expected FIELD=NUMBER, such as tp=8, given 'tp'"),
    ("tp 8 pp", "expected FIELD=NUMBER"),
    ("tp=8,", "expected FIELD=NUMBER"),
    ("tp=8,tp=4", "tp: given twice; expected each field once"),
    ("tp=8,tensor=4", "tensor: given twice; expected each field once"),
    ("tpp=8", "tpp: no such plan field. Did you mean 'tp'"),
    ("tq=8", "tq: no such plan field"),
    ("tp=0", "tp: expected whole numbers from 1 to 1e9, given '0'"),
    ("tp=1.5", "tp: expected whole numbers from 1 to 1e9, given '1.5'"),
    ("zero=4", "zero: expected whole numbers from 0 to 3, given '4'"),
])  # fmt: skip
def test_what_is_no_plan_is_one_line(text, said):
    with pytest.raises(InputError, match=f"^--mine: {said}"):
        parse_plan("--mine", text, TrainingPlan, SHORT)


def test_names_are_kept_as_typed():
    assert plan_items("", "dp 4 zero=1") == {"dp": "4", "zero": "1"}
