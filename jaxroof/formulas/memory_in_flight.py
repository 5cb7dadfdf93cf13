"""Microbatches whose activations a stage holds at once, by schedule."""

from typing import NamedTuple

from jaxroof.formulas.arithmetic import larger, smaller, where, whole
from jaxroof.records import Number


def in_flight_gpipe(pipeline: Number, microbatches: Number) -> Number:
    """Return the microbatches in flight on every stage, M; 1 without a pipeline.

    Assumes: GPipe; every forward pass precedes every backward pass.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> float(in_flight_gpipe(4.0, 8.0)), float(in_flight_gpipe(1.0, 8.0))
    (8.0, 1.0)
    """
    return where(pipeline > 1.0, microbatches, 1.0)


def in_flight_one_by_one(stage: Number, pipeline: Number, microbatches: Number) -> Number:
    """Return the microbatches in flight on one stage, min(M, p - i).

    Assumes: 1F1B without interleaving, or the whole microbatches of ZB-H1.
    Units: all [1], stage from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> float(in_flight_one_by_one(1.0, 4.0, 8.0))
    3.0
    """
    return smaller(microbatches, pipeline - stage)


class Passes(NamedTuple):
    """Forward passes of chunks in flight on a stage: whole rounds of groups, and what is behind."""

    rounds: Number  # n, in which every chunk has one group
    group: Number  # w, microbatches
    rest: Number  # passes behind the rounds
    length: Number  # l, of the group under way


def passes_in_flight(
    stage: Number,
    pipeline: Number,
    interleave: Number,
    microbatches: Number,
    microbatch_group: Number,
    early_forward: Number,
) -> Passes:
    """Return the forward passes of chunks in flight on a stage under interleaved 1F1B.

    m = min(M r, 2 (p - i - 1) + (r - 1) w + 1 + early) passes are in flight; groups of w
    microbatches go through chunk after chunk, so there are n = floor(m / (r w)) whole rounds,
    floor(M / w) at most, and m - n w r passes behind them

    Assumes: r > 1; the last group is shorter if w does not divide M. early = 1 if expert exchanges
    overlap.
    Units: all [1], stage from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> found = passes_in_flight(0.0, 4.0, 2.0, 16.0, 4.0, 0.0)
    >>> float(found.rounds), float(found.rest)
    (1.0, 3.0)
    """
    group = microbatch_group
    warm = 2.0 * (pipeline - stage - 1.0) + (interleave - 1.0) * group + 1.0 + early_forward
    passes = smaller(microbatches * interleave, warm)
    full = whole(microbatches, group)
    rounds = smaller(whole(passes, group * interleave), full)
    length = where(rounds < full, group, microbatches - full * group)
    return Passes(rounds, group, passes - rounds * group * interleave, length)


def in_flight_from_chunk(passes: Passes, chunk: Number, interleave: Number) -> Number:
    """Return the microbatches in flight in one chunk of a stage and all behind it, summed.

    (r - j) n w + max(rest - j l, 0)

    Assumes: as passes_in_flight.
    Units: all [1], chunk from 0, at most r -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> passes = passes_in_flight(0.0, 4.0, 2.0, 16.0, 4.0, 0.0)
    >>> held = [float(in_flight_from_chunk(passes, chunk, 2.0)) for chunk in (0, 1, 2)]
    >>> held[0] - held[1], held[1] - held[2]
    (7.0, 4.0)
    """
    rest = larger(passes.rest - chunk * passes.length, 0.0)
    return (interleave - chunk) * passes.rounds * passes.group + rest


def in_flight_dualpipe(pipeline: Number) -> Number:
    """Return the microbatches in flight on each of the two stages of a rank, (p + 1) / 2.

    Assumes: DualPipe, M >= p + 1.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> in_flight_dualpipe(4.0)
    2.5
    """
    return (pipeline + 1.0) / 2.0


def pending_zero_bubble(stage: Number, microbatches: Number) -> Number:
    """Return the microbatches that wait for their weight gradients on one stage, min(M, i).

    Assumes: ZB-H1.
    Units: all [1], stage from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> float(pending_zero_bubble(3.0, 16.0))
    3.0
    """
    return smaller(microbatches, stage)
