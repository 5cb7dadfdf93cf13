"""Does it fit? The memory of every stage of a training step, term by term.

Source: docs/models/parameters_flops_memory.md, section 4.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.layer_activations import (
    LEVELS,
    LayerTerms,
    Sizes,
    Terms,
    every_term,
    recomputed,
    saved_terms,
    sizes,
    total,
    weight_gradient_terms,
)
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import MemoryRecipe
from jaxroof.estimators.training.memory_report import StageMemory
from jaxroof.estimators.training.stage_buffers import Buffered, buffer_terms, buffers
from jaxroof.estimators.training.stage_layers import (
    Kinds,
    Layout,
    StageLayers,
    layout_of,
    over,
    stage_layers,
    with_prediction,
)
from jaxroof.estimators.training.stage_momentary import Momentary, momentary, momentary_terms
from jaxroof.estimators.training.stage_states import (
    LayerParameters,
    State,
    head_parameters,
    layer_parameters,
    stage_parameters,
    state_terms,
    states_of,
)
from jaxroof.formulas import memory_activations as formulas
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number
from jaxroof.structure import map_numbers


def memory_by_stage(inputs: MemoryInputs, recipe: MemoryRecipe) -> StageMemory:
    """Return the memory of every stage, a trailing dimension of stages; 0 beyond the last one.

    The number of stages decides the size of the result, so the plan has values. Who traces the plan
    calls ``stage_memory``.
    """
    found: StageMemory = of_stages(inputs, lambda wide, at: stage_memory(wide, recipe, at))
    return found


def host_by_stage(inputs: MemoryInputs, recipe: MemoryRecipe) -> np.ndarray:
    """Return what every stage keeps in the memory of its host, as ``memory_by_stage`` does [B]."""

    def host(wide: MemoryInputs, stage: Number) -> Number:
        return host_bytes(wide, recipe, amounts(wide, recipe), stage)

    return np.asarray(of_stages(inputs, host))


def of_stages(inputs: MemoryInputs, result: Callable[[MemoryInputs, Number], Any]) -> Any:
    """Return a result of every stage, along a trailing dimension."""
    plan = inputs.plan
    stages = int(np.max(plan.pipeline))
    wide = map_numbers(lambda value: np.asarray(value)[..., None], inputs)
    stage: Any = np.arange(float(stages)).reshape((1,) * np.ndim(plan.pipeline) + (stages,))
    found = result(wide, stage)
    there = stage < wide.plan.pipeline
    return map_numbers(lambda value: np.where(there, value, 0.0), found)


def stage_memory(inputs: MemoryInputs, recipe: MemoryRecipe, stage: Number) -> StageMemory:
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
    head: Number  # parameters after the last layer
    states: dict[str, State]
    buffers: Buffered
    saved: LayerTerms  # of one layer of each kind
    saved_total: Kinds
    waiting: Kinds  # bytes of one layer of each kind that waits for its weight gradients
    momentary: Momentary
    embedding: Number  # activations of one microbatch at the embedding
    prediction: Number  # of multi-token prediction
    boundary: Number  # between stages


def amounts(inputs: MemoryInputs, recipe: MemoryRecipe, level: Number | None = None) -> Amounts:
    """Return what does not depend on the stage; ``level`` is as in ``saved_terms``."""
    level = LEVELS[recipe.recompute] if level is None else level
    model, acts = inputs.model, inputs.activations
    size, layer = sizes(inputs), layer_parameters(inputs)
    every = every_term(inputs, recipe, size)
    saved = saved_terms(inputs, recipe, size, every, level)
    kept = saved.total
    last = where(model.experts > 0.0, kept.routing, kept.dense)
    ends = (size.tokens, model.hidden, size.shards)
    return Amounts(
        size=size,
        spread=layout_of(model, inputs.plan, recipe),
        layer=layer,
        head=head_parameters(inputs, recipe, layer),
        states=states_of(inputs),
        buffers=buffers(inputs, size, layer),
        saved=saved,
        saved_total=kept,
        waiting=weight_gradient_terms(size, every),
        momentary=momentary(inputs, recipe, size, recomputed(every, saved), level),
        embedding=formulas.embedding_activations(*ends, acts.hidden_dropout),
        prediction=formulas.prediction_activations(
            last, *ends, model.mtp_layers, acts.activation_bytes
        ),
        boundary=formulas.boundary_activations(size.state, size.shards, inputs.plan.pipeline),
    )


def of_stage(
    inputs: MemoryInputs, recipe: MemoryRecipe, found: Amounts, stage: Number
) -> StageMemory:
    """Return the memory of one stage, from what is the same for all of them."""
    counted = stage_layers(inputs.model, inputs.plan, recipe, stage, found.spread)
    dense, expert = stage_parameters(inputs, counted, found.layer, found.head)
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
        "pending_weight_gradients": over(counted.pending, found.waiting),
    }
    transients = momentary_terms(inputs, found.momentary, counted, kinds, found.saved_total)
    sums = {"static": total(static), "activations": total(activations)}
    transient = _largest(transients)
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


def host_bytes(inputs: MemoryInputs, recipe: MemoryRecipe, found: Amounts, stage: Number) -> Number:
    """Return what one stage keeps in the memory of its host: states and activations offloaded.

    (master + moments) phi N / ranks + phi_a activations of all layers in flight

    Units: -> [B].
    """
    counted = stage_layers(inputs.model, inputs.plan, recipe, stage, found.spread)
    parameters = stage_parameters(inputs, counted, found.layer, found.head)
    states = inputs.states
    width = (states.master_bytes + states.moment_bytes) * states.offload_optimizer
    host = inputs.activations.offload_activations * over(counted.resident, found.saved_total)
    for part, number in zip(("dense", "expert"), parameters, strict=True):
        host = host + number * width / found.states[f"optimizer_{part}"].ranks
    return host


def _resident_terms(inputs: MemoryInputs, stage: StageLayers, layer: LayerTerms) -> Terms:
    """Return the activations of all layers and microbatches in flight, by term."""
    share = 1.0 - inputs.activations.offload_activations
    terms = {
        name: share * over(stage.resident, Kinds(*(kind.get(name, 0.0) for kind in layer)))
        for name in {**layer.dense, **layer.routing}
    }
    terms["routed"] = terms["routed"] + terms.pop("routed_outputs")
    return terms


def _largest(terms: Terms) -> Number:
    found: Number = 0.0
    for value in terms.values():
        found = larger(found, value)
    return found
