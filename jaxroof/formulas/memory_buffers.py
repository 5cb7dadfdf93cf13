"""Buffers that stay for the whole run, beside weights, gradients and optimizer states."""

from collections.abc import Sequence

from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number

Matrix = tuple[Number, Number, Number]  # rows, columns, whether the stage has it (1 or 0)


def distinct_matrices(matrices: Sequence[Matrix], others: Sequence[Matrix] = ()) -> Number:
    """Return the elements of some matrices, each shape counted once, and none that others have.

    N = sum over the distinct pairs (m, n) of m n, where (m, n) is not (n, m)

    Assumes: a matrix that is not there counts nothing.
    Units: rows, columns, presence [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.8.

    >>> float(distinct_matrices([(2.0, 3.0, 1.0), (2.0, 3.0, 1.0), (3.0, 2.0, 1.0)]))
    12.0
    >>> float(distinct_matrices([(2.0, 3.0, 1.0), (3.0, 2.0, 1.0)], [(3.0, 2.0, 1.0)]))
    6.0
    """
    total: Number = 0.0
    for place, (rows, columns, present) in enumerate(matrices):
        new = present > 0.0
        for other, across, there in (*others, *matrices[:place]):
            new = new & ((rows != other) | (columns != across) | (there <= 0.0))
        total = total + where(new, rows * columns, 0.0)
    return total


def gathered_weights(
    unit: Number, end: Number, prefetch: Number, zero_stage: Number, activation_bytes: Number
) -> Number:
    """Return the bytes of the weights that ZeRO 3 has gathered at once, 0 below.

    M = beta (max(unit, end) + prefetch unit)

    Assumes: unit is the parameters of the largest layer before data sharding, end those of the
    embedding; one unit more is gathered ahead.
    Units: unit, end, prefetch, zero_stage [1], activation_bytes [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.8.

    >>> float(gathered_weights(4.0, 6.0, 1.0, 3.0, 2.0))
    20.0
    """
    held = activation_bytes * (larger(unit, end) + prefetch * unit)
    return where(zero_stage >= 3.0, held, 0.0)


def gathered_gradients(
    unit: Number, zero_stage: Number, activation_bytes: Number, reduce_bytes: Number
) -> Number:
    """Return the bytes of the gradients that ZeRO 3 has not yet scattered, 0 below.

    M = (beta + reduce) unit

    Assumes: the gradient of one layer, and its copy in the format of the reduction.
    Units: unit, zero_stage [1], widths [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.8.

    >>> float(gathered_gradients(4.0, 3.0, 2.0, 4.0))
    24.0
    """
    return where(zero_stage >= 3.0, (activation_bytes + reduce_bytes) * unit, 0.0)


def rope_table(sequence: Number, context: Number, width: Number, positions: Number) -> Number:
    """Return the bytes of the cached table of rotations, 0 with learned positions.

    M = 4 (s / C) w

    Assumes: fp32; w is the head size, or the rotated width of latent attention.
    Units: sequence [token], context, width, positions [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.8.

    >>> float(rope_table(8.0, 2.0, 4.0, 0.0))
    64.0
    """
    return where(positions > 0.0, 0.0, 4.0 * sequence / context * width)


def library_workspace(te_workspace: Number, torch_workspace: Number, handles: Number) -> Number:
    """Return the bytes of the workspaces of matrix products, without grouped ones.

    M = te + handles torch; grouped products take 4 te more

    Assumes: the forward and the autograd thread have a handle each; te is 0 without Transformer
    Engine, 32 MiB on Hopper and Blackwell, 4 MiB before; torch is 8.125 or 32 MiB.
    Units: workspaces [B], handles [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.2.

    >>> library_workspace(32.0, 8.125, 2.0)
    48.25
    """
    return te_workspace + handles * torch_workspace
