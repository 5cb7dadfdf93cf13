"""A dispatcher and a set of constants by name: the numbers that each stands for."""

import numpy as np
import pytest

import jaxroof as jr
from jaxroof import catalog
from jaxroof.catalog.chip import SharedConstants
from jaxroof.estimators.training.inputs import Framework, TrainingInputs
from jaxroof.estimators.training.named_settings import KINDS, numbers_named, with_numbers
from jaxroof.records import units
from jaxroof.settings import known_paths

QUESTION = {"model": "mixtral-8x7b", "system": "h100-nvs8", "gpus": 64, "global_batch": 256}
WHERE = "tp<=2,pp<=4,off=0"


@pytest.mark.parametrize("key", KINDS)
def test_every_name_stands_for_numbers_of_the_inputs(key):
    for name in catalog.names(KINDS[key]):
        assert {*numbers_named(key, name)} <= {*known_paths(TrainingInputs)}


def test_a_dispatcher_of_today_is_the_default():
    for path, value in numbers_named("dispatcher", "hybridep").items():
        assert getattr(Framework(), path.partition(".")[2]) == value


def test_what_was_believed_of_constants_holds_their_values():
    believed = catalog.describe("constants", "2026")["believed"]
    for name, (centre, deviation) in believed.items():
        value = getattr(SharedConstants(), name)
        assert abs(np.log(value / centre)) <= 2.0 * deviation + 1e-3, name
    assert {*believed} <= {*units(SharedConstants)}


def test_a_number_by_its_own_path_stays():
    given = {"dispatcher": "hybridep", "constants": 2025, "shared.grouped": 0.5, "software.flex": 0}
    found, _ = with_numbers(given, {})
    assert (found["software.flex"], found["software.graph"]) == (0, 0.0)
    assert (found["shared.grouped"], found["shared.permute"]) == (0.5, 23.4)


def test_names_on_an_axis_are_each_alone():
    names = ["alltoall", "hybridep", "megatron-graph"]
    found = jr.search("training", **QUESTION, where=WHERE, axes={"dispatcher": names})
    each = [jr.search("training", **QUESTION, where=WHERE, dispatcher=name) for name in names]
    assert found.dispatcher.values.tolist() == names
    assert found.step_time.values.tolist() == [float(one.step_time) for one in each]
    assert len({*found.step_time.values.tolist()}) == 3


def test_old_constants_are_another_answer():
    axes = {"constants": ["2025", "2026"]}
    old, new = jr.search("training", **QUESTION, where=WHERE, axes=axes).step_time.values
    assert new == float(jr.search("training", **QUESTION, where=WHERE).step_time)
    assert old == float(jr.search("training", **QUESTION, where=WHERE, constants=2025).step_time)
    assert old != new


WRONG = [
    ({"dispatcher": "hybrid-ep"}, r"dispatcher: hybrid-ep: no such dispatcher.*hybridep"),
    ({"constants": 2024}, r"constants: 2024: no such set of constants.*202[56]"),
    ({"axes": {"dispatcher": ["deepep"]}, "dispatcher": "deepep"}, "given beside the axes too"),
    ({"axes": {"dispatcher": "deepep"}}, "dispatcher: expected a list of names"),
]


@pytest.mark.parametrize(("more", "said"), WRONG)
def test_a_wrong_name_is_one_line(more, said):
    with pytest.raises(jr.InputError, match=said):
        jr.search("training", **QUESTION, where=WHERE, **more)
