"""Results under uncertain inputs: quantiles, the plan to commit to, what to measure first."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import need_of, unit_of
from jaxroof.errors import listing
from jaxroof.units import amount, size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import glossary, placed_words, plan_columns
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual

COSTS = (
    ("cost %,\naverage", "regret_mean"),
    ("worst\n5 %", "regret_worst"),
)  # of committing to a plan
WORTH = 1e-4  # smallest share of the time that is worth a measurement
ROUNDING = 1e-9  # of a result
ROUGH = 0.02  # beyond 0 and 1, from which shares of few draws are called rough
LITTLE = 0.01  # share of the variance below which an input does not matter
PLANS = 5  # of the table, unless asked otherwise


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the quantiles, the plan to commit to, and what to measure first.

    Attributes say how far measured runs ``spread``, and how many plans have a row (``top``).
    """
    spread, most = spread_sentence(data), int(data.attrs.get("top", PLANS))
    yield from title(str(data.attrs.get("title", "")))
    if "gpus" in data.sizes:
        yield from usual(*sizes_sentences(data), spread)
        yield from quiet(sizes_table(data))
    else:
        yield from quiet(*sentences(data))
        yield from usual(spread)
        if float(data["feasible_share"]) > 0:
            yield from usual(plans_table(data, most))
    yield from usual(glossary(data), inputs_table(data))


def plans_table(data: xr.Dataset, most: int) -> PlainTable:
    """Return the plans that are best in some draw, and the cost of committing to each."""
    told, need = _told(data), need_of(data)
    marks = {int(data.candidate_today): ["best today"]}
    marks.setdefault(int(data.candidate_committed), []).insert(0, "commit to it")
    rows = [data.isel(candidate=i) for i in told]
    fits = [_share_column("fits\nin %", "fits", 2)] if (data.fits.values[told] < 1).any() else []
    needs = Shown(need, lambda row: amount(float(row[need]), unit_of(data, need)), 3)
    columns = [
        Shown("#", lambda row: f"{int(row.candidate)}"),
        *plan_columns(data, rows),
        _share_column("best in %\nof draws", "probability"),
        *fits,
        *(_share_column(*cost) for cost in COSTS),
        *([needs] if need else []),
        Shown("", lambda row: ",\n".join(marks.get(int(row.candidate), [])), 1, "left"),
    ]
    shown = [r for i, r in zip(told, rows, strict=True) if i < most or int(r.candidate) in marks]
    return PlainTable().add_rows(columns, shown)


def _share_column(head: str, name: str, optional: int = 0) -> Shown:
    return Shown(head, lambda row: digits(float(row[name])), optional)


def sizes_table(data: xr.Dataset) -> PlainTable:
    """Return one row per cluster size: its quantiles, the plan to commit to, and its cost."""
    aim, points = (
        str(data.attrs["objective"]),
        [data.isel(gpus=i) for i in range(data.sizes["gpus"])],
    )
    plans = [committed_plan(point) for point in points if float(point.feasible_share) > 0]

    def quantile(head: str, share: float, optional: int) -> Shown:
        return Shown(head, lambda row: _amount(data, float(row[aim].sel(quantile=share))), optional)

    def today(row: xr.Dataset) -> str:
        value = float(row[f"{aim}_today"])
        return _amount(data, value) if np.isfinite(value) else "-"

    def of_plan(column: Shown) -> Shown:
        return column._replace(cell=lambda row: column.cell(committed_plan(row)))

    plan = [
        *plan_columns(data, plans, 3),
        _share_column("best\nin %", "probability", 2),
        *(_share_column(*cost, 1) for cost in COSTS),
    ]
    columns = [
        Shown("gpus", lambda row: f"{int(row.gpus):,}"),
        quantile("5 %", 0.05, 4),
        quantile("median", 0.5, 0),
        quantile("95 %", 0.95, 4),
        Shown("today", today, 4),
        *map(of_plan, plan),
    ]

    def instead(row: xr.Dataset) -> list[str]:
        none = float(row.feasible_share) == 0
        return [f"{int(row.gpus):,}", "-", "nothing fits"] if none else []

    return PlainTable().add_rows(columns, points, instead)


def committed_plan(point: xr.Dataset) -> xr.Dataset:
    """Return the plan with the least average cost among those that fit most often."""
    return point.sel(candidate=int(point.candidate_committed))


