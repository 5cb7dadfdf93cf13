"""What is said of the legal plans of the study's training step, ranked."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.views.text import search as views
from jaxroof.views.text import tables
from jaxroof.views.text.answers.plans_by_size import by_size, limit_of
from jaxroof.views.text.plan import glossary, plan_fields, plan_sentence
from jaxroof.views.text.said import Said, quiet, title, usual, verbose


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RankedPlans:
    """The legal plans on one number of accelerators, and which of them are shown."""

    data: xr.Dataset  # plans
    gpus: int
    limit: float  # memory that a plan may fill [B]
    order: np.ndarray  # those that fit, best first
    shown: np.ndarray  # those of the table

    @property
    def best(self) -> xr.Dataset | None:
        """Return the best plan, None if nothing fits."""
        return self.data.isel(plan=int(self.order[0])) if len(self.order) else None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LegalPlans(RankedPlans):
    """All of the legal plans, how they were searched, and the user's own among them."""

    objective: str
    where: Sequence[str]  # constraints
    refusals: Mapping[str, str]  # plans that each rule refuses, in words
    own: int | None  # place of the user's plan in the data
    refused: str  # why the user's plan is not allowed

    @property
    def counts(self) -> str:
        """Return how many plans there were, how many fit, and the reasons against the rest."""
        return views.counts_sentence(self.data, self.limit, self.refusals, self.where)

    @property
    def about_own(self) -> str:
        """Return the sentences about the user's plan; empty if there is none."""
        if self.own is None:
            return f"Yours is not allowed: {self.refused}." if self.refused else ""
        return views.mine_sentences(self.data, self.own, self.order, self.objective, self.limit)


def answer(found: LegalPlans, about: str, within: float) -> Iterator[Said]:
    """Yield the best plans on one number of accelerators, and the user's own.

    ``about`` is the title; plans ``within`` a share of the best are close to it.
    """
    yield from title(about)
    if found.best is None:
        said = views.nothing_fits(found.data, found.limit)
        yield from quiet(said[:1].upper() + said[1:], found.counts)
    else:
        yield from best_plans(found, found.best, len(found.order))
        yield from usual(views.close_sentence(found.data, found.order, found.objective, within))
        yield from verbose(found.counts)
    yield from usual(found.about_own)


def best_plans(found: RankedPlans, best: xr.Dataset, fits: int | None) -> Iterator[Said]:
    """Yield the best plan and the table; ``fits`` is how many fit, None if that is not known."""
    said = views.best_sentence(best, fits, found.limit)
    yield from usual(said, plan_sentence(best))
    yield from quiet(tables.plans_table(found.data, found.shown, found.limit))
    yield from usual(glossary(found.data), views.parts_sentence(best))


def answer_of_sizes(found: Sequence[LegalPlans], about: str) -> Iterator[Said]:
    """Yield the best plan on each number of accelerators, and how the plans scale."""
    rows = [
        {
            "gpus": one.gpus,
            "legal": one.data.sizes["plan"],
            "feasible": len(one.order),
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
            yield from usual(f"{on} {views.nothing_fits(one.data, one.limit)}")
        if one.about_own:
            yield from usual(f"{on} {one.about_own}")
    fits = [one.gpus for one in found if one.best is not None]
    if fits:
        first = f"{fits[0]:,}, the first that fits"
        yield from usual(f"Scaling: throughput per accelerator relative to {first}.")


def answer_of_file(data: xr.Dataset) -> Iterator[Said]:
    """Yield the plans that a file has on each number of accelerators: those shown, or all."""
    each = by_size(data) if "gpus" in data else [data]
    for some in each:
        if len(each) > 1:
            yield from title(f"{int(some['gpus']):,} accelerators")
        found, every = _ranked(some, limit_of(data)), bool((~some["feasible"]).any())
        if found.best is not None:
            yield from best_plans(found, found.best, len(found.order) if every else None)


def _ranked(data: xr.Dataset, limit: float) -> RankedPlans:
    """Return the plans of a file: those shown stand in their order, all of them in none."""
    every, fits = np.arange(data.sizes["plan"]), np.flatnonzero(data["feasible"].values)
    if len(fits) < len(every):
        fits = fits[np.argsort(data["step_time"].values[fits], kind="stable")]
    gpus = int(data["gpus"]) if "gpus" in data else 0
    return RankedPlans(data=data, gpus=gpus, limit=limit, order=fits, shown=every)
