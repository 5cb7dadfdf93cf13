"""Boxes that words take on a picture, so that none is written over another."""

from matplotlib.axes import Axes

from jaxroof.views.plots import style

LETTER, LINE = 0.6, 1.5  # of the size of letters: how wide one is, how high a line of them

Box = tuple[float, float, float, float]  # left, low, right, high, in shares of the axes


def extent(axes: Axes, words: str, size: float) -> tuple[float, float]:
    """Return about how wide and high words are, in shares of the axes."""
    lines = words.split("\n")
    return shares(axes, LETTER * size * max(map(len, lines)), LINE * size * len(lines))


def shares(axes: Axes, across: float, up: float) -> tuple[float, float]:
    """Return a distance in points in shares of the axes."""
    pixels = style.DOTS / 72
    return across * pixels / axes.bbox.width, up * pixels / axes.bbox.height


def touch(one: Box, other: Box) -> bool:
    """Return whether two boxes overlap.

    >>> touch((0.0, 0.0, 0.5, 0.5), (0.4, 0.4, 1.0, 1.0))
    True
    >>> touch((0.0, 0.0, 0.5, 0.5), (0.0, 0.6, 1.0, 1.0))
    False
    """
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
