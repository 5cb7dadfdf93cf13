"""The legal plans of today's training, against every plan of a grid and the rules as a mask."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest
from daily import daily

import jaxroof as jr
from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan, planned
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.plans import plans
from jaxroof.estimators.training.recipe import (
    ContextExchange,
    LayerDivision,
    Schedule,
    TrainingRecipe,
)
from jaxroof.estimators.training.step import stage_memory
from jaxroof.records import checked

DENSE = {
    "layers": 6.0, "hidden": 64.0, "feedforward": 96.0, "heads": 8.0, "kv_heads": 2.0,
    "head_size": 8.0, "vocabulary": 100.0, "sequence": 48.0,
}  # fmt: skip
ROUTED = {**DENSE, "experts": 6.0, "active_experts": 2.0, "expert_feedforward": 36.0}
RECIPES = {
    "default": TrainingRecipe(),
    "ring": TrainingRecipe(context_exchange=ContextExchange.RING),
    "all-to-all": TrainingRecipe(context_exchange=ContextExchange.ALL_TO_ALL),
    "dualpipe": TrainingRecipe(schedule=Schedule.DUALPIPE),
    "equal": TrainingRecipe(layer_division=LayerDivision.EQUAL),
    "uneven": TrainingRecipe(layer_division=LayerDivision.UNEVEN),
}
SPLIT = [
    *("data", "tensor", "context", "exchange", "pipeline", "interleave"),
    *("expert", "expert_tensor", "sequence_parallel", "microbatch"),
]


def question(model: dict[str, float], gpus: int, batch: int) -> TrainingInputs:
    """Return a question on a small model."""
    example = stage_memory.example()
    sizes = {"gpus": float(gpus), "global_batch": float(batch), "plan": None}
    return checked(dataclasses.replace(example, model=Architecture(**model), **sizes))


def by_mask(inputs: TrainingInputs, recipe: TrainingRecipe, most: int) -> set[tuple[int, ...]]:
    """Return every plan of a grid of all small numbers that no rule refuses."""
    degrees = range(1, most + 1)
    layers, batch = int(inputs.model.layers), int(inputs.global_batch or 0)
    ranges: list[Any] = [degrees] * 4 + [range(1, layers + 2), degrees, degrees, range(2)]
    grid = np.array(
        [
            [*split[:3], exchange, *split[3:], *rest]
            for split in itertools.product(*ranges[:4])
            if math.prod(split) == int(inputs.gpus or 0)
            for exchange in range(2)
            for rest in itertools.product(*ranges[4:], range(1, batch + 1))
        ],
        float,
    )
    plan = TrainingPlan(**dict(zip(SPLIT, grid.T, strict=True)))
    asked = planned(dataclasses.replace(inputs, plan=plan), recipe)
    allowed = np.all(
        [np.broadcast_to(v, len(grid)) for v in verdicts(asked, recipe).values()],
        axis=0,
    )
    # tensor ranks share the tokens in every list
    allowed &= grid[:, SPLIT.index("sequence_parallel")] == 1
    # a rank alone has the usual exchange, and a recipe that names one fixes it
    context, exchange = (grid[:, SPLIT.index(name)] for name in ("context", "exchange"))
    free = (context > 1) & (recipe.context_exchange is None)
    allowed &= free | (exchange == (recipe.context_exchange is not ContextExchange.ALL_TO_ALL))
    if recipe.schedule is not Schedule.ONE_F_ONE_B:
        allowed &= grid[:, SPLIT.index("interleave")] == 1
    return {tuple(map(int, row)) for row in grid[allowed]}


SIZES = [(DENSE, 6, 12), (ROUTED, 8, 8)]


@pytest.mark.parametrize(
    ("model", "gpus", "batch", "recipe"),
    daily([(*size, recipe) for size in SIZES for recipe in RECIPES], 0, 3, 6, 8),
)
def test_the_list_is_what_the_rules_leave(
    model: dict[str, float], gpus: int, batch: int, recipe: str
) -> None:
    inputs = question(model, gpus, batch)
    found = plans(inputs, RECIPES[recipe]).having(()).whole()
    rows = list(zip(*(found[name].tolist() for name in found), strict=True))
    assert rows == sorted(set(rows)), "each once, in the order of the plan's fields"
    assert [*found] == [field.name for field in dataclasses.fields(TrainingPlan)]
    splits = {row[: len(SPLIT)] for row in rows}
    assert len(rows) == 4 * 3 * 2 * len(splits), "every ZeRO stage, recomputation and offload"
    assert splits == by_mask(inputs, RECIPES[recipe], gpus)


def test_ends_count_as_a_layer_each_and_keep_the_chunks_equal() -> None:
    """Llama 3.1 405B has 126 layers; its makers ran it on 16 stages."""
    inputs = checked(dataclasses.replace(stage_memory.example(), plan=None))
    listed = {
        division: set(
            np.unique(plans(inputs, TrainingRecipe(layer_division=division)).plans["pipeline"])
        )
        for division in LayerDivision
    }
    assert listed[LayerDivision.EQUAL] == {1, 2}
    assert listed[LayerDivision.WITH_ENDS] == {1, 2, 4, 8, 16, 32, 64, 128}
    assert listed[LayerDivision.UNEVEN] >= listed[LayerDivision.WITH_ENDS]


def test_refused_choices_are_counted_by_rule() -> None:
    refused = plans(question(DENSE, 12, 12), TrainingRecipe()).refused
    assert refused["heads_divisible"] == 3  # 3, 6 and 12 ranks for 8 heads
    assert refused["experts_exist"] == 0


def test_a_search_reshards_unless_a_rule_names_it():
    asked = {"model": "llama3-70b", "system": "h100-nvs8", "gpus": 64, "global_batch": 64}
    usual = jr.search("training", **asked, where="zero=3")
    other = jr.search("training", **asked, where="zero=3,rs=0")
    either = jr.search("training", **asked, where="zero=3,rs>=0")
    assert [float(one.reshard) for one in (usual, other)] == [1.0, 0.0]
    assert float(other.step_time) < float(usual.step_time)
    assert float(either.step_time) == float(other.step_time)
    assert float(other.memory) > float(usual.memory), "weights and gradients of a stage are whole"
