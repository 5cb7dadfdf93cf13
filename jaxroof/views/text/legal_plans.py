"""What is said of the legal plans of one machine, ranked: of any estimator that is searched."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.legal_plans import CLOSE
from jaxroof.analyses.result_metadata import (
    head_of,
    headlines,
    need_of,
    parts_of,
    rises,
    roles,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.least_memory import refused_sentences
from jaxroof.views.text.plan import (
    glossary,
    placed_words,
    plan_columns,
    plan_sentence,
    plan_words,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.sizes import by_size, fit_words, limit_of, missed_words, none_sentences
from jaxroof.views.text.tables import amount, filled, per_run

LEAST = 0.005  # parts with smaller shares are not worth words
TIME, RATE = STEP = "step_time", "throughput"  # results of a training step


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best plans, and the user's own; of several machines the best of each."""
    yield from title(str(data.attrs.get("title", "")))
    each = by_size(data) if "gpus" in data and data["gpus"].ndim else [data]
    if "each" in data.attrs and is_step(data):
        yield from _sizes(each)
        return
    for some in each:
        if len(each) > 1:
            yield from title(f"{int(some['gpus']):,} accelerators")
        yield from _plans_of(_ranked(some))
    yield from usual(*none_sentences(data))


def _plans_of(data: xr.Dataset) -> Iterator[Said]:
    best = data.isel(plan=0)
    if not bool(best["feasible"]):
        nothing = nothing_sentence(data)
        yield from quiet(nothing[:1].upper() + nothing[1:])
    else:
        yield from usual(best_sentence(data), plan_sentence(best))
        yield from quiet(plans_table(data, need_limit(data)))
        yield from usual(glossary(data), parts_sentence(best), close_sentence(data))
    yield from (verbose if bool(best["feasible"]) else quiet)(counts_sentence(data))
    yield from usual(own_sentence(data))


def _sizes(each: Sequence[xr.Dataset]) -> Iterator[Said]:
    """Yield the best plan on each number of accelerators, and how the plans scale."""
    yield from quiet(sizes_table(each))
    yield from usual(glossary(each[0]), *none_sentences(each[0]))
    for one in each:
        on = f"On {int(one.gpus):,}:"
        yield from usual("" if _fits(one) else f"{on} {nothing_sentence(one)}")
        own = own_sentence(one)
        yield from usual(f"{on} {own}" if own else "")
    if fits := [int(one.gpus) for one in each if _fits(one)]:
        first = f"{fits[0]:,}, the first that fits"
        yield from usual(f"Scaling: throughput per accelerator relative to {first}.")


def _fits(data: xr.Dataset) -> bool:
    return bool(data["feasible"].values[0])


def need_limit(data: xr.Dataset) -> float:
    """Return what a plan may need."""
    return float(data["limit"]) if "limit" in data else limit_of(data)


def _ranked(data: xr.Dataset) -> xr.Dataset:
    """Return the plans of a file: those shown stand in their order, all of them in none."""
    fits = np.flatnonzero(data["feasible"].values)
    if "plans_legal" in data or not 0 < len(fits) < data.sizes["plan"]:
        return data
    aim = aim_of(data)
    sign = -1.0 if rises(data, aim) else 1.0
    fits = fits[np.argsort(sign * data[aim].values[fits], kind="stable")]
    other = np.setdiff1d(np.arange(data.sizes["plan"]), fits)
    return data.isel(plan=np.concatenate([fits, other])).assign(plans_feasible=len(fits))


# ---- Tables -------------------------------------------------------------------------------------


def plans_table(data: xr.Dataset, limit: float) -> PlainTable:
    """Return plans in their order: split, results, need, and the parts of what is optimised."""
    rows = [data.isel(plan=place).assign(place=place) for place in range(data.sizes["plan"])]
    aim = aim_of(data)

    def part(name: str) -> Shown:
        head = f"{head_of(data, name)}\n%"
        return Shown(head, lambda row: _share(float(row[name]) / float(row[aim])), 5)

    columns = [
        Shown("#", lambda row: f"{int(row.place) + 1}"),
        *plan_columns(data, rows),
        *result_columns(data, limit),
        *map(part, parts_of(data, aim)),
    ]
    return PlainTable().add_rows(columns, rows)


