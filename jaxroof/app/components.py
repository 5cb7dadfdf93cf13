"""The two components of the page with a side in the browser: the form, and the strip of tabs."""

import pathlib
from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

STATIC = pathlib.Path(__file__).parent / "static"


def static(name: str) -> str:
    """Return a text that goes with the page."""
    return (STATIC / name).read_text(encoding="utf-8")


class Form(JSComponent):
    """Controls in groups; ``told`` gets the name of a control and its new value."""

    groups = param.List(doc="The controls, in groups.")
    values = param.Dict(default={}, doc="What every control shows.")
    errors = param.Dict(default={}, doc="What is wrong with what a control has.")
    always = param.Boolean(default=False, doc="Whether groups are open on narrow pages too.")
    link = param.String(default="", doc="The question of the page's address.")
    _esm = static("form.js")
    _stylesheets = [static("form.css")]  # noqa: RUF012

    def __init__(self, told: Callable[[str, Any], None], **params: Any) -> None:
        super().__init__(**params)
        self._told = told

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict) and isinstance(data.get("name"), str):
            self._told(data["name"], data.get("value"))


class Tabs(JSComponent):
    """A strip of tabs, of which one is chosen."""

    tabs = param.List(doc="Name and title of every tab.")
    chosen = param.String(doc="The name of the chosen one.")
    _esm = static("tabs.js")
    _stylesheets = [static("tabs.css")]  # noqa: RUF012
