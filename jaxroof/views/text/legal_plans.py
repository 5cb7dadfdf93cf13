"""What is said of the legal plans of one machine, ranked: of any estimator that is searched."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

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
from jaxroof.views.text.sizes import by_size, limit_of
from jaxroof.views.text.tables import amount, filled, per_run

LEAST = 0.005  # parts with smaller shares are not worth words
TIME, RATE = "step_time", "throughput"  # results of a training step


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RankedPlans:
    """The plans that are shown, best first, with all their results."""

    data: xr.Dataset
    limit: float  # what a plan may need
    feasible: int | None  # how many fit, None if that is not known

    @property
    def best(self) -> xr.Dataset | None:
        """Return the best plan, None if nothing fits."""
        return self.data.isel(plan=0) if self.feasible != 0 else None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LegalPlans(RankedPlans):
    """The best plans on one machine, how they were searched, and the user's own among them."""

    gpus: int | None  # accelerators, where the question has such a number
    objective: str
    where: Sequence[str]  # constraints
    refused: Mapping[str, int]  # plans that each rule refused
    refusals: Mapping[str, str]  # and what these are, in words
    needs: np.ndarray  # of every legal plan
    close: int  # how many others are close to the best
    lean: xr.Dataset | None  # the leanest of these and of the best
    leanest: xr.Dataset | None  # the plan that needs least, None if none is legal
    # where nothing is within every limit: how many plans each excludes, what the nearest misses
    beyond: Mapping[str, tuple[int, float]]
    own: xr.Dataset | None  # the user's plan
    place: int  # of the user's plan among those that fit
    not_allowed: str  # why the user's plan is not among the legal plans

    @property
    def legal(self) -> int:
        """Return how many plans are legal."""
        return len(self.needs)


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the plans that a file has on each number of accelerators: those shown, or all."""
    each = by_size(data) if "gpus" in data else [data]
    for some in each:
        if len(each) > 1:
            yield from title(f"{int(some['gpus']):,} accelerators")
        found = _ranked(some)
        if found.best is not None:
            yield from _best_plans(found, found.best)


def answer_of_search(found: LegalPlans, about: str, within: float) -> Iterator[Said]:
    """Yield the best plans on one machine, and the user's own.

    ``about`` is the title; plans ``within`` a share of the best are close to it.
    """
    yield from title(about)
    if found.best is None or found.lean is None:
        nothing = nothing_sentence(found)
        yield from quiet(nothing[:1].upper() + nothing[1:], counts_sentence(found))
    else:
        yield from _best_plans(found, found.best)
        yield from usual(close_sentence(found, found.lean, found.best, within))
        yield from verbose(counts_sentence(found))
    yield from usual(own_sentence(found))


def answer_of_sizes(found: Sequence[LegalPlans], about: str) -> Iterator[Said]:
    """Yield the best plan on each number of accelerators, and how the plans scale."""
    fits = [one.gpus for one in found if one.best is not None]
    yield from title(about)
    yield from quiet(sizes_table(found))
    yield from usual(glossary(found[0].data))
    for one in found:
        on = f"On {one.gpus:,}:"
        yield from usual(f"{on} {nothing_sentence(one)}" if one.best is None else "")
        own = own_sentence(one)
        yield from usual(f"{on} {own}" if own else "")
    if fits:
        first = f"{fits[0]:,}, the first that fits"
        yield from usual(f"Scaling: throughput per accelerator relative to {first}.")


def _best_plans(found: RankedPlans, best: xr.Dataset) -> Iterator[Said]:
    said = best_sentence(best, found.feasible, found.limit)
    yield from usual(said, plan_sentence(best))
    yield from quiet(plans_table(found.data, found.limit))
    yield from usual(glossary(found.data), parts_sentence(best))


def _ranked(data: xr.Dataset) -> RankedPlans:
    """Return the plans of a file: those shown stand in their order, all of them in none."""
    fits = np.flatnonzero(data["feasible"].values)
    every = len(fits) < data.sizes["plan"]
    if every and len(fits):
        aim = aim_of(data)
        sign = -1.0 if rises(data, aim) else 1.0
        fits = fits[np.argsort(sign * data[aim].values[fits], kind="stable")]
        other = np.setdiff1d(np.arange(data.sizes["plan"]), fits)
        data = data.isel(plan=np.concatenate([fits, other]))
    count = len(fits) if every or not len(fits) else None
    return RankedPlans(data=data, limit=limit_of(data), feasible=count)


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
    need, trained = need_of(data), RATE in data

    def result(place: int, name: str) -> Shown:
        unit = unit_of(data, name)
        if not trained:
            return Shown(head_of(data, name), lambda row: amount(float(row[name]), unit), 2 * place)
        if name == RATE:
            return Shown("samples\n/s", lambda row: f"{float(row[name]):.5g}", 3)
        if name == "mfu":
            return Shown("MFU\n%", lambda row: f"{100 * float(row[name]):.1f}", 2)
        return Shown("step\ntime", lambda row: amount(float(row[name]), unit))

    names = (TIME, RATE, "mfu") if trained else headlines(data)
    columns = [result(place, name) for place, name in enumerate(names)]
    if not need:
        return columns
    head, unit = "memory" if trained else head_of(data, need), unit_of(data, need)
    of = "" if limit is None else f" of\n{size(limit, unit)}"
    full = Shown(f"{head}{of}", lambda row: filled(float(row[need]), _limit(row, limit), unit), 1)
    return [*columns, full]


def _limit(row: xr.Dataset, limit: float | None) -> float:
    return limit_of(row) if limit is None else limit


def _share(part: float) -> str:
    return "-" if part == 0 else "<0.1" if part < 0.0005 else f"{100 * part:.1f}"


def sizes_table(found: Sequence[LegalPlans]) -> PlainTable:
    """Return one row per cluster size: its best plan and the scaling efficiency."""
    best = [one.best for one in found if one.best is not None]
    each = [float(one.best[RATE]) / (one.gpus or 1) for one in found if one.best is not None]

    def of_best(column: Shown) -> Shown:
        return column._replace(cell=lambda one: column.cell(one.best))

    def scaling(one: LegalPlans) -> str:
        return f"{100 * float(one.best[RATE]) / (one.gpus or 1) / each[0]:.1f}" if one.best else ""

    counts = [
        Shown("gpus", lambda one: f"{one.gpus:,}"),
        Shown("plans", lambda one: f"{one.legal:,}", 6),
        Shown("fit", lambda one: f"{one.feasible:,}", 6),
    ]
    plans = plan_columns(best[0], best, 5) if best else []
    results = result_columns(best[0], None) if best else [Shown("best", lambda one: "")]
    columns = [*counts, *map(of_best, [*plans, *results]), Shown("scaling\n%", scaling, 1)]

    def nothing(one: LegalPlans) -> list[str]:
        told = [*(count.cell(one) for count in counts), *["-"] * len(plans), "nothing fits"]
        return [] if one.best else told

    return PlainTable().add_rows(columns, found, nothing)


# ---- Sentences ----------------------------------------------------------------------------------


def aim_of(data: xr.Dataset) -> str:
    """Return the result that the estimator optimises."""
    return str(roles(data)["objective"])


def best_sentence(best: xr.Dataset, fits: int | None, limit: float) -> str:
    """Return the best of the plans that fit, its results and need; ``fits`` is None if unknown."""
    count = "" if fits is None else f"{fits:,} "
    of = ", the only plan that fits" if fits == 1 else f" of the {count}plans that fit"
    merits = [TIME, RATE] if {TIME, RATE} <= {*best.data_vars} else headlines(best)
    said = [plan_words(best), *(amounts_of(best, name) for name in merits)]
    if need := need_of(best):
        value, unit = float(best[need]), unit_of(best, need)
        said.append(f"{size(value, unit)} of {size(limit, unit)} ({percent(value / limit)})")
    return f"Best{of}: {', '.join(said)}."


def amounts_of(row: xr.Dataset, name: str) -> str:
    """Return a result of a plan with its unit, and of what it is where the unit does not say it."""
    if name == RATE:
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


def counts_sentence(found: LegalPlans) -> str:
    """Return how many plans there were, how many fit, and the reasons against the rest."""
    legal, fits = found.legal, int((found.needs <= found.limit).sum())
    asked = f" with {' and '.join(found.where)}" if found.where else ""
    rules = refused_sentences(found.refused, found.refusals)
    if not (need := need_of(found.data)):
        return f"{_plans(legal)}{asked}.{rules}"
    over, unit = legal - fits, unit_of(found.data, need)
    kept = f"{_plans(legal)}{asked}; {fits:,} fit in {size(found.limit, unit)}"
    if over:
        least, most = size(found.needs.min(), unit), size(found.needs.max(), unit)
        kept += f", {over:,} need more (plans need {least} to {most})"
    return f"{kept}.{rules}"


def close_sentence(found: LegalPlans, lean: xr.Dataset, best: xr.Dataset, within: float) -> str:
    """Return how many plans are close to the best, and which of them needs the least memory."""
    share, many, objective = f"{100 * within:.3g} %", found.close, found.objective
    if many == 0:
        return f"No other plan that fits is within {share}."
    first = "One other plan is" if many == 1 else f"{many:,} other plans are"
    if not (need := need_of(lean)):
        return f"{first} within {share}."
    if float(lean[objective]) == float(best[objective]):
        less = "memory" if need == "memory" else words_of(lean, need)
        return f"{first} within {share}; none of them needs less {less}."
    gap = _behind(float(lean[objective]), float(best[objective]))
    worse = f"is {gap} slower" if unit_of(lean, objective) == "s" else f"is {gap} behind"
    lead = f"{first} within {share}: " if many == 1 else f"{first} within {share}; the leanest, "
    said = f"{placed_words(lean)}{',' * (many > 1)}"
    return f"{lead}{said} uses {size(float(lean[need]), unit_of(lean, need))} and {worse}."


def nothing_sentence(found: LegalPlans) -> str:
    """Return which need is too large, by how much, and what it is made of."""
    lean = found.leanest
    if lean is None:
        return "no legal plan."
    if len(found.beyond) > 1:
        name = max(found.beyond, key=lambda one: found.beyond[one][0])
        count, missing = found.beyond[name]
        return (
            f"nothing is within every limit: {words_of(lean, name)} excludes {_plans(count)}; "
            f"the nearest plan misses it by {amount(missing, unit_of(lean, name))}."
        )
    need, limit = need_of(lean), found.limit
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


def own_sentence(found: LegalPlans) -> str:
    """Return the rank of the user's plan, its gap to the best, and where it spends more."""
    row, best, limit = found.own, found.best, found.limit
    if row is None:
        return f"Yours is not allowed: {found.not_allowed}." if found.not_allowed else ""
    aim, objective, fits = aim_of(row), found.objective, found.feasible or 0
    said = f"Yours: {placed_words(row)}, {amounts_of(row, aim)}"
    if best is None or not bool(row.feasible):
        need, unit = float(row[need_of(row)]), unit_of(row, need_of(row))
        return (
            f"{said}, but it does not fit: it needs {size(need, unit)}, "
            f"{size(need - limit, unit)} more than the {size(limit, unit)} there are."
        )
    if found.place == 1:
        return f"{said}: it is the best of the {fits:,} plans that fit."
    gap = _behind(float(row[objective]), float(best[objective]))
    slower = objective == aim and unit_of(row, aim) == "s"
    worse = "slower" if slower else f"behind the best in {objective.replace('_', ' ')}"
    said = f"{said}: place {found.place:,} of the {fits:,} plans that fit, {gap} {worse}."
    more = {n: float(row[n]) - float(best[n]) for n in parts_of(row, aim)}
    worst = sorted((n for n in more if more[n] > 0), key=lambda n: -more[n])[:2]
    spent = [f"{amount(more[n], unit_of(row, n))} more in {words_of(row, n)}" for n in worst]
    return f"{said} It spends {listing(spent)}." if spent else said


def _behind(value: float, best: float) -> str:
    """Return the difference from the best in percent, or the value itself if the best is 0."""
    if not best:
        return f"{abs(value):.3g}"
    share = 100 * abs(value / best - 1.0)
    return f"{share:.2g} %" if share < 100 else f"{share:.0f} %"


def _plans(count: int) -> str:
    return "1 legal plan" if count == 1 else f"{count:,} legal plans"
