"""The fullest stage: which, what it lacks, and what fills it."""

import numpy as np
import pytest
import training_memory as golden

from jaxroof.estimators.training.fullest_stage import TERMS, FullestStage, fullest_stage
from jaxroof.estimators.training.memory_recipe import CrossEntropy, MemoryRecipe, Schedule
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.records import replace_at

CASES = {row["case"]: row for row in golden.rows("memory_cases")}


def fullest(name: str, capacity: float = 85.52e9) -> FullestStage:
    inputs, recipe = golden.case(CASES[name])
    return fullest_stage(memory_by_stage(inputs, recipe), capacity)


FULLEST = [  # section 5
    ("base", 0),
    ("gpipe", 3),
    ("zb_h1", 3),
    ("deepseek_v3_1f1b", 2),  # stage 1 is the first that only routes; it has a layer less
    ("gpt3_dropout", 0),
]


@pytest.mark.parametrize(("name", "stage"), FULLEST)
def test_the_fullest_stage(name: str, stage: int) -> None:
    assert int(fullest(name).stage) == stage


def test_dualpipe_is_fullest_in_a_middle_pair() -> None:
    stages = 16
    assert 0 < int(fullest("deepseek_v3_dualpipe").stage) < stages - 1


def test_what_is_missing_and_what_fills() -> None:
    found = fullest("base", 60e9)
    inputs, recipe = golden.case(CASES["base"])
    memory = memory_by_stage(inputs, recipe)
    assert float(found.device) == np.max(memory.device)
    assert float(found.missing) == float(found.device) - 60e9
    assert not found.fits
    name = TERMS[int(found.largest_term)]
    assert float(found.largest) == np.asarray(getattr(memory, name))[int(found.stage)]
    assert name == "activations_mlp"
    fits = fullest("base", 1e12)
    assert fits.fits
    assert float(fits.missing) == 0.0


def test_many_plans_at_once() -> None:
    inputs, _ = golden.case(CASES["base"])
    recipe = MemoryRecipe(schedule=Schedule.GPIPE, cross_entropy=CrossEntropy.EAGER)
    pipelines = np.array([1.0, 2.0, 4.0])
    many = memory_by_stage(replace_at(inputs, "plan.pipeline", pipelines), recipe)
    found = fullest_stage(many, 85.52e9)
    np.testing.assert_array_equal(found.stage, pipelines - 1.0)
