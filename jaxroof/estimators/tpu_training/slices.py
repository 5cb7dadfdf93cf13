"""Slices of a torus: the shapes that exist, and the links that a logical axis owns.

Source: docs/models/networks.md, section 6.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxroof.catalog.tpu import TpuChip
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.formulas.tori import wrapped
from jaxroof.records import Number

AXES = ("none", "x", "y", "xy", "z", "xz", "yz", "xyz")  # the bits of a place: x, y, z
FLAT = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
SMALL = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
_SIDES = range(4, 28, 4)
SHAPES: tuple[tuple[int, ...], ...] = (  # of slices in chips, sides ascending; the plan counts them
    *FLAT,
    *SMALL,
    *((x, y, z) for x in _SIDES for y in _SIDES for z in _SIDES if x <= y <= z),
)


def shape_word(shape: Sequence[int]) -> str:
    """Return a shape as people type it.

    >>> shape_word((4, 4, 8))
    '4x4x8'
    """
    return "x".join(map(str, shape))


def chosen(values: Sequence[float], place: Any) -> Number:
    """Return the value at a place, a whole number from 0.

    >>> float(chosen([1.0, 3.0], 1.0))
    3.0
    """
    found: Number = values[0]
    for number, value in enumerate(values[1:], 1):
        if value != values[0]:
            found = where(place == number, value, found)
    return found


class Sides(NamedTuple):
    """The sides of a slice in chips; the third is 1 where it is flat."""

    x: Number
    y: Number
    z: Number
    axes: Number


def sides(place: Any) -> Sides:
    """Return the sides of the shape at a place of ``SHAPES``, and how many axes it has."""
    long = [(*shape, 1)[:3] for shape in SHAPES]
    x, y, z = (chosen([float(shape[axis]) for shape in long], place) for axis in range(3))
    return Sides(x, y, z, where(place < len(FLAT), 2.0, 3.0))


def exists(chip: Any, axes: Number, shape: Sides) -> Any:
    """Return whether a generation has slices of a shape; ``axes`` are those of its torus."""
    long = (shape.x <= chip.longest_x) & (shape.y <= chip.longest_y) & (shape.z <= chip.longest_z)
    return long & (shape.axes == axes)


def taken(axes: Number) -> tuple[Any, Any, Any]:
    """Return whether a logical axis takes each of the physical ones, by its place in ``AXES``."""
    return axes % 2 > 0.5, axes % 4 > 1.5, axes > 3.5


class Ways(NamedTuple):
    """Links one way that each logical axis owns in all."""

    fsdp: Number
    tensor: Number
    context: Number
    data: Number


def links(chip: TpuChip, shape: Sides) -> tuple[Number, Number, Number]:
    """Return the links one way of each axis of a slice: two where it wraps, none of length 1."""
    joined = wrapped(shape[:3], chip.wrap)
    x, y, z = (
        where(side > 1.5, 1.0 + wraps, 0.0) for side, wraps in zip(shape, joined, strict=False)
    )
    return x, y, z


def ways(chip: TpuChip, shape: Sides, degrees: Sequence[Any], axes: Sequence[Any]) -> Ways:
    """Return the links of every logical axis; FSDP has those that the others leave, one at least.

    A logical axis of whole physical ones has their links, a part of one has one.

    Arguments: degrees and places in ``AXES`` of tensor, context and data.
    """
    each = links(chip, shape)

    def own(place: Number) -> Number:
        mine = sum(where(here, one, 0.0) for here, one in zip(taken(place), each, strict=True))
        return where(place > 0.5, mine, 1.0)

    others = [own(place) for place in axes]
    used = sum(where(g > 1.5, one, 0.0) for g, one in zip(degrees, others, strict=True))
    return Ways(larger(sum(each) - used, 1.0), *others)
