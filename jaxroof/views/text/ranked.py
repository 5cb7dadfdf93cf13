"""What is said of any ranked plans: their question and counts, one's own, several sizes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.legal_plans import BY_SIZE
from jaxroof.analyses.result_metadata import (
    filled_paths,
    need_of,
    objective_of,
    parts_of,
    timed_of,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.estimators.training.plans import SELDOM
from jaxroof.units import amount, percent, size, too_much
from jaxroof.views.text.compare import slower_by
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import (
    field_columns,
    fields_words,
    filled_sentence,
    glossary,
    placed_words,
    placement_fields,
    shown_fields,
    used_fields,
)
from jaxroof.views.text.said import Said, quiet, title, usual
from jaxroof.views.text.tables import per_run

MOST = 3  # sizes without a plan of which it is said why
LEAST = 0.005  # parts with smaller shares are not worth words


def title_of(data: xr.Dataset) -> str:
    """Return the question: model, machine and batch."""
    asked = json.loads(data.attrs["inputs"])
    return (
        f"{data.attrs['model']} on {int(data.gpus):,} x {data.attrs['system']}, batch "
        f"{int(asked['global_batch']):,} of {int(asked['model.sequence']):,} tokens"
    )


def numbered(data: xr.Dataset) -> tuple[Shown, list[xr.Dataset]]:
    """Return the column of the place of a plan, and the plans as rows."""
    rows = [data.isel(plan=place).assign(place=place) for place in range(data.sizes["plan"])]
    return Shown("#", lambda row: f"{int(row.place) + 1}"), rows


def limit_of(data: xr.Dataset) -> float:
    """Return what a plan may need."""
    names = ("capacity", "need_limit", "limit")  # the last of older files
    told = next((data[n] for n in names if n in data and not data[n].ndim), None)
    if told is not None:
        return float(told)
    numbers = json.loads(data.attrs["inputs"])
    return float(np.prod([numbers[path] for path in filled_paths(data)]))


def parts_sentence(best: xr.Dataset) -> str:
    """Return where the time of a step goes, or what else is optimised; empty without parts."""
    aim = objective_of(best)
    parts = {words_of(best, name): float(best[name]) for name in parts_of(best, aim)}
    what = "step's time" if aim == "step_time" else words_of(best, aim)
    return f"Where the {what} goes: {shares(parts, float(best[aim]))}." if parts else ""


def shares(parts: Mapping[str, float], whole: float) -> str:
    """Return the parts of a whole in per cent, the largest first."""
    large = sorted(((s / whole, w) for w, s in parts.items() if s >= LEAST * whole), reverse=True)
    return listing([f"{words} {percent(share)}" for share, words in large])


def counts_sentence(data: xr.Dataset) -> str:
    """Return how many plans are legal, how many fit, and what refused the others."""
    if "plans_legal" not in data:  # of an older file
        return ""
    legal, fits, need = int(data.plans_legal), int(data.plans_feasible), need_of(data)
    where, refused, reasons = (
        json.loads(data.attrs.get(name, "{}")) for name in ("where", "refused", "reasons")
    )
    said = plans_words(legal) + (f" with {' and '.join(where)}" if where else "")
    if need:
        said += f"; {fit_words(data, size(limit_of(data), unit_of(data, need)))}"
    if need and legal > fits and "need_least" in data and "beyond" not in data.attrs:
        least, most = (
            size(float(data[n]), unit_of(data, need)) for n in ("need_least", "need_most")
        )
        said += f", {legal - fits:,} need more (plans need {least} to {most})"
    rules = [f"{words} ({refused[name]:,})" for name, words in reasons.items() if refused.get(name)]
    said += f". The rules dropped {listing(rules)}" if rules else ""
    own = refused.get("where")
    return f"{said}. Your constraints dropped {own:,} plans." if own else f"{said}."


def plans_words(count: int) -> str:
    """Return a number of legal plans in words."""
    return "1 legal plan" if count == 1 else f"{count:,} legal plans"


def fit_words(data: xr.Dataset, limit: str) -> str:
    """Return how many plans fit, and what each of several limits excludes."""
    beyond = json.loads(data.attrs.get("beyond", "{}"))
    if not beyond:
        return f"{int(data.plans_feasible):,} fit in {limit}"
    every = [(words_of(data, name), count) for name, (count, _) in beyond.items() if count]
    each = [f"{words} excludes {count:,}" for words, count in every]
    said = f"{int(data.plans_feasible):,} fit every limit"
    return f"{said}: {listing(each)}" if each else said


# ---- One's own plan -----------------------------------------------------------------------------


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan, and what makes it slower; empty if there is none."""
    if "own" not in data:
        why = data.attrs.get("own_refused")
        return f"Yours is not allowed: {why}." if why else ""
    best, aim, own = data.isel(plan=0), objective_of(data), float(data.own)
    row, trained = with_fields(data, "own_plan"), "own_device" in data
    fields = json.loads(str(data.own_plan.values))
    words = fields_words(data, {f: v for f, v in fields.items() if SELDOM.get(f) != v})
    words = placed_words(row) if placement_fields(row) else words
    between = f" ({data.own_low:.4g} to {data.own_high:.4g} s)" if "own_low" in data else ""
    said = f"Yours: {words}, {result_words(row, aim, own)}{between}"
    filled = filled_sentence(data) if trained else ""
    if missed := missed_words(data, limit_of(data)):
        way = " `jaxroof fit --plan` with it says what would make it fit." * trained
        return f"{said}, but it does not fit: {listing([*missed.values()])}.{way}{filled}"
    place, fits, first = int(data.own_place), int(data.plans_feasible), float(best[aim])
    if place == 1 or own == first:
        return f"{said}: it is the best of the {fits:,} plans that fit.{filled}"
    said += f": place {place:,} of the {fits:,} plans that fit, {behind(own, first, data, aim)}"
    if place <= int(data.get("plans_alike", 0)):
        said += ", too close to the best for the model to tell apart"
    parts = json.loads(str(data.own_parts.values))
    if not parts or aim != "step_time":
        return f"{said}.{filled}"
    return f"{said}. It spends {slower_by(best, xr.Dataset({**parts, aim: own}))}.{filled}"


