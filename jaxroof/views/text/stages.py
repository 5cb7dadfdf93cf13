"""A pipeline by stage: work, idle time and memory of each; over axes, the fullest of each point."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from jaxroof.units import percent, seconds, size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.tables import thinned, tick

TIMES = {"forward": "forward", "backward": "backward", "send": "send", "sync": "sums\nleft"}
GB = 1e9
ROWS = 40  # most rows of a table


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield which stage idles and needs most, or how many points of a grid fit."""
    fits = "fullest_stage" in data
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(stages_sentence(data) if fits else stage_sentence(data))
    yield from quiet(fullest_table(data) if fits else stage_table(data))


def stage_table(data: xr.Dataset) -> PlainTable:
    """Return one row per stage: its visits, its shares of the step, its memory."""
    rows = [data.isel(stage=i).assign(place=i) for i in range(data.sizes["stage"])]
    soon = {"send": 3, "sync": 2}

    def time(name: str, head: str) -> Shown:
        return Shown(head, lambda row: seconds(float(row[name])), soon.get(name, 0))

    columns = [
        Shown("stage", lambda row: f"{int(row.place)}"),
        Shown("layers", lambda row: f"{float(row.layers):g}", 4),
        *(time(name, head) for name, head in {**TIMES, "done": "done"}.items()),
        Shown("busy\n%", lambda row: f"{100.0 * float(row.busy_share):.1f}", 1),
        Shown("idle\n%", lambda row: f"{100.0 * float(row.idle_share):.1f}"),
        Shown("memory", lambda row: size(float(row.memory), "B")),
    ]
    return PlainTable("one visit, then the step").add_rows(columns, rows)


def fullest_table(data: xr.Dataset) -> PlainTable:
    """Return one row per point: its axes, what its fullest stage needs, and whether that fits."""
    dims = [str(dim) for dim in data.sizes if dim != "stage"]
    points = list(itertools.product(*(range(data.sizes[dim]) for dim in dims)))
    shown = [dict(zip(dims, points[i], strict=True)) for i in thinned(len(points), ROWS)]
    rows = [(data.isel(at), [tick(data, *one) for one in at.items()]) for at in shown]

    def axis(place: int, dim: str) -> Shown:
        return Shown(dim, lambda one: one[1][place])

    def legal(head: str, cell: Callable[[xr.Dataset], str]) -> Shown:
        return Shown(head, lambda one: cell(one[0]) if bool(one[0].legal) else "-")

    def verdict(row: xr.Dataset) -> str:
        return "not legal" if not bool(row.legal) else "fits" if bool(row.fits) else "does not fit"

    columns = [
        *(axis(*one) for one in enumerate(dims)),
        legal("stage", lambda row: str(int(row.fullest_stage))),
        legal("GB", lambda row: f"{float(row.needed) / GB:.2f}"),
        Shown("of\nGB", lambda one: f"{float(one[0].capacity) / GB:.4g}"),
        Shown("", lambda one: verdict(one[0]), 0, "left"),
    ]
    return PlainTable("what the fullest stage needs").add_rows(columns, rows)


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


def stages_sentence(data: xr.Dataset) -> str:
    """Return how many points fit, and the leanest of those that do not."""
    legal, fits = data.legal.values, data.fits.values
    said = f"{fits.sum():,} of {legal.sum():,} legal plans fit"
    refused = legal.size - int(legal.sum())
    if refused:
        said += f"; {refused:,} more are not legal"
    short = legal & ~fits
    if short.any():
        least = float(np.min(data.missing.values[short]))
        said += f"; the nearest of those that do not lacks {size(least, 'B')}"
    return f"{said}."
