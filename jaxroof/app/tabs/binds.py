"""The tab of what binds the best plan: how its time changes as each number of the machine does."""

from collections.abc import Iterator
from typing import NamedTuple

import panel as pn
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Span

from jaxroof.analyses.result_metadata import resources_of
from jaxroof.app.fields import words_of
from jaxroof.app.figures import BAR, INK, framed, plot
from jaxroof.app.html import legend, paragraph, table, text
from jaxroof.app.question import Asked
from jaxroof.app.tabs.view import Shown, View
from jaxroof.engine.sensitivity.elasticities import elasticities
from jaxroof.units import percent
from jaxroof.views.plots import style
from jaxroof.views.plots.tornado import COLOURS

CHANGE = 0.10  # of a number, in either direction
LEAST = 1e-3  # elasticity below which a number has no bar
MOST = 12  # bars
CALIBRATED = "system.chip."  # constants that multiply a rate, and so repeat its bar
NAMES = {  # resources in everyday words, and their colours
    "compute": ("compute", COLOURS["compute"]),
    "HBM bandwidth": ("HBM bandwidth", COLOURS["hbm"]),
    "fast links": ("NVLink", COLOURS["fast_links"]),
    "slow links": ("network", COLOURS["slow_links"]),
    "latency": ("latency", COLOURS["latency"]),
}
OF_FIELDS = {  # of numbers that no resource names
    "system.fast_": "fast links",
    "system.slow_": "slow links",
    "system.nics": "slow links",
    "system.hbm_": "HBM bandwidth",
}
OTHER = ("other", style.GREY)
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
    """How a time changes, as a share of it, with less and with more of one number."""

    path: str
    words: str
    resource: str
    less: float
    more: float
    elasticity: float

    @property
    def name(self) -> tuple[str, str]:
        """Return what it is a number of, and the colour of that."""
        known = next((of for start, of in OF_FIELDS.items() if self.path.startswith(start)), "")
        return NAMES.get(self.resource) or NAMES.get(known, OTHER)


def binding(found: Asked) -> list[Bar]:
    """Return the change of the best plan's time for 10 % less and more of each number.

    t(x) = t (x / x0)^e with the exact elasticity e on that side, the plan kept; most first.
    """
    data = elasticities(found.estimator, found.inputs, found.recipe, where=found.where)
    known = resources_of(data)
    bars = []
    for path in data.parameter.values.tolist():
        row = data.sel(parameter=path)
        above, below = float(row.elasticity), float(row.elasticity_below)
        if path.startswith(CALIBRATED) or max(abs(above), abs(below)) <= LEAST:
            continue
        less, more = (1.0 - CHANGE) ** below - 1.0, (1.0 + CHANGE) ** above - 1.0
        named = known.of.get(path, "")
        resource = known.limits.get(named, named)
        bars.append(Bar(path, words_of(path), resource, less, more, above))
    return sorted(bars, key=lambda bar: -max(abs(bar.less), abs(bar.more)))[:MOST]


def binding_sentence(bars: list[Bar]) -> str:
    """Return which number binds most, and the next.

    >>> binding_sentence([Bar("a", "compute rate", "compute", 0.08, -0.07, -0.75)])
    'Most binding: compute rate. 10 % more of it makes the step 7.0 % shorter.'
    """
    if not bars:
        return "No number of the machine changes the time of this plan."
    first = bars[0]
    way = "shorter" if first.more < 0.0 else "longer"
    said = f"Most binding: {first.words}. 10 % more of it makes the step "
    said += f"{percent(abs(first.more), 1)} {way}."
    rest = [bar.words for bar in bars[1:3]]
    return f"{said} Next: {' and '.join(rest)}." if rest else said


def binds_view() -> View:
    """Return the tab of what binds the best plan: a tornado, a bar for every number."""
    source = ColumnDataSource(_columns([]))
    made = plot(200, y_range=FactorRange(), x_axis_label="change of the step time [%]")
    drawn = [
        made.hbar(
            y="words", right=end, left=0, color="colour", alpha=alpha, height=0.66, source=source
        )
        for end, alpha in (("less", 0.45), ("more", 1.0))
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
        source.data = _columns(bars)
        entries = legend(dict.fromkeys(bar.name for bar in bars))
        said.object = paragraph(binding_sentence(bars)) + entries + paragraph(NOTE, "note")
        rows = [
            (b.words, b.name[0], f"{100 * b.less:+.2f} %", f"{100 * b.more:+.2f} %") for b in bars
        ]
        below.object = table(HEADS, rows, "The same as a table", left=2)

    def later(shown: Shown) -> Iterator[list[Bar]]:
        yield binding(shown.found)

    return View(body, later=later, show_later=show, early=False)


def _columns(bars: list[Bar]) -> dict[str, list[object]]:
    return {
        "words": [bar.words for bar in bars],
        "less": [100.0 * bar.less for bar in bars],
        "more": [100.0 * bar.more for bar in bars],
        "colour": [bar.name[1] for bar in bars],
    }
