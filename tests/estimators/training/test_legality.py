"""Reasons to refuse a plan: each has a row that trips it and it alone."""

import dataclasses
from typing import Any

import numpy as np
import training_memory as golden

from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.legality import RULES, WARNINGS, rules, verdicts
from jaxroof.estimators.training.recipe import (
    ContextExchange,
    LayerDivision,
    Schedule,
    TrainingRecipe,
)
from jaxroof.records import replace_at

CASES = {row["case"]: row for row in golden.rows("memory_cases")}
PLAIN = TrainingRecipe(layer_division=LayerDivision.EQUAL)
RING = dataclasses.replace(PLAIN, context_exchange=ContextExchange.RING)
DUALPIPE = dataclasses.replace(PLAIN, schedule=Schedule.DUALPIPE)
SPLIT = TrainingRecipe(layer_division=(20, 20, 20, 19))
EMPTY = TrainingRecipe(layer_division=(1,) * 8 + (0,) * 8)
VERDICTS = [rule.name for rule in RULES]


def question(name: str, **changed: float) -> PlannedStep:
    """Return a case with its cluster and batch, then numbers replaced."""
    inputs, _ = golden.case(CASES[name])
    changes = {path.replace("__", "."): value for path, value in changed.items()}
    for path in [path for path in changes if path.startswith("plan.")]:
        inputs = replace_at(inputs, path, changes.pop(path))
    plan = inputs.plan
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    inputs = replace_at(inputs, "gpus", gpus)
    batch = plan.data * plan.microbatch * plan.microbatches
    inputs = replace_at(inputs, "global_batch", batch)
    for path, value in changes.items():
        inputs = replace_at(inputs, path, value)
    return inputs


REFUSED: list[tuple[str, str, TrainingRecipe, dict[str, float]]] = [
    ("adapters_narrow", "base", RING, {"lora_rank": 8192.0}),
    ("gpus_used", "base", RING, {"gpus": 63.0}),
    ("heads_divisible", "base", RING, {"model__heads": 62.0}),
    ("kv_heads_divisible", "base", RING, {"model__kv_heads": 6.0}),
    ("context_heads", "context_4_a2a", PLAIN, {"plan__exchange": 0.0}),
    ("context_heads", "context_4_a2a",
     dataclasses.replace(PLAIN, context_exchange=ContextExchange.ALL_TO_ALL), {}),
    ("feedforward_divisible", "base", RING, {"model__feedforward": 28674.0}),
    ("expert_feedforward_divisible", "mixtral_etp2", RING, {"model__expert_feedforward": 14335.0}),
    ("sequence_divisible", "base", RING, {"model__sequence": 8190.0}),
    ("sequence_divisible", "context_4_ring", RING, {"model__sequence": 65540.0}),
    ("context_tokens", "context_4_ring", RING, {"model__sequence": 1024.0}),
    ("layers_divisible", "base", RING, {"model__layers": 81.0}),
    ("layers_divisible", "base", SPLIT, {}),
    ("stages_enough", "pipeline_16", EMPTY, {"model__layers": 8.0}),
    ("interleave_needs_pipeline", "pipeline_1", RING, {"plan__interleave": 2.0}),
    ("interleave_microbatches", "interleave_2", RING, {"plan__microbatches": 15.0}),
    ("dualpipe_microbatches", "base", DUALPIPE, {"plan__microbatches": 15.0}),
    ("dualpipe_microbatches", "base", DUALPIPE, {"plan__microbatches": 6.0}),
    ("experts_divisible", "mixtral_ep1", RING, {"plan__expert": 16.0}),
    ("experts_exist", "base", RING, {"plan__expert": 2.0}),
    ("expert_group", "mixtral_ep8", RING, {"plan__data": 2.0}),
    ("moe_sequence_parallel", "mixtral_ep8", RING, {"plan__sequence_parallel": 0.0}),
    ("batch_divisible", "base", RING, {"global_batch": 65.0}),
]  # fmt: skip


def test_a_rule_refuses_alone() -> None:
    for reason, name, recipe, changed in REFUSED:
        found = verdicts(question(name, **changed), recipe)
        assert [rule for rule, holds in found.items() if not holds] == [reason, "feasible"], changed


def test_every_reason_is_tried() -> None:
    assert {reason for reason, *_ in REFUSED} == set(VERDICTS)
    every = [rule for recipe in (RING, DUALPIPE, SPLIT, PLAIN) for rule in rules(recipe)]
    assert {rule.name for rule in every} == set(VERDICTS)
    assert not any(rule.words.endswith(".") for rule in every)


ILLEGAL = {  # rows that say what memory would be, though codes refuse them
    "context_4_a2a": "context_heads",  # 8 key/value heads for 16 ranks
    "remainder": "layers_divisible",
    "qwen3_moe_act": "layers_divisible",
    "deepseek_v3_dualpipe": "layers_divisible",
    "deepseek_v3_1f1b": "layers_divisible",
    "deepseek_v3_tensor_2": "layers_divisible",
}


def test_golden_cases_are_legal_but_for_those_named() -> None:
    for name, row in CASES.items():
        _, recipe = golden.case(row)
        if not isinstance(recipe.layer_division, tuple):
            recipe = dataclasses.replace(recipe, layer_division=LayerDivision.EQUAL)
        found = [rule for rule, holds in verdicts(question(name), recipe).items() if not holds]
        assert found == ([ILLEGAL[name], "feasible"] if name in ILLEGAL else []), name


def test_zero_in_a_pipeline_is_a_warning() -> None:
    (rule,) = WARNINGS
    assert [bool(_allows(rule, name)) for name in ("zero_2", "fsdp_pure")] == [False, True]


def _allows(rule: Any, name: str) -> Any:
    inputs = question(name)
    return rule.allows(inputs, vars(inputs.plan))


def test_rules_take_many_plans_at_once() -> None:
    inputs = replace_at(question("base"), "plan.tensor", np.array([1.0, 2.0, 3.0, 4.0]))
    found = verdicts(inputs, PLAIN)
    np.testing.assert_array_equal(found["heads_divisible"], [True, True, False, True])
