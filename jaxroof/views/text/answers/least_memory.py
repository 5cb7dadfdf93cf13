"""What is said of the plans that need the least memory, and of whether any plan fits."""

import json
from collections.abc import Iterator, Mapping, Sequence

import xarray as xr

from jaxroof.analyses.fastest_plans import LONGER
from jaxroof.analyses.least_memory import MOST
from jaxroof.units import percent, seconds, size
from jaxroof.views.text import fastest_plans as times
from jaxroof.views.text import least_memory as views
from jaxroof.views.text.answers.plans_by_size import NOTHING, by_size, own_plans, table_of_sizes
from jaxroof.views.text.plan import glossary, plan_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

WAYS = {  # other ways to ask: where a plan fits then, on how many accelerators, and where none does
    "offload": ("Without offload the fewest are {:,}.", "Without offload none hold it."),
    "constraints": (
        "Without your constraints a plan fits on these {:,}.",
        "No plan fits without your constraints either.",
    ),
    "accelerators": (
        "The fewest accelerators that hold it are {:,}.",
        f"No number of accelerators up to {MOST:,} holds it.",
    ),
}


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the leanest plans on one number of accelerators, or on the fewest if none was given."""
    if data["gpus"].ndim:
        yield from answer_of_sizes(by_size(data))
        return
    searched = json.loads(data.attrs.get("options", "{}")).get("gpus") is None
    said = f"{views.answer_sentence(data, searched)} {views.largest_sentence(data)}"
    yield from title(views.title(data))
    yield from usual(said, plan_sentence(data.isel(plan=0)))
    yield from quiet(views.plans_table(data))
    yield from usual(glossary(data, views.shown_fields(data)))
    yield from verbose(views.counts_sentence(data))
    yield from usual(views.own_sentence(data))


def answer_of_sizes(
    found: Sequence[xr.Dataset], none: Mapping[int, str] = NOTHING
) -> Iterator[Said]:
    """Yield the leanest plan on each number of accelerators; ``none`` says why others have none."""
    yield from table_of_sizes(views.sizes_table(found), found, none)
    yield from own_plans(found, views.own_sentence)


def answer_of_fit(
    lean: xr.Dataset | None, fast: xr.Dataset | None, ways: Mapping[str, int | None]
) -> Iterator[Said]:
    """Yield yes or no, the fastest plan that fits, the leanest ones, and ways out.

    ``lean`` are the plans that need least, where they were asked for; ``fast`` the fastest, where
    one fits and its time is known; ``ways`` are other ways to ask, of those of WAYS, each with the
    accelerators on which a plan fits then.
    """
    data = lean if lean is not None else fast
    assert data is not None
    given = json.loads(data.attrs.get("options", "{}")).get("gpus", 0) is not None
    yield from title(views.title(data))
    if given and int(data.plans_feasible):
        yield from usual(yes_sentence(data))
    if lean is not None:
        yield from _leanest(lean, not given, ways, table=fast is None)
    if fast is not None:
        yield from _fastest(fast)
    elif int(data.plans_feasible):
        yield from usual(no_time_sentence(data))
    yield from verbose(views.counts_sentence(data))


def _leanest(
    lean: xr.Dataset, searched: bool, ways: Mapping[str, int | None], table: bool
) -> Iterator[Said]:
    """Yield the plan that needs least, what fills it, ways out, and the table of the leanest."""
    said = [views.answer_sentence(lean, searched), views.largest_sentence(lean)]
    for way, gpus in ways.items():
        holds, none = WAYS[way]
        said.append(none if gpus is None else holds.format(gpus))
    yield from usual(" ".join(said), plan_sentence(lean.isel(plan=0)))
    if table:
        yield from quiet(views.plans_table(lean))
        yield from usual(glossary(lean, views.shown_fields(lean)))


def _fastest(fast: xr.Dataset) -> Iterator[Said]:
    """Yield the fastest plan, the leanest that is not much slower, and the table of the fastest."""
    said = f"{times.answer_sentence(fast)} {lean_sentence(fast)}"
    yield from usual(said, plan_sentence(fast.isel(plan=0)))
    yield from quiet(times.plans_table(fast))
    yield from usual(times.table_sentence(fast, views.shown_fields(fast)))


def yes_sentence(data: xr.Dataset) -> str:
    """Return that plans fit, and how many of the legal ones do."""
    legal, fits, gpus = int(data.plans_legal), int(data.plans_feasible), int(data.gpus)
    return f"Yes: {fits:,} of {legal:,} legal plans fit on {gpus:,} accelerators."


def lean_sentence(fast: xr.Dataset) -> str:
    """Return the leanest of the plans that take little longer than the fastest."""
    if "lean" not in fast:  # of an older file
        return ""
    time, need = float(fast.lean), float(fast.lean_memory)
    plan = json.loads(str(fast.lean_plan.values))
    if all(int(fast[name][0]) == value for name, value in plan.items()):
        return f"No plan that takes at most {percent(LONGER)} longer needs less."
    own = times.named_fields(fast, "lean")
    more = f"{seconds(time)}, {times.slower(time, float(fast.step_time[0]))}"
    said = f"Leanest of those that take at most {percent(LONGER)} longer: {own}"
    return f"{said}, needs {size(need, 'B')} and takes {more}."


def no_time_sentence(lean: xr.Dataset) -> str:
    """Return that no step time is known, so that no plan is the fastest."""
    said = f"No run on the chip of {lean.attrs['system']} was measured"
    return f"{said}, so there is no step time: `fit` ranks its plans by memory."
