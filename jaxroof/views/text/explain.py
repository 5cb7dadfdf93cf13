"""What limits a step, by how much and where that changes: bars and tables."""

import numpy as np
import xarray as xr
from rich.table import Table
from rich.text import Text

from jaxroof.analyses.result_metadata import (
    is_machine,
    machine_of,
    objective_of,
    resources_of,
    roles,
    run_of,
    unit_of,
    words_of,
)
from jaxroof.units import show, size
from jaxroof.views.parameter_words import words_of as words_of_parameter
from jaxroof.views.text.plan import placed_words
from jaxroof.views.text.tables import amount, plain_table

BAR = 20  # characters of the longest bar
TELLING = 5e-4  # smaller elasticities are listed, not drawn
ROWS = 0.005  # smallest share of the step for which an operation has its own row
SWITCH = "switch_"
NEAR = 3  # capacity steps shown on either side


def percent(share: float) -> str:
    """Return a share in percent, with three digits.

    >>> percent(0.87291), percent(0.0052049), percent(-27.8), percent(2e-6)
    ('87.3 %', '0.52 %', '-2,780 %', '<0.01 %')
    """
    value = 100.0 * share
    if 0.0 < abs(value) < 0.005:
        return "<0.01 %"
    if abs(value) >= 1000.0:
        return f"{value:,.0f} %"
    return f"{value:.3g} %" if abs(value) >= 1.0 else f"{round(value, 2):g} %"


def name_of(path: str, machine: str = "system") -> str:
    """Return a parameter as it is typed, without the machine's prefix.

    >>> name_of("system.hbm_bandwidth"), name_of("model.hidden")
    ('hbm_bandwidth', 'model.hidden')
    """
    return path.removeprefix(f"{machine}.")


def bars_table(data: xr.Dataset, every: bool = True) -> Table:
    """Return one bar per parameter of the machine, largest first: the effect of one percent more.

    Rates and latencies have a share of the step; these sum to one if no parameters are tied. A
    parameter that multiplies a rate repeats that rate's share; without ``every`` it has no bar.
    """
    table = plain_table(f"What 1 % more of a machine's parameter does to the {run_of(data)}")
    table.add_column("parameter", no_wrap=True)
    table.add_numbers("today", optional=1)
    table.add_numbers(_time_head(data), f"share of\nthe {run_of(data)}")
    table.add_column("█ by itself   ░ multiplies a rate" if every else "", no_wrap=True, optional=2)
    signs = resources_of(data).signs
    shown = [(path, row) for path, row in parameter_rows(data) if every or path in signs]
    lengths = [float(_largest(row)) for _, row in shown]
    most = max(lengths, default=1.0)
    for (path, row), length in zip(shown, lengths, strict=True):
        slope, sign = float(row.elasticity), signs.get(path)
        said = f"{slope:+.3g} %"
        if bool(row.tie):
            said += f"\n(1 % less: {-float(row.elasticity_below):+.3g} %)"
        bar = Text(("░" if sign is None else "█") * max(1, round(BAR * length / most)))
        bar.stylize("blue" if slope < 0 else "red")
        now = show(float(f"{float(row.value):.4g}"), str(row.parameter_units.values))
        share = "" if sign is None else percent(sign * slope)
        if sign is not None and bool(row.tie):
            share += f"\nto {percent(sign * float(row.elasticity_below))}"
        table.add_row(name_of(path, machine_of(data)), now, said, share, bar)
    return table


def _time_head(data: xr.Dataset) -> str:
    """Return the head of the objective's column."""
    return words_of(data, objective_of(data)).replace(" ", "\n")


