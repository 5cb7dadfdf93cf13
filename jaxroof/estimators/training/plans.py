"""The legal plans of a cluster for a model of today, enumerated as columns of whole numbers.

Source: docs/models/parameters_flops_memory.md, section 7.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.estimator import Candidates, reads
from jaxroof.estimators.legality import ONE, Columns, Filter, cross, divisors, rows_where
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan, layers_by_part, planned
from jaxroof.estimators.training.interval import half_width_within_source
from jaxroof.estimators.training.legality import (
    broken_rule,
    broken_words,
    refuse_wide_adapters,
    rules,
)
from jaxroof.estimators.training.recipe import EXCHANGES, Schedule, TrainingRecipe, exchange_of
from jaxroof.records import units, value_or, with_named_absences

DEGREES = ("data", "tensor", "context", "pipeline")  # whose product is the accelerators
COUNTS = (  # of the model that the rules read
    *("layers", "mtp_layers", "heads", "kv_heads", "feedforward"),
    *("experts", "expert_feedforward", "sequence", "hidden"),
)
STATES = {  # the last fields of a plan: what any split may order, shard, compute again, offload
    "rank_order": np.arange(2),
    "reshard": np.arange(2),
    "zero_stage": np.arange(4),
    "recompute": np.arange(3),
    "offload_optimizer": np.arange(2),
}

SELDOM = {
    "rank_order": 0,
    "reshard": 1,
}  # what a search does not try unless a rule on plans names it


def plans(inputs: TrainingInputs, recipe: TrainingRecipe) -> Candidates:
    """Return every legal plan for ``inputs.gpus`` accelerators, sorted by the fields of the plan.

    Assumes: model, batch and gpus are single numbers; tensor ranks share the tokens, since that
    takes no more memory or time than a copy each; 1F1B alone interleaves.
    Raises: InputError where a number is missing, or a rank of adapters is too large.
    """
    refuse_wide_adapters(inputs)
    gpus = int(with_named_absences(inputs).gpus)  # type: ignore[arg-type]
    return Candidates(*splits(inputs, recipe, gpus), STATES, SELDOM)


def splits(
    inputs: TrainingInputs, recipe: TrainingRecipe, gpus: int
) -> tuple[Columns, dict[str, int]]:
    """Return the legal degrees and microbatches, sorted, and what each rule rejected.

    Any ZeRO stage, recomputation and offload goes with each of them.
    """
    asked = rule_inputs(inputs, gpus)
    model, batch = asked.model, asked.global_batch
    legal = Filter(asked, rules(recipe))
    degrees, routes = divisors(gpus), model.experts > 0
    rows = legal.keep({"tensor": degrees})
    rows = legal.keep({**rows, "sequence_parallel": np.ones_like(rows["tensor"])})
    for field in ("context", "pipeline"):
        rows = cross(rows, field, degrees)
        rows = legal.keep(rows_where(rows, gpus % _ranks(rows) == 0))
        if field == "context":
            rows = legal.keep(_exchanges(rows, recipe))
    rows = legal.keep({**rows, "data": gpus // _ranks(rows)})
    rows = legal.keep(cross(rows, "expert", divisors(model.experts) if routes else ONE))
    widths = np.intersect1d(divisors(model.expert_feedforward), degrees) if routes else ONE
    rows = legal.keep(cross(rows, "expert_tensor", widths))
    alone = recipe.schedule is not Schedule.ONE_F_ONE_B
    rows = legal.keep(cross(rows, "interleave", ONE if alone else np.arange(1, model.layers + 3)))
    rows = legal.keep(cross(rows, "microbatch", divisors(batch)))
    rows = legal.keep({**rows, "microbatches": batch // (rows["data"] * rows["microbatch"])})
    assert not legal.left, "rules that read fields no split has"
    return _ordered(rows), legal.refused


def _exchanges(rows: Columns, recipe: TrainingRecipe) -> Columns:
    """Return the rows with every exchange of context ranks; a rank alone has the usual one."""
    some = [n for n in range(len(EXCHANGES)) if exchange_of(recipe, float(n)) == n]
    rows = cross(rows, "exchange", np.array(some))
    return rows_where(rows, (rows["context"] > 1) | (rows["exchange"] == some[-1]))


def rule_inputs(inputs: TrainingInputs, gpus: int | None) -> Any:
    """Return what the rules read of the inputs, as whole numbers; any cluster without ``gpus``."""
    inputs = with_named_absences(inputs)
    model = {name: int(getattr(inputs.model, name)) for name in COUNTS}
    model["mtp_blocks"] = int(layers_by_part(inputs.model)["mtp_blocks"])
    return types.SimpleNamespace(
        model=types.SimpleNamespace(**model),
        gpus=gpus,
        global_batch=int(inputs.global_batch),
        lora_rank=value_or(inputs.lora_rank, None),
    )


def _ranks(rows: Columns) -> np.ndarray:
    """Return the product of the degrees already in the rows."""
    found: np.ndarray = np.prod([rows[field] for field in DEGREES if field in rows], axis=0)
    return found


def _ordered(rows: Columns) -> Columns:
    """Return the columns of the plan that the rows have, in lexicographic order."""
    fields = [field for field in units(TrainingPlan) if field not in STATES]
    columns = {field: rows[field].astype(np.int32) for field in fields}
    return rows_where(columns, np.lexsort([columns[field] for field in reversed(fields)]))


def reasons(recipe: TrainingRecipe) -> dict[str, str]:
    """Return what each rule refuses, in words."""
    return {rule.name: rule.words for rule in rules(recipe)}


def alike(inputs: TrainingInputs, plans: Mapping[str, np.ndarray]) -> Columns:
    """Return columns that are equal where plans differ only in name.

    Without replicas, of experts too, there is nothing to shard, whatever the ZeRO stage; ZeRO 0 and
    1 do not gather what they could keep. Without a pipeline, or without replicas outside a block
    of tensor, context and expert ranks, there is one order.
    """
    ranks = plans["data"] * plans["context"]
    routed = float(value_or(inputs.model.experts, 0.0)) > 0.0
    of_experts = ranks * plans["tensor"] > plans["expert"] * plans["expert_tensor"]
    shared = (ranks > 1) | (routed & of_experts)
    stage = np.where(shared, plans["zero_stage"], 0)
    block = np.maximum(plans["tensor"] * plans["context"], plans["expert"] * plans["expert_tensor"])
    moves = (plans["pipeline"] > 1) & (ranks * plans["tensor"] > block)
    return {
        **plans,
        "zero_stage": stage,
        "reshard": np.where(stage > 1, plans["reshard"], 1),
        "rank_order": np.where(moves, plans["rank_order"], 0),
    }


def cluster_sizes(inputs: TrainingInputs, recipe: TrainingRecipe, most: int) -> np.ndarray:
    """Return every number of accelerators up to ``most`` that some legal plan uses, ascending.

    Assumes: a plan stays legal if its microbatches are of one sequence, its stages of one chunk
    and its experts undivided, as all rules have it; so those plans have every size.
    """
    asked = rule_inputs(inputs, None)
    legal = Filter(asked, rules(recipe))
    model = asked.model
    whole = ("expert", "expert_tensor", "interleave", "microbatch")
    rows: Columns = dict.fromkeys(whole, ONE)
    values = {
        "tensor": divisors(model.heads),
        "context": divisors(model.sequence),
        "pipeline": np.arange(1, model.layers + 3),
        "data": divisors(asked.global_batch),
    }
    for field, some in values.items():
        rows = cross(rows, field, some)
        rows = legal.keep(rows_where(rows, _ranks(rows) <= most))
        if field == "context":
            rows = legal.keep(_exchanges(rows, recipe))
        if field == "tensor":
            rows = legal.keep({**rows, "sequence_parallel": np.ones_like(rows["tensor"])})
    rows = legal.keep({**rows, "microbatches": asked.global_batch // rows["data"]})
    return np.unique(_ranks(rows))


# ---- A plan of the user's -----------------------------------------------------------------------

USUAL = {"offload_optimizer": 0}  # optimizer states stay where they are, unless a plan says so


def close(best: Any) -> float:
    """Return by which share of its step time others are too close to a plan to tell apart."""
    return math.expm1(float(half_width_within_source(int(best["regime"]))))


def why_not(inputs: Any, recipe: TrainingRecipe, given: Mapping[str, int]) -> str:
    """Return the rule that no plan with some fields keeps, in words; empty if there is none.

    Assumes: usual values for the fields that are not given.
    """
    gpus, plan = int(inputs.gpus), {field: float(value) for field, value in given.items()}
    split = math.prod(plan.get(name, 1.0) for name in DEGREES if name != "data")
    whole = gpus % split == 0
    # where the degrees do not divide the accelerators: on as many as they need
    ranks = plan.get("data", gpus // split if whole else 1.0)
    size = gpus if whole else split * ranks
    asked = dataclasses.replace(
        inputs, gpus=np.float64(size), plan=TrainingPlan(**{**plan, "data": ranks})
    )
    step = planned(asked, recipe)
    rule = broken_rule(step, recipe)
    if rule is not None and (whole or "data" not in reads(rule.holds)):
        return broken_words(rule, step)
    if whole:
        return ""
    fields = TrainingPlan.__dataclass_fields__
    said = ",".join(f"{fields[name].metadata['symbol'] or name}={n}" for name, n in given.items())
    return f"{said}: its degrees make {split:g}, which does not divide {gpus:,} accelerators"
