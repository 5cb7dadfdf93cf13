"""Every legal plan of a study: the objective against what it needs, and which plans are best."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxroof.analyses.result_metadata import label_of, need_of, objective_of, rises, unit_of
from jaxroof.errors import refusal
from jaxroof.views.plots import labels, style
from jaxroof.views.plots import select as choose
from jaxroof.views.text.every_plan import ALONG, capacities, fitting, plan_said

PICTURE = "every_plan"
FAR = 4.0  # times the largest need: a limit beyond it is not drawn
NAMED = 3  # plans that are written beside their dots


@style.drawn
def every_plan(data: xr.Dataset) -> Figure:
    """Return a dot a legal plan: its objective against what it needs; hollow where it does not fit.

    Where plans need nothing they stand in the order of the objective. The best are named.
    Raises: InputError where the data are not the plans of a study, or none of them is legal.
    """
    aim, need = objective_of(data), need_of(data)
    choose.check_has(data, PICTURE, (aim, "legal", "feasible", *([need] if need else [])), (ALONG,))
    legal = data.legal.values.astype(bool) & np.isfinite(data[aim].values)
    if not legal.any():
        raise refusal(PICTURE, "the data have no legal plan")
    value = data[aim].values
    rank = np.empty(len(value))
    rank[np.argsort(-value if rises(data, aim) else value, kind="stable")] = np.arange(len(value))
    across, words = rank + 1.0, "plans, the best first"
    limit = capacities(data) if need else None
    if need:
        shown = data[need].values[legal] if limit is None else limit
        scale, unit = style.human(shown, unit_of(data, need))
        across = data[need].values / scale
        words = style.with_unit(label_of(data, need), unit)
    made = style.figure(choose.title(data, "Every legal plan"), choose.finding(data))
    axes = made.subplots()
    fits = data.feasible.values.astype(bool)
    for mask, fill, label in ((legal & fits, "full", "fits"), (legal & ~fits, "none", "too large")):
        if mask.any():
            look: dict[str, Any] = {"linestyle": "none", "color": style.BLUE, "fillstyle": fill}
            axes.plot(across[mask], value[mask], marker="o", label=label, **look)
    if (
        limit is not None
        and np.ptp(limit) == 0.0
        and limit[0] < FAR * data[need].values[legal].max()
    ):
        axes.axvline(limit[0] / scale, color=style.BLACK, linestyle="--", label="limit")
    for axis, numbers in ((axes.set_xscale, across[legal]), (axes.set_yscale, value[legal])):
        if numbers.min() > 0 and numbers.max() > 10 * numbers.min():
            axis("log")
    unit = unit_of(data, aim).strip("1")
    axes.set(xlabel=words, ylabel=style.with_unit(label_of(data, aim), unit))
    style.grid(axes)
    style.legend(made)
    made.draw_without_rendering()
    taken: list[labels.Box] = []
    for place in fitting(data)[:NAMED]:
        at, offsets = (
            (float(across[place]), float(value[place])),
            ((6.0, -8.0), (6.0, 8.0), (6.0, 24.0)),
        )
        labels.place(axes, taken, plan_said(data, int(place)), [at], offsets)
    return made
