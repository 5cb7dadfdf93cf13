"""Plans that differ from one in a single choice, or in two: legal ones on as many accelerators."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer_activations import every_term, selective_terms, sizes, total
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.product_times import dense_share
from jaxroof.estimators.training.recipe import (
    AttentionKernel,
    CrossEntropy,
    Module,
    TrainingRecipe,
    modules_of,
)
from jaxroof.records import get_at, replace_at

DEGREES = ("data", "tensor", "context", "pipeline")
KINDS = {  # fields that change together, by the path of each
    **{f"plan.{name}": "degrees" for name in (*DEGREES, "exchange")},
    "plan.microbatch": "microbatch",
    "plan.interleave": "interleave",
    "plan.expert": "expert degrees",
    "plan.expert_tensor": "expert degrees",
    "plan.sequence_parallel": "sequence parallelism",
    "plan.zero_stage": "ZeRO stage",
    "plan.offload_optimizer": "offload of the optimizer",
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


def at_once(inputs: TrainingInputs, exchanges: bool = True) -> Points:
    """Return the plan itself, then every plan that differs in one choice, legal or not.

    ``exchanges`` says whether context ranks may exchange in another way.
    """
    own = {path: float(get_at(inputs, path)) for path in PATHS}
    rows = [own, *({**own, **change} for change in _singles(inputs, own, exchanges))]
    values = np.array([[row[path] for path in PATHS] for row in rows])
    return Points(values, values != values[0])


def _singles(
    inputs: TrainingInputs, own: Mapping[str, float], exchanges: bool
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
    assert plan is not None
    of_rank = float(inputs.global_batch or 0.0) / own["plan.data"]
    ranks = float(plan.data * plan.tensor * plan.context)
    choices = {
        "plan.microbatch": divisors(of_rank, own["plan.microbatch"]),
        "plan.interleave": divisors(float(model.layers) / own["plan.pipeline"], CHUNKS),
        "plan.expert": divisors(float(model.experts), ranks),
        "plan.expert_tensor": divisors(float(model.expert_feedforward), own["plan.tensor"]),
        "plan.sequence_parallel": [1.0],
        "plan.zero_stage": [0.0, 1.0, 2.0, 3.0],
        "plan.offload_optimizer": [0.0, *SHARES],
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


def with_points(inputs: TrainingInputs, values: np.ndarray) -> TrainingInputs:
    """Return inputs whose plan and numbers are arrays over points."""
    for column, path in enumerate(PATHS):
        inputs = replace_at(inputs, path, values[:, column])
    return inputs


def legal(inputs: TrainingInputs, recipe: TrainingRecipe) -> np.ndarray:
    """Return which points are legal."""
    step = planned(inputs, recipe)
    found: Any = np.ones(np.shape(step.plan.data), dtype=bool)
    for holds in verdicts(step, recipe).values():
        found = found & holds
    return np.asarray(found)


def freeing(inputs: TrainingInputs, recipe: TrainingRecipe) -> frozenset[Module]:
    """Return the modules whose recomputation frees bytes of some layer of a model."""
    step = planned(inputs, recipe)
    dense = dense_share(step.model)
    every = every_term(step, recipe, sizes(step))
    layers = [terms for share, terms in zip((dense, 1.0 - dense), every, strict=True) if share > 0]

    def frees(module: Module) -> bool:
        alone = dataclasses.replace(recipe, selective=frozenset([module]))
        saved = (total(selective_terms(step, alone, terms)) for terms in layers)
        return any(some < total(terms) for some, terms in zip(saved, layers, strict=True))

    return frozenset(module for module in Module if frees(module))


class Changed(NamedTuple):
    """What would be set, and the level of recomputation and the recipe with it."""

    said: dict[str, Any]
    level: float
    recipe: TrainingRecipe


def recipes(level: float, recipe: TrainingRecipe, modules: frozenset[Module]) -> Iterator[Changed]:
    """Yield recipes that differ in one choice from a recipe under a level of recomputation.

    More of some modules is computed again, or less; kernels are those that keep the least.
    """
    chosen = modules_of(recipe) if level == 1.0 else frozenset()
    own = chosen & modules
    sets = {frozenset({*own, module}) for module in modules}
    sets |= {own - {module} for module in own} | {frozenset[Module]()}
    if level == 2.0:  # less again
        sets |= {frozenset(two) for two in itertools.combinations(modules, 2)}
    sets -= {chosen}
    for some in sorted(sets, key=lambda some: sorted(module.value for module in some)):
        yield with_modules(recipe, some)
    if level < 2.0:
        yield Changed({"recompute": "full"}, 2.0, recipe)
    else:
        yield with_modules(recipe, frozenset())
    if recipe.attention_kernel is AttentionKernel.UNFUSED:
        kernel = AttentionKernel.CUDNN
        changed = dataclasses.replace(recipe, attention_kernel=kernel)
        yield Changed({"attention_kernel": kernel.value}, level, changed)
    if recipe.cross_entropy is not CrossEntropy.FUSED:
        loss = CrossEntropy.FUSED
        changed = dataclasses.replace(recipe, cross_entropy=loss)
        yield Changed({"cross_entropy": loss.value}, level, changed)


def with_modules(recipe: TrainingRecipe, modules: frozenset[Module]) -> Changed:
    """Return what would be set to compute some modules again, none if there are none."""
    again = dataclasses.replace(recipe, selective=modules)
    if not modules:
        return Changed({"recompute": "none"}, 0.0, again)
    return Changed({"modules": ",".join(sorted(module.value for module in modules))}, 1.0, again)
