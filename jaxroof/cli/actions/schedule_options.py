"""The options of the schedule commands of all estimators, parsed when they are read."""

from contextlib import AbstractContextManager
from typing import Any

import xarray as xr

from jaxroof.cli.counts import parse_count
from jaxroof.cli.progress import working
from jaxroof.errors import refusal, unknown
from jaxroof.schedules import CHUNKED
from jaxroof.schedules.clock import Sends


def chunks_of(text: str | None, names: list[str]) -> int | None:
    """Return the number of stages per device, None if it is not given.

    Raises: InputError if no requested schedule has a choice.
    """
    if text is None:
        return None
    if not set(names) & set(CHUNKED):
        what = f"none of {', '.join(names)} has a choice of it"
        raise refusal("--chunks", f"{what}; expected it with {' or '.join(CHUNKED)}")
    return parse_count("--chunks", text)


def sends_of(text: str) -> Sends:
    """Return a kind of sends by its name.

    Raises: InputError that names the option, with the nearest.
    """
    members = {kind.value: kind for kind in Sends}
    if text not in members:
        raise unknown("--sends", text, "kind of sends", members)
    return members[text]


def simulating(plan: Any, global_batch: Any) -> AbstractContextManager[None]:
    """Say what takes a moment: every microbatch is followed, which may be a minute where many."""
    microbatches = float(global_batch / plan.data / plan.microbatch)
    return working(
        f"following {microbatches:,.0f} microbatches through the stages of each schedule"
    )


def traced(data: xr.Dataset) -> str:
    """Return the first named schedule that allows the plan."""
    return str(data.schedule.values[data.allowed.values][0])
