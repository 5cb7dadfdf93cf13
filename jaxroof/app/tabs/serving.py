"""The tab of servers: which plan serves the model within limits, and its frontier beside others."""

import itertools
import json
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import ColumnDataSource, HoverTool, Range1d, Span

from jaxroof.analyses.frontier import frontier
from jaxroof.analyses.serve import SPLITS, found_some
from jaxroof.app.figures import INK, columns, framed, plain_number, plot
from jaxroof.app.html import legend, paragraph, said_in, text
from jaxroof.app.served import best_servers, command, given, machine_settings, python, served
from jaxroof.app.state import State
from jaxroof.app.tabs import Shown, View
from jaxroof.app.tabs.share import OWN, copied, fill
from jaxroof.errors import InputError
from jaxroof.views.answers import answer
from jaxroof.views.plots import style
from jaxroof.views.plots.frontier import band_of, measured_of
from jaxroof.views.text.frontier import CASE, Frontier, frontiers, middle_speed
from jaxroof.views.text.said import Detail, Said
from jaxroof.views.text.serve import plan_words

BESIDE = ("h100-nvs8", "h200-141-sxm", "b200-180-sxm", "mi300x")  # until there are enough
FRONTIERS = 4
STEP, EDGES, RUN = ("x", "y", "name", "plan"), ("x", "low", "high"), ("x", "y", "colour")
ROOM = 1.05  # of an axis
POINTS = 200  # of a band
TEXTS = (("As a command", "command", command), ("As Python", "Python", python))
PLANS, SPEEDS = "The best plans", "The best rate at each speed that users see"
ABOVE = (
    "More to the right: each user sees more tokens a second; higher: a GPU gives more. "
    "In the band lie 80 % of measured servers; circles: measured ones; dotted: the TPOT asked for."
)
OTHERS = "The other systems have the catalogue's numbers."
TIPS = [("", "@name: @plan"), ("", "@y{0,0} tokens/s a GPU, @x{0} a user")]


def frontiers_beside(state: State) -> xr.Dataset:
    """Return the frontier of the system of a state, and those of others as the catalogue has them.

    Of both ways of serving, that of one server for both.
    """
    found, without = [], {}
    split = SPLITS[state.split == SPLITS[1]]
    for name in [*dict.fromkeys((state.system_words, state.other, *BESIDE))][:FRONTIERS]:
        own = name == state.system_words
        try:
            asked = given(state) if own else {**served(state), "system": name}
            asked |= {key: [asked[key]] for key in ("system", "software") if key in asked}
            changed = machine_settings(state) if own else {}
            one = frontier(**{**asked, "split": split}, settings=changed)
        except InputError as error:
            without[name] = str(error).rstrip(".")
            continue
        cases = np.full(one.sizes["step_number"], name)
        found.append(one.assign_coords({CASE: ("step_number", cases)}))
    if not found:
        raise InputError("; ".join(f"{name}: {why}" for name, why in without.items()))
    data = xr.concat(found, "step_number", combine_attrs="override", fill_value=0)
    every = [
        {**json.loads(one.attrs["cases"])[0], "name": str(one[CASE].values[0])} for one in found
    ]
    told = {"cases": json.dumps(every), "without": json.dumps(without)}
    return data.assign_attrs(told, model=state.model_words, system="")


def pieces(data: xr.Dataset) -> tuple[str, list[Said]]:
    """Return the first sentence of an answer, and what is said after it, without counts."""
    first, *rest = (
        one for one in answer(data) if one.piece and not one.is_title and one.at <= Detail.USUAL
    )
    return str(first.piece), rest


def headline(data: xr.Dataset) -> tuple[str, str]:
    """Return the best plan, or the better way, with latencies below; and the same in a few words.

    >>> headline(best_servers(State()))[1].startswith("Best of the")
    True
    """
    what, latencies, rest = pieces(data)[0].partition(", TPOT ")
    what = what.removesuffix(".")
    more = paragraph(f"TPOT {rest}" if latencies else "")
    return f'<div class="headline"><h2>{escape(what)}.</h2>{more}</div>', what


# ---- The tab ------------------------------------------------------------------------------------


