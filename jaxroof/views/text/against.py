"""The staircase of what is optimised against another result, as a table and a sentence."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import head_of, need_of, objective_of, unit_of, words_of
from jaxroof.units import amount
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.pareto import GAIN, stairs_of, stairs_to_show
from jaxroof.views.text.plan import glossary, placed_words, plan_columns
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the ends of the staircase of each number of accelerators, and its steps."""
    yield from title(str(data.attrs.get("title", "")))
    gain = float(data.attrs.get("gain", GAIN))
    for gpus, stairs in stairs_of(data).items():
        if not stairs.sizes["step_number"]:
            yield from quiet(f"No plan is within the limits on {gpus:,} accelerators.")
            continue
        yield from usual(ends_sentence(stairs))
        chosen = stairs_to_show(stairs, gain)
        yield from quiet(steps_table(stairs.isel(step_number=chosen)))
        yield from usual(glossary(stairs), shown_sentence(stairs, len(chosen), gain))


def ends_sentence(stairs: xr.Dataset) -> str:
    """Return the plans at both ends of a staircase: where either result is best."""
    swept, aim = need_of(stairs), objective_of(stairs)
    ends = (stairs.isel(step_number=place) for place in (0, -1))
    first, last = (
        f"{words_of(stairs, aim)} {said(end, aim)} at {words_of(stairs, swept)} {said(end, swept)}"
        f" ({placed_words(end)})"
        for end in ends
    )
    return f"From {first} to {last}." if stairs.sizes["step_number"] > 1 else f"Only {first}."


def said(row: xr.Dataset, name: str) -> str:
    """Return a result of a plan with its unit."""
    return amount(float(row[name]), unit_of(row, name))


def steps_table(stairs: xr.Dataset) -> PlainTable:
    """Return one row a step: both results, the plan, and whether it is within every limit."""
    rows = [stairs.isel(step_number=place) for place in range(stairs.sizes["step_number"])]

    def cell(name: str) -> Callable[[xr.Dataset], str]:
        return lambda row: said(row, name)

    shown = [Shown(head_of(stairs, n), cell(n)) for n in (need_of(stairs), objective_of(stairs))]
    fits = Shown("fits", lambda row: "yes" if bool(row.fits) else "no", 1)
    return PlainTable().add_rows([*shown, *plan_columns(stairs, rows, 7), fits], rows)


def shown_sentence(stairs: xr.Dataset, shown: int, gain: float) -> str:
    """Return how many steps there are, and which of them are shown."""
    count, legal = stairs.sizes["step_number"], int(stairs.plans_legal.values[0])
    many = "1 plan is" if count == 1 else f"{count:,} plans are"
    some = "all are shown" if shown == count else f"shown are those that gain {100 * gain:.3g} %"
    fits = int(np.count_nonzero(stairs.fits.values))
    swept = words_of(stairs, need_of(stairs))
    return f"{many} best of {legal:,} at some bound of {swept}; {some}. {fits:,} fit every limit."
