"""A pipeline by stage: the work, idle time and memory of each."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.units import percent, seconds, size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual

TIMES = {"forward": "forward", "backward": "backward", "send": "send", "sync": "sums\nleft"}


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield which stage idles most, which needs most, and all of them."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(stage_sentence(data))
    yield from quiet(stage_table(data))


def stage_table(data: xr.Dataset) -> PlainTable:
    """Return one row per stage: its visits, its shares of the step, its memory."""
    table = PlainTable("one visit, then the step")
    optional = {"layers": 4, "send": 3, "sums\nleft": 2, "busy\n%": 1}
    for head in ("stage", "layers", *TIMES.values(), "done", "busy\n%", "idle\n%", "memory"):
        table.add_numbers(head, optional=optional.get(head, 0))
    for i in range(data.sizes["stage"]):
        row = data.isel(stage=i)
        times = [seconds(float(row[name])) for name in (*TIMES, "done")]
        shares = [f"{100.0 * float(row[name]):.1f}" for name in ("busy_share", "idle_share")]
        table.add_row(
            str(i), f"{float(row.layers):g}", *times, *shares, size(float(row.memory), "B")
        )
    return table


def stage_sentence(data: xr.Dataset) -> str:
    """Return which stage idles most, which needs the most memory, and by how much."""
    idle, memory = data.idle_share.values, data.memory.values
    most, least = int(np.argmax(idle)), int(np.argmin(idle))
    full = int(np.argmax(memory))
    said = (
        f"{seconds(float(data.step_time))} a step; stage {most} idles most, "
        f"{percent(idle[most], 1)} of it"
    )
    said += f", stage {least} least, {percent(idle[least], 1)}"
    if not memory.any():
        return f"{said}."
    limit = float(data.memory_limit)
    fit = "" if memory[full] <= limit else ", and does not fit"
    held = f"{size(float(memory[full]), 'B')} of {size(limit, 'B')}"
    return f"{said}; stage {full} holds most, {held}{fit}."
