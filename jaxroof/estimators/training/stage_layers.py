"""How many layers a stage has, and how many of their activations it holds at once.

Source: docs/models/parameters_flops_memory.md, sections 4.3 and 4.6.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.estimators.training.memory_inputs import MemoryPlan
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Schedule
from jaxroof.formulas import memory_in_flight as flights
from jaxroof.formulas import memory_layout as layout
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


class Kinds(NamedTuple):
    """A number for dense layers and one for routing layers."""

    dense: Number
    routing: Number


class StageLayers(NamedTuple):
    """Layers of one rank, and the activations that it holds at once."""

    layers: Kinds
    resident: Kinds  # layers times microbatches in flight
    pending: Kinds  # layers times microbatches that wait for their weight gradients
    opening: Kinds  # layers of the model's first chunk, on the ranks that have it
    opening_in_flight: Number  # microbatches in flight in that chunk
    first: Number  # 1 where the rank has the embedding, else 0
    last: Number  # 1 where it has the head, else 0


def stage_layers(
    model: Any, plan: MemoryPlan, recipe: MemoryRecipe, stage: Number, chunks: int
) -> StageLayers:
    """Return the layers of a stage; ``chunks`` is the largest number of chunks of any plan."""
    one = _one_stage(model, plan, recipe, stage, chunks)
    if recipe.schedule is not Schedule.DUALPIPE:
        return one
    other = _one_stage(model, plan, recipe, plan.pipeline - 1.0 - stage, chunks)
    return _joined(one, other)


def _joined(one: StageLayers, other: StageLayers) -> StageLayers:
    """Return the sums over the two stages of a rank."""

    def both(a: Kinds, b: Kinds) -> Kinds:
        return Kinds(a.dense + b.dense, a.routing + b.routing)

    return StageLayers(
        layers=both(one.layers, other.layers),
        resident=both(one.resident, other.resident),
        pending=both(one.pending, other.pending),
        opening=both(one.opening, other.opening),
        opening_in_flight=one.opening_in_flight + other.opening_in_flight,
        first=one.first + other.first,
        last=one.last + other.last,
    )


def _one_stage(
    model: Any, plan: MemoryPlan, recipe: MemoryRecipe, stage: Number, chunks: int
) -> StageLayers:
    first = where(stage == 0.0, 1.0, 0.0)
    in_flight = IN_FLIGHT[recipe.schedule]
    layers, resident = Kinds(0.0, 0.0), Kinds(0.0, 0.0)
    for chunk in range(chunks):
        there = where(chunk < plan.interleave, 1.0, 0.0)
        of = chunk_kinds(model, plan, recipe, chunk * plan.pipeline + stage)
        held = in_flight(plan, stage, float(chunk)) * there
        layers = Kinds(layers.dense + of.dense * there, layers.routing + of.routing * there)
        resident = Kinds(resident.dense + of.dense * held, resident.routing + of.routing * held)
    waiting = PENDING.get(recipe.schedule, _none)(plan, stage)
    opening = chunk_kinds(model, plan, recipe, 0.0)
    return StageLayers(
        layers=layers,
        resident=resident,
        pending=Kinds(layers.dense * waiting, layers.routing * waiting),
        opening=Kinds(opening.dense * first, opening.routing * first),
        opening_in_flight=in_flight(plan, stage, 0.0) * first,
        first=first,
        last=where(stage == plan.pipeline - 1.0, 1.0, 0.0),
    )


def over(layers: Kinds, each: Kinds) -> Number:
    """Return the sum over layers of what one of each kind has."""
    return layers.dense * each.dense + layers.routing * each.routing


def with_prediction(model: Any, stage: StageLayers) -> Kinds:
    """Return the layers of a stage, those of multi-token prediction included."""
    routes = model.experts > 0.0
    more = model.mtp_layers * stage.last
    return Kinds(
        stage.layers.dense + where(routes, 0.0, more),
        stage.layers.routing + where(routes, more, 0.0),
    )


def chunk_kinds(model: Any, plan: MemoryPlan, recipe: MemoryRecipe, chunk: Number) -> Kinds:
    """Return the dense and the routing layers of a virtual stage."""
    if recipe.layer_split:
        before = [sum(recipe.layer_split[:place]) for place in range(len(recipe.layer_split))]
        layers, start = _at(recipe.layer_split, chunk), _at(before, chunk)
    else:
        virtual = plan.pipeline * plan.interleave
        layers = layout.chunk_layers(chunk, model.layers, virtual)
        start = layout.first_layer(chunk, model.layers, virtual)
    leading = where(model.experts > 0.0, model.first_dense_layers, model.layers)
    dense = layout.leading_layers(start, layers, leading)
    return Kinds(dense, layers - dense)


def _at(values: Any, place: Number) -> Number:
    """Return the value at a place that may be an array; 0 beyond the last."""
    found: Number = 0.0
    for number, value in enumerate(values):
        found = found + where(place == number, float(value), 0.0)
    return found


def _one_by_one(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    group = where(plan.microbatch_group > 0.0, plan.microbatch_group, plan.pipeline)
    interleaved = flights.in_flight_interleaved(
        stage,
        chunk,
        plan.pipeline,
        plan.interleave,
        plan.microbatches,
        group,
        plan.early_forward,
    )
    plain = flights.in_flight_one_by_one(stage, plan.pipeline, plan.microbatches)
    return where(plan.interleave > 1.0, interleaved, plain)


def _gpipe(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    return flights.in_flight_gpipe(plan.pipeline, plan.microbatches)


def _plain(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    return flights.in_flight_one_by_one(stage, plan.pipeline, plan.microbatches)


def _dualpipe(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    return flights.in_flight_dualpipe(plan.pipeline)


def _none(plan: MemoryPlan, stage: Number) -> Number:
    return 0.0


def _zero_bubble(plan: MemoryPlan, stage: Number) -> Number:
    return flights.pending_zero_bubble(stage, plan.microbatches)


IN_FLIGHT: dict[Schedule, Callable[[MemoryPlan, Number, Number], Number]] = {
    Schedule.ONE_F_ONE_B: _one_by_one,
    Schedule.GPIPE: _gpipe,
    Schedule.ZB_H1: _plain,
    Schedule.DUALPIPE: _dualpipe,
}
PENDING = {Schedule.ZB_H1: _zero_bubble}
