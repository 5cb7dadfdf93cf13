"""What a tab is: a body to show, what it needs computed, and how that is shown."""

from collections.abc import Callable
from typing import Any, NamedTuple

import xarray as xr

from jaxroof.app.question import Asked
from jaxroof.app.state import State


class Shown(NamedTuple):
    """What a tab answers: the state, its checked question, and its best plans."""

    state: State
    found: Asked
    data: xr.Dataset


class View(NamedTuple):
    """One tab: its body, an answer computed apart from the page, and how the body shows it.

    ``compute`` takes milliseconds; ``later`` what may take longer, and comes after the rest is
    shown; only then is a body shown that has nothing ``early``.
    """

    body: Any
    compute: Callable[[Shown], Any] = lambda _: None
    show: Callable[[Shown, Any], None] = lambda *_: None
    later: Callable[[Shown], Any] | None = None
    show_later: Callable[[Shown, Any], None] = lambda *_: None
    early: bool = True
