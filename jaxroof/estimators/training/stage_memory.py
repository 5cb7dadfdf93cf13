"""Does it fit? The memory of every stage of a training step, term by term, and the fullest stage.

Source: docs/models/parameters_flops_memory.md, sections 4, 5 and 7.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.activations import LayerTerms, Terms, activations, sizes, total
from jaxroof.estimators.training.layer.operation import Sizes
from jaxroof.estimators.training.layer.sums import groups, layer_shapes
from jaxroof.estimators.training.planned import PlannedStep
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_terms import (
    Buffered,
    LayerParameters,
    Momentary,
    State,
    buffer_terms,
    buffers,
    layer_parameters,
    momentary,
    momentary_terms,
    stage_parameters,
    state_terms,
    states_of,
)
from jaxroof.estimators.training.stages import (
    Kinds,
    Layout,
    StageLayers,
    layout_of,
    stage_layers,
    with_prediction,
)
from jaxroof.formulas.arithmetic import larger, largest, stack, where
from jaxroof.lazy_jax import namespace
from jaxroof.records import Number, units
from jaxroof.structure import map_numbers


def memory_by_stage(inputs: PlannedStep, recipe: TrainingRecipe) -> StageMemory:
    """Return the memory of every stage, a trailing dimension of stages; 0 beyond the last one.

    The number of stages decides the size of the result, so the plan has values. Who traces the plan
    calls ``stage_memory``.
    """
    found: StageMemory = of_stages(inputs, lambda wide, at: stage_memory(wide, recipe, at))
    return found


def host_by_stage(inputs: PlannedStep, recipe: TrainingRecipe) -> np.ndarray:
    """Return what every stage keeps in the memory of its host, as ``memory_by_stage`` does [B]."""

    def host(wide: PlannedStep, stage: Number) -> Number:
        return host_bytes(wide, recipe, amounts(wide, recipe), stage)

    return np.asarray(of_stages(inputs, host))


def of_stages(inputs: PlannedStep, result: Callable[[PlannedStep, Number], Any]) -> Any:
    """Return a result of every stage, along a trailing dimension, which single numbers lack."""
    plan = inputs.plan
    stages = int(np.max(plan.pipeline))
    wide = map_numbers(
        lambda one: np.asarray(one)[..., None] if np.ndim(one) else np.float64(one), inputs
    )
    stage: Any = np.arange(float(stages)).reshape((1,) * np.ndim(plan.pipeline) + (stages,))
    found = result(wide, stage)
    there = stage < wide.plan.pipeline
    return map_numbers(lambda value: np.where(there, value, 0.0), found)


def stage_memory(inputs: PlannedStep, recipe: TrainingRecipe, stage: Number) -> StageMemory:
    """Return the memory of one stage, counted from 0.

    peak = static + activations + largest transient;  reserved = peak (1 + fragmentation);
    device = reserved + context + communicators
    """
    return of_stage(inputs, recipe, amounts(inputs, recipe), stage)


class Amounts(NamedTuple):
    """What the memory of every stage is made of, the same for all stages."""

    size: Sizes
    spread: Layout
    layer: LayerParameters
    states: dict[str, State]
    buffers: Buffered
    saved: LayerTerms  # of one layer of each kind
    saved_total: Kinds
    waiting: Kinds  # bytes of one layer of each kind that waits for its weight gradients
    momentary: Momentary
    embedding: Number  # activations of one microbatch at the embedding, 8 T + [dropout] T h / sigma
    prediction: Number  # of multi-token prediction, K (a layer of the last kind + 6 beta T h/sigma)
    boundary: Number  # one received and one sent tensor, 2 x / sigma in a pipeline


def amounts(inputs: PlannedStep, recipe: TrainingRecipe) -> Amounts:
    """Return what does not depend on the stage.

    Assumes: token ids of 8 bytes, a mask of 1 byte.
    """
    model, acts, of = inputs.model, inputs.activations, groups(inputs.model)
    size, layer = sizes(inputs), layer_parameters(inputs, recipe, of)
    of_layer, shapes = activations(inputs, recipe, size, of), layer_shapes(of, inputs.plan)
    kept = of_layer.saved.total
    last = where(model.experts > 0.0, kept.routing, kept.dense)
    heads = 6.0 * acts.activation_bytes * size.tokens * model.hidden / size.shards
    masks = acts.hidden_dropout * size.tokens * model.hidden / size.shards
    return Amounts(
        size=size,
        spread=layout_of(inputs, recipe),
        layer=layer,
        states=states_of(inputs),
        buffers=buffers(inputs, size, layer, shapes),
        saved=of_layer.saved,
        saved_total=kept,
        waiting=of_layer.waiting,
        momentary=momentary(inputs, recipe, size, of_layer.again, shapes),
        embedding=8.0 * size.tokens + masks,
        prediction=model.mtp_layers * (last + heads),
        boundary=where(inputs.plan.pipeline > 1.0, 2.0 * size.state / size.shards, 0.0),
    )


def of_stage(
    inputs: PlannedStep, recipe: TrainingRecipe, found: Amounts, stage: Number
) -> StageMemory:
    """Return the memory of one stage, from what is the same for all of them."""
    counted = stage_layers(inputs, recipe, stage, found.spread)
    dense, expert = stage_parameters(inputs, counted, found.layer)
    kinds = with_prediction(inputs.model, counted)
    static = {
        **state_terms(found.states, dense, expert),
        **buffer_terms(inputs, found.buffers, kinds, counted.last),
    }
    activations = {
        **_resident_terms(inputs, counted, found.saved),
        "embedding": found.embedding * counted.opening_in_flight,
        "mtp": found.prediction * counted.last,
        "pipeline": found.boundary,
        "pending_weight_gradients": found.waiting.over(counted.pending),
    }
    transients = momentary_terms(inputs, found.momentary, counted, kinds, found.saved_total)
    sums = {"static": total(static), "activations": total(activations)}
    transient: Number = 0.0
    for value in transients.values():
        transient = larger(transient, value)
    peak = sums["static"] + sums["activations"] + transient
    reserved = peak * (1.0 + inputs.buffers.fragmentation)
    return StageMemory(
        layers=counted.layers.dense + counted.layers.routing,
        parameters_dense=dense,
        parameters_expert=expert,
        **static,
        **{f"activations_{name}": value for name, value in activations.items()},
        **{f"transient_{name}": value for name, value in transients.items()},
        **sums,
        transient=transient,
        peak_allocated=peak,
        reserved=reserved,
        device=reserved + inputs.buffers.cuda_context + inputs.buffers.communicator,
    )


def host_bytes(
    inputs: PlannedStep, recipe: TrainingRecipe, found: Amounts, stage: Number
) -> Number:
    """Return what one stage keeps in the memory of its host: states and activations offloaded.

    (master + moments) phi N / ranks + phi_a activations of all layers in flight
    """
    counted = stage_layers(inputs, recipe, stage, found.spread)
    parameters = stage_parameters(inputs, counted, found.layer)
    states = inputs.states
    width = (states.master_bytes + states.moment_bytes) * inputs.plan.offload_optimizer
    host = inputs.activations.offload_activations * found.saved_total.over(counted.resident)
    for part, number in zip(("dense", "expert"), parameters, strict=True):
        host = host + number * width / found.states[f"optimizer_{part}"].ranks
    return host


def _resident_terms(inputs: PlannedStep, stage: StageLayers, layer: LayerTerms) -> Terms:
    """Return the activations of all layers and microbatches in flight, by term."""
    share = 1.0 - inputs.activations.offload_activations
    terms = {
        name: share * Kinds(*(kind.get(name, 0.0) for kind in layer)).over(stage.resident)
        for name in {**layer.dense, **layer.routing}
    }
    terms["routed"] = terms["routed"] + terms.pop("routed_outputs")
    return terms


def alone(**terms: Number) -> StageMemory:
    """Return a memory by stage whose other terms are 0."""
    wide = {name: np.atleast_1d(np.asarray(value, float)) for name, value in terms.items()}
    size = max(value.size for value in wide.values())
    every = {name: wide.get(name, np.zeros(1)) for name in units(StageMemory)}
    whole: dict[str, Any] = {name: np.broadcast_to(value, (size,)) for name, value in every.items()}
    return StageMemory(**whole)


# ---- The fullest stage --------------------------------------------------------------------------


class FullestStage(NamedTuple):
    """The stage that decides whether a plan fits."""

    stage: Any  # its number, from 0
    peak_allocated: Number  # of all stages [B]; reserved and device are those of the same stage
    reserved: Number
    device: Number
    missing: Number  # [B] beyond the capacity, 0 if the plan fits
    fits: Any
    largest_term: Any  # its place in TERMS
    largest: Number  # [B]


def fullest_stage(memory: StageMemory, hbm_capacity: Number) -> FullestStage:
    """Return the fullest stage of a memory by stage, whose last dimension is that of stages.

    The capacity is what the device reports, not what its label says.
    """
    xp = namespace(memory.device)
    device: Any = memory.device
    stage = xp.argmax(device, axis=-1)

    def there(values: Any) -> Any:
        at = stage[..., None]
        return xp.take_along_axis(xp.broadcast_to(values, device.shape), at, axis=-1)[..., 0]

    terms = stack([there(getattr(memory, name)) for name in TERMS])
    full = there(device)
    return FullestStage(
        stage=stage,
        peak_allocated=there(memory.peak_allocated),
        reserved=there(memory.reserved),
        device=full,
        missing=larger(full - hbm_capacity, 0.0),
        fits=full <= hbm_capacity,
        largest_term=xp.argmax(terms, axis=0),
        largest=largest(terms),
    )


TERMS = tuple(  # every single term, and of the momentary ones the largest
    field.name
    for field in dataclasses.fields(StageMemory)
    if field.metadata["part_of"] in ("static", "activations") or field.name == "transient"
)
