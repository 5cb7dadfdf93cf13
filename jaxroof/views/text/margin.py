"""How near a need lies to what there is, beside the error that measured runs show of it."""

import json
from typing import NamedTuple

import xarray as xr

from jaxroof.analyses.result_metadata import about, need_of
from jaxroof.units import percent, size

MARK = "~"  # of a need that may lie on the other side of what there is


class Margin(NamedTuple):
    """What the distance of a need to its limit means.

    >>> Margin(0.15, 1.0).share(80e9, 85e9), Margin(0.15, 1.0).share(40e9, 85e9)
    ('~94', '47')
    """

    error: float  # of the need, relative to it; 0 where none is known
    usable: float  # share of what there is that the limit leaves: a margin was asked for

    def doubtful(self, limit: float) -> tuple[float, float]:
        """Return between which needs the error is larger than the distance to what there is.

        |limit / usable - need| < error need
        """
        there = limit / self.usable
        return there / (1.0 + self.error), there / (1.0 - self.error)

    def is_doubtful(self, need: float, limit: float) -> bool:
        """Return whether a need may lie on the other side of what there is."""
        low, high = self.doubtful(limit)
        return low < need < high

    def marked(self, text: str, need: float, limit: float) -> str:
        """Return a cell, with the mark where it is doubtful."""
        return f"{MARK * self.is_doubtful(need, limit)}{text}"

    def share(self, need: float, limit: float) -> str:
        """Return a need in per cent of its limit, marked where it is doubtful."""
        return self.marked(f"{100.0 * need / limit:.0f}", need, limit)

    def sentence(self, need: float, limit: float) -> str:
        """Return that the margin is less than the error; empty if it is more."""
        if not self.is_doubtful(need, limit):
            return ""
        return f"The margin is less than the error of that number ({self.words})."

    @property
    def band(self) -> str:
        """Return what the shaded range of a picture is."""
        return f"shaded: error {self.words}"

    @property
    def words(self) -> str:
        """Return the error in words."""
        return f"± {percent(self.error)}"


def margin_of(data: xr.Dataset, need: str = "") -> Margin:
    """Return what the distance of a need to its limit means, by default of the estimator's need."""
    asked = json.loads(data.attrs.get("inputs", "{}"))
    usable = data["capacity"].attrs.get("usable") if "capacity" in data else None
    share = asked.get("system.hbm_usable", 1.0) if usable is None else usable
    return Margin(float(about(data, need or need_of(data)).get("error", 0.0)), float(share))


def host_sentences(data: xr.Dataset) -> list[str]:
    """Return what the first plan, or the fullest stage, keeps in host memory, and what is there.

    Nothing where nothing is offloaded.
    """
    if "host" not in data:
        return []
    host = float(data["host"].max() if "stage" in data["host"].dims else data["host"][0])
    if host == 0.0:
        return []
    asked = json.loads(data.attrs.get("inputs", "{}"))
    there = data.get("host_capacity", asked.get("system.host_capacity"))
    of = "" if there is None else f", of {size(float(there), 'B')} there"
    over = there is not None and host > float(there)
    more = ": that does not fit" if over else ""
    return [f"{size(host, 'B')} an accelerator lie in host memory{of}{more}."]


def mark_words(data: xr.Dataset) -> list[str]:
    """Return what the mark of a table means; nothing where no error is known."""
    margin = margin_of(data)
    return [f"{MARK} within the error ({margin.words}) of what there is"] if margin.error else []
