"""Words on a picture, each only where its box is free: one rule for maps, marks and staircases."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from jaxroof.views.plots import style

LETTER, LINE = 0.62, 1.5  # of the size of letters: how wide one is, how high a line of them
PIXELS = style.DOTS / 72  # of a point
AROUND = ((9.0, 7.0), (9.0, -9.0), (9.0, 17.0), (9.0, -19.0), (9.0, 29.0))  # points, to the right
ON_COLOURS: dict[str, Any] = {
    "color": "white",
    "path_effects": [withStroke(linewidth=2.5, foreground="#333333")],
}
Box = tuple[float, float, float, float]  # left, low, right, high in pixels


def take(axes: Axes, taken: list[Box], x: float, y: float, points: float = 7.0) -> None:
    """Keep the words of others away from a mark."""
    (across, up), half = axes.transData.transform((x, y)), points * PIXELS
    taken.append((across - half, up - half, across + half, up + half))


def place(
    axes: Axes,
    taken: list[Box],
    words: str,
    points: Iterable[Sequence[float]],
    offsets: Sequence[tuple[float, float]] = ((0.0, 0.0),),
    turns: Sequence[int] = (0,),
    sides: Sequence[float] = (1.0, -1.0),
    inside: Callable[[Box], bool] = lambda box: True,
    **look: Any,
) -> bool:
    """Write words at the first of some points where they lie in the axes and on nothing else.

    Offsets, in points of paper, are of the left end of the words and tried to the left as well;
    without any the words are centred. Return whether there was room. Needs a laid out figure.
    """
    size = look.get("fontsize", style.TEXT)
    rows = words.split("\n")
    long, high = wide(words, size), LINE * len(rows) * size * PIXELS
    frame = axes.bbox
    at = list(points)
    pixels = axes.transData.transform(np.array(at, np.float64)) if at else ()
    for turn in turns:
        across, up = (long, high) if turn == 0 else (high, long)
        for (x, y), (right, top) in zip(at, pixels, strict=True):
            for dx, dy in offsets:
                for side in sides if dx else (0.0,):
                    middle = right + side * (dx * PIXELS + across / 2), top + dy * PIXELS
                    box = (middle[0] - across / 2, middle[1] - up / 2,
                           middle[0] + across / 2, middle[1] + up / 2)  # fmt: skip
                    out = (
                        box[0] < frame.x0
                        or box[2] > frame.x1
                        or box[1] < frame.y0
                        or box[3] > frame.y1
                    )
                    if out or any(touch(box, other) for other in taken) or not inside(box):
                        continue
                    beside = {1.0: "left", -1.0: "right", 0.0: "center"}[side]
                    axes.annotate(
                        words, (x, y), (side * dx, dy), textcoords="offset points", ha=beside,
                        va="center", rotation=turn, **{"zorder": 6, **look},
                    ).set_in_layout(False)  # fmt: skip
                    taken.append(box)
                    return True
    return False


def wide(words: str, size: float = style.TEXT) -> float:
    """Return about how wide words are, in pixels."""
    return LETTER * max(map(len, words.split("\n"))) * size * PIXELS


def touch(one: Box, other: Box) -> bool:
    """Return whether two boxes overlap.

    >>> touch((0.0, 0.0, 0.5, 0.5), (0.4, 0.4, 1.0, 1.0))
    True
    >>> touch((0.0, 0.0, 0.5, 0.5), (0.0, 0.6, 1.0, 1.0))
    False
    """
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
