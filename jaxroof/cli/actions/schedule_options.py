"""What the schedule commands of all estimators share: options as typed, and what is printed."""

import xarray as xr

from jaxroof.cli.actions.console import say
from jaxroof.cli.counts import parse_count
from jaxroof.errors import refusal, unknown
from jaxroof.schedules import CHUNKED
from jaxroof.schedules.stage_visits import Sends
from jaxroof.views.text import schedule as views
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.interval import interval_sentence


def print_schedules(data: xr.Dataset, closed_form: str) -> None:
    """Print the title, the sentences and the table of some schedules.

    ``closed_form`` is the schedule whose step time has a formula.
    """
    say(Detail.USUAL, data.attrs["title"], style="bold")
    say(Detail.USUAL, *views.schedule_sentences(data))
    say(Detail.QUIET, views.schedules_table(data))
    say(Detail.USUAL, views.GLOSSARY, views.closed_form_sentence(data, closed_form))
    say(Detail.VERBOSE, interval_sentence(data))


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


def traced(data: xr.Dataset) -> str:
    """Return the first named schedule that allows the plan."""
    return str(data.schedule.values[data.allowed.values][0])
