"""The legal plans of a cluster, enumerated as columns of whole numbers by vectorised numpy.

Source: fact sheet transformer_model, section 10.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.errors import InputError
from jaxroof.estimator import Candidates, reads
from jaxroof.estimators.training.inputs import Inputs, Plan
from jaxroof.estimators.training.legality import RULES_1D, Rule
from jaxroof.estimators.training.recipe import Recipe, Split

Columns = Mapping[str, np.ndarray]


def divisors(number: int) -> np.ndarray:
    """Return the positive divisors of a whole number, ascending.

    >>> divisors(12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    low = np.arange(1, int(number**0.5) + 1)
    low = low[number % low == 0]
    return np.unique(np.concatenate([low, number // low]))


def plans(inputs: Inputs, recipe: Recipe) -> Candidates:
    """Return every legal plan of ``inputs.gpus`` accelerators, ordered by the plan's fields.

    Assumes: model, batch, gpus and fast domain are single numbers.
    Returns: a column per field of Plan, and how many choices each rule refused at the stage
    that drops it (degrees at the first stages, splits at the last).
    Raises: InputError where the number of accelerators is missing.
    Source: fact sheet transformer_model, section 10.
    """
    if inputs.gpus is None:
        raise InputError("gpus: not given; expected the number of accelerators to split over")
    return PLANS[recipe.split](inputs)


def _plans_1d(inputs: Inputs) -> Candidates:
    gpus, domain = int(inputs.gpus), int(inputs.system.fast_domain)  # type: ignore[arg-type]
    batch = int(inputs.global_batch)
    refused = {rule.name: 0 for rule in RULES_1D}

    def keep(columns: Columns, *rules: str) -> Columns:
        return _keep(inputs, columns, [r for r in RULES_1D if r.name in rules], refused)

    degrees = divisors(gpus)
    rows = keep(
        {"tensor": degrees}, "tensor_divides_heads", "tensor_divides_hidden", "tensor_wide_enough"
    )
    rows = _cross(rows, "pipeline", degrees)
    rows = _where(rows, gpus % (rows["tensor"] * rows["pipeline"]) == 0)
    rows = keep(rows, "pipeline_divides_layers")
    rows = {**rows, "data": gpus // (rows["tensor"] * rows["pipeline"])}
    rows = keep(rows, "data_divides_batch")
    rows = _cross(rows, "microbatch", divisors(batch))
    rows = _where(rows, (batch // rows["data"]) % rows["microbatch"] == 0)
    rows = keep(rows, "tensor_divides_tokens")

    splits = len(rows["tensor"])
    rows = {**rows, "split": np.arange(splits)}
    rows = _place(rows, gpus, domain)
    refused["placement_fills_domain"] = splits - len(np.unique(rows["split"]))
    return Candidates(_ordered(rows), refused)


def _keep(inputs: Inputs, rows: Columns, rules: list[Rule], refused: dict[str, int]) -> Columns:
    """Return the rows that every rule allows; a refused row counts for the first to drop it."""
    for rule in rules:
        allowed = rule.holds(inputs, **{f: rows[f] for f in reads(rule.holds)})
        refused[rule.name] += int(np.sum(~allowed))
        rows = _where(rows, allowed)
    return rows


def _place(rows: Columns, gpus: int, domain: int) -> Columns:
    """Return every way to fill a fast domain: factors of it that divide the three degrees."""
    if gpus <= domain:  # Q26: everything in one domain
        return {**rows, **{f"fast_{f}": rows[f] for f in ("data", "tensor", "pipeline")}}
    factors = divisors(domain)
    rows = _cross(rows, "fast_tensor", factors)
    rows = _where(rows, rows["tensor"] % rows["fast_tensor"] == 0)
    rows = _cross(rows, "fast_data", factors)
    rows = _where(rows, rows["data"] % rows["fast_data"] == 0)
    filled = rows["fast_tensor"] * rows["fast_data"]
    rows = _where(rows, domain % filled == 0)
    rows = {**rows, "fast_pipeline": domain // (rows["fast_tensor"] * rows["fast_data"])}
    return _where(rows, rows["pipeline"] % rows["fast_pipeline"] == 0)


def _cross(rows: Columns, name: str, values: np.ndarray) -> Columns:
    """Return every row with every value of a new column."""
    count = len(next(iter(rows.values())))
    crossed = {field: np.repeat(column, len(values)) for field, column in rows.items()}
    return {**crossed, name: np.tile(values, count)}


def _where(rows: Columns, mask: np.ndarray) -> Columns:
    return {field: column[mask] for field, column in rows.items()}


def _ordered(rows: Columns) -> Columns:
    """Return the columns of Plan, missing degrees 1, rows in lexicographic order."""
    fields = [f.name for f in dataclasses.fields(Plan)]
    ones = np.ones_like(rows["tensor"])
    columns = {field: rows.get(field, ones) for field in fields}
    order = np.lexsort([columns[field] for field in reversed(fields)])
    return _where(columns, order)


RULES: dict[Split, tuple[Rule, ...]] = {Split.ONE_D: RULES_1D}
PLANS: dict[Split, Callable[[Any], Candidates]] = {Split.ONE_D: _plans_1d}
