"""A tornado: what a little more and a little less of each parameter does to a time."""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jaxroof.analyses.result_metadata import (
    CAPACITY,
    Resources,
    label_of,
    machine_of,
    objective_of,
    resources_of,
)
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import colours, style
from jaxroof.views.plots import select as choose

PICTURE = "tornado"
COLOURS = colours.RESOURCES  # as those of the parts of a step
OF_CHIP = {  # the resource that a constant of a chip is a share of
    "chip.fp8_flops": "compute",
    "chip.fp4_flops": "compute",
    "chip.multiprocessors": "compute",
    "chip.matmul": "compute",
    "chip.matmul_fp8": "compute",
    "chip.depth": "compute",
    "chip.attention": "compute",
    "chip.attention_old": "compute",
    "chip.hbm": "hbm",
    "chip.fast": "fast_links",
    "chip.slow": "slow_links",
    "chip.step": "latency",
}
LINKS = {"fast links": "NVLink", "slow links": "network"}
OTHER = style.GREY  # of what is of none of them
MOST = 8  # bars
LEAST = 1e-4  # change below which there is no bar
ALIKE = 0.02  # of the longest bar: changes that differ by less look the same
BESIDE = 0.2  # of the longest bar: the room that a number takes
CUT = 1.25  # of the largest gain: where bars of what makes it longer end
WORDED = 2.0  # times as much: below it is called per cent more
OUTLINE: Any = {"edgecolor": style.BLACK, "linewidth": 0.9, "linestyle": "--"}
PALE = 0.45  # of bars for less of a parameter


class Bar(NamedTuple):
    """The changes of a time, as shares of it."""

    path: str
    less: float  # for less of the parameter
    more: float
    kept_less: float  # the same with today's plan
    kept_more: float

    @property
    def longest(self) -> float:
        """Return the largest change that there is."""
        return float(np.nanmax(np.abs([self.less, self.more]), initial=0.0))

    def differs(self, longest: float) -> bool:
        """Return whether today's plan, kept, would do otherwise."""
        apart = np.abs([self.kept_less - self.less, self.kept_more - self.more])
        return bool((apart > ALIKE * longest).any())


@style.drawn
def tornado(data: xr.Dataset) -> Figure:
    """Return a bar a parameter to either side: how a time changes with less and with more of it.

    Of a response, at the ends of its span with plans chosen anew, outlined where today's plan would
    do otherwise; of elasticities, for one percent at today's plan. Coloured by resource.
    Raises: InputError for data that are neither, or are of more than one machine.
    """
    choose.check_has(data, PICTURE, dims=("parameter",))
    moved = "factor" in data.sizes
    choose.check_dimensions(data, PICTURE, ("parameter", "switch", *(("factor",) if moved else ())))
    bars, words = _moved(data) if moved else _slopes(data)
    known = _resources(data)
    own = [bar for bar in bars if not _repeats(bar, bars, known)]
    shown = sorted((bar for bar in own if bar.longest > LEAST), key=lambda bar: bar.longest)
    if not shown:
        raise refusal(PICTURE, "the data have no parameter that changes anything")
    shown = shown[-MOST:]
    finding = _finding(data, shown, words)
    title = choose.title(data, "What each parameter does")
    made = style.figure(title, finding, 2.4 + 0.3 * len(shown))
    axes = made.subplots()
    looks, most = colours_of(known), _most(data, shown)
    for place, bar in enumerate(shown):
        _draw(axes, place, bar, most, looks.get(known.of.get(bar.path, ""), OTHER))
    axes.set_yticks(range(len(shown)), [_words(bar, machine_of(data)) for bar in shown])
    axes.axvline(0.0, color=style.BLACK, linewidth=0.9, zorder=4)
    axes.margins(x=0.27)
    ways = "{} to the left, {} to the right".format(*_ways(data))
    cut = "; →: cut" * (shown[-1].longest > most)
    axes.set_xlabel(f"change of the {_of(data)} [%]: {ways}{cut}")
    style.grid(axes, "x")
    _legend(made, shown, words, known, most)
    return made


def _most(data: xr.Dataset, shown: list[Bar]) -> float:
    """Return how long a bar may be: losses do not hide what helps, where less is better."""
    longest = max(bar.longest for bar in shown)
    gain = -float(np.nanmin([[bar.less, bar.more] for bar in shown]))
    less = "time" in _of(data) and gain > LEAST
    return min(longest, CUT * gain) if less else longest


def _repeats(bar: Bar, bars: list[Bar], known: Resources) -> bool:
    """Return whether a bar says what that of a rate says which its parameter multiplies."""
    if bar.path in known.signs or known.of.get(bar.path, CAPACITY) == CAPACITY:
        return False
    rates = [b for b in bars if b.path in known.signs and known.of[b.path] == known.of[bar.path]]
    return any(_alike(bar.less, b.less) and _alike(bar.more, b.more) for b in rates)


def _alike(one: float, other: float) -> bool:
    return bool(np.isnan([one, other]).any() or np.isclose(one, other, rtol=0.05))


def _resources(data: xr.Dataset) -> Resources:
    """Return the resources of the estimator, and those of the constants of a chip."""
    known, machine = resources_of(data), machine_of(data)
    chip = {f"{machine}.{name}": of for name, of in OF_CHIP.items() if of in known.limits}
    return known._replace(of={**chip, **known.of})


