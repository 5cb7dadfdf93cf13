"""The fit command without a plan: whether any fits, the fastest and the leanest of them."""

import json
from collections.abc import Sequence
from typing import Any

import xarray as xr

from jaxroof.analyses.fastest_plans import NoPlanFits, fastest_plans
from jaxroof.analyses.least_memory import fewest_accelerators, least_memory
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import report_written, write_data
from jaxroof.cli.actions.training_search_options import check_kind, settings_of
from jaxroof.cli.counts import parse_count
from jaxroof.cli.progress import progress_bar
from jaxroof.errors import NoAnswer
from jaxroof.views.text.fit_plans import answer_of_fit

TOP = 5  # plans that are printed
NO_OFFLOAD = "off=0"


def fit_plans_command(
    *,
    model_name: str,
    system_name: str,
    batch: str,
    gpus: str | None,
    where: str,
    sets: Sequence[str],
    output: str | None,
    **_: Any,
) -> int:
    """Print whether a step fits on some accelerators, or on the fewest, and plans that do.

    Return 1 if no plan fits.
    """
    check_kind(output)
    size = None if gpus is None else parse_count("--gpus", gpus)
    asked: dict[str, Any] = {
        "model": model_name,
        "system": system_name,
        "global_batch": parse_count("--batch", batch),
        "settings": settings_of(sets),
    }
    with progress_bar() as progress:
        fast = None if size is None else _fastest(asked, where, size)
        lean = None
        if fast is None:
            lean = least_memory(gpus=size, where=where, top=TOP, progress=progress, **asked)
            if size is None and bool(lean.fits):
                fast = _fastest(asked, where, int(lean.gpus))
            elif bool(lean.fits):
                lean = _sensible(asked, where, lean)
        ways = {} if lean is None else _ways(asked, where, lean, size, progress)
    data = fast if lean is None else lean
    assert data is not None
    data.attrs["ways"] = json.dumps(ways)
    write_data(output, data)
    say_all(answer_of_fit(lean, fast))
    report_written(output)
    return 0 if fast is not None or (lean is not None and bool(lean.fits)) else 1


def _fastest(asked: dict[str, Any], where: str, size: int) -> xr.Dataset | None:
    """Return the fastest plans, None if none fits, or no run of the chip was measured."""
    try:
        return fastest_plans(gpus=size, where=where, top=TOP, **asked)
    except (NoAnswer, NoPlanFits):
        return None


def _sensible(asked: dict[str, Any], where: str, lean: xr.Dataset) -> xr.Dataset:
    """Return the leanest plans without offload whose tensor groups share fast links, if any fits.

    Counts are those of all plans.
    """
    domain = json.loads(lean.attrs["inputs"]).get("system.fast_domain")
    rules = filter(None, (where, NO_OFFLOAD, domain and f"tp<={domain:.0f}"))
    some = least_memory(gpus=int(lean.gpus), where=",".join(rules), top=TOP, **asked)
    whole = {name: lean[name] for name in lean.data_vars if lean[name].dims == ()}
    return some.assign(whole).assign_attrs(lean.attrs) if bool(some.fits) else lean


def _ways(
    asked: dict[str, Any], where: str, lean: xr.Dataset, size: int | None, progress: Any
) -> dict[str, int | None]:
    """Return under which other rules, and on which other numbers of accelerators, a plan fits."""
    here = int(lean.gpus)
    if bool(lean.fits):
        if size is not None or not int(lean.offload_optimizer[0]):
            return {}
        rules = ",".join(filter(None, (where, NO_OFFLOAD)))
        fewest = fewest_accelerators(above=here - 1, where=rules, progress=progress, **asked)
        return {"offload": fewest}
    ways: dict[str, int | None] = {}
    if where:
        fits = bool(least_memory(gpus=here, **asked).fits)
        ways["constraints"] = here if fits else None
    if size is not None:
        above = fewest_accelerators(above=size, where=where, progress=progress, **asked)
        ways["accelerators"] = above
    return ways
