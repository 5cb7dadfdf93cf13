"""The layers of a virtual stage of a pipeline."""

from typing import Any, NamedTuple

from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where, whole
from jaxroof.records import Number


class Alike(NamedTuple):
    """Chunks that are alike, but for the first and the last, which may have fewer layers."""

    each: Number  # layers of every chunk in the middle
    first_lacks: Number  # layers that the first one has less
    last_lacks: Number  # layers that the last one has less

    @property
    def possible(self) -> Any:
        """Return whether neither end lacks more layers than a chunk has."""
        return (self.first_lacks <= self.each) & (self.last_lacks <= self.each)


def alike_chunks(layers: Number, prediction: Number, chunks: Number) -> Alike:
    """Return the layers of the n virtual stages of a pipeline, alike but for both ends.

    m = L' / n if n divides L', else ceil((L' + 2) / n): embedding and head take a layer's place.
    The ends lack n m - L' layers, the last as many as the first, or one more.

    Assumes: L' = L + k with the k layers of multi-token prediction, which take places of the last
    chunk, unless n divides L or L + 2: then they come on top.
    Units: all [1] -> [1].
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


def first_extra_chunk(layers: Number, chunks: Number) -> Number:
    """Return the first of the n virtual stages of a pipeline that has one layer more than least.

    max(1, n - 1 - L mod n), and from there on every one but the last; the last too if
    L mod n = n - 1. It is n - 1 at least where no virtual stage has more.

    Assumes: stages as even as can be, floor(L / n) layers, and one more for the first of the
    L mod n in the order n-2, ..., 1, n-1, 0: embedding and loss make the ends the fullest.
    Units: all [1], chunk from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.3.

    >>> float(first_extra_chunk(10.0, 4.0))
    1.0
    """
    return larger(1.0, chunks - 1.0 - (layers - whole(layers, chunks) * chunks))


def chunk_of_layer(layer: Number, layers: Number, chunks: Number) -> Number:
    """Return the virtual stage that has a layer, n - 1 for the number of layers itself.

    The largest v whose first layer is not behind it.

    Assumes: as first_extra_chunk; layers and virtual stages count from 0.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.3.

    >>> [float(chunk_of_layer(layer, 10.0, 4.0)) for layer in (1.0, 2.0, 5.0, 8.0, 10.0)]
    [0.0, 1.0, 2.0, 3.0, 3.0]
    """
    even, extra = whole(layers, chunks), first_extra_chunk(layers, chunks)
    before = whole(layer, larger(even, 1.0))
    behind = whole(layer + extra, even + 1.0)
    return smaller(where(before <= extra, before, behind), chunks - 1.0)


def first_chunk_from(
    virtual: Number, stage: Number, pipeline: Number, interleave: Number
) -> Number:
    """Return the first chunk of a stage at or behind a virtual stage, r if there is none.

    j = ceil((v - i) / p), since chunk j of stage i is virtual stage j p + i

    Assumes: chunks, stages and virtual stages count from 0.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.3.

    >>> float(first_chunk_from(5.0, 1.0, 4.0, 3.0)), float(first_chunk_from(6.0, 1.0, 4.0, 3.0))
    (1.0, 2.0)
    """
    return smaller(larger(ceiling(virtual - stage, pipeline), 0.0), interleave)


def leading_layers(first: Number, layers: Number, dense_layers: Number) -> Number:
    """Return how many of a chunk's layers do not route, min(max(L_d - first, 0), layers).

    Assumes: the layers that do not route lead the model.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, sections 1 and 4.3.

    >>> float(leading_layers(2.0, 4.0, 3.0))
    1.0
    """
    return smaller(larger(dense_layers - first, 0.0), layers)
