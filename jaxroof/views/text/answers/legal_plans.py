"""What is said of the legal plans of one machine, ranked: of any estimator that is searched."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import rises
from jaxroof.views.text import search as views
from jaxroof.views.text import tables
from jaxroof.views.text.answers.plans_by_size import by_size, limit_of
from jaxroof.views.text.plan import glossary, plan_fields, plan_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose


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

    @property
    def counts(self) -> str:
        """Return how many plans there were, how many fit, and the reasons against the rest."""
        said = {self.refusals[name]: n for name, n in self.refused.items() if name in self.refusals}
        counts = said, self.refused.get("where", 0), self.where
        return views.counts_sentence(self.data, self.needs, self.limit, *counts)

    @property
    def nothing(self) -> str:
        """Return which need is too large, and by how much."""
        if self.leanest is None:
            return "no legal plan."
        if len(self.beyond) > 1:
            return views.beyond_sentence(self.leanest, self.beyond)
        return views.nothing_fits(self.leanest, self.limit)

    @property
    def about_own(self) -> str:
        """Return the sentences about the user's plan; empty if there is none."""
        if self.own is None:
            return f"Yours is not allowed: {self.not_allowed}." if self.not_allowed else ""
        placed = self.place, self.feasible or 0
        return views.mine_sentences(self.own, self.best, *placed, self.objective, self.limit)


def answer_of_search(found: LegalPlans, about: str, within: float) -> Iterator[Said]:
    """Yield the best plans on one machine, and the user's own.

    ``about`` is the title; plans ``within`` a share of the best are close to it.
    """
    yield from title(about)
    if found.best is None or found.lean is None:
        yield from quiet(found.nothing[:1].upper() + found.nothing[1:], found.counts)
    else:
        yield from best_plans(found, found.best)
        pair = found.lean, found.best
        yield from usual(views.close_sentence(found.close, *pair, found.objective, within))
        yield from verbose(found.counts)
    yield from usual(found.about_own)


def best_plans(found: RankedPlans, best: xr.Dataset) -> Iterator[Said]:
    """Yield the best plan and the table."""
    said = views.best_sentence(best, found.feasible, found.limit)
    yield from usual(said, plan_sentence(best))
    yield from quiet(tables.plans_table(found.data, found.limit))
    yield from usual(glossary(found.data), views.parts_sentence(best))


def answer_of_sizes(found: Sequence[LegalPlans], about: str) -> Iterator[Said]:
    """Yield the best plan on each number of accelerators, and how the plans scale."""
    rows = [
        {
            "gpus": one.gpus,
            "legal": one.legal,
            "feasible": one.feasible,
            "best": one.best,
            "limit": one.limit,
        }
        for one in found
    ]
    data = found[0].data
    yield from title(about)
    yield from quiet(tables.sizes_table(rows, plan_fields(data)))
    yield from usual(glossary(data))
    for one in found:
        on = f"On {one.gpus:,}:"
        if one.best is None:
            yield from usual(f"{on} {one.nothing}")
        if one.about_own:
            yield from usual(f"{on} {one.about_own}")
    fits = [one.gpus for one in found if one.best is not None]
    if fits:
        first = f"{fits[0]:,}, the first that fits"
        yield from usual(f"Scaling: throughput per accelerator relative to {first}.")


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the plans that a file has on each number of accelerators: those shown, or all."""
    each = by_size(data) if "gpus" in data else [data]
    for some in each:
        if len(each) > 1:
            yield from title(f"{int(some['gpus']):,} accelerators")
        found = _ranked(some)
        if found.best is not None:
            yield from best_plans(found, found.best)


def _ranked(data: xr.Dataset) -> RankedPlans:
    """Return the plans of a file: those shown stand in their order, all of them in none."""
    fits = np.flatnonzero(data["feasible"].values)
    every = len(fits) < data.sizes["plan"]
    if every and len(fits):
        aim = views.aim_of(data)
        sign = -1.0 if rises(data, aim) else 1.0
        fits = fits[np.argsort(sign * data[aim].values[fits], kind="stable")]
        other = np.setdiff1d(np.arange(data.sizes["plan"]), fits)
        data = data.isel(plan=np.concatenate([fits, other]))
    return RankedPlans(
        data=data, limit=limit_of(data), feasible=len(fits) if every or not len(fits) else None
    )