def sentences(data: xr.Dataset) -> list[str]:
    """Return the range, the plan to commit to and its cost, and the input to measure first."""
    said = [_unanswered(data)] if float(data.feasible_share) < 1 else []
    if float(data.feasible_share) == 0:
        return said
    return [_band(data), *said, *_commitment(data), *_first_measured(data)]


def spread_sentence(data: xr.Dataset) -> str:
    """Return how far measured runs spread beside what is drawn, empty if that is not known."""
    spread = data.attrs.get("spread")
    said = f"Beside what is drawn, measured runs spread by {spread} (80 % of them)"
    return f"{said}: plans that differ by less cannot be told apart." if spread else ""


def sizes_sentences(data: xr.Dataset) -> list[str]:
    """Return where nothing fits, where the plan is undecided, and the input to measure first."""
    said = []
    for point in [data.isel(gpus=i) for i in range(data.sizes["gpus"])]:
        if float(point.feasible_share) < 1:
            said.append(f"{int(point.gpus):,} gpus: {_unanswered(point)}")
    answered = [
        point
        for point in [data.isel(gpus=i) for i in range(data.sizes["gpus"])]
        if float(point.feasible_share) > 0
    ]
    if answered:
        worst = max(answered, key=lambda point: float(committed_plan(point).regret_mean))
        cost = _cost(committed_plan(worst))
        said.append(f"To commit to a plan now costs most on {int(worst.gpus):,} gpus: {cost}.")
    return [*said, *_first_measured(data)]


def _band(data: xr.Dataset) -> str:
    aim = str(data.attrs["objective"])
    low, middle, high = map(float, data[aim].sel(quantile=[0.05, 0.5, 0.95]).values)
    today = float(data[f"{aim}_today"])
    now = f"{_amount(data, today)} today" if np.isfinite(today) else "nothing fits today"
    wide = (high - low) / abs(middle) if middle else 0.0
    if wide < ROUNDING:
        return f"The {_named(aim)} is {_amount(data, middle)} in 90 % of the draws ({now})."
    return (
        f"In 90 % of the {int(data.attrs['samples']):,} draws the {_named(aim)} lies between "
        f"{_amount(data, low)} and {_amount(data, high)}, {_percent(wide)} of the median "
        f"{_amount(data, middle)} apart ({now})."
    )


def _unanswered(data: xr.Dataset) -> str:
    if float(data.feasible_share) == 0:
        return "No plan fits in any draw."
    share = _percent(1.0 - float(data.feasible_share))
    return f"No plan fits in {share} of the draws; the rest is about the others."


def _commitment(data: xr.Dataset) -> list[str]:
    """Return which plan to commit to, its cost, and the alternatives."""
    plan, today = committed_plan(data), int(data.candidate_today)
    number, words, chance = int(plan.candidate), placed_words(plan), float(plan.probability)
    if int(data.plans_best) == 1 and chance == 1:
        return [f"One plan is the best in every draw: {words}. What is uncertain does not move it."]
    always = float(plan.fits) == 1 and bool((data.fits < 1).any())
    fits = "it fits in every draw that can be answered; " * always
    best = f"{fits}best in {_percent(chance)} of the draws{', and today' * (number == today)}"
    said = [f"Commit to plan {number}, {words}: {best}; {_cost(plan)}."]
    if number != today > 0:
        said.append(f"Today's best, plan {today}: {_cost(data.sel(candidate=today))}.")
    told = [i for i in _told(data) if float(data.fits[i]) == float(plan.fits)]
    safe = data.isel(candidate=min(told, key=lambda i: float(data.regret_worst[i])))
    if float(safe.regret_worst) < 0.95 * float(plan.regret_worst):
        said.append(f"Safer is plan {int(safe.candidate)}: {_cost(safe)}.")
    return said


def _cost(plan: xr.Dataset) -> str:
    mean, worst = _percent(float(plan.regret_mean)), _percent(float(plan.regret_worst))
    share = float(plan.fits)
    there = f"where it fits, in {_percent(share)} of the draws, " if share < 1 else ""
    return f"{there}it costs {mean} on average and {worst} in the worst 5 % of the draws"


