"""Layers of 2026: bytes and parameters of golden stages, and laws of windows, hybrids, experts."""

import collections
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from measured_steps import rows

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import device
from jaxroof.estimators.training.inputs import (
    Activations,
    PlannedStep,
    StageInputs,
    TrainingPlan,
    planned,
)
from jaxroof.estimators.training.layer.attention import attention
from jaxroof.estimators.training.layer.operation import Kept, Operation, total
from jaxroof.estimators.training.layer.sums import groups, momentary, sizes, total_weights
from jaxroof.estimators.training.recipe import Attention, Mlp, Recurrence, TrainingRecipe
from jaxroof.estimators.training.stage_memory import stages as stages_of
from jaxroof.records import units

RTOL = 1e-12

# ---- Bytes and parameters of golden stages ------------------------------------------------------

TERMS = {  # of a layer's saved bytes, as the sheet sums them
    "norms": ("norm_inputs", "norm_outputs"),
    "index": ("indexer",),
    "dense": ("mlp",),
    "shared": ("shared_expert",),
    "routed": ("routed", "routed_outputs"),
    "router": ("router",),
    "moe_latent": ("expert_latents",),
}
OWN_NAMES = {  # field -> column and how many of it
    "windowed_layers": ("window_layers", 1.0),
    "convolution": ("conv", 1.0),
    "expert_latent": ("moe_latent", 1.0),
    "head_norms": ("qk_norm", 2.0),
    "norms_per_layer": ("sublayer_norms", 2.0),
}
MIXERS = ("full_layers", "window_layers", "mamba_layers", "delta_layers", "kda_layers")


class Stages(NamedTuple):
    """Golden stages with the same choices, every input a column."""

    names: list[str]
    step: PlannedStep
    recipe: TrainingRecipe
    expected: dict[str, np.ndarray]


def recipe_of(row: dict[str, Any]) -> TrainingRecipe:
    """Return the choices of a golden stage."""
    mixers = (kind for kind in Recurrence if row.get(f"{kind.value}_layers", 0.0) > 0.0)
    latent = Attention.SPARSE if row["index_layers"] > 0.0 else Attention.LATENT
    return TrainingRecipe(
        attention=latent if row["latent"] > 0.0 else Attention.HEADS,
        recurrence=next(mixers, Recurrence.NONE),
        mlp=Mlp.GATED if row["gated"] > 0.0 else Mlp.PLAIN,
    )


@functools.cache
def stages() -> list[Stages]:
    """Return the golden stages, each as a model of its own on one stage of a pipeline."""
    together = collections.defaultdict(list)
    for row in rows("layers_memory"):
        numbers = {n: c if n in ("row_id", "name") else float(c) for n, c in row.items()}
        together[recipe_of(numbers)].append(numbers)
    return [of_rows(some, recipe) for recipe, some in together.items()]


def of_rows(some: list[dict[str, Any]], recipe: TrainingRecipe) -> Stages:
    """Return golden stages with the same choices."""

    def of(name: str) -> np.ndarray:
        return np.array([row[name] for row in some])

    fields = {name: of(name) for name in units(Architecture) if name in some[0]}
    fields |= {name: of(column) * times for name, (column, times) in OWN_NAMES.items()}
    mixers, mlps = sum(map(of, MIXERS)), of("dense_layers") + of("routed_layers")
    layers = np.where(mixers == mlps, mixers, mixers + mlps)  # a block a layer, if not both
    inputs = StageInputs(
        model=Architecture(**fields, layers=layers, vocabulary=np.zeros(len(some))),
        system=device("h100-nvs8"),
        global_batch=of("microbatch"),
        activations=Activations(**{n: of(n) for n in units(Activations) if n in some[0]}),
        plan=TrainingPlan(**{n: of(n) for n in units(TrainingPlan) if n in some[0]}),
    )
    outputs = {name[4:]: of(name) for name in some[0] if name.startswith("out_")}
    return Stages([row["row_id"] for row in some], planned(inputs, recipe), recipe, outputs)


def bytes_of(
    layers: Iterable[tuple[Any, Iterable[Operation]]], kept: Kept, terms: Iterable[str] | None
) -> Any:
    """Return the bytes that operations of some layers keep, of some terms or of all."""
    return total(
        number * one.share * saved.bytes(kept)
        for number, operations in layers
        for one in operations
        for saved in one.saved
        if terms is None or saved.term in terms
    )


def terms_of(asked: Stages) -> dict[str, Any]:
    """Return what a stage keeps and holds, as the sheet sums it."""
    step, recipe = asked.step, asked.recipe
    model, plan, size = step.model, step.plan, sizes(step)
    of, kept = groups(model), Kept(step, recipe, size)
    every = [(group.layers, [*group.operations.values()]) for group in of]
    found = {name: bytes_of(every, kept, terms) for name, terms in TERMS.items()}
    softmax = [(number, [*operations.values()]) for _, number, operations in attention(model)]
    full, window = softmax
    for name, one in (("full", full), ("window", window)):
        found[name] = bytes_of([one], kept, None) - bytes_of([one], kept, TERMS["index"])
    for name in ("mamba", "delta", "kda"):
        there = recipe.recurrence is Recurrence(name)
        found[name] = bytes_of(every, kept, ("recurrent",)) if there else 0.0
    held = [(number, total_weights(operations)) for number, operations in every]
    return found | {
        "activations": bytes_of(every, kept, None),
        "sharded": sum(number * one.sharded for number, one in held) / plan.tensor,
        "replicated": sum(number * one.replicated for number, one in held),
        "expert": sum(number * one.routed for number, one in held) / plan.expert,
        "momentary": momentary(step, recipe, size, of),
    }


def test_every_term_of_every_golden_stage() -> None:
    assert sum(len(asked.names) for asked in stages()) == 100
    for asked in stages():
        found = terms_of(asked)
        assert {*found} == {*asked.expected}
        for name, expected in asked.expected.items():
            value = np.broadcast_to(found[name], expected.shape)
            error = np.abs(value - expected) - RTOL * np.abs(expected)
            assert np.all(error <= 0.0), (name, asked.names[int(np.argmax(error))])


@pytest.mark.parametrize("place", range(5))
def test_a_stage_holds_what_its_layers_keep(place: int) -> None:
    """The memory of a step is the sum of the terms."""
    asked = stages()[place]
    memory, expected = stages_of(asked.step, asked.recipe).memory(0.0), asked.expected
    beside = memory.activations_embedding + memory.activations_pipeline
    whole = np.floor(asked.step.model.layers) == asked.step.model.layers
    norm = asked.step.model.hidden  # behind the last layer
    for found, value in (
        (memory.activations - beside, expected["activations"]),
        (memory.parameters_dense - norm, expected["sharded"] + expected["replicated"]),
        (memory.parameters_expert, expected["expert"]),
    ):
        found = np.broadcast_to(found, whole.shape)
        np.testing.assert_allclose(found[whole], value[whole], rtol=RTOL)
