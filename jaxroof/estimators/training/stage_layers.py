"""How many layers a stage has, and how many of their activations it holds at once.

Source: docs/models/parameters_flops_memory.md, sections 4.3 and 4.6.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.estimators.training.memory_inputs import MemoryPlan
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.memory_recipe import LayerDivision, MemoryRecipe, Schedule
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


class Layout(NamedTuple):
    """How layers are spread over the chunks of a pipeline, whichever stage is looked at."""

    even: Number  # layers of a chunk
    extra: Number  # the first virtual stage with one more; those behind have it too
    first_lacks: Number  # layers that the first virtual stage has less
    last_lacks: Number  # layers that the last virtual stage has less
    leading: Number  # layers of the model that lead and do not route
    mixed: Number  # the virtual stage where they end


def layout_of(model: MemoryModel, plan: MemoryPlan, recipe: MemoryRecipe) -> Layout:
    """Return how layers are spread over chunks, as the recipe divides them."""
    as_even_as_can_be = recipe.layer_division is LayerDivision.EVEN
    return (_even if as_even_as_can_be else _alike_chunks)(model, plan)


def _alike_chunks(model: MemoryModel, plan: MemoryPlan) -> Layout:
    """Return chunks that are alike but for both ends, as the time has them."""
    chunks, leading = plan.pipeline * plan.interleave, leading_dense(model)
    each, first, last = layout.alike_chunks(model.layers, model.mtp_layers, chunks)
    return Layout(
        even=each,
        extra=chunks,
        first_lacks=first,
        last_lacks=last,
        leading=leading,
        mixed=smaller(whole(leading + first, larger(each, 1.0)), chunks - 1.0),
    )


def _even(model: MemoryModel, plan: MemoryPlan) -> Layout:
    """Return chunks as even as can be."""
    layers, chunks = model.layers, plan.pipeline * plan.interleave
    even, leading = whole(layers, chunks), leading_dense(model)
    return Layout(
        even=even,
        extra=layout.first_extra_chunk(layers, chunks),
        first_lacks=0.0,
        last_lacks=where(layers - even * chunks < chunks - 1.0, 1.0, 0.0),
        leading=leading,
        mixed=layout.chunk_of_layer(leading, layers, chunks),
    )


def stage_layers(
    model: MemoryModel,
    plan: MemoryPlan,
    recipe: MemoryRecipe,
    stage: Number,
    spread: Layout | None = None,
) -> StageLayers:
    """Return the layers of a stage, counted from 0; ``spread`` is ``layout_of``, if known."""
    spread = layout_of(model, plan, recipe) if spread is None else spread
    one = _one_stage(model, plan, recipe, stage, spread)
    if recipe.schedule is not Schedule.DUALPIPE:
        return one
    other = plan.pipeline - 1.0 - stage
    return _joined(one, _one_stage(model, plan, recipe, other, spread))


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


Weight = Callable[[Number], Number]  # of one chunk and of all behind it, summed; 0 behind the last


def _one_stage(
    model: MemoryModel, plan: MemoryPlan, recipe: MemoryRecipe, stage: Number, spread: Layout
) -> StageLayers:
    first = where(stage == 0.0, 1.0, 0.0)
    in_flight = IN_FLIGHT[recipe.schedule](plan, stage)
    if recipe.layer_split:
        layers, resident, opening = _of_split(model, plan, recipe.layer_split, stage, in_flight)
    else:
        layers, resident, opening = _of_chunks(model, plan, stage, spread, in_flight)
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


def _of_chunks(
    model: MemoryModel, plan: MemoryPlan, stage: Number, spread: Layout, in_flight: Weight
) -> tuple[Kinds, Kinds, Kinds]:
    """Return the layers of a stage, those times microbatches in flight, and the first chunk's.

    Chunks have as many layers, and one more in a run of chunks; the ends may have fewer, and layers
    that do not route lead. So a sum over chunks takes the weights of a few, however many there are.
    """
    pipeline, interleave = plan.pipeline, plan.interleave
    behind = layout.first_chunk_from(spread.extra, stage, pipeline, interleave)
    first_lacks = where(stage == 0.0, spread.first_lacks, 0.0)
    last_lacks = where(stage == pipeline - 1.0, spread.last_lacks, 0.0)
    place = layout.first_chunk_from(spread.mixed, stage, pipeline, interleave)
    next_place = smaller(place + 1.0, interleave)
    virtual = place * pipeline + stage
    partly = layout.leading_layers(
        _first_layer(spread, virtual),
        _chunk(spread, virtual, pipeline * interleave),
        spread.leading,
    )

    def kinds(weight: Weight) -> Kinds:
        opening = first_lacks * (weight(0.0) - weight(smaller(1.0, interleave)))
        closing = last_lacks * weight(larger(interleave - 1.0, 0.0))
        every = spread.even * weight(0.0) + weight(behind) - opening - closing
        here = weight(place)
        rest = spread.even * here + weight(larger(place, behind)) - closing
        rest = rest - where(place == 0.0, opening, 0.0)
        dense = every - rest + partly * (here - weight(next_place))
        return Kinds(dense, every - dense)

    first = _chunk(spread, 0.0, pipeline * interleave)
    dense = layout.leading_layers(0.0, first, spread.leading)
    return kinds(lambda chunk: interleave - chunk), kinds(in_flight), Kinds(dense, first - dense)


def chunk_split(model: MemoryModel, plan: MemoryPlan, recipe: MemoryRecipe) -> tuple[int, ...]:
    """Return the layers of every virtual stage of one plan."""
    spread, chunks = layout_of(model, plan, recipe), int(plan.pipeline * plan.interleave)
    return tuple(int(_chunk(spread, float(v), float(chunks))) for v in range(chunks))


def _first_layer(spread: Layout, virtual: Number) -> Number:
    """Return the number of the first layer of a virtual stage."""
    before = virtual * spread.even + larger(virtual - spread.extra, 0.0)
    return larger(before - spread.first_lacks, 0.0)


def _chunk(spread: Layout, virtual: Number, chunks: Number) -> Number:
    """Return the layers of a virtual stage."""
    more = where(virtual >= spread.extra, 1.0, 0.0)
    first = where(virtual == 0.0, spread.first_lacks, 0.0)
    last = where(virtual == chunks - 1.0, spread.last_lacks, 0.0)
    return spread.even + more - first - last


def leading_dense(model: MemoryModel) -> Number:
    """Return how many layers lead the model that do not route."""
    return where(model.experts > 0.0, model.first_dense_layers, model.layers)


def _of_split(
    model: MemoryModel, plan: MemoryPlan, split: tuple[int, ...], stage: Number, in_flight: Weight
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


def with_prediction(model: MemoryModel, stage: StageLayers) -> Kinds:
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


def _one_by_one(plan: MemoryPlan, stage: Number) -> Weight:
    group = where(plan.microbatch_group > 0.0, plan.microbatch_group, plan.pipeline)
    passes = flights.passes_in_flight(
        stage,
        plan.pipeline,
        plan.interleave,
        plan.microbatches,
        group,
        plan.early_forward,
    )
    plain = flights.in_flight_one_by_one(stage, plan.pipeline, plan.microbatches)
    interleaved = (plan.interleave > 1.0) & (plan.pipeline > 1.0)

    def from_chunk(chunk: Number) -> Number:
        held = flights.in_flight_from_chunk(passes, chunk, plan.interleave)
        return where(interleaved, held, (plan.interleave - chunk) * plain)

    return from_chunk


def _alike(plan: MemoryPlan, each: Number) -> Weight:
    """Return the weight of chunks that all hold as many microbatches."""
    return lambda chunk: (plan.interleave - chunk) * each


def _gpipe(plan: MemoryPlan, stage: Number) -> Weight:
    return _alike(plan, flights.in_flight_gpipe(plan.pipeline, plan.microbatches))


def _plain(plan: MemoryPlan, stage: Number) -> Weight:
    return _alike(plan, flights.in_flight_one_by_one(stage, plan.pipeline, plan.microbatches))


def _dualpipe(plan: MemoryPlan, stage: Number) -> Weight:
    return _alike(plan, flights.in_flight_dualpipe(plan.pipeline))


def _none(plan: MemoryPlan, stage: Number) -> Number:
    return 0.0


def _zero_bubble(plan: MemoryPlan, stage: Number) -> Number:
    return flights.pending_zero_bubble(stage, plan.microbatches)


# microbatches in flight in a chunk and in all behind it, summed
IN_FLIGHT: dict[Schedule, Callable[[MemoryPlan, Number], Weight]] = {
    Schedule.ONE_F_ONE_B: _one_by_one,
    Schedule.GPIPE: _gpipe,
    Schedule.ZB_H1: _plain,
    Schedule.DUALPIPE: _dualpipe,
}
PENDING = {Schedule.ZB_H1: _zero_bubble}