def _first_measured(data: xr.Dataset) -> list[str]:
    """Return which input to measure first, which follow, and what choosing a plan hangs on."""
    others = [d for d in data.sobol_total.dims if d != "parameter"]
    total, alone = (data[f"sobol_{n}"].mean(others).values for n in ("total", "first"))
    names, order = [str(name) for name in data.parameter.values], first_to_last(data)
    if not np.isfinite(total).any():
        return ["Shares of the variance need an answer to every draw: there are none here."]
    if total[order[0]] <= 0:
        return ["Nothing that is uncertain moves it."]
    first, rough = order[0], max(float(np.max(total)) - 1.0, -float(np.min(alone)))
    part = f"it has a part in {_percent(total[first])} of the variance"
    then = [f"{names[i]} ({_percent(total[i])})" for i in order[1:3] if total[i] >= LITTLE]
    after = f"; then {listing(then)}" if then else ""
    found = [f"Measure {names[first]} first: {part}, {_percent(alone[first])} by itself{after}."]
    if rough > ROUGH:
        found.append(f"These shares are rough, to some {_percent(rough)}: ask more samples.")
    if "saved_if_known" not in data:
        return found
    saved = data.saved_if_known.mean(others).fillna(-1.0).values
    most = int(np.argmax(saved))
    chosen = f"measure {names[most]}: that saves {_percent(saved[most])} on average"
    return [*found, f"To choose the plan, {chosen}."] if saved[most] >= WORTH else found


def columns(data: xr.Dataset) -> xr.Dataset:
    """Return the results with one row per plan, as in a CSV: no draws, one column per quantile.

    The sensitivity indices of each input are columns too.
    """
    flat = data.drop_dims("draw").drop_vars(["units", "drawn_from", "parameter_today"])
    for dim, spell in (("quantile", lambda share: f"{100 * share:g}"), ("parameter", str)):
        for name in [n for n in flat.data_vars if dim in flat[n].dims]:
            for label in flat[dim].values:
                flat[f"{name}_{spell(label)}"] = flat[name].sel({dim: label}, drop=True)
        flat = flat.drop_dims(dim)
    return flat


def _told(data: xr.Dataset) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.isfinite(data.probability.values))]


def _named(objective: str) -> str:
    return objective.replace("_", " ")


def _amount(data: xr.Dataset, value: float) -> str:
    return amount(value, unit_of(data, str(data.attrs["objective"])))


def _percent(share: float) -> str:
    return f"{digits(share)} %"


# ---- Inputs -------------------------------------------------------------------------------------


def inputs_table(data: xr.Dataset) -> PlainTable:
    """Return one row per uncertain input, those that move the result most first."""
    names = short_names([str(path) for path in data.parameter.values])

    def today(row: xr.Dataset) -> str:
        return size(float(row.parameter_today), str(row.units.values))

    def on(i: int) -> Shown:
        return Shown(
            f"% on\n{int(data.gpus[i]):,}", lambda row: digits(float(row.sobol_total[..., i]))
        )

    parts = [Shown("by itself\n%", lambda row: digits(float(row.sobol_first)))]
    parts += [Shown("in all\n%", lambda row: digits(float(row.sobol_total)))]
    columns = [
        Shown("uncertain\ninput", lambda row: names[int(row.place)], 0, "left"),
        Shown("drawn from", lambda row: str(row.drawn_from.values), 0, "left", wraps=True),
        Shown("today", today, 1),
        *(map(on, range(data.sizes["gpus"])) if "gpus" in data.sizes else parts),
    ]
    rows = [data.isel(parameter=i).assign(place=i) for i in first_to_last(data)]
    return PlainTable().add_rows(columns, rows)


def short_names(paths: list[str]) -> list[str]:
    """Return the last part of each path, or the whole path if two last parts are the same.

    >>> short_names(["system.nics", "system.fast_latency"]), short_names(["a.x", "b.x", "a.y"])
    (['nics', 'fast_latency'], ['a.x', 'b.x', 'y'])
    """
    ends = [path.rpartition(".")[2] for path in paths]
    return [end if ends.count(end) == 1 else path for path, end in zip(paths, ends, strict=True)]


def first_to_last(data: xr.Dataset) -> list[int]:
    """Return the inputs sorted by their share of the variance over all points of a grid."""
    total = data.sobol_total
    mean = total.mean([d for d in total.dims if d != "parameter"]).values
    return [int(i) for i in np.argsort(-mean, kind="stable")]


def digits(share: float) -> str:
    """Return a share in percent, without the sign; an estimate beyond an end is that end.

    >>> digits(0.68262), digits(0.00041), digits(-1e-9), digits(1.09), digits(float("nan"))
    ('68.3', '0.041', '0', '100', '-')
    """
    if not np.isfinite(share):
        return "-"
    share = min(max(share, 0.0), 1.0)
    digits = 3 if share >= 0.01 else 2
    return "0" if abs(share) < 5e-6 else f"{100 * share:.{digits}g}"
