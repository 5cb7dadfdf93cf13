"""The tab of the whole run: days with their band, dollars and energy, here and on other numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import ColumnDataSource, FactorRange, FixedTicker, HoverTool, Range1d

from jaxroof.analyses.training_plans import fastest_of, plans_on
from jaxroof.app.figures import BAR, INK, columns, framed, plain_number, plot
from jaxroof.app.html import cards, legend, paragraph, shell_table, text
from jaxroof.app.question import asked, operation_of, shown
from jaxroof.app.state import MOST_GPUS, State
from jaxroof.app.tabs import Shown, View
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.units import days, percent
from jaxroof.views.plots import style
from jaxroof.views.plots.budget import bars_of
from jaxroof.views.plots.colours import RED
from jaxroof.views.text import layout
from jaxroof.views.text.budget import run_columns
from jaxroof.views.text.whole_run import energy, money, run_sentence, watts

STEPS = range(-3, 4)  # numbers of GPUs that are compared: powers of two around that of the question
BAND = "Published runs reached 0.53 to 0.99 of the speed that their step predicts."
STOPS = "Red: what no healthy step has. The band of days is wider than all of it."
CAPTION = "The whole run on other numbers of GPUs"


def whole_run(state: State) -> xr.Dataset:
    """Return the best plan of a state with its whole run."""
    return fastest_of(asked(state, run=True), state.gpus).isel(plan=[0])


def sizes_around(found: SearchProblem, gpus: int) -> xr.Dataset:
    """Return the whole run on half, twice and so on as many accelerators, where a plan fits."""
    runs = []
    for size in (gpus * 2.0**k for k in STEPS):
        if size.is_integer() and size <= MOST_GPUS:
            machine = plans_on(found, size)
            if len(machine.fitting):
                row = machine.reports(machine.best(1)[0])
                runs.append(row.assign(gpus=("plan", [int(size)])))
    return xr.concat(runs, "plan", data_vars="all", combine_attrs="override", join="override")


def run_cards(state: State, run: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return what a run takes, each with what it depends on most."""
    one = run.isel(plan=0)
    high = days(float(one.wall_days_high))
    (path, price), *_ = operation_of(state).items()
    known = {name: float(one[name]) for name in ("energy", "peak_site_watts") if name in one}
    paid = shown(price, "USD/s" if path.endswith("rent") else "USD")
    return [
        ("Days", days(float(one.wall_days)), f"up to {high} at the speed of published runs"),
        ("Dollars", money(float(one.cost)), f"{paid} each, {state.paid}"),
        ("Energy", energy(known.get("energy", np.nan)),
         f"at most {watts(known['peak_site_watts'])}" if known else "watts not known"),
        ("Goodput", percent(float(one.goodput), 1), f"{float(one.failures):,.0f} failures"),
    ]  # fmt: skip


def _band(run: xr.Dataset) -> str:
    return " to ".join(days(float(run[f"wall_days_{end}"])) for end in ("low", "high"))


# ---- The tab ------------------------------------------------------------------------------------


