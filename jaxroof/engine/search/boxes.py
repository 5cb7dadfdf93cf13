"""Boxes of machines: each machine axis cut into slices, with the corners that enclose them.

In the coordinates z of the parameters (``convexity.py``) the machines of a slice lie on a line, or
on a curve where several parameters move together. A box is a product of slices, one an axis. Its
machines lie in the convex hull of its corners, and every corner is a machine of the box: the two
ends of a slice on a line, or else all points of the slice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.search.convexity import Coordinate

MACHINES = (16, 4096)  # machines per box: least and most
BOXES = 16  # boxes of a small grid, about
CORNERS = 128  # most corners of a box
POINTS = 8  # most points of a slice that is not on a line
WAYS = 4  # most parameters that move together on a curve
LINE = 1e-13  # relative: points this close to a line are on it


class Slices(NamedTuple):
    """A machine axis cut into slices of equal length, the last one shorter."""

    axis: Axis
    side: int  # points of a slice
    centre: dict[str, np.ndarray]  # path -> a value inside each slice [slice]
    corners: np.ndarray  # index on the axis of each corner of a slice [corner, slice]
    # directions of the derivatives: path -> d x at the centre [slice]
    ways: tuple[dict[str, np.ndarray], ...]
    steps: np.ndarray  # from the centre to each corner, in directions [way, corner, slice]

    def __len__(self) -> int:
        return self.corners.shape[1]

    def places(self) -> np.ndarray:
        """Return the indices of the points of each slice [slice, side], the last one repeated."""
        return _places(len(self.axis), self.side)


def _places(length: int, side: int) -> np.ndarray:
    starts = np.arange(0, length, side)
    return np.minimum(starts[:, None] + np.arange(side), length - 1)


def cut(axes: Sequence[Axis], coordinates: Mapping[str, Coordinate]) -> list[Slices]:
    """Return the axes cut into slices, so that boxes are about equally wide in every direction.

    The axis with the widest slices is halved until a box has few enough machines and corners. The
    width is that of ln x.
    """
    machines = math.prod(map(len, axes))
    most = min(max(machines // BOXES, MACHINES[0]), MACHINES[1])
    cuts = [_slices(axis, len(axis), coordinates) for axis in axes]
    while True:
        size = math.prod(some.side for some in cuts)
        corners = math.prod(len(some.corners) for some in cuts)
        if size <= most and corners <= CORNERS:
            return cuts
        widest = int(np.argmax([_width(some, coordinates) for some in cuts]))
        some = cuts[widest]
        cuts[widest] = _slices(some.axis, -(-some.side // 2), coordinates)


def _width(some: Slices, coordinates: Mapping[str, Coordinate]) -> float:
    """Return the mean width of the slices of an axis; below 0 if they are single points."""
    if some.side == 1:
        return -1.0
    widest = 0.0
    for path in coordinates.keys() & some.axis.columns.keys():
        column = np.abs(some.axis.columns[path][some.places()])
        column = np.maximum(column, 1e-3 * max(float(column.max()), 1e-300))  # a latency of 0
        widest = max(widest, float(np.log(column.max(axis=1) / column.min(axis=1)).mean()))
    return widest


def _slices(axis: Axis, side: int, coordinates: Mapping[str, Coordinate]) -> Slices:
    """Return an axis cut into slices of at most ``side`` points; shorter ones on a curve."""
    places = _places(len(axis), side)
    own = {path: c for path, c in coordinates.items() if path in axis.columns}
    z = {path: c.of(axis.columns[path])[places] for path, c in own.items()}
    if side == 1:
        middle = {path: column[:, 0] for path, column in z.items()}
        return _around(axis, side, own, middle, places.T, (), np.zeros((0, 1, len(places))))
    ends = _ends(z)
    if ends is not None:
        two = {path: np.take_along_axis(column, ends, axis=1).T for path, column in z.items()}
        middle = {path: 0.5 * (first + last) for path, (first, last) in two.items()}
        ways = ({path: 0.5 * (last - first) for path, (first, last) in two.items()},)
        steps = np.broadcast_to(np.array([-1.0, 1.0])[None, :, None], (1, 2, len(places)))
        corners = np.take_along_axis(places, ends, axis=1).T
        return _around(axis, side, own, middle, corners, ways, steps)
    if len(z) > WAYS or side > POINTS:
        return _slices(axis, 1 if len(z) > WAYS else POINTS, coordinates)
    middle = {path: column.mean(axis=1) for path, column in z.items()}
    each = tuple({path: np.ones(len(places))} for path in z)
    steps = np.stack([(column - middle[path][:, None]).T for path, column in z.items()])
    return _around(axis, side, own, middle, places.T, each, steps)


def _around(
    axis: Axis,
    side: int,
    own: Mapping[str, Coordinate],
    middle: Mapping[str, np.ndarray],
    corners: np.ndarray,
    ways: tuple[dict[str, np.ndarray], ...],
    steps: np.ndarray,
) -> Slices:
    """Return slices whose centres and directions are given in coordinates."""
    first = {path: column[:: max(side, 1)] for path, column in axis.columns.items()}
    centre = {**first, **{path: c.back(middle[path]) for path, c in own.items()}}
    moved = tuple({p: own[p].slope(centre[p]) * dz for p, dz in way.items()} for way in ways)
    return Slices(axis, side, centre, corners, moved, steps)


def _ends(z: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the two ends of each slice [slice, 2], or None unless all slices are on lines."""
    tiny = np.finfo(float).tiny
    size = {path: max(float(np.abs(column).max()), tiny) for path, column in z.items()}
    reach = {path: float(np.ptp(column)) / size[path] for path, column in z.items()}
    lead = z[max(reach, key=reach.__getitem__)]
    ends = np.stack([lead.argmin(axis=1), lead.argmax(axis=1)], axis=1)
    low, high = np.take_along_axis(lead, ends, axis=1).T[:, :, None]
    share = (lead - low) / np.where(high > low, high - low, 1.0)
    for path, column in z.items():
        first, last = np.take_along_axis(column, ends, axis=1).T[:, :, None]
        off = np.abs(first + share * (last - first) - column)
        if np.any(off > LINE * size[path]):
            return None
    return ends


def box_columns(cuts: Sequence[Slices], at: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns of machines that are listed by their index on each axis."""
    pairs = zip(cuts, at, strict=True)
    return {path: column[i] for some, i in pairs for path, column in some.axis.columns.items()}