def missed_words(data: xr.Dataset, limit: float) -> dict[str, str]:
    """Return which limits the user's plan misses and by how much; ``limit`` is that of the need."""
    missed = json.loads(str(data.own_missed.values)) if "own_missed" in data else {}
    said = {}
    for name, over in missed.items():
        unit = unit_of(data, name)
        said[name] = f"its {words_of(data, name)} is {amount(over, unit)} too much"
        if name == need_of(data):
            said[name] = f"it needs {too_much(limit + over, limit, unit)}"
    return said


def result_words(row: xr.Dataset, name: str, value: float) -> str:
    """Return a result of a plan with its unit, and of what it is where the unit does not say it."""
    said, words = per_run(row, name, value), words_of(row, name)
    return said if timed_of(row, name) or said.endswith(words) else f"{words} {said}"


def behind(value: float, best: float, data: xr.Dataset, aim: str) -> str:
    """Return how much worse one result is than the best."""
    gap = 100.0 * abs(value / best - 1.0) if best else abs(value)
    share = f"{max(gap, 0.01):.2g} %" if gap < 10.0 else f"{gap:.0f} %"
    return (
        f"{share} {'slower' if unit_of(data, aim) == 's' else f'behind in {words_of(data, aim)}'}"
    )


def with_fields(data: xr.Dataset, name: str) -> xr.Dataset:
    """Return the first plan with the fields of another, which are JSON under a name."""
    row, fields = data.isel(plan=0), json.loads(str(data[name].values))
    return row.assign({f: row[f].copy(data=value) for f, value in fields.items() if f in row})


# ---- Several numbers of accelerators ------------------------------------------------------------


def table_of_sizes(
    words: str, columns: Sequence[Shown], found: Sequence[xr.Dataset]
) -> Iterator[Said]:
    """Yield the first plan of each size in a table, why others have none, and the user's own."""
    first, about = [one.isel(plan=0) for one in found], found[0].attrs
    fields = [f for f in used_fields(first[0]) if any(f in shown_fields(one) for one in first)]
    every = [size_column(), *field_columns(first[0], fields), *columns]
    yield from title(f"{about['model']} on {about['system']}")
    yield from quiet(PlainTable(f"{words}, by number of accelerators").add_rows(every, first))
    yield from usual(glossary(found[0], fields), *none_sentences(found[0]))
    yield from usual(*on_each(found, own_sentence))


def size_column() -> Shown:
    """Return the column of the number of accelerators."""
    return Shown("gpus", lambda row: f"{int(row.gpus):,}")


def on_each(found: Sequence[xr.Dataset], said: Callable[[xr.Dataset], str]) -> list[str]:
    """Return what is said of each size."""
    return [f"On {int(one.gpus):,}: {words}" for one in found if (words := said(one))]


def none_sentences(data: xr.Dataset) -> list[str]:
    """Return why numbers of accelerators have no plan."""
    none = {int(size): why for size, why in json.loads(data.attrs.get("none", "{}")).items()}
    said = [f"On {size:,}: {none[size].removeprefix('plan: ')}." for size in [*none][:MOST]]
    if len(none) > MOST:
        others = listing([f"{size:,}" for size in [*none][MOST:]])
        said.append(f"None on {others} accelerators either.")
    return said


def by_size(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the plans of a file by number of accelerators, and what holds for all of one."""
    sizes, each = data["gpus"].values, json.loads(data.attrs.get("each", "{}"))
    found = []
    for gpus in np.unique(sizes):
        some = data.isel(plan=np.flatnonzero(sizes == gpus))
        told = {name: value for name, value in each.get(str(gpus), {}).items() if value is not None}
        if told:  # else of an older file
            some.attrs = {n: value for n, value in some.attrs.items() if n not in BY_SIZE}
        attrs = {name: value for name, value in told.items() if name in BY_SIZE}
        single = {name: value for name, value in told.items() if name not in attrs}
        most = {} if "need_limit" in single else {"capacity": limit_of(data)}
        single = {**most, **single, "gpus": gpus}
        found.append(some.assign(single).assign_attrs(attrs))
    return found