def parameter_rows(data: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """Return the machine parameters that affect the step, largest effect first."""
    effects = dict(zip(map(str, data.parameter.values), _largest(data).tolist(), strict=True))
    told = [p for p, effect in effects.items() if is_machine(data, p) and effect >= TELLING]
    return [(p, data.sel(parameter=p)) for p in sorted(told, key=lambda p: -effects[p])]


def _largest(data: xr.Dataset) -> np.ndarray:
    return np.maximum(abs(data.elasticity.values), abs(data.elasticity_below.values))


def rest_sentences(data: xr.Dataset) -> list[str]:
    """Return parameters without effect, and the slopes in model and plan, taken as real numbers."""
    bars = {path for path, _ in parameter_rows(data)}
    machine = [str(p) for p in data.parameter.values if is_machine(data, str(p))]
    none = [name_of(path, machine_of(data)) for path in machine if path not in bars]
    said = [f"Next to nothing today: {', '.join(none)}."] if none else []
    relaxed = data.where(data.relaxed, drop=True)
    paths = map(str, relaxed.parameter.values)
    slopes = dict(zip(paths, relaxed.elasticity.values.tolist(), strict=True))
    order = sorted((p for p in slopes if p not in machine), key=lambda p: -abs(slopes[p]))
    told = [f"{path} {slopes[path]:+.3g} %" for path in order if abs(slopes[path]) >= TELLING]
    if told:
        said.append(f"Whole numbers taken as real (a relaxation), 1 % more: {', '.join(told)}.")
    return said


def binding_table(data: xr.Dataset) -> Table:
    """Return the contributions to the step, largest first, with their seconds by limiting resource.

    Small contributions share one row; all rows sum to the step.
    """
    table = plain_table(f"What the {run_of(data)} is made of, and what limits it [s]")
    limits = list(resources_of(data).limits.values())
    table.add_column("operation", no_wrap=True)
    table.add_numbers("time", f"% of\n{run_of(data)}")
    rows = data.seconds.values
    for words, largest in zip(limits, _places(rows.sum(axis=0)), strict=True):
        table.add_numbers(words.replace(" ", "\n", 1), optional=largest)
    table.add_column("bound by", no_wrap=True)
    each, step = rows.sum(axis=1), rows.sum()
    order = [i for i in np.argsort(-each, kind="stable") if each[i] >= ROWS * step]
    for i in order:
        table.add_row(*_binding_cells(str(data.operation.values[i]), rows[i], step, limits))
    rest = np.setdiff1d(np.flatnonzero(each), order)
    if len(rest):
        name = f"{len(rest)} that add less"
        table.add_row(*_binding_cells(name, rows[rest].sum(axis=0), step, limits))
    table.add_section()
    table.add_row(*_binding_cells(run_of(data), rows.sum(axis=0), step, limits))
    return table


def _places(values: np.ndarray) -> list[int]:
    """Return the rank of every value, 1 for the largest."""
    return [int(place) + 1 for place in np.argsort(np.argsort(-values, kind="stable"))]


def _binding_cells(name: str, row: np.ndarray, step: float, limits: list[str]) -> list[str]:
    cells = ["-" if abs(value) < 1e-6 * step else f"{value:.3g}" for value in row]
    return [
        name,
        f"{row.sum():.4g}",
        f"{100 * row.sum() / step:.1f}",
        *cells,
        limits[int(row.argmax())],
    ]


# ---- Changes of the best plan -------------------------------------------------------------------


def plan_of(row: xr.Dataset) -> xr.Dataset:
    """Return the plan fields of a switch (with its own names), a capacity step or a best plan."""
    prefix, known = SWITCH if "switch_factor" in row else "", roles(row)
    fields = [f for f in (*known["split"], *known["placement"]) if prefix + f in row]
    return xr.Dataset({f: row[prefix + f] for f in fields})


def next_switches(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the next switch of each parameter in each direction, nearest first."""
    rows = [data.isel(switch=i) for i in range(data.sizes["switch"])]
    first = [row for row in rows if int(row.switch_order) == 1]
    return sorted(first, key=lambda row: abs(float(np.log(row.switch_factor))))


def switches_table(data: xr.Dataset, told: xr.Dataset) -> Table:
    """Return the next plan on each axis: its distance, the plan, and its final saving.

    Units are those of the elasticities ``told``.
    """
    table = plain_table("The next plan on each axis, the nearest first")
    table.add_column("parameter", no_wrap=True)
    table.add_numbers("times\ntoday")
    table.add_numbers("there", optional=1)
    table.add_column("plan that takes over")
    table.add_numbers(f"{run_of(data)}\nthere")
    table.add_numbers("saves\nin the end", "at times\ntoday", optional=2)
    aim = objective_of(data)
    for row in next_switches(data):
        path, (factor, until) = str(row.switch_parameter.values), range_words(row)
        unit = str(told.parameter_units.sel(parameter=path).values)
        table.add_row(
            name_of(path, machine_of(data)),
            factor,
            size(float(row.switch_value), unit),
            plan_with_placement(row, data),
            amount(float(row[f"switch_{aim}"]), unit_of(data, aim)),
            percent(float(row.switch_gain)),
            until,
        )
    return table


def range_words(row: xr.Dataset) -> tuple[str, str]:
    """Return the interval in which a switch's plan is best, as multiples of the current value.

    Three digits, or more if both ends would look the same.
    """
    ends = float(row.switch_factor), float(row.switch_until)
    digits = next((n for n in range(3, 9) if f"{ends[0]:.{n}g}" != f"{ends[1]:.{n}g}"), 3)
    return f"{ends[0]:.{digits}g}", f"{ends[1]:.{digits}g}"


def plan_with_placement(row: xr.Dataset, data: xr.Dataset) -> str:
    """Return the plan of a switch or a step: its degrees, and the part of them in a fast domain."""
    plan = plan_of(row).assign_attrs(data.attrs)
    return placed_words(plan)


def steps_table(data: xr.Dataset) -> Table:
    """Return the capacity steps around the machine's: capacity, time, time saved and plan."""
    near = data.isel(step=np.flatnonzero(np.abs(data.place.values) <= NEAR)).sortby("value")
    path, unit, aim = str(data.attrs["parameter"]), unit_of(data, "value"), objective_of(data)
    table = plain_table(f"{words_of_parameter(path)}, step by step")
    table.add_numbers("from")
    table.add_numbers("against\ntoday", optional=2)
    table.add_numbers(_time_head(data))
    table.add_numbers("time\nsaved", optional=1)
    table.add_column("plan")
    table.add_column("", no_wrap=True)
    for i in range(near.sizes["step"]):
        row = near.isel(step=i)
        place, gain = int(row.place), float(row.gain)
        table.add_row(
            size(float(row.value), unit),
            signed_size(float(row.change), unit),
            amount(float(row[aim]), unit_of(data, aim)),
            "-" if not place or np.isnan(gain) else percent(gain),
            plan_with_placement(row, data),
            "today's plan" if not place else "",
        )
    return table


def signed_size(change: float, unit: str = "B") -> str:
    """Return a change of an amount with its sign.

    >>> signed_size(97.2e9), signed_size(-118.04e9)
    ('+97.2 GB', '-118 GB')
    """
    return f"{'+' if change >= 0 else '-'}{show(float(f'{abs(change):.3g}'), unit)}"


def with_capacity(moved: xr.Dataset, steps: xr.Dataset) -> xr.Dataset:
    """Return a response at the ends of its span, with the machine's capacity as a parameter."""
    path, name = str(steps.attrs["parameter"]), str(moved.attrs["objective"])
    ends = moved[[name, f"{name}_kept"]].sel(factor=[moved.factor[0], 1.0, moved.factor[-1]])
    order = steps.sortby("value")
    own = int(np.flatnonzero(order.place.values == 0)[0])
    today = float(order["value"][own] - order.change[own])
    held = np.searchsorted(order["value"].values, today * ends.factor.values, side="right") - 1
    times = order[name].values
    found = np.where(held >= 0, times[held], np.nan)
    kept = np.where(held >= own, times[own], np.nan)
    row = xr.Dataset(
        {
            name: (("parameter", "factor"), [found]),
            f"{name}_kept": (("parameter", "factor"), [kept]),
        },
        {"parameter": [path], "factor": ends.factor},
    )
    return xr.concat([ends.drop_vars(set(ends.coords) - set(row.coords)), row], "parameter")