def _finding(data: xr.Dataset, shown: list[Bar], words: tuple[str, str]) -> str:
    """Return the two parameters that more of changes most."""
    what, (less, more) = _of(data), _ways(data)
    ranked = sorted((b for b in shown if np.isfinite(b.more)), key=lambda bar: -abs(bar.more))
    said = [
        f"{percent(abs(bar.more), 1)} {less if bar.more < 0 else more} with {words[1]} "
        f"{_words(bar, machine_of(data))}"
        for bar in ranked[:2]
    ]
    return f"The {what} is {', and '.join(said)}"


def _of(data: xr.Dataset) -> str:
    """Return what changes."""
    return label_of(data, str(data.attrs.get("of") or objective_of(data)))


def _ways(data: xr.Dataset) -> tuple[str, str]:
    """Return what less and more of it are called."""
    return ("shorter", "longer") if "time" in _of(data) else ("less", "more")


def _words(bar: Bar, machine: str) -> str:
    return words_of(bar.path.removeprefix(f"{machine}."))


def resource_words(name: str) -> str:
    """Return what a step waits for in everyday words.

    >>> resource_words("fast links"), resource_words("latency")
    ('NVLink', 'latency')
    """
    return LINKS.get(name, name)


def colours_of(known: Resources) -> dict[str, str]:
    """Return the colour of every resource: its own, or the next that none has."""
    return colours.colours_of([*known.limits, CAPACITY], COLOURS)


def _moved(data: xr.Dataset) -> tuple[list[Bar], tuple[str, str]]:
    """Return the changes at the ends of a response's span."""
    name = objective_of(data)
    choose.check_has(data, PICTURE, (name, f"{name}_kept"))
    today = data[name].sel(factor=1.0)
    found, kept = (data[n] / today - 1.0 for n in (name, f"{name}_kept"))
    ends = [
        [
            values.isel(factor=end).sel(parameter=path).item()
            for values in (found, kept)
            for end in (0, -1)
        ]
        for path in data.parameter.values
    ]
    bars = [Bar(str(p), *changes) for p, changes in zip(data.parameter.values, ends, strict=True)]
    most, least = float(data.factor.max()), float(data.factor.min())
    more = f"{percent(most - 1.0)} more" if most < WORDED else f"{most:.3g} times as much"
    return bars, (f"divided by {1 / least:.3g}", more)


def _slopes(data: xr.Dataset) -> tuple[list[Bar], tuple[str, str]]:
    """Return the changes for one percent, by elasticity."""
    choose.check_has(data, PICTURE, ("elasticity", "elasticity_below"))
    bars = []
    for path in data.parameter.values:
        row = data.sel(parameter=path)
        less, more = -0.01 * float(row.elasticity_below), 0.01 * float(row.elasticity)
        bars.append(Bar(str(path), less, more, less, more))
    return bars, ("1 % less", "1 % more")


def _draw(axes: Axes, place: int, bar: Bar, longest: float, colour: str) -> None:
    """Draw both sides of a bar, with numbers at its ends, and outlines of today's plan.

    A bar that is longer than the longest is cut; its number is not.
    """
    numbers, cut = bar, Bar(bar.path, *(min(value, longest) for value in bar[1:]))
    for number, change, kept, alpha in (
        (numbers.less, cut.less, cut.kept_less, PALE),
        (numbers.more, cut.more, cut.kept_more, 1.0),
    ):
        ends = [100 * value for value in (change, kept) if np.isfinite(value)]
        if np.isfinite(change):
            axes.barh(place, 100 * change, height=0.62, color=colour, alpha=alpha, zorder=2)
        if np.isfinite(kept) and abs(kept - change) > ALIKE * longest:
            axes.barh(place, 100 * kept, height=0.62, fill=False, zorder=3, **OUTLINE)
        if np.isfinite(change) and abs(change) > LEAST:
            sign = 1.0 if change > 0 else -1.0
            far = max(ends, key=lambda value: sign * value)
            near = abs(far - 100 * change) < BESIDE * 100 * longest  # an outline has it behind
            end, side = (far if near else 100 * change, place), "left" if sign > 0 else "right"
            look: Any = {"textcoords": "offset points", "ha": side, "va": "center"}
            said = _signed(100 * number) if number <= change else f"→ {_signed(100 * number)}"
            axes.annotate(said, end, (4 * sign, 0), **look)


def _signed(value: float) -> str:
    """Return a percentage in two digits, or more where it is large.

    >>> _signed(-0.0481), _signed(1176.3)
    ('-0.048 %', '+1,176 %')
    """
    return f"{value:+,.0f} %" if abs(value) >= 100.0 else f"{value:+.2g} %"


def _legend(
    made: Figure, shown: list[Bar], words: tuple[str, str], known: Resources, most: float
) -> None:
    there = {known.of.get(bar.path) for bar in shown}
    every, own = {**known.limits, CAPACITY: "HBM capacity"}, colours_of(known)
    if not any(path.endswith("hbm_capacity") for path in known.of):
        every[CAPACITY] = CAPACITY
    looks = {resource_words(said): own[name] for name, said in every.items() if name in there}
    if not there <= set(every):
        looks["of none of these"] = OTHER
    handles = [Patch(color=colour, label=said) for said, colour in looks.items()]
    for alpha, side in ((1.0, f"full colour: {words[1]}"), (PALE, f"pale: {words[0]}")):
        handles.append(Patch(facecolor=style.GREY, alpha=alpha, label=side))
    if any(bar.differs(most) for bar in shown):
        handles.append(Patch(label="today's plan kept", facecolor="none", **OUTLINE))
    style.legend(made, extra=handles)
