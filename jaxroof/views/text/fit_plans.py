"""What is said of whether any plan fits: yes or no, the fastest that does, the leanest ones."""

import json
from collections.abc import Iterator

import xarray as xr

from jaxroof.analyses.training_plans import LONGER
from jaxroof.units import percent, seconds, size
from jaxroof.views.text import fastest_plans as times
from jaxroof.views.text.compare import MFU
from jaxroof.views.text.least_memory import leanest
from jaxroof.views.text.plan import glossary, plan_sentence, shown_fields
from jaxroof.views.text.ranked import behind, counts_sentence, title_of
from jaxroof.views.text.said import Said, quiet, title, usual, verbose


def answer_of_fit(lean: xr.Dataset | None, fast: xr.Dataset | None) -> Iterator[Said]:
    """Yield yes or no, the fastest plan that fits, the leanest ones, and ways out.

    ``lean`` are the plans that need least, where they were asked for; ``fast`` the fastest, where
    one fits and its time is known.
    """
    data = lean if lean is not None else fast
    assert data is not None
    fits = int(data.plans_feasible)
    yield from title(title_of(data))
    if fits and json.loads(data.attrs.get("options", "{}")).get("gpus", 0) is not None:
        counts = f"{fits:,} of {int(data.plans_legal):,} legal plans fit"
        yield from usual(f"Yes: {counts} on {int(data.gpus):,} accelerators.")
    if lean is not None:
        yield from leanest(lean, table=fast is None)
    if fast is not None:
        said = f"{times.answer_sentence(fast)} {lean_sentence(fast)}"
        yield from usual(said, plan_sentence(fast.isel(plan=0)))
        yield from quiet(times.plans_table(fast))
        yield from usual(glossary(fast, shown_fields(fast), MFU))
    elif fits:
        why = f"No run on the chip of {data.attrs['system']} was measured"
        yield from usual(f"{why}, so there is no step time: `fit` ranks its plans by memory.")
    yield from verbose(counts_sentence(data))


def lean_sentence(fast: xr.Dataset) -> str:
    """Return the leanest of the plans that take little longer than the fastest."""
    if "lean" not in fast:  # of an older file
        return ""
    time, need = float(fast.lean), float(fast.lean_memory)
    plan = json.loads(str(fast.lean_plan.values))
    if all(int(fast[name][0]) == value for name, value in plan.items()):
        return f"No plan that takes at most {percent(LONGER)} longer needs less."
    own = times.named_fields(fast, "lean")
    more = f"{seconds(time)}, {behind(time, float(fast.step_time[0]), fast, 'step_time')}"
    said = f"Leanest of those that take at most {percent(LONGER)} longer: {own}"
    return f"{said}, needs {size(need, 'B')} and takes {more}."