def result_columns(data: xr.Dataset, limit: float | None) -> list[Shown]:
    """Return the columns of a plan's results and need; those of large numbers leave first."""
    need, trained = need_of(data), is_step(data)

    def result(place: int, name: str) -> Shown:
        unit = unit_of(data, name)
        if not trained:
            return Shown(head_of(data, name), lambda row: amount(float(row[name]), unit), 2 * place)
        if name == RATE:
            return Shown("samples\n/s", lambda row: f"{float(row[name]):.5g}", 3)
        if name == "mfu":
            return Shown("MFU\n%", lambda row: f"{100 * float(row[name]):.1f}", 2)
        return Shown("step\ntime", lambda row: amount(float(row[name]), unit))

    names = [TIME, RATE, "mfu"] if trained else merits(data)
    columns = [result(place, name) for place, name in enumerate(names)]
    if not need:
        return columns
    head, unit = "memory" if trained else head_of(data, need), unit_of(data, need)
    of = "" if limit is None else f" of\n{size(limit, unit)}"
    full = Shown(f"{head}{of}", lambda row: filled(float(row[need]), _limit(row, limit), unit), 1)
    return [*columns, full]


def _limit(row: xr.Dataset, limit: float | None) -> float:
    return need_limit(row) if limit is None else limit


def _share(part: float) -> str:
    return "-" if part == 0 else "<0.1" if part < 0.0005 else f"{100 * part:.1f}"


def sizes_table(each: Sequence[xr.Dataset]) -> PlainTable:
    """Return one row per cluster size: its best plan and the scaling efficiency."""
    rows = [one.isel(plan=0) for one in each]
    best = [row for row in rows if bool(row["feasible"])]

    def scaling(row: xr.Dataset) -> str:
        rate, first = (float(one[RATE] / one.gpus) for one in (row, best[0]))
        return f"{100 * rate / first:.1f}"

    counts = [
        Shown("gpus", lambda row: f"{int(row.gpus):,}"),
        Shown("plans", lambda row: f"{int(row.plans_legal):,}", 6),
        Shown("fit", lambda row: f"{int(row.plans_feasible):,}", 6),
    ]
    plans = plan_columns(best[0], best, 5) if best else []
    results = result_columns(best[0], None) if best else [Shown("best", lambda row: "")]

    def nothing(row: xr.Dataset) -> list[str]:
        told = [*(count.cell(row) for count in counts), *["-"] * len(plans), "nothing fits"]
        return [] if bool(row["feasible"]) else told

    columns = [*counts, *plans, *results, Shown("scaling\n%", scaling, 1)]
    return PlainTable().add_rows(columns, rows, nothing)


# ---- Sentences ----------------------------------------------------------------------------------


def aim_of(data: xr.Dataset) -> str:
    """Return the result that the estimator optimises."""
    return str(roles(data)["objective"])


def is_step(data: xr.Dataset) -> bool:
    """Return whether plans are of a training step."""
    return {*STEP, "mfu"} <= {*data.data_vars}


def merits(data: xr.Dataset) -> list[str]:
    """Return the results that are shown: what was asked for leads."""
    asked = str(data.attrs.get("objective", ""))
    return [*dict.fromkeys([*[asked] * (asked in data), *headlines(data)])]


def best_sentence(data: xr.Dataset) -> str:
    """Return the best of the plans that fit, its results and need."""
    best, limit = data.isel(plan=0), need_limit(data)
    fits = int(data.plans_feasible) if "plans_feasible" in data else None
    count = "" if fits is None else f"{fits:,} "
    of = ", the only plan that fits" if fits == 1 else f" of the {count}plans that fit"
    names = STEP if is_step(best) else merits(best)
    said = [plan_words(best), *(amounts_of(best, name) for name in names)]
    if need := need_of(best):
        value, unit = float(best[need]), unit_of(best, need)
        said.append(f"{size(value, unit)} of {size(limit, unit)} ({percent(value / limit)})")
    return f"Best{of}: {', '.join(said)}."


def amounts_of(row: xr.Dataset, name: str) -> str:
    """Return a result of a plan with its unit, and of what it is where the unit does not say it."""
    if name == RATE and is_step(row):
        return f"{float(row[name]):.5g} samples/s"
    if name.endswith("_time"):
        return per_run(row, name, float(row[name]))
    return f"{words_of(row, name)} {amount(float(row[name]), unit_of(row, name))}"


def parts_sentence(best: xr.Dataset) -> str:
    """Return where the time of a step goes, or what else is optimised; empty without parts."""
    aim = aim_of(best)
    shares = {name: float(best[name]) / float(best[aim]) for name in parts_of(best, aim)}
    order = sorted(shares, key=lambda name: -shares[name])
    said = [f"{words_of(best, n)} {percent(shares[n])}" for n in order if shares[n] >= LEAST]
    what = "step's time" if aim == TIME else words_of(best, aim)
    return f"Where the {what} goes: {listing(said)}." if said else ""


