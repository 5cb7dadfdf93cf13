"""What a plan is called: its degrees and its placement, as its split has them."""

import functools
import json
from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from jaxroof.estimator import reads
from jaxroof.estimators.training.legality import RULES
from jaxroof.estimators.training.recipe import Split

SHORT = {  # what people type and what tables print, for the fields of a plan
    "dp": "data",
    "tp": "tensor",
    "cp": "context",
    "pp": "pipeline",
    "mb": "microbatch",
    "fast_dp": "fast_data",
    "fast_tp": "fast_tensor",
    "fast_cp": "fast_context",
    "fast_pp": "fast_pipeline",
}
DEGREES = {  # of a plan, in the order people read them
    "data": "dp",
    "tensor": "tp",
    "context": "cp",
    "pipeline": "pp",
    "microbatch": "microbatch",
    "panels": "panels",
}
PLACES = {  # of a plan, in the order in which they fill the fast domain
    "fast_tensor": "tp",
    "fast_context": "cp",
    "fast_data": "dp",
    "fast_pipeline": "pp",
}


@functools.cache
def lacked(split: str) -> frozenset[str]:
    """Return the plan fields that a split does not have: its rules say that they are 1.

    >>> sorted(lacked("1d")), sorted(lacked("context")), sorted(lacked("summa"))
    (['context', 'fast_context', 'panels'], ['panels'], [])
    """
    rules = [rule for rule in RULES[Split(split)] if rule.name == "split_allows"]
    return frozenset(field for rule in rules for field in reads(rule.holds))


def plan_fields(data: xr.Dataset) -> list[str]:
    """Return the plan fields that any split of some results has, degrees before placement."""
    recipe = json.loads(data.attrs.get("recipe", "{}")) or {}
    named = data.coords["split"].values if "split" in data.coords else recipe.get("split", [])
    known = {split.value for split in Split}  # an estimator of one's own may have others
    splits = [str(split) for split in np.atleast_1d(named) if str(split) in known]
    none = frozenset.intersection(*map(lacked, splits)) if splits else frozenset()
    return [f for f in (*DEGREES, *PLACES) if f in data.data_vars and f not in none]


def plan_words(plan: xr.Dataset) -> str:
    """Return a split in the field's short forms, such as ``dp 16 tp 4 pp 32 microbatch 1``."""
    fields = [field for field in plan_fields(plan) if field in DEGREES]
    return " ".join(f"{DEGREES[field]} {int(plan.data_vars[field])}" for field in fields)


def placement_words(plan: xr.Dataset, fields: Iterable[str] | None = None) -> str:
    """Return how a plan fills the fast domain: tensor x context x data x pipeline.

    ``fields`` are those to show, by default those that the plan's split has.
    """
    shown = plan_fields(plan) if fields is None else fields
    return "x".join(str(int(plan.data_vars[f])) for f in shown if f in PLACES)


def placement_head(fields: Iterable[str]) -> str:
    """Return what ``placement_words`` lists, as the head of a column.

    >>> placement_head(["data", "fast_tensor", "fast_data", "fast_pipeline"])
    'tp x dp x pp'
    """
    return " x ".join(PLACES[field] for field in fields if field in PLACES)


def split_heads(fields: Sequence[str]) -> list[str]:
    """Return the heads of the columns that ``split_cells`` fills."""
    wrapped = {**DEGREES, "microbatch": "micro-\nbatch"}
    degrees = [wrapped[field] for field in fields if field in DEGREES]
    places = f"fast\n{placement_head(fields)}"
    if "fast_context" in fields:  # four do not stand on one line without making a table wide
        places = places.replace("\ntp x ", " tp x\n")
    return [*degrees, places]


def split_cells(row: xr.Dataset, fields: Sequence[str]) -> list[str]:
    """Return a plan's degrees and its placement, a cell each; a dash for what its split lacks."""
    own = plan_fields(row)
    degrees = [field for field in fields if field in DEGREES]
    cells = [str(int(row.data_vars[f])) if f in own else "-" for f in degrees]
    return [*cells, placement_words(row, fields)]
