"""Seconds of single kernels on a chip of today: products, attention, and streams through memory.

The efficiency of a product grows smoothly with its size: m n / (m n + wave) is the loss of the last
wave of tiles on average, k / (k + depth) that of a tile's begin and end.
Source: docs/models/training_step_today.md, sections 3, 4 and 11.
"""

from typing import NamedTuple

from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number


class Unit(NamedTuple):
    """What a chip's matrix unit does at one number format, and what a kernel costs beside it."""

    rate: Number  # of an endless product [FLOP/s]
    depth: Number  # inner length that the begin and end of a tile are worth
    wave: Number  # outputs that the last wave of tiles is worth
    memory: Number  # bytes that a streaming kernel moves a second [B/s]
    launch: Number  # time between two kernels [s]


def stream(traffic: Number, kernels: Number, unit: Unit) -> Number:
    """Return the time of kernels that only move bytes: t = traffic / memory + kernels launch."""
    return traffic / unit.memory + kernels * unit.launch


def matmul(
    rows: Number, columns: Number, inner: Number, unit: Unit, read: Number, written: Number
) -> Number:
    """Return the time of a product of [rows, inner] and [inner, columns].

    t = smax(2 (m n + wave) (k + depth) / rate, (e_in (m k + k n) + e_out m n) / memory) + launch

    Assumes: dense operands; ``read`` and ``written`` are bytes of one number.
    """
    work = 2.0 * (rows * columns + unit.wave) * (inner + unit.depth)
    moved = read * (rows * inner + inner * columns) + written * rows * columns
    return smooth_larger(work / unit.rate, moved / unit.memory) + unit.launch


def batched_product(
    batch: Number, rows: Number, columns: Number, inner: Number, unit: Unit
) -> Number:
    """Return the time of a batch of products of 16-bit numbers, such as scores of all heads.

    t = smax(2 u m n (k + depth / 2) / rate, 2 u (m k + k n + m n) / memory) + launch

    Assumes: tiles of two products fill a wave together; half the depth is lost.
    """
    work = 2.0 * batch * rows * columns * (inner + unit.depth / 2.0)
    moved = 2.0 * batch * (rows * inner + inner * columns + rows * columns)
    return smooth_larger(work / unit.rate, moved / unit.memory) + unit.launch


def grouped_product(
    rows: Number,
    columns: Number,
    inner: Number,
    groups: Number,
    idle_rows: Number,
    unit: Unit,
    read: Number,
) -> Number:
    """Return the time of one product a group of rows, each group with a matrix of its own.

    t = smax(2 (m n + r x n + wave) (k + depth) / rate, (e_in (m k + x k n) + 2 m n) / memory)
        + x launch

    Assumes: groups of equal size; a group's start, end and half-filled tile are worth r rows.
    """
    outputs = rows * columns + idle_rows * groups * columns
    work = 2.0 * (outputs + unit.wave) * (inner + unit.depth)
    moved = read * (rows * inner + groups * inner * columns) + 2.0 * rows * columns
    return smooth_larger(work / unit.rate, moved / unit.memory) + groups * unit.launch


def grouped_weight_gradient(
    rows: Number, columns: Number, inner: Number, groups: Number, unit: Unit, read: Number
) -> Number:
    """Return the time of the weight gradients of a grouped product.

    t = smax(2 (n k x + wave) (m / x + depth) / rate, (e_in m (n + k) + 8 n k x) / memory)
        + x launch

    Assumes: groups of equal size; sums in 32 bits are read and written.
    """
    matrices = columns * inner * groups
    work = 2.0 * (matrices + unit.wave) * (rows / groups + unit.depth)
    moved = read * rows * (columns + inner) + 8.0 * matrices
    return smooth_larger(work / unit.rate, moved / unit.memory) + groups * unit.launch
