"""How many layers a stage has, and how many of their activations it holds at once.

Source: docs/models/parameters_flops_memory.md, sections 4.3 and 4.6.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.estimators.training.memory_inputs import MemoryPlan
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Schedule
from jaxroof.formulas import memory_in_flight as flights
from jaxroof.formulas import memory_layout as layout
from jaxroof.formulas.arithmetic import larger, smaller, where, whole
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


def stage_layers(model: Any, plan: MemoryPlan, recipe: MemoryRecipe, stage: Number) -> StageLayers:
    """Return the layers of a stage, counted from 0."""
    one = _one_stage(model, plan, recipe, stage)
    if recipe.schedule is not Schedule.DUALPIPE:
        return one
    return _joined(one, _one_stage(model, plan, recipe, plan.pipeline - 1.0 - stage))


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


def _one_stage(model: Any, plan: MemoryPlan, recipe: MemoryRecipe, stage: Number) -> StageLayers:
    first = where(stage == 0.0, 1.0, 0.0)
    in_flight = functools.partial(IN_FLIGHT[recipe.schedule], plan, stage)
    layers, resident, opening = _counted(model, plan, recipe, stage, in_flight)
    waiting = PENDING.get(recipe.schedule, _none)(plan, stage)
    return StageLayers(
        layers=layers,
        resident=resident,
        pending=Kinds(layers.dense * waiting, layers.routing * waiting),
        opening=Kinds(opening.dense * first, opening.routing * first),
        opening_in_flight=(in_flight(0.0) - in_flight(smaller(1.0, plan.interleave))) * first,
        first=first,
        last=where(stage == plan.pipeline - 1.0, 1.0, 0.0),
    )


Weight = Callable[[Number], Number]  # of one chunk and of all behind it, summed; 0 behind the last


def _counted(
    model: Any, plan: MemoryPlan, recipe: MemoryRecipe, stage: Number, in_flight: Weight
) -> tuple[Kinds, Kinds, Kinds]:
    """Return the layers of a stage, those times microbatches in flight, and the first chunk's."""
    if recipe.layer_split:
        return _of_split(model, plan, recipe.layer_split, stage, in_flight)

    def one_each(chunk: Number) -> Number:
        return plan.interleave - chunk

    leading = leading_dense(model)
    layers, resident = (
        _over_chunks(model.layers, leading, plan, stage, weight) for weight in (one_each, in_flight)
    )
    opening = layout.chunk_layers(0.0, model.layers, plan.pipeline * plan.interleave)
    dense = layout.leading_layers(0.0, opening, leading)
    return layers, resident, Kinds(dense, opening - dense)


def leading_dense(model: Any) -> Number:
    """Return how many layers lead the model that do not route."""
    return where(model.experts > 0.0, model.first_dense_layers, model.layers)


def _over_chunks(
    layers: Number, leading: Number, plan: MemoryPlan, stage: Number, weight: Weight
) -> Kinds:
    """Return the sum over the chunks of a stage of their layers times the chunk's weight.

    The layers of a chunk are floor(L / p r), and one more in a run of chunks; those that do not
    route lead. So the sum takes the weights of four chunks, however many there are.
    """
    pipeline, interleave = plan.pipeline, plan.interleave
    chunks = pipeline * interleave
    even = whole(layers, chunks)
    extra = layout.first_extra_chunk(layers, chunks)
    behind = layout.first_chunk_from(extra, stage, pipeline, interleave)
    lacks = (stage == pipeline - 1.0) & (layers - even * chunks < chunks - 1.0)
    end = larger(interleave - 1.0, 0.0)

    def after(chunk: Number) -> Number:
        more = weight(larger(chunk, behind))
        last = where(lacks, weight(larger(larger(chunk, behind), end)), 0.0)
        return even * weight(chunk) + more - last

    mixed = layout.chunk_of_layer(leading, layers, chunks)
    place = layout.first_chunk_from(mixed, stage, pipeline, interleave)
    virtual = place * pipeline + stage
    partly = layout.leading_layers(
        layout.first_layer(virtual, layers, chunks),
        layout.chunk_layers(virtual, layers, chunks),
        leading,
    )
    there = weight(place) - weight(smaller(place + 1.0, interleave))
    every = after(0.0)
    dense = every - after(place) + partly * there
    return Kinds(dense, every - dense)


def _of_split(
    model: Any, plan: MemoryPlan, split: tuple[int, ...], stage: Number, in_flight: Weight
) -> tuple[Kinds, Kinds, Kinds]:
    """Return the same for a split of layers that is given, chunk by chunk."""
    before = tuple(sum(split[:place]) for place in range(len(split)))
    leading = leading_dense(model)

    def kinds(virtual: Number) -> Kinds:
        layers = _at(split, virtual)
        dense = layout.leading_layers(_at(before, virtual), layers, leading)
        return Kinds(dense, layers - dense)

    layers, resident = Kinds(0.0, 0.0), Kinds(0.0, 0.0)
    for chunk in range(len(split)):
        there = where(chunk < plan.interleave, 1.0, 0.0)
        of = kinds(chunk * plan.pipeline + stage)
        held = in_flight(smaller(float(chunk), plan.interleave))
        held = held - in_flight(smaller(chunk + 1.0, plan.interleave))
        layers = Kinds(layers.dense + of.dense * there, layers.routing + of.routing * there)
        resident = Kinds(resident.dense + of.dense * held, resident.routing + of.routing * held)
    return layers, resident, kinds(0.0)


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


def _at(values: Any, place: Number) -> Number:
    """Return the value at a place that may be an array; 0 beyond the last."""
    found: Number = 0.0
    for number, value in enumerate(values):
        found = found + where(place == number, float(value), 0.0)
    return found


def _one_by_one(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    group = where(plan.microbatch_group > 0.0, plan.microbatch_group, plan.pipeline)
    interleaved = flights.in_flight_from_chunk(
        stage,
        chunk,
        plan.pipeline,
        plan.interleave,
        plan.microbatches,
        group,
        plan.early_forward,
    )
    return where(plan.interleave > 1.0, interleaved, _plain(plan, stage, chunk))


def _gpipe(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    each = flights.in_flight_gpipe(plan.pipeline, plan.microbatches)
    return (plan.interleave - chunk) * each


def _plain(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    each = flights.in_flight_one_by_one(stage, plan.pipeline, plan.microbatches)
    return (plan.interleave - chunk) * each


def _dualpipe(plan: MemoryPlan, stage: Number, chunk: Number) -> Number:
    return (plan.interleave - chunk) * flights.in_flight_dualpipe(plan.pipeline)


def _none(plan: MemoryPlan, stage: Number) -> Number:
    return 0.0


def _zero_bubble(plan: MemoryPlan, stage: Number) -> Number:
    return flights.pending_zero_bubble(stage, plan.microbatches)


# microbatches in flight in a chunk and in all behind it, summed
IN_FLIGHT: dict[Schedule, Callable[[MemoryPlan, Number, Number], Number]] = {
    Schedule.ONE_F_ONE_B: _one_by_one,
    Schedule.GPIPE: _gpipe,
    Schedule.ZB_H1: _plain,
    Schedule.DUALPIPE: _dualpipe,
}
PENDING = {Schedule.ZB_H1: _zero_bubble}
