"""Pipeline schedules side by side, and the stages of one: what a step is spent on, and memory."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jaxroof.errors import refusal
from jaxroof.units import percent, seconds, size
from jaxroof.views.plots import bars, style
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.colours import MEMORY, TIMES
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.schedule import rows

PARTS = {  # of a step, in the order they are stacked: words, colour
    "busy_time": ("computing, and sends that nothing hides", style.BLUE),
    "bubble_time": ("idle", style.PALE),
    "data_time": ("data-parallel messages", style.GREEN),
    "update_time": ("update", style.BROWN),  # of an estimator that has it
}


@style.drawn
def schedules(data: xr.Dataset) -> Figure:
    """Return the step time of every schedule by what it is spent on, and the memory that it needs.

    A schedule that does not fit is drawn paler; its memory lies beyond the line of the capacity.
    Raises: InputError for data that are not those of schedules, or where none allows the plan.
    """
    needed = ("step_time", "memory", *list(PARTS)[:3])
    choose.check_has(data, "schedules", needed, ("schedule", "device"))
    found = sorted(rows(data), key=lambda row: not bool(row[1].memory_fits))
    if not found:
        raise refusal("schedules", "no schedule allows the plan")
    title = choose.title(data, "Pipeline schedules")
    made = style.figure(title, choose.finding(data), 2.4 + 0.5 * len(found))
    left, right = made.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    scale, unit = style.human(data.step_time.values, "s")
    parts = {
        words: (np.array([float(row[part].mean()) / scale for _, row in found]), colour)
        for part, (words, colour) in PARTS.items()
        if part in data
    }
    said = [seconds(float(row.step_time)) for _, row in found]
    fits = [bool(row.memory_fits) for _, row in found]
    bars.stacked(left, parts, said, fits=fits)
    left.set_xlabel(style.with_unit("step time", unit))
    least = np.array([float(row.memory.min()) for _, row in found])
    most = np.array([float(row.memory.max()) for _, row in found])
    needs = {
        "leanest device": (least, style.GREY),
        "fullest device": (most - least, style.PALE),
    }
    bars.memory(right, needs, float(data.memory_limit), margin=margin_of(data), there="usable")
    bars.names(left, [name for name, _ in found])
    extra: list[Patch] = []
    if not all(fits):
        extra = [Patch(color=style.GREY, alpha=bars.PALE, label="pale: does not fit")]
    style.legend(made, extra=extra)
    return made


@style.drawn
def stages(data: xr.Dataset) -> Figure:
    """Return a bar a stage of the seconds that it works and idles, and one of its memory.

    Raises: InputError for data that are not the stages of one plan.
    """
    needed = ("busy_share", "idle_share", "step_time", "memory", "memory_limit")
    choose.check_has(data, "stages", needed, ("stage",))
    choose.check_dimensions(data, "stages", ("stage",))
    idle, held, limit = data.idle_share.values, data.memory.values, float(data.memory_limit)
    most, full, step = int(idle.argmax()), int(held.argmax()), float(data.step_time)
    fits = "fits" if held[full] <= limit else "does not fit"
    found = (
        f"A step takes {seconds(step)}; stage {data.stage.values[most]} idles "
        f"the most, {percent(idle[most])} of it; stage {data.stage.values[full]} is the fullest, "
        f"{size(held[full], 'B')} of {size(limit, 'B')}: it {fits}"
    )
    title = choose.title(data, "The stages of a pipeline")
    made = style.figure(title, found, 2.1 + 0.45 * data.sizes["stage"])
    left, right = made.subplots(1, 2, sharey=True)
    scale, unit = style.human(np.array([step]), "s")
    parts = {
        "works and sends": (data.busy_share.values * step / scale, TIMES["compute"]),
        "idles": (idle * step / scale, TIMES["idle"]),
    }
    bars.stacked(left, parts, inside=True, room=1.02)
    left.set_xlabel(style.with_unit("one step", unit))
    weights = data.weights.values if "weights" in data else np.zeros(len(held))
    needs = {
        "weights": (weights, MEMORY["weights"]),
        "gradients, states, activations": (held - weights, MEMORY["activations"]),
    }
    bars.memory(right, needs, limit)
    bars.names(left, [f"stage {number}" for number in data.stage.values])
    style.legend(made, columns=4)
    return made
