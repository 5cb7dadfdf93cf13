"""What is said of the legal plans of one machine, ranked: of any estimator that is searched."""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.legal_plans import CLOSE
from jaxroof.analyses.result_metadata import (
    head_of,
    headlines,
    need_of,
    objective_of,
    parts_of,
    rises,
    unit_of,
    words_of,
)
from jaxroof.units import amount, percent, size, too_much
from jaxroof.views.text.interval import run_sentence
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import (
    glossary,
    placed_words,
    plan_columns,
    plan_sentence,
    plan_words,
)
from jaxroof.views.text.ranked import (
    behind,
    by_size,
    counts_sentence,
    limit_of,
    none_sentences,
    numbered,
    on_each,
    own_sentence,
    parts_sentence,
    result_words,
    size_column,
    with_fields,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

RATE = "throughput"  # results of a training step
HEADS = {"step_time": "step\ntime", RATE: "sequences\n/s", "mfu": "MFU\n%"}


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best plans, and the user's own; of several machines the best of each."""
    yield from title(str(data.attrs.get("title", "")))
    each = by_size(data) if "gpus" in data and data["gpus"].ndim else [data]
    each = [_ranked(some) for some in each]
    if len(each) > 1:
        yield from quiet(sizes_table(each))
        yield from usual(glossary(each[0]), *none_sentences(data))
        yield from usual(*on_each([one for one in each if not _fits(one)], nothing_sentence))
        yield from usual(*on_each(each, own_sentence))
        return
    best = each[0].isel(plan=0)
    if _fits(each[0]):
        yield from usual(best_sentence(each[0]), plan_sentence(best))
        yield from quiet(plans_table(each[0]))
        yield from usual(glossary(each[0]), parts_sentence(best), close_sentence(each[0]))
        yield from usual(run_sentence(each[0]) if "wall_days" in each[0] else "")
        yield from verbose(counts_sentence(each[0]))
    else:
        nothing = nothing_sentence(each[0])
        yield from quiet(nothing[:1].upper() + nothing[1:], counts_sentence(each[0]))
    yield from usual(own_sentence(each[0]), *none_sentences(data))


def _fits(data: xr.Dataset) -> bool:
    return bool(data["feasible"].values[0])


def _ranked(data: xr.Dataset) -> xr.Dataset:
    """Return the plans of a file: those shown stand in their order, all of them in none."""
    fits = np.flatnonzero(data["feasible"].values)
    if "plans_legal" in data or not 0 < len(fits) < data.sizes["plan"]:
        return data
    aim = objective_of(data)
    sign = -1.0 if rises(data, aim) else 1.0
    fits = fits[np.argsort(sign * data[aim].values[fits], kind="stable")]
    other = np.setdiff1d(np.arange(data.sizes["plan"]), fits)
    return data.isel(plan=np.concatenate([fits, other])).assign(plans_feasible=len(fits))


def _is_step(data: xr.Dataset) -> bool:
    """Return whether plans are of a training step: a result of another may have the name of one."""
    return {*HEADS} <= {*data.data_vars}


def _merits(data: xr.Dataset) -> list[str]:
    """Return the results that are shown: what was asked for leads."""
    asked = str(data.attrs.get("objective", ""))
    first = [asked] * (asked in data)
    if _is_step(data):
        return [*first * (asked not in {*HEADS, need_of(data)}), *HEADS]
    return [*dict.fromkeys([*first, *headlines(data)])]


# ---- Tables -------------------------------------------------------------------------------------


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return plans in their order: split, results and need."""
    number, rows = numbered(data)
    columns = [number, *plan_columns(data, rows), *result_columns(data)]
    return PlainTable().add_rows(columns, rows)


def result_columns(data: xr.Dataset) -> list[Shown]:
    """Return the columns of a plan's results and need; the last leave first."""
    need, heads = need_of(data), HEADS if _is_step(data) else {}

    def result(place: int, name: str) -> Shown:
        def cell(row: xr.Dataset) -> str:
            value = float(row[name])
            if name not in heads or name == "step_time":
                return amount(value, unit_of(data, name))
            return f"{value:.5g}" if name == RATE else f"{100 * value:.1f}"

        return Shown(heads.get(name, head_of(data, name)), cell, 2 * place)

    def full(row: xr.Dataset) -> str:
        share = percent(float(row[need]) / limit_of(row))
        return f"{size(float(row[need]), unit_of(data, need))} {share:>5}"

    columns = [result(*one) for one in enumerate(_merits(data))]
    return [*columns, Shown(head_of(data, need), full, 1)] if need else columns


def sizes_table(each: Sequence[xr.Dataset]) -> PlainTable:
    """Return one row per cluster size: its best plan."""
    rows = [one.isel(plan=0) for one in each]
    best = [row for row in rows if bool(row["feasible"])]
    plans = plan_columns(best[0], best, 5) if best else []
    results = result_columns(best[0]) if best else [Shown("best", lambda row: "")]

    def nothing(row: xr.Dataset) -> list[str]:
        told = [f"{int(row.gpus):,}", *["-"] * len(plans), "nothing fits"]
        return [] if bool(row["feasible"]) else told

    return PlainTable().add_rows([size_column(), *plans, *results], rows, nothing)


# ---- Sentences ----------------------------------------------------------------------------------


def best_sentence(data: xr.Dataset) -> str:
    """Return the best of the plans that fit, its results and need."""
    best, limit = data.isel(plan=0), limit_of(data)
    fits = int(data.plans_feasible) if "plans_feasible" in data else None
    count = "" if fits is None else f"{fits:,} "
    of = ", the only plan that fits" if fits == 1 else f" of the {count}plans that fit"
    merits = [name for name in _merits(best) if name != "mfu"]
    said = [plan_words(best), *(result_words(best, n, float(best[n])) for n in merits)]
    if need := need_of(best):
        value, unit = float(best[need]), unit_of(best, need)
        said.append(f"{size(value, unit)} of {size(limit, unit)} ({percent(value / limit)})")
    return f"Best{of}: {', '.join(said)}."


def close_sentence(data: xr.Dataset) -> str:
    """Return how many plans are close to the best, and which of them needs the least memory."""
    if "close" not in data:
        return ""
    share, many, objective = f"{100 * CLOSE:.3g} %", int(data["close"]), objective_of(data)
    if many == 0:
        return f"No other plan that fits is within {share}."
    first = "One other plan is" if many == 1 else f"{many:,} other plans are"
    if not (need := need_of(data)):
        return f"{first} within {share}."
    value, best = float(data.close_lean), float(data[objective][0])
    if value == best:
        return f"{first} within {share}; none of them needs less {words_of(data, need)}."
    lean = placed_words(with_fields(data, "close_plan"))
    uses = size(float(data.close_need), unit_of(data, need))
    gap = behind(value, best, data, objective)
    return f"{first} within {share}; the leanest, {lean}, uses {uses} and is {gap}."


def nothing_sentence(data: xr.Dataset) -> str:
    """Return which need is too large, by how much, and what it is made of."""
    lean = data.isel(plan=0)
    if "why_none" in data.attrs:
        return f"nothing is within every limit: {data.attrs['why_none']}."
    need = need_of(lean)
    unit, missing = (
        unit_of(lean, need),
        too_much(float(lean[need]), limit_of(data), unit_of(lean, need)),
    )
    said = f"nothing fits: the leanest plan ({plan_words(lean)}) needs {missing}."
    parts = {words_of(lean, name): float(lean[name]) for name in parts_of(lean, need)}
    order = sorted(parts.items(), key=lambda item: -item[1])
    terms = ", ".join(f"{words} {size(value, unit)}" for words, value in order)
    return f"{said} Largest term: {order[0][0]} ({terms})." if parts else said
