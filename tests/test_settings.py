"""Settings by name: a choice of several members, which stays what it is wherever it is written."""

import json

import pytest
from refusals import refused

import jaxroof as jr
from jaxroof.estimators.training.recipe import Module, Selective, TrainingRecipe
from jaxroof.settings import choice, choice_text, choose

BOTH = frozenset({Module.LAYERNORM, Module.MLP})
ASKED = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64, "dp": 8, "rc": 1}


@pytest.mark.parametrize("text", ["+layernorm+mlp", "mlp+layernorm", "+mlp+layernorm+mlp"])
def test_members_are_joined_by_a_plus(text):
    assert choice(TrainingRecipe(), "selective", text) == BOTH
    assert choice_text(BOTH) == "+layernorm+mlp"


def test_one_member_alone_is_not_the_choice_of_its_name():
    assert choice(TrainingRecipe(), "selective", "+mlp") == frozenset({Module.MLP})
    assert choice(TrainingRecipe(), "selective", "mlp") is Selective.MLP
    several = choose(TrainingRecipe(), {"selective": "+mlp"})
    assert choice(several, "selective", "mlp") is Selective.MLP


def test_a_wrong_member_is_named():
    said = refused(choice, TrainingRecipe(), "selective", "+mpl")
    assert said.startswith("selective: mpl: no such Module. Did you mean 'mlp'?")


def test_answers_say_the_members_and_are_asked_again_with_them():
    found = jr.evaluate("training", **ASKED, selective="+layernorm+mlp")
    said = json.loads(found.attrs["recipe"])["selective"]
    assert said == "+layernorm+mlp"
    again = jr.evaluate("training", **ASKED, selective=said)
    light = jr.evaluate("training", **ASKED, selective="light")
    assert float(again.step_time) == float(found.step_time) > float(light.step_time)
    axes = jr.evaluate("training", **ASKED, axes={"selective": ["light", said]})
    assert axes.selective.values.tolist() == ["light", said]
    assert float(axes.step_time[1]) == float(found.step_time)
