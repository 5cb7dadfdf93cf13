"""How many layers a stage has, and how many of their activations it holds at once.

Source: docs/models/parameters_flops_memory.md, sections 4.3 and 4.6.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.layer.sums import Kinds, leading_layers
from jaxroof.estimators.training.recipe import LayerDivision, Schedule, Split, TrainingRecipe
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where, whole
from jaxroof.records import Number


class StageLayers(NamedTuple):
    """Layers of one rank, and the activations that it holds at once."""

    layers: Kinds
    predicting: Kinds  # the same with those of multi-token prediction
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


class Alike(NamedTuple):
    """Chunks that are alike, but for the first and the last, which may have fewer layers."""

    each: Number  # layers of every chunk in the middle
    first_lacks: Number  # layers that the first one has less
    last_lacks: Number  # layers that the last one has less


# ---- Layers of a chunk --------------------------------------------------------------------------


def alike_chunks(layers: Number, prediction: Number, chunks: Number) -> Alike:
    """Return the layers of the n virtual stages of a pipeline, alike but for both ends.

    m = L' / n if n divides L', else ceil((L' + 2) / n): embedding and head take a layer's place.
    The ends lack n m - L' layers, the last as many as the first, or one more.

    Assumes: L' = L + k with the k layers of multi-token prediction, which take places of the last
    chunk, unless n divides L or L + 2: then they come on top.
    Source: docs/models/training_step_today.md, section 6.

    >>> [float(number) for number in alike_chunks(61.0, 1.0, 16.0)]  # 3, 14 times 4, 2 and 1
    [4.0, 1.0, 2.0]
    """
    apart = ~(_divides(chunks, layers) | _divides(chunks, layers + 2.0))
    inside = where(apart, prediction, 0.0)
    every = layers + inside
    each = where(_divides(chunks, every), every / chunks, ceiling(every + 2.0, chunks))
    lacking = each * chunks - every
    first = whole(lacking, 2.0)
    return Alike(each, first, lacking - first + inside)


def _divides(chunks: Number, layers: Number) -> Any:
    return layers - whole(layers, chunks) * chunks == 0.0


def layout_of(inputs: PlannedStep, recipe: TrainingRecipe) -> Layout:
    """Return how layers are spread over chunks: as even as can be, or alike but for both ends.

    As even as can be, the L mod n layers beyond floor(L / n) each go to the n chunks n-2, ..., 1,
    n-1, 0, since embedding and loss make the ends the fullest.
    """
    model, chunks = inputs.model, inputs.plan.pipeline * inputs.plan.interleave
    leading = leading_layers(model)
    return _layout(model.layers, model.mtp_blocks, chunks, leading, recipe.layer_division)


def _layout(
    layers: Number, prediction: Number, chunks: Number, leading: Number, division: Any
) -> Layout:
    if division is not LayerDivision.EVEN:
        each, first, last = alike_chunks(layers, prediction, chunks)
        mixed = smaller(whole(leading + first, larger(each, 1.0)), chunks - 1.0)
        return Layout(each, chunks, first, last, leading, mixed)
    even = whole(layers, chunks)
    over = layers - even * chunks
    extra = larger(1.0, chunks - 1.0 - over)
    before = whole(leading, larger(even, 1.0))
    behind = whole(leading + extra, even + 1.0)
    mixed = smaller(where(before <= extra, before, behind), chunks - 1.0)
    return Layout(even, extra, 0.0, where(over < chunks - 1.0, 1.0, 0.0), leading, mixed)


def chunk_split(
    layers: float, prediction: float, chunks: int, division: LayerDivision | Split
) -> Split:
    """Return the layers of every virtual stage of one plan; a split is those already."""
    if isinstance(division, tuple):
        return division
    spread = _layout(float(layers), float(prediction), float(chunks), 0.0, division)
    return tuple(int(_chunk(spread, float(v), float(chunks))) for v in range(chunks))


def _chunk(spread: Layout, virtual: Number, chunks: Number) -> Number:
    """Return the layers of a virtual stage."""
    more = where(virtual >= spread.extra, 1.0, 0.0)
    first = where(virtual == 0.0, spread.first_lacks, 0.0)
    last = where(virtual == chunks - 1.0, spread.last_lacks, 0.0)
    return spread.even + more - first - last


def _dense_of(first: Number, layers: Number, leading: Number) -> Number:
    """Return how many of a chunk's layers, counted from its first one, do not route."""
    return smaller(larger(leading - first, 0.0), layers)


# ---- Layers of a stage --------------------------------------------------------------------------


def stage_layers(
    inputs: PlannedStep, recipe: TrainingRecipe, stage: Number, spread: Layout | None = None
) -> StageLayers:
    """Return the layers of a stage, counted from 0; ``spread`` is ``layout_of``, if known.

    A rank of DualPipe has two stages, as far from either end.
    """
    spread = layout_of(inputs, recipe) if spread is None else spread
    one = _one_stage(inputs, recipe, stage, spread)
    if recipe.schedule is not Schedule.DUALPIPE:
        return one
    other = _one_stage(inputs, recipe, inputs.plan.pipeline - 1.0 - stage, spread)
    both: Any = zip(one, other, strict=True)
    sums: list[Any] = [a.plus(b) if isinstance(a, Kinds) else a + b for a, b in both]
    return StageLayers(*sums)


Weight = Callable[[Number], Number]  # of one chunk and of all behind it, summed; 0 behind the last
OfStage = Callable[[PlannedStep, Number], Number]


def _one_stage(
    inputs: PlannedStep, recipe: TrainingRecipe, stage: Number, spread: Layout
) -> StageLayers:
    model, plan, split = inputs.model, inputs.plan, recipe.layer_division
    first = where(stage == 0.0, 1.0, 0.0)
    last = where(stage == plan.pipeline - 1.0, 1.0, 0.0)
    in_flight = IN_FLIGHT[recipe.schedule](inputs, stage)
    if isinstance(split, tuple):
        layers, resident, opening = _of_split(inputs, split, stage, in_flight)
    else:
        layers, resident, opening = _of_chunks(inputs, stage, spread, in_flight)
    routes, more = model.experts > 0.0, model.mtp_layers * last
    waits = recipe.schedule is Schedule.ZB_H1  # for weight gradients, min(M, i) microbatches
    return StageLayers(
        layers=layers,
        predicting=layers.plus(Kinds(where(routes, 0.0, more), where(routes, more, 0.0))),
        resident=resident,
        pending=layers.times(smaller(plan.microbatches, stage)) if waits else Kinds(0.0, 0.0),
        opening=opening.times(first),
        opening_in_flight=(in_flight(0.0) - in_flight(smaller(1.0, plan.interleave))) * first,
        first=first,
        last=last,
    )


def _of_chunks(
    inputs: PlannedStep, stage: Number, spread: Layout, in_flight: Weight
) -> tuple[Kinds, Kinds, Kinds]:
    """Return the layers of a stage, those times microbatches in flight, and the first chunk's.

    Chunks have as many layers, and one more in a run of chunks; the ends may have fewer, and layers
    that do not route lead. So a sum over chunks takes the weights of a few, however many there are.
    """
    pipeline, interleave = inputs.plan.pipeline, inputs.plan.interleave
    first_lacks = where(stage == 0.0, spread.first_lacks, 0.0)
    last_lacks = where(stage == pipeline - 1.0, spread.last_lacks, 0.0)
    behind, place = (  # the first chunk of the stage at or behind a virtual stage
        smaller(larger(ceiling(virtual - stage, pipeline), 0.0), interleave)
        for virtual in (spread.extra, spread.mixed)
    )
    next_place = smaller(place + 1.0, interleave)
    virtual = place * pipeline + stage
    before = virtual * spread.even + larger(virtual - spread.extra, 0.0)
    here = _chunk(spread, virtual, pipeline * interleave)
    partly = _dense_of(larger(before - spread.first_lacks, 0.0), here, spread.leading)

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
    dense = _dense_of(0.0, first, spread.leading)
    return kinds(lambda chunk: interleave - chunk), kinds(in_flight), Kinds(dense, first - dense)


def _of_split(
    inputs: PlannedStep, split: Split, stage: Number, in_flight: Weight
) -> tuple[Kinds, Kinds, Kinds]:
    """Return the same for a split of layers that is given, chunk by chunk."""
    before = tuple(sum(split[:place]) for place in range(len(split)))
    plan, leading = inputs.plan, leading_layers(inputs.model)

    def kinds(virtual: Number) -> Kinds:
        layers = _at(split, virtual)
        dense = _dense_of(_at(before, virtual), layers, leading)
        return Kinds(dense, layers - dense)

    layers, resident = Kinds(0.0, 0.0), Kinds(0.0, 0.0)
    for chunk in range(len(split)):
        of = kinds(chunk * plan.pipeline + stage)
        held = in_flight(smaller(float(chunk), plan.interleave))
        held = held - in_flight(smaller(chunk + 1.0, plan.interleave))
        layers = layers.plus(of.times(where(chunk < plan.interleave, 1.0, 0.0)))
        resident = resident.plus(of.times(held))
    return layers, resident, kinds(0.0)


def _at(values: Any, place: Number) -> Number:
    """Return the value at a place that may be an array; 0 beyond the last."""
    found: Number = 0.0
    for number, value in enumerate(values):
        found = found + where(place == number, float(value), 0.0)
    return found


# ---- Microbatches in flight, in a chunk and in all behind it, summed ---------------------------


def _one_by_one(inputs: PlannedStep, stage: Number) -> Weight:
    """Return the weight of chunks under 1F1B, min(M, p - i) microbatches where there is one.

    Interleaved, m = min(M r, 2 (p - i - 1) + (r - 1) w + 1 + early) passes are in flight; groups of
    w microbatches go through chunk after chunk, so there are n = floor(m / (r w)) whole rounds,
    floor(M / w) at most, and m - n w r passes behind them; (r - j) n w + max(rest - j l, 0) from
    chunk j on, l the group under way

    Assumes: the last group is shorter if w does not divide M. early = 1 if expert exchanges
    overlap.
    """
    plan = inputs.plan
    group = where(inputs.microbatch_group > 0.0, inputs.microbatch_group, plan.pipeline)
    warm = 2.0 * (plan.pipeline - stage - 1.0) + (plan.interleave - 1.0) * group + 1.0
    passes = smaller(plan.microbatches * plan.interleave, warm + inputs.early_forward)
    full = whole(plan.microbatches, group)
    rounds = smaller(whole(passes, group * plan.interleave), full)
    length = where(rounds < full, group, plan.microbatches - full * group)
    rest = passes - rounds * group * plan.interleave
    plain = smaller(plan.microbatches, plan.pipeline - stage)
    interleaved = (plan.interleave > 1.0) & (plan.pipeline > 1.0)

    def from_chunk(chunk: Number) -> Number:
        left = plan.interleave - chunk
        held = left * rounds * group + larger(rest - chunk * length, 0.0)
        return where(interleaved, held, left * plain)

    return from_chunk


def _alike(each: OfStage) -> Callable[[PlannedStep, Number], Weight]:
    """Return the weight of chunks that all hold as many microbatches."""

    def of_stage(inputs: PlannedStep, stage: Number) -> Weight:
        held = each(inputs, stage)
        return lambda chunk: (inputs.plan.interleave - chunk) * held

    return of_stage


IN_FLIGHT: dict[Schedule, Callable[[PlannedStep, Number], Weight]] = {
    Schedule.ONE_F_ONE_B: _one_by_one,
    # every forward pass before every backward pass; without a pipeline, one after the other
    Schedule.GPIPE: _alike(
        lambda inputs, stage: where(inputs.plan.pipeline > 1.0, inputs.plan.microbatches, 1.0)
    ),
    Schedule.ZB_H1: _alike(
        lambda inputs, stage: smaller(inputs.plan.microbatches, inputs.plan.pipeline - stage)
    ),
    # on each of the two stages of a rank, if M >= p + 1
    Schedule.DUALPIPE: _alike(lambda inputs, stage: (inputs.plan.pipeline + 1.0) / 2.0),
}


# ---- The few stages of which one is the fullest -------------------------------------------------


def deciding_stages(inputs: PlannedStep, recipe: TrainingRecipe) -> list[Number]:
    """Return stages of which one is the fullest; every stage of a split of layers that is given.

    Stages differ in the layers of their chunks, in their ends, and in the microbatches that they
    hold. Neighbours whose chunks have the same layers make a run, and few stages start one. Along a
    run memory never rises, because later stages hold no more microbatches; so the first stage of a
    run is its fullest. With ZB-H1 memory is a concave function along a run, straight between M,
    p - M and the ends; under DualPipe a rank has two stages, and all stages hold as much.
    """
    plan = inputs.plan
    last = plan.pipeline - 1.0
    if isinstance(recipe.layer_division, tuple):
        return [smaller(float(stage), last) for stage in range(len(recipe.layer_division))]
    spread = layout_of(inputs, recipe)
    starts = (spread.extra, spread.mixed)
    more, change = (chunk - plan.pipeline * whole(chunk, plan.pipeline) for chunk in starts)
    found = [1.0, more, change, change + 1.0, last]
    if recipe.schedule is Schedule.ZB_H1:
        ends = [start - 1.0 for start in found]
        found += [*ends, plan.microbatches, plan.pipeline - plan.microbatches]
    if recipe.schedule is Schedule.DUALPIPE:
        found += [plan.pipeline - start for start in found]
    return [0.0, *(larger(smaller(stage, last), 0.0) for stage in found)]