def run_view() -> View:
    """Return the tab of the whole run: its waterfall, and dollars and days over accelerators."""
    (waterfall, show_bars), said, above, below = _waterfall(), text(), text(), text()
    over = [_line("days", "wall_days"), _line("cost [million $]", "cost")]
    frames = [framed(made, name) for (made, _), name in zip(over, ("days", "dollars"), strict=True)]
    for frame in frames:
        frame.visible = False  # until there is anything
    parts = [said, framed(waterfall, "whole_run"), above, *frames, below]

    def show(found: Shown, runs: xr.Dataset) -> None:
        if runs.attrs.get("question") == "fastest plans":
            words = paragraph(run_sentence(runs.isel(plan=0)))
            red = any(colour == RED for *_, colour in bars_of(runs.isel(plan=0)))
            note = paragraph(STOPS, "note") if red else ""
            said.object = words + cards(run_cards(found.state, runs)) + note
            show_bars(runs.isel(plan=0))
            return
        above.object = "<h3>More or fewer GPUs</h3>" + legend([("this question", style.VERMILION)])
        for _, draw in over:
            draw(runs, found.state.gpus)
        for frame in frames:
            frame.visible = True
        rows = (runs.isel(plan=place) for place in range(runs.sizes["plan"]))
        every = [*run_columns(runs), layout.Shown("as published runs", _band)]
        told = layout.PlainTable().add_rows(every, rows)
        below.object = shell_table(told, CAPTION) + paragraph(BAND, "note")

    def later(found: Shown) -> Iterator[xr.Dataset]:
        yield whole_run(found.state)
        yield sizes_around(asked(found.state, run=True), found.state.gpus)

    return View(pn.Column(*parts, sizing_mode="stretch_width"), show, later=later)


def _waterfall() -> tuple[Any, Any]:
    """Return the figure of where the days go, and the function that draws it."""
    told = ("words", "left", "right", "colour", "days")
    source = ColumnDataSource(columns(told, []))
    made = plot(200, y_range=FactorRange(), x_range=Range1d(0, 1), x_axis_label="days")
    drawn = made.hbar(y="words", left="left", right="right", color="colour", height=0.66,
                      source=source)  # fmt: skip
    made.text(x="right", y="words", text="days", source=source, x_offset=5, text_color=INK,
              text_font_size="12px", text_baseline="middle")  # fmt: skip
    made.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@words"), ("days", "@days")]))
    made.ygrid.grid_line_color = None

    def show(run: xr.Dataset) -> None:
        bars = bars_of(run)
        made.y_range.factors = [words for words, *_ in bars][::-1]
        made.height = 70 + BAR * len(bars)
        made.x_range.end = 1.15 * bars[-1][2]
        rows = [
            (words, start, end, colour, days(end - start)) for words, start, end, colour in bars
        ]
        source.data = columns(told, rows)

    return made, show


def _line(label: str, name: str) -> tuple[Any, Any]:
    """Return the figure of a result over accelerators, and the function that draws it."""
    told = ("gpus", "value", "low", "high", "words")
    line, here = (ColumnDataSource(columns(told, [])) for _ in range(2))
    made = plot(240, x_axis_label="GPUs", y_axis_label=label, x_axis_type="log",
                x_range=Range1d(1, 2), y_range=Range1d(0, 1))  # fmt: skip
    made.varea(x="gpus", y1="low", y2="high", source=line, color=style.BLUE, alpha=0.15)
    made.line("gpus", "value", source=line, color=style.BLUE, line_width=2)
    dots = made.scatter("gpus", "value", source=line, size=7, color=style.BLUE)
    made.scatter("gpus", "value", source=here, size=13, color=style.VERMILION)
    made.add_tools(HoverTool(renderers=[dots], tooltips=[("GPUs", "@gpus{0,0}"), ("", "@words")]))

    def show(runs: xr.Dataset, gpus: int) -> None:
        scale = 1e6 if name == "cost" else 1.0
        values = runs[name].values / scale
        ends = [
            runs[f"{name}_{end}"].values if name != "cost" else values for end in ("low", "high")
        ]
        words = [money(v * scale) if name == "cost" else f"{days(v)} days" for v in values]
        rows = list(zip(runs.gpus.values.tolist(), values, *ends, words, strict=True))
        line.data = columns(told, rows)
        here.data = columns(told, [row for row in rows if row[0] == gpus])
        made.x_range.start, made.x_range.end = rows[0][0] / 1.2, rows[-1][0] * 1.2
        made.y_range.end = 1.1 * float(np.max(values))
        made.xaxis.ticker = FixedTicker(ticks=[row[0] for row in rows])

    made.xaxis.formatter = made.yaxis.formatter = plain_number()
    return made, show
