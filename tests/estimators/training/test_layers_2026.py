"""Layers of 2026: bytes and parameters of golden stages, and laws of windows, hybrids, experts."""

import collections
import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_steps import WINDOW, Asked, each_kind, rows, steps

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices, device
from jaxroof.estimators.training.inputs import (
    Activations,
    PlannedStep,
    StageInputs,
    StateSizes,
    TrainingPlan,
    layers_by_part,
    planned,
)
from jaxroof.estimators.training.layer.attention import attention
from jaxroof.estimators.training.layer.operation import Kept, Operation, total
from jaxroof.estimators.training.layer.sums import groups, momentary, sizes, total_weights
from jaxroof.estimators.training.model_size import size
from jaxroof.estimators.training.rates import padded
from jaxroof.estimators.training.recipe import Attention, Mlp, Recurrence, TrainingRecipe
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.estimators.training.stage_memory import stages as stages_of
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.records import replace_at, units
from jaxroof.settings import choose

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


# ---- Laws of the time of a step -----------------------------------------------------------------

factors = given(factor=st.floats(1.0, 8.0))
few = settings(max_examples=2, deadline=None, derandomize=True)


def those_with(field: str) -> list[Asked]:
    """Return golden steps of every kind of model that has a part."""
    return [one for one in each_kind() if np.any(getattr(one.inputs.model, field) > 0.0)]


def shapes_of_windows(asked: Asked) -> dict[str, Any]:
    """Return the shape of the other layers as that of layers with a window, by path."""
    model = asked.inputs.model
    return {f"model__{name}": getattr(model, name.removeprefix("window_")) for name in WINDOW}


def seconds(asked: Asked, choices: dict[str, Any] | None = None, **numbers: Any) -> np.ndarray:
    """Return the step times of golden steps, with other choices and with numbers by path."""
    inputs = asked.inputs
    for path, value in numbers.items():
        inputs = replace_at(inputs, path.replace("__", "."), value)
    recipe = dataclasses.replace(asked.recipe, **(choices or {}))
    return np.asarray(plan_time(inputs, recipe).step_time)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=RTOL)


def no_faster(found: np.ndarray, before: np.ndarray) -> None:
    assert np.all(found >= before * (1.0 - RTOL))


@factors
@few
def test_windows_as_long_as_the_sequence_are_full_attention(factor: float) -> None:
    for asked in those_with("windowed_layers"):
        model = asked.inputs.model
        nothing = np.zeros_like(model.layers)
        every = model.full_layers + model.windowed_layers
        full = seconds(
            asked, model__full_layers=every, model__windowed_layers=nothing, model__window=nothing
        )
        for chunked in (nothing, nothing + 1.0):
            wide = factor * model.sequence
            same(seconds(asked, model__window=wide, model__chunked=chunked), full)


def test_windows_with_the_shape_of_the_others_may_say_so() -> None:
    for asked in those_with("windowed_layers"):
        same(seconds(asked, **shapes_of_windows(asked)), seconds(asked))


def test_a_recurrence_that_no_layer_has_takes_no_time() -> None:
    """Its sizes are 0 then, and everything is finite."""
    for kind in Recurrence:
        for asked in each_kind():
            if asked.recipe.recurrence is Recurrence.NONE:
                same(seconds(asked, {"recurrence": kind}), seconds(asked))


def test_an_indexer_that_no_layer_has_takes_no_time() -> None:
    for asked in each_kind():
        if asked.recipe.attention is Attention.LATENT:
            same(seconds(asked, {"attention": Attention.SPARSE}), seconds(asked))


def test_a_model_of_recurrent_layers_alone_knows_no_attention() -> None:
    for asked in each_kind():
        model, kind = asked.inputs.model, asked.recipe.recurrence.value
        if asked.recipe.recurrence is not Recurrence.NONE:
            alone = {
                "model__full_layers": np.zeros_like(model.layers),
                f"model__{kind}_layers": getattr(model, f"{kind}_layers") + model.full_layers,
            }
            other = {f"model__{n}": 2.0 * getattr(model, n) for n in ("heads", "kv_heads")}
            expected = seconds(asked, **alone)
            assert np.all(np.isfinite(expected))
            same(seconds(asked, **alone, **other), expected)


def test_a_model_whose_layers_do_not_route_knows_no_experts() -> None:
    for asked in those_with("experts"):
        layers = asked.inputs.model.layers
        nothing = np.zeros_like(layers)
        dense = {"model__dense_layers": layers, "model__routed_layers": nothing}
        same(seconds(asked, **dense), seconds(asked, **dense, model__experts=nothing))


@factors
@few
def test_more_keys_are_no_faster(factor: float) -> None:
    """In a window or a chunk, and of those that an indexer keeps."""
    for asked in each_kind():
        for name in ("window", "index_topk"):
            wide = getattr(asked.inputs.model, name) * factor
            no_faster(seconds(asked, **{f"model__{name}": wide}), seconds(asked))


