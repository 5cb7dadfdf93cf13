"""The legal plans of a cluster, enumerated with vectorised numpy as columns of integers.

Source: docs/models/transformer_model.md, section 10.
"""

import dataclasses

import numpy as np

from jaxroof.errors import InputError
from jaxroof.estimator import Candidates
from jaxroof.estimators.legality import ONE, Columns, Filter, cross, divisors, rows_where
from jaxroof.estimators.published.inputs import Inputs, Plan
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.recipe import Recipe, Split

GROUPS = ("tensor", "context", "data", "pipeline")  # the order in which a fast domain is filled
PLACED = ("fast_data", "fast_tensor", "fast_context", "fast_pipeline")  # in the order of Plan


def plans(inputs: Inputs, recipe: Recipe) -> Candidates:
    """Return every legal plan for ``inputs.gpus`` accelerators, sorted by the fields of Plan.

    Assumes: model, batch, gpus and fast domain are single numbers.
    Returns: a column per field of Plan, and the number of choices that each rule rejected. The
    first stages reject degrees, the last ones whole splits.
    Raises: InputError where the number of accelerators is missing.
    """
    if inputs.gpus is None:
        raise InputError("gpus: not given; expected the number of accelerators to split over")
    gpus, domain = int(inputs.gpus), int(inputs.system.fast_domain)
    batch = int(inputs.global_batch)
    degrees = divisors(gpus)
    legal = Filter(inputs, RULES[recipe.split])
    keep, refused = legal.keep, legal.refused

    def take(columns: Columns, field: str, values: np.ndarray) -> Columns:
        """Add a degree to the rows, so that the product still divides the accelerators."""
        rows = cross(columns, field, values)
        return rows_where(rows, gpus % _ranks(rows) == 0)

    has = VARIES[recipe.split]
    rows = keep({"tensor": degrees})
    rows = keep(take(rows, "context", degrees if "context" in has else ONE))
    rows = keep(
        cross(rows, "panels", divisors(int(inputs.model.hidden)) if "panels" in has else ONE)
    )
    rows = keep(take(rows, "pipeline", degrees))
    rows = keep({**rows, "data": gpus // _ranks(rows)})
    rows = cross(rows, "microbatch", divisors(batch))
    rows = keep(rows_where(rows, (batch // rows["data"]) % rows["microbatch"] == 0))

    splits = len(rows["tensor"])
    rows = _place({**rows, "split": np.arange(splits)}, gpus, domain)
    refused["placement_fills_domain"] = splits - len(np.unique(rows["split"]))
    return Candidates(_ordered(rows), refused)


def _ranks(rows: Columns) -> np.ndarray:
    """Return the product of the degrees already in the rows."""
    return np.prod([rows[field] for field in GROUPS if field in rows], axis=0)


def _place(rows: Columns, gpus: int, domain: int) -> Columns:
    """Return every way to fill a fast domain with factors that divide the degrees."""
    if gpus <= domain:  # Q26: everything in one domain
        return {**rows, **{f"fast_{field}": rows[field] for field in GROUPS}}
    rows = _shares(rows, domain)
    return rows_where(rows, rows["left"] == 1)


def _shares(rows: Columns, domain: int) -> Columns:
    """Return every way to place degrees in a fast domain; ``left`` is the part that stays free."""
    left = np.full(len(rows["tensor"]), domain)
    for field in GROUPS[:-1]:
        rows = cross({**rows, "left": left}, f"fast_{field}", divisors(domain))
        factor = rows[f"fast_{field}"]
        rows = rows_where(rows, (rows[field] % factor == 0) & (rows["left"] % factor == 0))
        left = rows["left"] // rows[f"fast_{field}"]
    share = np.gcd(rows[GROUPS[-1]], left)
    return {**rows, f"fast_{GROUPS[-1]}": share, "left": left // share}


def placements(inputs: Inputs, recipe: Recipe) -> Columns:
    """Return every placement of the degrees of one or many plans in the fast domains.

    If no placement fills the fast domain, return those that leave the least of it free.
    Returns: a column per placement field, [*plans, placements], sorted by the fields. A plan
    with fewer placements repeats its last one.
    """
    plan = inputs.plan
    assert plan is not None
    given = [getattr(plan, field) for field in GROUPS] + [1.0 * inputs.system.fast_domain]
    arrays = np.broadcast_arrays(*map(np.asarray, given))
    table = np.stack([array.ravel() for array in arrays], axis=-1).astype(np.int64)
    distinct, number = np.unique(table, axis=0, return_inverse=True)
    rows = _placements(distinct)
    count = np.bincount(rows["plan"])
    start = np.cumsum(count) - count
    at = start[:, None] + np.minimum(np.arange(count.max()), count[:, None] - 1)
    at = at[number.ravel()].reshape(*arrays[0].shape, -1)
    return {field: rows[field][at] for field in PLACED}


def _placements(distinct: np.ndarray) -> Columns:
    """Return the placements of distinct rows (degrees, domain), sorted by row and then by field."""
    domains = distinct[:, -1]
    inside = np.prod(distinct[:, :-1], axis=1) <= domains  # Q26: everything in one domain
    known = {field: distinct[:, i] for i, field in enumerate(GROUPS)}
    known |= {"plan": np.arange(len(distinct)), **{f"fast_{f}": known[f] for f in GROUPS}}
    parts = [rows_where(known, inside)]
    for domain in np.unique(domains[~inside]).tolist():
        rows = _shares(rows_where(known, ~inside & (domains == domain)), domain)
        least = np.full(len(distinct), domain)
        np.minimum.at(least, rows["plan"], rows["left"])
        parts.append(rows_where(rows, rows["left"] == least[rows["plan"]]))
    fields = ("plan", *PLACED)
    found = {field: np.concatenate([part[field] for part in parts]) for field in fields}
    return rows_where(found, np.lexsort([found[field] for field in reversed(fields)]))


def _ordered(rows: Columns) -> Columns:
    """Return the columns of Plan, with 1 for missing degrees and rows in lexicographic order."""
    fields = [f.name for f in dataclasses.fields(Plan)]
    ones = np.ones_like(rows["tensor"])
    columns = {field: rows.get(field, ones) for field in fields}
    order = np.lexsort([columns[field] for field in reversed(fields)])
    return rows_where(columns, order)


VARIES: dict[Split, tuple[str, ...]] = {  # degrees of a split besides tensor, pipeline and data
    Split.ONE_D: (),
    Split.SUMMA: ("context", "panels"),
    Split.CONTEXT: ("context",),
}