def serving_view() -> View:
    """Return the tab of servers: plans, what binds, the frontier beside others, texts to share."""
    made, draw = _frontiers()
    said, above, below, frame = text(), text(), text(), framed(made, "frontier")
    texts = [copied(title, name) for title, name, _ in TEXTS]
    note = text()
    frame.visible = False  # until there is anything

    def show(found: Shown, data: xr.Dataset) -> None:
        if data.attrs["question"] == "serve":
            said.object = said_in(pieces(data)[1], PLANS, best=found_some(data))
            fill(texts, TEXTS, found.state)
            files = found.state.own_model or found.state.own_system
            note.object = paragraph(OWN if files else "", "note")
            return
        entries = zip((one.name for one in frontiers(data)), style.COLOURS, strict=False)
        above.object = f"<h3>Beside other systems</h3>{paragraph(ABOVE, 'note')}{legend(entries)}"
        draw(data)
        frame.visible = True
        below.object = said_in(answer(data), SPEEDS) + paragraph(OTHERS, "note")

    def later(found: Shown) -> Iterator[xr.Dataset]:
        yield frontiers_beside(found.state)

    body = pn.Column(said, above, frame, below, *texts, note, sizing_mode="stretch_width")
    return View(body, show, lambda found: best_servers(found.state), later, head=headline)


def _frontiers() -> tuple[Any, Any]:
    """Return the figure of the frontiers, the first with its band, and the function that draws."""
    made = plot(400, x_axis_label="tokens/s that a user sees (1 / TPOT)", x_range=Range1d(0, 1),
                y_axis_label="tokens/s a GPU gives", y_range=Range1d(0, 1))  # fmt: skip
    sources = [ColumnDataSource(columns(STEP, [])) for _ in range(FRONTIERS)]
    band, here = ColumnDataSource(columns(EDGES, [])), ColumnDataSource(columns(STEP, []))
    runs = ColumnDataSource(columns(RUN, []))
    aim = Span(location=0, dimension="height", line_color=INK, line_dash="dotted")
    made.varea("x", "low", "high", source=band, color=style.COLOURS[0], alpha=0.13)
    dots = []
    for source, colour in zip(sources, style.COLOURS, strict=False):
        made.step("x", "y", source=source, color=colour, line_width=2, mode="before")
        dots.append(made.scatter("x", "y", source=source, color=colour, size=5))
    made.scatter("x", "y", source=runs, line_color="colour", fill_alpha=0, size=6, line_width=1.5)
    made.scatter("x", "y", source=here, marker="star", color=INK, size=16)
    made.add_layout(aim)
    made.add_tools(HoverTool(renderers=dots, tooltips=TIPS))
    made.yaxis.formatter = plain_number()

    def show(data: xr.Dataset) -> None:
        every = frontiers(data)
        speed = aim.location = middle_speed(data, every)
        for source, one in itertools.zip_longest(sources, every):
            source.data = columns(STEP, _steps(one) if one else [])
        best = max(every, key=lambda one: one.rate(speed))
        here.data = columns(STEP, [(speed, best.rate(speed), best.name, "")])
        made.x_range.end = ROOM * float(data.interactivity.max())
        made.y_range.end = ROOM * float(data.output_rate.max())
        each = zip(every, style.COLOURS, strict=False)
        points = [(x, y, c) for one, c in each for x, y in measured_of(data, one).tolist()]
        runs.data = columns(RUN, points)
        grid = np.linspace(1.0, made.x_range.end, POINTS)
        band.data = columns(EDGES, [*zip(grid, *band_of(every[0], grid), strict=True)])

    return made, show


def _steps(one: Frontier) -> list[tuple[float, float, str, str]]:
    """Return the corners of a frontier from the speed 0 on, and the plan of each."""
    steps = one.steps.isel(step_number=slice(None, None, -1))
    x, y = (steps[name].values.tolist() for name in ("interactivity", "output_rate"))
    words = [plan_words(steps.isel(step_number=place)) for place in range(len(x))]
    return [*zip([0.0, *x], [y[0], *y], [one.name] * (len(x) + 1), [words[0], *words], strict=True)]
