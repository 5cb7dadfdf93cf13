"""The tabs that answer at once: the best plans, and where the time of each goes."""

import panel as pn

from jaxroof.app.figures import Bars, Part, framed, step_parts
from jaxroof.app.html import legend, paragraph, shell_table, table, text
from jaxroof.app.plans import names
from jaxroof.app.tabs import Shown, View
from jaxroof.units import percent
from jaxroof.views.text.compare import MFU
from jaxroof.views.text.fastest_plans import layer_sentence, plans_table
from jaxroof.views.text.interval import HIGH, LOW
from jaxroof.views.text.plan import glossary, shown_fields

CAPTION = "The best plans that fit, the fastest first"
INTERVAL = " Black lines: 80 % of measured runs of this kind lie between their ends."
PART_HEADS = (("part", "What the time is spent on"), ("time", "Seconds"), ("share", "Of the step"))


def plans_view() -> View:
    """Return the tab of the best plans: the table of a search."""
    pane = text()

    def compute(shown: Shown) -> str:
        words = glossary(shown.data, shown_fields(shown.data), MFU)
        rows = shell_table(plans_table(shown.data), CAPTION, best=True)
        return rows + paragraph(words, "note")

    def show(_: Shown, found: str) -> None:
        pane.object = found

    return View(pane, show, compute)


def largest_words(parts: list[Part]) -> str:
    """Return the two largest of the parts of a step.

    >>> largest_words([Part("1", "compute", 0.0, 0.8, 0.8), Part("1", "bubble", 0.8, 1.0, 0.2)])
    "Of the best plan's step, compute takes 80 %, then bubble 20 %."
    """
    first, *rest = sorted(parts, key=lambda part: -part.share)
    second = f", then {rest[0].part} {percent(rest[0].share)}" if rest else ""
    return f"Of the best plan's step, {first.part} takes {percent(first.share)}{second}."


def time_view() -> View:
    """Return the tab of where the time goes: stacked bars, and the parts of one layer."""
    drawn, said, below = Bars(), text(), text()
    body = pn.Column(said, framed(drawn.picture, "step_time"), below, sizing_mode="stretch_width")

    def show(shown: Shown, _: None) -> None:
        data = shown.data
        bars = [f"{place}  {plan}" for place, plan in enumerate(names(data), 1)]
        ends = (data[name].values.tolist() for name in (LOW, HIGH))
        entries = legend(drawn.show(data, bars, zip(bars, *ends, strict=True)))
        best = step_parts(data.isel(plan=[0]), bars[:1])
        said.object = paragraph(largest_words(best) + INTERVAL) + entries
        rows = [(p.part, f"{p.end - p.start:.4g} s", percent(p.share, 1)) for p in best]
        content = table(PART_HEADS, rows, "The parts of the best plan's step", left=[0])
        words = paragraph(layer_sentence(data))
        below.object = f'<div style="max-width:40rem">{content}</div>{words}'

    return View(body, show, lambda _: None)
