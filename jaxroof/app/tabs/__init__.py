"""What a tab is: a body to show, what it needs computed, and how that is shown."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import xarray as xr

from jaxroof.app.state import State
from jaxroof.engine.search.problem import SearchProblem

USUAL, NARROW, WIDEST = 1440, 900, 1560  # pixels of a window; where the form folds; of the page
FORM, GAPS = 400, 30  # pixels of the form beside the answer, and around the answer


def picture_width(window: int) -> float:
    """Return how wide a picture is, in pixels, in a window so wide.

    >>> picture_width(1440), picture_width(400)
    (1040.0, 370.0)
    """
    inside = min(max(window, 200), WIDEST)
    return float(inside - (FORM if inside > NARROW else GAPS))


class Shown(NamedTuple):
    """What a tab answers: the state, its checked question, and its best plans.

    ``wrong`` says what is wrong with the plan of one's own, ``wide`` is the width of a picture in
    pixels.
    """

    state: State
    found: SearchProblem = None  # type: ignore[assignment]  # of a question that is no step's
    data: xr.Dataset = xr.Dataset()
    wrong: str = ""
    wide: float = 0.0


class View(NamedTuple):
    """One tab: its body, answers computed apart from the page, and how the body shows each.

    ``quick`` takes milliseconds; ``later`` yields what takes longer, and texts that say how far it
    is. ``unanswered`` shows what there is of a question without an answer. ``head`` is of a tab
    whose quick answer is not of a training step: its headline, and the same in a few words.
    """

    body: Any
    show: Callable[[Shown, Any], None]
    quick: Callable[[Shown], Any] | None = None
    later: Callable[[Shown], Iterator[Any]] | None = None
    unanswered: Callable[[State], None] | None = None
    head: Callable[[Any], tuple[str, str]] | None = None
