"""The tabs that answer at once: the best plans, and where their time goes."""

from typing import NamedTuple

import panel as pn

from jaxroof.app.answers import plans, step_time
from jaxroof.app.panes.figures import Bars, framed, part_colours
from jaxroof.app.panes.text import legend, paragraph, table, text
from jaxroof.app.panes.view import Shown, View
from jaxroof.units import percent


def plans_view() -> View:
    """Return the tab of the best plans: the table of a search."""
    pane = text()

    def compute(shown: Shown) -> tuple[plans.Table, str]:
        return plans.table(shown.data), plans.glossary_of(shown.data)

    def show(_: Shown, found: tuple[plans.Table, str]) -> None:
        (heads, rows), words = found
        pane.object = table(heads, rows, CAPTION, best=True) + paragraph(words, "note")

    return View(pane, compute, show)


CAPTION = "The best plans that fit, the fastest first"


class Times(NamedTuple):
    """The parts of the step of every plan, their intervals, and the parts of a layer."""

    parts: list[step_time.Part]
    colours: dict[str, str]
    bounds: list[tuple[str, float, float]]
    layer: list[tuple[str, float]]


def time_view() -> View:
    """Return the tab of where the time goes: stacked bars, and the parts of one layer."""
    bars, said, below = Bars("step time [s]"), text(), text()
    body = pn.Column(said, framed(bars.picture, "step_time"), below, sizing_mode="stretch_width")

    def compute(shown: Shown) -> Times:
        layer = step_time.layer_parts(shown.data)
        colours = part_colours(shown.data, step_time.WHOLE)
        bounds = step_time.bounds(shown.data)
        return Times(step_time.step_parts(shown.data), colours, bounds, layer)

    def show(_: Shown, found: Times) -> None:
        parts, colours, bounds, layer = found
        entries = legend(bars.show(parts, colours, bounds))
        words = step_time.largest_words(parts) + (INTERVAL if bounds else "")
        said.object = paragraph(words) + entries
        best = [part for part in parts if part.bar == parts[0].bar]
        rows = [(p.part, f"{p.end - p.start:.4g} s", percent(p.share, 1)) for p in best]
        content = table(PART_HEADS, rows, "The parts of the best plan's step", left=1)
        if layer:
            shares = [(name, percent(share, 1)) for name, share in layer]
            content += table(LAYER_HEADS, shares, "The parts of one of its layers", left=1)
        below.object = f'<div style="max-width:40rem">{content}</div>'

    return View(body, compute, show)


INTERVAL = " Black lines: 80 % of measured runs of this kind lie between their ends."
PART_HEADS = (("part", "What the time is spent on"), ("time", "Seconds"), ("share", "Of the step"))
LAYER_HEADS = (("part of a layer", "Forward and backward"), ("share", "Of the layer's time"))
