"""Pictures of predicted step times beside measured ones."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from jaxroof.errors import refusal
from jaxroof.estimators.training.interval import REGIMES, half_width
from jaxroof.validation.steps import regime_scores
from jaxroof.views.plots import style

MARGIN = 1.4  # around the points, as a factor


@style.drawn
def predicted_measured(found: pd.DataFrame) -> Figure:
    """Return predicted against measured step times, a colour a regime, and the errors beside them.

    Lines are the 80 % interval of the narrowest regime; the legend has the median error and what
    the intervals cover.
    Raises: InputError if no row has both times.
    """
    rows = found.dropna(subset="error")
    if not len(rows):
        raise refusal("validate", "no measured step to draw")
    total = regime_scores(found)[-1]
    names = found["source"].unique()
    sources = f"{len(names)} sources" if len(names) > 1 else names[0]
    made = style.figure(
        f"Predicted against measured step times: {total.rows} runs of {sources}",
        f"Median error {total.median:.1f} %; {total.covered:.0f} % inside the 80 % interval",
        5.4,
    )
    left, right = made.subplots(1, 2, width_ratios=(3, 2))
    words = {one.regime: one for one in regime_scores(found)}
    for place, regime in enumerate(REGIMES):
        some = rows[rows["regime"] == regime.words]
        if len(some):
            score = words[regime.words]
            said = f"{regime.words}: {score.rows} runs, median {score.median:.1f} %"
            _times(left, some, place, said)
            _errors(right, some, place)
    _finish(left, right, rows)
    handles, said_of = left.get_legend_handles_labels()
    made.legend(handles, said_of, loc="outside lower center", ncols=2)
    return made


def _look(place: int) -> dict[str, object]:
    return {"color": style.COLOURS[place], "marker": style.MARKERS[place]}


def _pairs(some: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return some["measured"].to_numpy(), some["time"].to_numpy()


def _times(axes: Axes, some: pd.DataFrame, place: int, said: str) -> None:
    axes.plot(*_pairs(some), linestyle="none", markersize=3.5, alpha=0.6, label=said,
              **_look(place))  # type: ignore[arg-type]  # fmt: skip


def _errors(axes: Axes, some: pd.DataFrame, place: int) -> None:
    """Draw the share of runs whose error is at most so large."""
    sizes = np.sort(100.0 * np.abs(some["error"].to_numpy()))
    shares = 100.0 * np.arange(1, len(sizes) + 1) / len(sizes)
    axes.step(sizes, shares, where="post", color=style.COLOURS[place], linewidth=1.6)


def _finish(left: Axes, right: Axes, rows: pd.DataFrame) -> None:
    both = np.concatenate(_pairs(rows))
    ends = np.array([both.min() / MARGIN, both.max() * MARGIN])
    half = float(half_width(0.0))
    left.plot(ends, ends, color=style.BLACK, linewidth=1.0, zorder=1)
    for sign in (-1.0, 1.0):
        left.plot(ends, ends * np.exp(sign * half), color=style.GREY, linewidth=0.8, linestyle="--",
                  zorder=1)  # fmt: skip
    left.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    left.set(xlabel="measured step time [s]", ylabel="predicted step time [s]")
    for axis in (left.xaxis, left.yaxis):
        axis.set_major_formatter(FuncFormatter(style.count))
    right.set(xlim=(0.0, 60.0), ylim=(0.0, 100.0))
    right.set(xlabel="absolute error at most [%]", ylabel="runs [%]")
    for axes in (left, right):
        style.grid(axes)