def counts_sentence(data: xr.Dataset) -> str:
    """Return how many plans there were, how many fit, and the reasons against the rest."""
    if "plans_legal" not in data:  # of an older file
        return ""
    legal, fits = int(data.plans_legal), int(data.plans_feasible)
    where, refused, reasons = (
        json.loads(data.attrs.get(name, "{}")) for name in ("where", "refused", "reasons")
    )
    asked = f" with {' and '.join(where)}" if where else ""
    rules = refused_sentences(refused, reasons)
    if not (need := need_of(data)):
        return f"{_plans(legal)}{asked}.{rules}"
    over, unit = legal - fits, unit_of(data, need)
    kept = f"{_plans(legal)}{asked}; {fit_words(data, size(need_limit(data), unit))}"
    if over and "beyond" not in data.attrs:
        least, most = (size(float(data[name]), unit) for name in ("need_least", "need_most"))
        kept += f", {over:,} need more (plans need {least} to {most})"
    return f"{kept}.{rules}"


def close_sentence(data: xr.Dataset) -> str:
    """Return how many plans are close to the best, and which of them needs the least memory."""
    if "close" not in data:
        return ""
    share, many, objective = f"{100 * CLOSE:.3g} %", int(data["close"]), data.attrs["objective"]
    if many == 0:
        return f"No other plan that fits is within {share}."
    first = "One other plan is" if many == 1 else f"{many:,} other plans are"
    if not (need := need_of(data)):
        return f"{first} within {share}."
    value, best = float(data.close_lean), float(data[objective][0])
    if value == best:
        less = "memory" if need == "memory" else words_of(data, need)
        return f"{first} within {share}; none of them needs less {less}."
    gap = _behind(value, best)
    worse = f"is {gap} slower" if unit_of(data, objective) == "s" else f"is {gap} behind"
    lead = f"{first} within {share}: " if many == 1 else f"{first} within {share}; the leanest, "
    said = f"{placed_words(_with_fields(data, 'close_plan'))}{',' * (many > 1)}"
    return f"{lead}{said} uses {size(float(data.close_need), unit_of(data, need))} and {worse}."


def _with_fields(data: xr.Dataset, name: str) -> xr.Dataset:
    """Return the first plan with the fields of another, which are JSON under a name."""
    row, fields = data.isel(plan=0), json.loads(str(data[name].values))
    return row.assign({field: row[field].copy(data=value) for field, value in fields.items()})


def nothing_sentence(data: xr.Dataset) -> str:
    """Return which need is too large, by how much, and what it is made of."""
    lean = data.isel(plan=0)
    if "why_none" in data.attrs:
        return f"nothing is within every limit: {data.attrs['why_none']}."
    need, limit = need_of(lean), need_limit(data)
    unit = unit_of(lean, need)
    over = float(lean[need]) - limit
    said = (
        f"nothing fits: the leanest plan ({plan_words(lean)}) needs {size(limit + over, unit)} "
        f"of the {size(limit, unit)} there is, {size(over, unit)} too much."
    )
    parts = {words_of(lean, name): float(lean[name]) for name in parts_of(lean, need)}
    if not parts:
        return said
    order = sorted(parts.items(), key=lambda item: -item[1])
    terms = ", ".join(f"{words} {size(value, unit)}" for words, value in order)
    return f"{said} Largest term: {order[0][0]} ({terms})."


def own_sentence(data: xr.Dataset) -> str:
    """Return the rank of the user's plan, its gap to the best, and where it spends more."""
    if "own" not in data:
        why = data.attrs.get("own_refused")
        return f"Yours is not allowed: {why}." if why else ""
    best, aim = data.isel(plan=0), str(data.attrs["objective"])
    own = float(data.own)
    row = _with_fields(data, "own_plan").assign({aim: best[aim].copy(data=own)})
    said = f"Yours: {placed_words(row)}, {amounts_of(row, aim)}"
    if missed := missed_words(data, need_limit(data)):
        return f"{said}, but it does not fit: {listing([*missed.values()])}."
    place, fits = int(data.own_place), int(data.plans_feasible)
    if place == 1:
        return f"{said}: it is the best of the {fits:,} plans that fit."
    slower = aim == aim_of(data) and unit_of(data, aim) == "s"
    worse = "slower" if slower else f"behind the best in {aim.replace('_', ' ')}"
    gap = _behind(own, float(best[aim]))
    said = f"{said}: place {place:,} of the {fits:,} plans that fit, {gap} {worse}."
    parts = json.loads(str(data.own_parts.values))
    more = {name: value - float(best[name]) for name, value in parts.items()}
    worst = sorted((n for n in more if more[n] > 0), key=lambda n: -more[n])[:2]
    spent = [f"{amount(more[n], unit_of(data, n))} more in {words_of(data, n)}" for n in worst]
    return f"{said} It spends {listing(spent)}." if spent else said


def _behind(value: float, best: float) -> str:
    if not best:
        return f"{abs(value):.3g}"
    share = 100 * abs(value / best - 1.0)
    return f"{share:.2g} %" if share < 100 else f"{share:.0f} %"


def _plans(count: int) -> str:
    return "1 legal plan" if count == 1 else f"{count:,} legal plans"
