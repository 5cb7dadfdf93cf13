"""The tab of what binds: a tornado, a bar for every number of the machine."""

from collections.abc import Iterator

import panel as pn
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Span

from jaxroof.app.answers import binds
from jaxroof.app.panes.figures import BAR, INK, framed, plot
from jaxroof.app.panes.text import legend, paragraph, table, text
from jaxroof.app.panes.view import Shown, View
from jaxroof.views.plots import style
from jaxroof.views.plots.tornado import COLOURS

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


def binds_view() -> View:
    """Return the tab of what binds the best plan."""
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

    def show(_: Shown, bars: list[binds.Bar]) -> None:
        made.y_range.factors = [bar.words for bar in bars][::-1]
        made.height = 70 + BAR * max(len(bars), 1)
        source.data = _columns(bars)
        entries = dict.fromkeys(_name(bar) for bar in bars)
        said.object = (
            paragraph(binds.binding_sentence(bars)) + legend(entries) + paragraph(NOTE, "note")
        )
        rows = [
            (b.words, _name(b)[0], f"{100 * b.less:+.2f} %", f"{100 * b.more:+.2f} %") for b in bars
        ]
        below.object = table(HEADS, rows, "The same as a table", left=2)

    def later(shown: Shown) -> Iterator[list[binds.Bar]]:
        yield binds.binding(shown.found)

    return View(body, later=later, show_later=show, early=False)


def _name(bar: binds.Bar) -> tuple[str, str]:
    known = next((of for begins, of in OF_FIELDS.items() if bar.path.startswith(begins)), "")
    return NAMES.get(bar.resource) or NAMES.get(known, OTHER)


def _columns(bars: list[binds.Bar]) -> dict[str, list[object]]:
    return {
        "words": [bar.words for bar in bars],
        "less": [100.0 * bar.less for bar in bars],
        "more": [100.0 * bar.more for bar in bars],
        "colour": [_name(bar)[1] for bar in bars],
    }