@factors
@few
def test_more_experts_of_a_token_are_no_faster(factor: float) -> None:
    for asked in those_with("experts"):
        model = asked.inputs.model
        more = np.minimum(model.active_experts * factor, model.experts)
        no_faster(seconds(asked, model__active_experts=more), seconds(asked))


@factors
@few
def test_imbalance_between_experts_is_no_faster(factor: float) -> None:
    """It is 1 if not given."""
    for asked in those_with("experts"):
        no_faster(seconds(asked, activations__routing_imbalance=factor), seconds(asked))
        same(seconds(asked, activations__routing_imbalance=1.0), seconds(asked))


@given(times=st.integers(2, 16))
@few
def test_more_tokens_of_an_expert_are_no_slower_a_token(times: int) -> None:
    for asked in those_with("experts"):
        inputs = asked.inputs
        more = replace_at(inputs, "plan.microbatch", inputs.plan.microbatch * times)
        before, after = (plan_time(one, asked.recipe).layer.experts for one in (inputs, more))
        assert np.all(after <= times * before * (1.0 + RTOL))


def test_whole_tiles_are_not_padded() -> None:
    """A width counts as the tiles that it begins: 2,880 of 128 as 23."""
    assert float(padded(2880.0, 128.0)) == pytest.approx(23.0 * 128.0)
    widths = np.arange(1.0, 4096.0)
    assert np.all(padded(widths, 128.0) >= widths)
    np.testing.assert_allclose(padded(128.0 * widths, 128.0), 128.0 * widths, rtol=1e-9)
    for asked in those_with("experts"):
        model, tiled = asked.inputs.model, seconds(asked)
        plain = seconds(asked, shared__expert_tile=0.0)
        no_faster(tiled, plain)
        inner = np.where(model.expert_latent > 0.0, model.expert_latent, model.hidden)
        whole = (inner % 128.0 == 0.0) & (model.expert_feedforward % 128.0 == 0.0)
        same(tiled[whole], plain[whole])


def test_fsdp_without_resharding_sends_as_zero_1_does() -> None:
    """Once a step, beside no work; less than FSDP that reshards only where it takes less time."""
    for asked in each_kind():
        once = seconds(asked, plan__zero_stage=3.0, plan__reshard=0.0)
        same(once, seconds(asked, plan__zero_stage=1.0, software__data_overlap=0.0))
        for stage in (0.0, 1.0):
            other = {"plan__zero_stage": stage, "plan__reshard": 0.0}
            same(seconds(asked, **other), seconds(asked, plan__zero_stage=stage))


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_a_rank_that_shares_nothing_holds_the_parameters(name: str) -> None:
    """Those of all layers, ends and prediction modules that have gradients: no corrections."""
    model, own = architecture_with_choices(name)
    recipe = choose(TrainingRecipe(), own)
    inputs = StageInputs(
        model=model,
        system=device("h100-nvs8"),
        global_batch=1.0,
        states=StateSizes(vocabulary_multiple=1.0),
        plan=TrainingPlan(),
    )
    memory, counted = memory_by_stage(planned(inputs, recipe), recipe), size(model, recipe)
    held = float(np.sum(memory.parameters_dense + memory.parameters_expert))
    beside = counted["parameters_extra"] + counted["parameters_class_head"]
    parts = layers_by_part(model)
    corrected = parts["routed_layers"] + model.mtp_layers
    beside = beside + model.router_correction * model.experts * corrected
    expected = counted["parameters"] + counted["parameters_mtp"] - beside
    assert held == pytest.approx(float(expected), rel=1e-15)


NEW = [  # fields of a model that the old sheet has not
    *("window", "windowed_layers", "chunked", "attention_gate", "expert_latent"),
    *(f"index_{part}" for part in ("layers", "heads", "size", "topk")),
    *(f"mamba_{part}" for part in ("layers", "heads", "head_size", "groups", "state")),
    *("delta_layers", "delta_key_heads", "delta_value_heads", "delta_key_size", "delta_value_size"),
    *(f"kda_{part}" for part in ("layers", "heads", "head_size")),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["h100", "b200"])
@pytest.mark.parametrize("recurrence", Recurrence)
def test_no_field_that_is_0_moves_a_measured_row(kind: str, recurrence: Recurrence) -> None:
    """Whatever kinds of layer a recipe has: what no layer has takes no time."""
    asked = steps(kind)
    for one in asked.groups:
        model = one.inputs.model
        nothing = {f"model__{name}": np.zeros_like(model.layers) for name in NEW}
        said = {
            "model__full_layers": model.layers,
            "model__mtp_blocks": model.mtp_layers,
            "software__exchange_domain": 0.0,
            **shapes_of_windows(one),
        }
        latent = one.recipe.attention is not Attention.HEADS
        choices = {"recurrence": recurrence} | ({"attention": Attention.SPARSE} if latent else {})
        same(seconds(one, choices, **nothing, **said), asked.expected["step_time"][one.rows])
