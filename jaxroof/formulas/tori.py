"""One collective over whole axes of a slice of a torus, whose ends may be joined.

Source: docs/models/networks.md, section 6.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxroof.formulas.arithmetic import larger, where, whole
from jaxroof.formulas.network import others
from jaxroof.records import Number


class Axis(NamedTuple):
    """Devices along one axis of a torus, and whether its ends are joined (1 or 0)."""

    length: Number
    wraps: Number


def wrapped(sides: Sequence[Number], rule: Number) -> list[Number]:
    """Return which axes of a slice wrap: all, of three multiples of 4, or each that has 16.

    Arguments: ``rule`` is the side at which one axis wraps alone (16), or 4, where all do.

    >>> [float(wrap) for wrap in wrapped((8.0, 16.0), 16.0)]
    [0.0, 1.0]
    """
    every = rule == rule  # a slice of whole cubes
    for side in sides:
        every = every & (whole(side, 4.0) * 4.0 == side)
    return [
        where(rule > 4.0, where(side == rule, 1.0, 0.0), where(every, 1.0, 0.0)) for side in sides
    ]


def torus_time(
    op: str, axes: Sequence[Axis], message: Any, link: Number, base: Number, hop: Number
) -> Any:
    """Return the time of a collective over whole axes of a slice; ``link`` is W1, one way in use.

    gather, scatter: base + tau sum of (X / 2 if wrapped else X - 1) + V (1 - 1 / g) / (W1 ways)
    all-reduce: twice what comes after base
    all-to-all: base + tau sum of (X / 4 or X / 3) + max of V X / (8 W1) or V X / (4 W1)
    permute: base + tau + V / W1
    """
    devices: Number = 1.0
    for axis in axes:
        devices = devices * axis.length
    time = base + TORUS[op](axes, devices, message / link, hop)
    return where((devices > 1.0) & (message > 0.0), time, 0.0)


def _torus_gather(axes: Sequence[Axis], devices: Number, sent: Number, hop: Number) -> Number:
    steps: Number = 0.0
    ways: Number = 0.0
    for axis in axes:
        there = where(axis.length > 1.0, 1.0, 0.0)
        steps = steps + where(axis.wraps > 0.0, axis.length / 2.0, axis.length - 1.0) * there
        ways = ways + (1.0 + axis.wraps) * there
    return hop * steps + sent * others(devices) / larger(ways, 1.0)


def _torus_reduce(axes: Sequence[Axis], devices: Number, sent: Number, hop: Number) -> Number:
    return 2.0 * _torus_gather(axes, devices, sent, hop)


def _torus_exchange(axes: Sequence[Axis], devices: Number, sent: Number, hop: Number) -> Number:
    steps: Number = 0.0
    slowest: Number = 0.0
    for axis in axes:
        there = where(axis.length > 1.0, 1.0, 0.0)
        steps = steps + where(axis.wraps > 0.0, axis.length / 4.0, axis.length / 3.0) * there
        share = there * axis.length / where(axis.wraps > 0.0, 8.0, 4.0)
        slowest = larger(slowest, share)
    return hop * steps + sent * slowest


def _torus_permute(axes: Sequence[Axis], devices: Number, sent: Number, hop: Number) -> Number:
    return hop + sent


TORUS: dict[str, Callable[[Sequence[Axis], Number, Number, Number], Number]] = {
    "all_gather": _torus_gather,
    "reduce_scatter": _torus_gather,
    "all_reduce": _torus_reduce,
    "all_to_all": _torus_exchange,
    "permute": _torus_permute,
}
