"""Plans that differ from one in a single choice, or in two: legal ones on as many accelerators."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.layer_activations import (
    every_term,
    selective_terms,
    sizes,
    total,
)
from jaxroof.estimators.training.legality import rules
from jaxroof.estimators.training.memory_inputs import MemoryInputs, MemoryPlan
from jaxroof.estimators.training.memory_recipe import (
    AttentionKernel,
    CrossEntropy,
    MemoryRecipe,
    Module,
    Recompute,
)
from jaxroof.estimators.training.product_times import dense_share
from jaxroof.records import get_at, replace_at, units

DEGREES = ("data", "tensor", "context", "pipeline")
KINDS = {  # fields that change together, by the path of each
    **{f"plan.{name}": "degrees" for name in (*DEGREES, "exchange")},
    "plan.microbatch": "microbatch",
    "plan.interleave": "interleave",
    "plan.expert": "expert degrees",
    "plan.expert_tensor": "expert degrees",
    "plan.sequence_parallel": "sequence parallelism",
    "states.zero_stage": "ZeRO stage",
    "states.offload_optimizer": "offload of the optimizer",
    "activations.offload_activations": "offload of activations",
}
PATHS = tuple(KINDS)
CHUNKS = 16.0  # most chunks of a stage that are tried
SHARES = (0.25, 0.5, 0.75, 1.0)  # of what is moved to the host


class Points(NamedTuple):
    """Settings that differ from those of a plan, one row each, in the order of PATHS."""

    values: np.ndarray  # [points, paths]
    changed: np.ndarray  # the same shape, whether a value differs


def divisors(number: float, most: float = np.inf) -> list[float]:
    """Return the whole numbers that divide a number, up to a largest one.

    >>> divisors(12.0)
    [1.0, 2.0, 3.0, 4.0, 6.0, 12.0]
    """
    small = [float(d) for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted(d for d in {*small, *(number / d for d in small)} if d <= most)


def at_once(inputs: MemoryInputs, exchanges: bool = True) -> Points:
    """Return the plan itself, then every plan that differs in one choice, legal or not.

    ``exchanges`` says whether context ranks may exchange in another way.
    """
    own = {path: float(get_at(inputs, path)) for path in PATHS}
    rows = [own, *({**own, **change} for change in _singles(inputs, own, exchanges))]
    values = np.array([[row[path] for path in PATHS] for row in rows])
    return Points(values, values != values[0])


def _singles(
    inputs: MemoryInputs, own: Mapping[str, float], exchanges: bool
) -> Iterator[dict[str, float]]:
    """Yield what single changes set."""
    other = {"plan.exchange": 1.0 - own["plan.exchange"]} if exchanges else {}
    if own["plan.context"] > 1.0 and other:
        yield other
    for less, more in itertools.permutations([f"plan.{name}" for name in DEGREES], 2):
        for factor in divisors(own[less])[1:]:
            change = {less: own[less] / factor, more: own[more] * factor}
            yield change
            if more == "plan.context" and other:
                yield change | other
    model, plan = inputs.model, inputs.plan
    of_rank = float(inputs.global_batch or 0.0) / own["plan.data"]
    ranks = float(plan.data * plan.tensor * plan.context)
    choices = {
        "plan.microbatch": divisors(of_rank, own["plan.microbatch"]),
        "plan.interleave": divisors(float(model.layers) / own["plan.pipeline"], CHUNKS),
        "plan.expert": divisors(float(model.experts), ranks),
        "plan.expert_tensor": divisors(float(model.expert_feedforward), own["plan.tensor"]),
        "plan.sequence_parallel": [1.0],
        "states.zero_stage": [0.0, 1.0, 2.0, 3.0],
        "states.offload_optimizer": [0.0, *SHARES],
        "activations.offload_activations": [0.0, *SHARES],
    }
    for path, values in choices.items():
        yield from ({path: value} for value in values if value != own[path])


def pairs(points: Points) -> Points:
    """Return the plans that differ from the first one in two choices of different kinds."""
    kinds = np.array([list(dict.fromkeys(KINDS.values())).index(KINDS[path]) for path in PATHS])
    touched = np.stack([points.changed[:, kinds == k].any(axis=1) for k in range(kinds.max() + 1)])
    one, two = np.triu_indices(len(points.values), k=1)
    apart = ~(touched[:, one] & touched[:, two]).any(axis=0) & (one > 0)
    one, two = one[apart], two[apart]
    values = np.where(points.changed[two], points.values[two], points.values[one])
    return Points(values, points.changed[one] | points.changed[two])


def with_points(inputs: MemoryInputs, values: np.ndarray) -> MemoryInputs:
    """Return inputs whose plan and numbers are arrays over points, with their microbatches."""
    for column, path in enumerate(PATHS):
        inputs = replace_at(inputs, path, values[:, column])
    plan = inputs.plan
    batch: Any = inputs.global_batch
    whole: Any = np.maximum(batch // (plan.data * plan.microbatch), 1.0)
    return dataclasses.replace(inputs, plan=dataclasses.replace(plan, microbatches=whole))


def legal(inputs: MemoryInputs, recipe: MemoryRecipe) -> np.ndarray:
    """Return which points are legal."""
    plan = {name: getattr(inputs.plan, name) for name in units(MemoryPlan)}
    found: Any = np.ones(np.shape(plan["data"]), dtype=bool)
    for rule in rules(recipe):
        found = found & rule.allows(inputs, plan)
    return np.asarray(found)


def freeing(inputs: MemoryInputs, recipe: MemoryRecipe) -> frozenset[Module]:
    """Return the modules whose recomputation frees bytes of some layer of a model."""
    dense = dense_share(inputs.model)
    every = every_term(inputs, recipe, sizes(inputs))
    layers = [terms for share, terms in zip((dense, 1.0 - dense), every, strict=True) if share > 0]

    def frees(module: Module) -> bool:
        alone = _with(recipe, modules=frozenset([module]))
        saved = (total(selective_terms(inputs, alone, terms)) for terms in layers)
        return any(some < total(terms) for some, terms in zip(saved, layers, strict=True))

    return frozenset(module for module in Module if frees(module))


def recipes(
    recipe: MemoryRecipe, modules: frozenset[Module]
) -> Iterator[tuple[dict[str, Any], MemoryRecipe]]:
    """Yield recipes that differ in one choice from a recipe, each with what would be set.

    More of some modules is computed again, or less; kernels are those that keep the least.
    """
    own = recipe.modules & modules if recipe.recompute is Recompute.SELECTIVE else frozenset()
    sets = {frozenset({*own, module}) for module in modules}
    sets |= {own - {module} for module in own} | {frozenset[Module]()}
    if recipe.recompute is Recompute.FULL:  # less again
        sets |= {frozenset(two) for two in itertools.combinations(modules, 2)}
    sets -= {recipe.modules}
    for some in sorted(sets, key=lambda some: sorted(module.value for module in some)):
        yield with_modules(recipe, some)
    if recipe.recompute is not Recompute.FULL:
        yield {"recompute": "full"}, _with(recipe, recompute=Recompute.FULL, modules=frozenset())
    else:
        yield with_modules(recipe, frozenset())
    if recipe.attention_kernel is AttentionKernel.UNFUSED:
        kernel = AttentionKernel.CUDNN
        yield {"attention_kernel": kernel.value}, _with(recipe, attention_kernel=kernel)
    if recipe.cross_entropy is not CrossEntropy.FUSED:
        loss = CrossEntropy.FUSED
        yield {"cross_entropy": loss.value}, _with(recipe, cross_entropy=loss)


def with_modules(
    recipe: MemoryRecipe, modules: frozenset[Module]
) -> tuple[dict[str, Any], MemoryRecipe]:
    """Return what would be set to compute some modules again, and the recipe that does."""
    if not modules:
        return {"recompute": "none"}, _with(recipe, recompute=Recompute.NONE, modules=modules)
    names = ",".join(sorted(module.value for module in modules))
    return {"modules": names}, _with(recipe, recompute=Recompute.SELECTIVE, modules=modules)


def _with(recipe: MemoryRecipe, **changed: Any) -> MemoryRecipe:
    return dataclasses.replace(recipe, **changed)
