"""The lower bound of the step time of today's training."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.catalog import lookup
from jaxroof.engine.search.candidates import list_plans
from jaxroof.estimators.training.recipe import ContextExchange, LayerDivision, Schedule

PLANS = 4000
RATES = ("matrix_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")


DIVISIONS = [  # the legal plans of the others are among those of uneven stages
    pytest.param(one, marks=[pytest.mark.slow] * (one is not LayerDivision.UNEVEN))
    for one in LayerDivision
]


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(
    ("model", "gpus", "system"),
    [
        ("llama3.1-8b", 32, "h100-nvs8"),
        ("llama3.1-405b", 512, "h100-nvs8"),
        ("mixtral-8x7b", 64, "a100-80-sxm"),
        ("deepseek-v3", 64, "h100-nvs8"),
        ("qwen3-235b-a22b", 32, "h200-141-sxm"),
    ],
)
def test_no_step_is_faster_than_its_bound(
    model: str, gpus: int, system: str, division: LayerDivision
) -> None:
    """Whatever the plan and the rates of the machine; typical plans take little longer than it."""
    share = shares(model, gpus, system, layer_division=division)
    assert share.max() < 1.0
    assert np.median(share) > 0.6


@pytest.mark.parametrize("schedule", [one for one in Schedule if one is not Schedule.ONE_F_ONE_B])
def test_no_step_of_another_schedule_is_faster_than_its_bound(schedule: Schedule) -> None:
    assert shares("llama3.1-405b", 512, "h100-nvs8", schedule=schedule).max() < 1.0


def shares(model: str, gpus: int, system: str, **choices: Any) -> np.ndarray:
    """Return the bound over the step time of plans that are drawn, on machines that are."""
    draw = np.random.default_rng(gpus)
    inputs = jr.TrainingInputs(
        model=lookup.architecture_with_choices(model)[0],
        system=lookup.training_system(system),
        gpus=float(gpus),
        global_batch=512.0,
    )
    recipe = jr.TrainingRecipe(context_exchange=ContextExchange.RING, **choices)
    legal = list_plans(jr.training, inputs, recipe).plans
    some = draw.integers(len(legal["data"]), size=PLANS)
    plan = jr.TrainingPlan(**{field: column[some].astype(float) for field, column in legal.items()})
    factors = {name: 10.0 ** draw.uniform(-1.5, 1.5, PLANS) for name in RATES}
    moved = {name: getattr(inputs.system, name) * factor for name, factor in factors.items()}
    machine = dataclasses.replace(inputs.system, **moved)
    asked = dataclasses.replace(inputs, plan=plan, system=machine)
    time = jr.training.evaluate(asked, recipe).step_time
    parts = jr.training.evaluate_parts(asked, recipe)
    assert jr.training.lower_bound is not None
    return np.asarray(jr.training.lower_bound(asked, recipe, **parts) / time)
