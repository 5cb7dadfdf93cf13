"""The layers of a virtual stage of a pipeline."""

from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where, whole
from jaxroof.records import Number


def chunk_layers(chunk: Number, layers: Number, chunks: Number) -> Number:
    """Return the layers of one of the n virtual stages of a pipeline.

    floor(L / n), and one more for the first of the L mod n in the order n-2, ..., 1, n-1, 0

    Assumes: the remainder goes to middle chunks, the last first: embedding and loss make the end
    chunks the fullest.
    Units: all [1], chunk from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.3.

    >>> [float(chunk_layers(chunk, 10.0, 4.0)) for chunk in range(4)]
    [2.0, 3.0, 3.0, 2.0]
    """
    even = whole(layers, chunks)
    middle = where(chunk == chunks - 1.0, chunks - 2.0, chunks - 2.0 - chunk)
    place = where(chunk == 0.0, chunks - 1.0, middle)
    return even + where(place < layers - even * chunks, 1.0, 0.0)


def first_layer(chunk: Number, layers: Number, chunks: Number) -> Number:
    """Return the number of the first layer of one of the n virtual stages of a pipeline.

    v floor(L / n) + max(0, v - max(1, n - 1 - L mod n))

    Assumes: as chunk_layers.
    Units: all [1], chunk and layer from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.3.

    >>> [float(first_layer(chunk, 10.0, 4.0)) for chunk in range(4)]
    [0.0, 2.0, 5.0, 8.0]
    """
    even = whole(layers, chunks)
    plain = larger(1.0, chunks - 1.0 - (layers - even * chunks))
    return chunk * even + larger(0.0, chunk - plain)


def first_extra_chunk(layers: Number, chunks: Number) -> Number:
    """Return the first of the n virtual stages of a pipeline that has one layer more than least.

    max(1, n - 1 - L mod n), and from there on every one but the last; the last too if
    L mod n = n - 1. It is n - 1 at least where no virtual stage has more.

    Assumes: as chunk_layers.
    Units: all [1], chunk from 0 -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.3.

    >>> float(first_extra_chunk(10.0, 4.0))
    1.0
    """
    return larger(1.0, chunks - 1.0 - (layers - whole(layers, chunks) * chunks))


def chunk_of_layer(layer: Number, layers: Number, chunks: Number) -> Number:
    """Return the virtual stage that has a layer, n - 1 for the number of layers itself.

    The largest v whose first layer is not behind it.

    Assumes: as chunk_layers; layers and virtual stages count from 0.
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
