"""Does it fit? The memory of every stage of a training step, term by term.

Source: docs/models/parameters_flops_memory.md, section 4.
"""

from typing import Any

import numpy as np

from jaxroof.estimators.training.layer_activations import (
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
from jaxroof.estimators.training.stage_buffers import buffer_terms
from jaxroof.estimators.training.stage_layers import (
    Kinds,
    StageLayers,
    over,
    stage_layers,
    with_prediction,
)
from jaxroof.estimators.training.stage_momentary import momentary_terms
from jaxroof.estimators.training.stage_states import (
    layer_parameters,
    stage_parameters,
    state_terms,
)
from jaxroof.formulas import memory_activations as formulas
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number
from jaxroof.structure import map_numbers


def memory_by_stage(inputs: MemoryInputs, recipe: MemoryRecipe) -> StageMemory:
    """Return the memory of every stage, a trailing dimension of stages; 0 beyond the last one.

    The numbers of stages and chunks decide the size of the result, so the plan has values. Who
    traces the plan calls ``stage_memory``.
    """
    plan = inputs.plan
    stages, chunks = (int(np.max(degree)) for degree in (plan.pipeline, plan.interleave))
    wide = map_numbers(lambda value: np.asarray(value)[..., None], inputs)
    stage: Any = np.arange(float(stages)).reshape((1,) * np.ndim(plan.pipeline) + (stages,))
    found = stage_memory(wide, recipe, stage, chunks)
    there = stage < wide.plan.pipeline
    return map_numbers(lambda value: np.where(there, value, 0.0), found)


def stage_memory(
    inputs: MemoryInputs, recipe: MemoryRecipe, stage: Number, chunks: int
) -> StageMemory:
    """Return the memory of one stage, counted from 0.

    peak = static + activations + largest transient;  reserved = peak (1 + fragmentation);
    device = reserved + context + communicators

    ``chunks`` is the largest number of chunks of any plan.
    """
    size, layer, buffers = sizes(inputs), layer_parameters(inputs), inputs.buffers
    counted = stage_layers(inputs.model, inputs.plan, recipe, stage, chunks)
    dense, expert = stage_parameters(inputs, recipe, counted, layer)
    kinds = with_prediction(inputs.model, counted)
    every = every_term(inputs, recipe, size)
    saved = saved_terms(inputs, recipe, size, every)
    static = {
        **state_terms(inputs, dense, expert),
        **buffer_terms(inputs, size, layer, kinds, counted.last),
    }
    activations = {
        **_resident_terms(inputs, counted, saved),
        **_end_terms(inputs, size, counted, saved.total),
        "pending_weight_gradients": over(counted.pending, weight_gradient_terms(size, every)),
    }
    again = recomputed(every, saved)
    transients = momentary_terms(inputs, recipe, size, counted, saved.total, again)
    sums = {"static": total(static), "activations": total(activations)}
    transient = _largest(transients)
    peak = sums["static"] + sums["activations"] + transient
    reserved = peak * (1.0 + buffers.fragmentation)
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
        device=reserved + buffers.cuda_context + buffers.communicator,
    )


def _resident_terms(inputs: MemoryInputs, stage: StageLayers, layer: LayerTerms) -> Terms:
    """Return the activations of all layers and microbatches in flight, by term."""
    share = 1.0 - inputs.activations.offload_activations
    terms = {
        name: share * over(stage.resident, Kinds(*(kind.get(name, 0.0) for kind in layer)))
        for name in {**layer.dense, **layer.routing}
    }
    terms["routed"] = terms["routed"] + terms.pop("routed_outputs")
    return terms


def _end_terms(inputs: MemoryInputs, size: Sizes, stage: StageLayers, layer: Kinds) -> Terms:
    """Return the activations of embedding, multi-token prediction and pipeline."""
    model, beta = inputs.model, inputs.activations.activation_bytes
    last = where(model.experts > 0.0, layer.routing, layer.dense)
    embedding = formulas.embedding_activations(
        size.tokens, model.hidden, size.shards, inputs.activations.hidden_dropout
    )
    predicted = formulas.prediction_activations(
        last, size.tokens, model.hidden, size.shards, model.mtp_layers, beta
    )
    return {
        "embedding": embedding * stage.opening_in_flight,
        "mtp": predicted * stage.last,
        "pipeline": formulas.boundary_activations(size.state, size.shards, inputs.plan.pipeline),
    }


def _largest(terms: Terms) -> Number:
    found: Number = 0.0
    for value in terms.values():
        found = larger(found, value)
    return found
