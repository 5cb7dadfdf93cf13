"""The tab of what binds the best plan: how its time changes as each number of the machine does."""

from collections.abc import Iterator
from typing import NamedTuple

import panel as pn
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Span

from jaxroof.analyses.result_metadata import resources_of
from jaxroof.app.figures import BAR, INK, framed, plot
from jaxroof.app.html import legend, paragraph, table, text
from jaxroof.app.question import words_of
from jaxroof.app.tabs import Shown, View
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.elasticities import elasticities
from jaxroof.units import percent
from jaxroof.views.plots.tornado import OTHER, colours_of

CHANGE = 0.10  # of a number, in either direction
LEAST = 1e-3  # elasticity below which a number has no bar
MOST = 12  # bars
CALIBRATED = "system.chip."  # constants that multiply a rate, and so repeat its bar
NOTE = (
    "Full colour: 10 % more of it; pale: 10 % less. Shorter to the left. The plan is kept here; "
    "a slider that is moved chooses it anew, so that the step changes by a little less."
)
HEADS = (
    ("number", "A number of the machine"),
    ("of", "What it is a number of"),
    ("10 % less", "Change of the step time"),
    ("10 % more", "Change of the step time"),
)


class Bar(NamedTuple):
    """How a time changes with less and with more of a number [%], which is of a resource."""

    path: str
    words: str
    resource: str
    colour: str
    less: float
    more: float
    elasticity: float


def binding(found: SearchProblem) -> list[Bar]:
    """Return the change of the best plan's time for 10 % less and more of each number.

    t(x) = t (x / x0)^e with the exact elasticity e on that side, the plan kept; most first.
    """
    data = elasticities(found.estimator, found.inputs, found.recipe, where=found.where)
    known, bars = resources_of(data), []
    colours = colours_of(known)
    slopes = zip(
        *(data[n].values.tolist() for n in ("elasticity", "elasticity_below")), strict=True
    )
    for path, (above, below) in zip(data.parameter.values.tolist(), slopes, strict=True):
        if not path.startswith(CALIBRATED) and max(abs(above), abs(below)) > LEAST:
            name = known.of.get(path, "")
            resource = known.limits.get(name, name or "other")
            less, more = (
                100.0 * ((1.0 + c) ** e - 1.0) for c, e in ((-CHANGE, below), (CHANGE, above))
            )
            colour = colours.get(name, OTHER)
            bars.append(Bar(path, words_of(path), resource, colour, less, more, above))
    return sorted(bars, key=lambda bar: -max(abs(bar.less), abs(bar.more)))[:MOST]


def binding_sentence(bars: list[Bar]) -> str:
    """Return which number binds most, and the next.

    >>> binding_sentence([Bar("a", "compute rate", "compute", "", 8.0, -7.0, -0.75)])
    'Most binding: compute rate. 10 % more of it makes the step 7.0 % shorter.'
    """
    if not bars:
        return "No number of the machine changes the time of this plan."
    first, *rest = bars
    way, by = "shorter" if first.more < 0.0 else "longer", percent(abs(first.more) / 100.0, 1)
    next_ones = f" Next: {' and '.join(bar.words for bar in rest[:2])}." if rest else ""
    return f"Most binding: {first.words}. 10 % more of it makes the step {by} {way}.{next_ones}"


def binds_view() -> View:
    """Return the tab of what binds the best plan: a tornado, a bar for every number."""
    source = ColumnDataSource({name: [] for name in Bar._fields})
    made = plot(200, y_range=FactorRange(), x_axis_label="change of the step time [%]")
    look = {"y": "words", "left": 0, "color": "colour", "height": 0.66, "source": source}
    drawn = [
        made.hbar(right=end, alpha=pale, **look) for end, pale in (("less", 0.45), ("more", 1))
    ]
    tips = [("", "@words"), ("10 % less", "@less{+0.00} %"), ("10 % more", "@more{+0.00} %")]
    made.add_tools(HoverTool(renderers=drawn, tooltips=tips))
    made.add_layout(Span(location=0, dimension="height", line_color=INK))
    made.ygrid.grid_line_color = None
    said, below = text(), text()
    body = pn.Column(said, framed(made, "what_binds"), below, sizing_mode="stretch_width")

    def show(_: Shown, bars: list[Bar]) -> None:
        made.y_range.factors = [bar.words for bar in bars][::-1]
        made.height = 70 + BAR * max(len(bars), 1)
        source.data = {name: [getattr(bar, name) for bar in bars] for name in Bar._fields}
        entries = legend(dict.fromkeys((bar.resource, bar.colour) for bar in bars))
        said.object = paragraph(binding_sentence(bars)) + entries + paragraph(NOTE, "note")
        rows = [(b.words, b.resource, f"{b.less:+.2f} %", f"{b.more:+.2f} %") for b in bars]
        below.object = table(HEADS, rows, "The same as a table", left=range(2))

    def later(shown: Shown) -> Iterator[list[Bar]]:
        yield binding(shown.found)

    return View(body, show, later=later)
