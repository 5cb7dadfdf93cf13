"""The tabs that answer at once: the best plans, and where the time of each goes."""

import panel as pn
import xarray as xr

from jaxroof.analyses.result_metadata import parts_of, words_of
from jaxroof.app.figures import Bars, Part, framed, part_colours
from jaxroof.app.html import legend, paragraph, shell_table, table, text
from jaxroof.app.plans import BOUNDS, fields_of, names
from jaxroof.app.tabs.view import Shown, View
from jaxroof.units import percent
from jaxroof.views.text.fastest_plans import layer_sentence, plans_table, table_sentence

WHOLE = "step_time"
LEAST = 1e-4  # share of a step below which a part is not drawn
CAPTION = "The best plans that fit, the fastest first"
INTERVAL = " Black lines: 80 % of measured runs of this kind lie between their ends."
PART_HEADS = (("part", "What the time is spent on"), ("time", "Seconds"), ("share", "Of the step"))


def plans_view() -> View:
    """Return the tab of the best plans: the table of a search."""
    pane = text()

    def compute(shown: Shown) -> str:
        words = table_sentence(shown.data, fields_of(shown.data))
        return shell_table(plans_table(shown.data), CAPTION, best=True) + paragraph(words, "note")

    def show(_: Shown, found: str) -> None:
        pane.object = found

    return View(pane, compute, show)


def step_parts(data: xr.Dataset) -> list[Part]:
    """Return the parts of the step of every plan, in the order in which they are stacked [s]."""
    parts = parts_of(data, WHOLE) or [WHOLE]
    cells = [data.variables[name].values.tolist() for name in parts]
    labels, wholes, found = [words_of(data, name) for name in parts], data[WHOLE].values, []
    for place, (bar, whole) in enumerate(zip(bars(data), wholes.tolist(), strict=True)):
        start = 0.0
        for values, label in zip(cells, labels, strict=True):
            if values[place] > LEAST * whole:
                end = start + values[place]
                found.append(Part(bar, label, start, end, values[place] / whole))
            start += max(values[place], 0.0)
    return found


def bars(data: xr.Dataset) -> list[str]:
    """Return what the bar of every plan is called: its place and the plan."""
    return [f"{place}  {plan}" for place, plan in enumerate(names(data), 1)]


def largest_words(parts: list[Part]) -> str:
    """Return the two largest parts of the best plan's step.

    >>> largest_words([Part("1", "compute", 0.0, 0.8, 0.8), Part("1", "bubble", 0.8, 1.0, 0.2)])
    "Of the best plan's step, compute takes 80 %, then bubble 20 %."
    """
    best = sorted((p for p in parts if p.bar == parts[0].bar), key=lambda p: -p.share)
    first, *rest = best
    second = f", then {rest[0].part} {percent(rest[0].share)}" if rest else ""
    return f"Of the best plan's step, {first.part} takes {percent(first.share)}{second}."


def time_view() -> View:
    """Return the tab of where the time goes: stacked bars, and the parts of one layer."""
    drawn, said, below = Bars("step time [s]"), text(), text()
    body = pn.Column(said, framed(drawn.picture, "step_time"), below, sizing_mode="stretch_width")

    def show(shown: Shown, parts: list[Part]) -> None:
        ends = (shown.data[name].values.tolist() for name in BOUNDS)
        bounds = list(zip(bars(shown.data), *ends, strict=True))
        entries = legend(drawn.show(parts, part_colours(shown.data, WHOLE), bounds))
        said.object = paragraph(largest_words(parts) + INTERVAL) + entries
        best = [part for part in parts if part.bar == parts[0].bar]
        rows = [(p.part, f"{p.end - p.start:.4g} s", percent(p.share, 1)) for p in best]
        content = table(PART_HEADS, rows, "The parts of the best plan's step", left=1)
        below.object = f'<div style="max-width:40rem">{content}</div>' + paragraph(
            layer_sentence(shown.data)
        )

    return View(body, lambda shown: step_parts(shown.data), show)
