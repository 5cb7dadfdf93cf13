"""The tab of the network: the bus bandwidth of collectives over all accelerators, by size."""

from typing import Any, NamedTuple

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, HoverTool

from jaxroof.analyses.collective import collective
from jaxroof.analyses.collective_machine import fabrics_like
from jaxroof.app.figures import NUMBER, framed, plot
from jaxroof.app.html import alert, legend, paragraph, table, text
from jaxroof.app.state import State
from jaxroof.app.tabs import Shown, View
from jaxroof.errors import InputError
from jaxroof.units import seconds
from jaxroof.views.plots import style
from jaxroof.views.text.collective import bytes_of

OPS = {"all_reduce": style.BLUE, "all_gather": style.GREEN, "all_to_all": style.VERMILION}
WORDS = {"all_gather": "all_gather, reduce_scatter"}  # of operations that stand for others
SIZES = "1KiB:8GiB:2"
TOLD = (2.0**20, 2.0**26, 2.0**30)  # sizes of the table
HEADS = (("op", "The operation"), *((bytes_of(size), "Time, and what runs") for size in TOLD))
TICK = """
const units = ["B", "KiB", "MiB", "GiB"], power = Math.min(3, Math.floor(Math.log2(tick) / 10));
return String(Number((tick / 1024 ** power).toPrecision(3))) + " " + units[power];
"""


class Found(NamedTuple):
    """The fabric that stands for a system, and every operation on it; or why there is none."""

    fabric: str
    every: dict[str, xr.Dataset]
    wrong: str = ""


def collectives(state: State) -> Found:
    """Return the collectives over all accelerators of a state, on its system's fabric."""
    name = next(iter(fabrics_like(state.system)), "")
    if state.own_system is not None or not name:
        said = f"{state.system_words}: no fabric of the catalogue has such nodes"
        return Found("", {}, f"{said}; jaxroof collective takes a file with tiers.")
    changed = {
        path.removeprefix("system."): value
        for path, value in state.changes
        if path.startswith(("system.tiers.", "system.library."))
    }
    try:
        asked: dict[str, Any] = {"gpus": state.gpus, "sizes": SIZES, "settings": changed}
        return Found(name, {op: collective(name, op, **asked) for op in OPS})
    except InputError as error:
        return Found(name, {}, str(error))


def rows(found: Found) -> list[tuple[str, ...]]:
    """Return the time of each operation at a few sizes, and what runs."""
    return [
        (WORDS.get(op, op), *(_cell(data.sel(size=size)) for size in TOLD))
        for op, data in found.every.items()
    ]


def _cell(point: xr.Dataset) -> str:
    if not float(point.time):
        return "-"
    words = f"{point.algorithm.values} {point.protocol.values}, {point.bound.values}"
    return f"{seconds(float(point.time))} ({words})"


def collective_view() -> View:
    """Return the tab of the network: a line an operation, and a table."""
    ends = {"x_axis_type": "log", "y_axis_type": "log"}
    words = {"x_axis_label": "buffer", "y_axis_label": "bus bandwidth [GB/s]"}
    made = plot(360, **ends, **words)
    made.xaxis[0].formatter = CustomJSTickFormatter(code=TICK)
    made.yaxis[0].formatter = CustomJSTickFormatter(code=NUMBER)
    made.xaxis[0].ticker.base = made.xaxis[0].ticker.mantissas[0] = 2
    sources = {op: ColumnDataSource({"x": [], "y": [], "op": [], "size": []}) for op in OPS}
    lines = [
        made.line("x", "y", color=OPS[op], line_width=2.5, source=s) for op, s in sources.items()
    ]
    tips = [("", "@op"), ("size", "@size"), ("GB/s", "@y{0.0}")]
    made.add_tools(HoverTool(renderers=lines, tooltips=tips))
    said, below = text(), text()
    frame = framed(made, "collectives")
    body = pn.Column(said, frame, below, sizing_mode="stretch_width")

    def show(shown: Shown, found: Found) -> None:
        frame.visible = not found.wrong
        if found.wrong:
            said.object, below.object = alert(found.wrong), ""
            return
        for op, data in found.every.items():
            size, rate = data["size"].values, data.busbw.values * 1e-9
            there = np.flatnonzero(rate > 0.0)
            sources[op].data = {
                "x": size[there], "y": rate[there], "op": [WORDS.get(op, op)] * len(there),
                "size": [bytes_of(size[place]) for place in there],
            }  # fmt: skip
        about = f"Collectives over all {shown.state.gpus:,} accelerators on {found.fabric}"
        said.object = paragraph(f"{about}, as a tuned library runs them.") + legend(
            (WORDS.get(op, op), colour) for op, colour in OPS.items()
        )
        below.object = table(HEADS, rows(found), "Time of a collective", left=range(4))

    return View(body, show, quick=lambda shown: collectives(shown.state))
