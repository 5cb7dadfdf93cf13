"""The rules for legal plans, shared by verdicts and lists; the plans, as columns of integers.

Source: docs/models/transformer_model.md, section 10.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.errors import InputError
from jaxroof.estimator import Candidates, reads
from jaxroof.estimators.legality import (
    ONE,
    POWER_OF_TWO,
    Columns,
    Filter,
    Rule,
    cross,
    data_divides_batch,
    divisors,
    pipeline_divides_layers,
    rows_where,
)
from jaxroof.estimators.published.inputs import Inputs, Plan, Recipe, Split

UNPLACED = "placement_fills_domain"  # a rule that a plan may break and still run
NARROWEST = 128  # least columns, or tokens, of a product on one accelerator (Q22)
PANEL = 512  # least columns of a SUMMA panel, where a panel can be cut at all


def panels_fit(inputs: Any, *, tensor: Any, context: Any, panels: Any) -> Any:
    """Return whether panels are wide enough, a power of two times the grid's longer side (Q20)."""
    hidden = inputs.model.hidden

    def of(side: Any) -> Any:
        whole = (hidden < PANEL * side) & (panels == side)  # too narrow to cut further
        doubled = (panels % side == 0) & ((POWER_OF_TWO * side) % panels == 0)
        wide = (hidden % panels == 0) & (hidden >= PANEL * panels)
        return whole | ((hidden >= PANEL * side) & doubled & wide)

    return ((tensor >= context) & of(tensor)) | ((tensor < context) & of(context))


def placement_divides(
    inputs: Any,
    *,
    data: Any,
    tensor: Any,
    context: Any,
    pipeline: Any,
    fast_data: Any,
    fast_tensor: Any,
    fast_context: Any,
    fast_pipeline: Any,
) -> Any:
    """Return whether each group is spread evenly over fast domains."""
    outer = (data % fast_data == 0) & (pipeline % fast_pipeline == 0)
    return outer & (tensor % fast_tensor == 0) & (context % fast_context == 0)


def placement_fills_domain(
    inputs: Any,
    *,
    data: Any,
    tensor: Any,
    context: Any,
    pipeline: Any,
    fast_data: Any,
    fast_tensor: Any,
    fast_context: Any,
    fast_pipeline: Any,
) -> Any:
    """Return whether the fast degrees fill a fast domain or contain all accelerators (Q25, Q26)."""
    used = data * tensor * context * pipeline
    placed = fast_data * fast_tensor * fast_context * fast_pipeline
    domain = inputs.system.fast_domain
    return ((used <= domain) & (placed == used)) | ((used > domain) & (placed == domain))


_HEADS = "the model has {heads:.0f} heads"
_HIDDEN = "the hidden width is {hidden:.0f}"
_BATCH = "the batch is {global_batch:.0f} sequences"
_TOKENS = "a sequence has {sequence:.0f} tokens"
_DIVIDING = (
    Rule(
        "tensor_divides_heads",
        lambda inputs, *, tensor: inputs.model.heads % tensor == 0,
        "tensor degrees that do not divide the heads",
        "Tensor degree divides the attention heads.",
        _HEADS,
    ),
    Rule(
        "tensor_divides_hidden",
        lambda inputs, *, tensor: inputs.model.hidden % tensor == 0,
        "tensor degrees that do not divide the hidden width",
        "Tensor degree divides the hidden width.",
        _HIDDEN,
    ),
)
_WIDE = Rule(  # Q22
    "tensor_wide_enough",
    lambda inputs, *, tensor: inputs.model.hidden // tensor >= NARROWEST,
    f"tensor degrees that leave a shard under {NARROWEST} columns",
    f"A tensor rank's columns are {NARROWEST} or more.",
    _HIDDEN,
)
_LONG = Rule(
    "context_long_enough",
    lambda inputs, *, context: inputs.model.sequence // context >= NARROWEST,
    f"context degrees that leave a shard under {NARROWEST} tokens",
    f"A context rank's tokens are {NARROWEST} or more.",
    _TOKENS,
)
_SCHEDULE = (
    Rule(
        "pipeline_divides_layers",
        pipeline_divides_layers,
        "pipeline degrees that do not divide the layers",
        "Pipeline stages divide the layers.",
        "the model has {layers:.0f} layers",
    ),
    Rule(
        "data_divides_batch",
        data_divides_batch,
        "data degrees that do not divide the batch",
        "Data degree divides the global batch.",
        _BATCH,
    ),
    Rule(
        "microbatch_divides_batch",
        lambda inputs, *, data, microbatch: (inputs.global_batch // data) % microbatch == 0,
        "microbatches that do not divide a data rank's batch",
        "Microbatch divides a data rank's batch.",
        _BATCH,
    ),
)
_PLACEMENT = (
    Rule(
        "placement_divides",
        placement_divides,
        "placements that do not divide their groups",
        "Fast degrees divide their groups.",
        "expected each fast degree to divide its degree",
    ),
    Rule(
        UNPLACED,
        placement_fills_domain,
        "splits that no placement fits into whole fast domains",
        "Fast degrees multiply to a whole fast domain.",
        "the fast domain holds {domain:.0f}",
    ),
)


def _only(holds: Callable[..., Any], words: str) -> Rule:
    """Return the rule that fields which a split lacks are 1."""
    says, fact = "Degrees that the split lacks are 1.", "expected 1, or --split {able}"
    return Rule("split_allows", holds, f"{words} other than 1", says, fact)


def _tokens(holds: Callable[..., Any], ranks: str) -> Rule:
    """Return the rule that ranks divide a microbatch's tokens (Q21: not the sequence)."""
    says = "Ranks of a layer divide a microbatch's tokens."
    words = f"microbatches whose tokens {ranks} not divide"
    return Rule("ranks_divide_tokens", holds, words, says, _TOKENS)


def _left(inputs: Any, microbatch: Any, ranks: Any) -> Any:
    """Return the tokens of a microbatch that ranks leave over."""
    return (microbatch * inputs.model.sequence) % ranks


RULES: dict[Split, tuple[Rule, ...]] = {
    Split.ONE_D: (
        _only(
            lambda inputs, *, context, panels, fast_context: (
                (context == 1) & (panels == 1) & (fast_context == 1)
            ),
            "context, panels and fast context degrees",
        ),
        *_DIVIDING,
        dataclasses.replace(
            _WIDE, holds=lambda inputs, *, tensor: 3 * inputs.model.hidden // tensor >= NARROWEST
        ),
        *_SCHEDULE,
        _tokens(
            lambda inputs, *, tensor, microbatch: _left(inputs, microbatch, tensor) == 0,
            "the tensor degree does",
        ),
        *_PLACEMENT,
    ),
    Split.SUMMA: (
        *_DIVIDING,
        Rule(
            "context_divides_hidden",
            lambda inputs, *, context: inputs.model.hidden % context == 0,
            "context degrees that do not divide the hidden width",
            "Context degree divides the hidden width.",
            _HIDDEN,
        ),
        _WIDE,
        _LONG,
        Rule(
            "panels_fit",
            panels_fit,
            "panel counts that do not fit the grid",
            "Panels are a power of two of the grid's longer side.",
            "expected the larger of tp and cp, or twice, four times, ... as many of "
            f"{PANEL} columns or more; {_HIDDEN}",
        ),
        *_SCHEDULE,
        _tokens(
            lambda inputs, *, context, microbatch: _left(inputs, microbatch, context) == 0,
            "the context degree does",
        ),
        *_PLACEMENT,
    ),
    Split.CONTEXT: (
        _only(lambda inputs, *, panels: panels == 1, "panel counts"),
        *_DIVIDING,
        _WIDE,
        _LONG,
        *_SCHEDULE,
        _tokens(
            lambda inputs, *, tensor, context, microbatch: (
                _left(inputs, microbatch, tensor * context) == 0
            ),
            "the tensor and context degrees do",
        ),
        *_PLACEMENT,
    ),
}
# one rule of each name, in the order of the verdicts
EVERY = {rule.name: rule for rule in (RULES[Split.ONE_D][0], *RULES[Split.SUMMA])}


@functools.cache
def lacked(split: str) -> frozenset[str]:
    """Return the plan fields that a split does not have, which its rules require to be 1.

    >>> sorted(lacked("1d")), sorted(lacked("context")), sorted(lacked("summa"))
    (['context', 'fast_context', 'panels'], ['panels'], [])
    """
    rules = [rule for rule in RULES[Split(split)] if rule.name == "split_allows"]
    return frozenset(field for rule in rules for field in reads(rule.holds))


# ---- In words: the rule that a plan of the user's breaks, with a legal value ---------------------

INNER = ("tensor", "context", "pipeline")  # degrees besides that of the data


def why_not(inputs: Inputs, recipe: Recipe, given: Mapping[str, int]) -> str:
    """Return the rule that fields of a plan break, with a legal value; empty if there is none."""
    inner = [field for field in INNER if field not in lacked(recipe.split.value)]
    if {*inner} <= {*given} and "data" not in given:
        split = math.prod(given[field] for field in inner)
        spelled = " x ".join(_short(field) for field in inner)
        return f"{spelled} = {split} does not divide {int(inputs.gpus or 1)} gpus"
    return broken_words(given, inputs, recipe)


def broken_words(
    plan: Mapping[str, int], inputs: Inputs, recipe: Recipe, placed: bool = True
) -> str:
    """Return the first rule that a field of a plan breaks, with a legal value.

    ``placed``: whether its placement has to fill fast domains.
    """
    known = {**dict.fromkeys(lacked(recipe.split.value), 1), **plan}
    for rule in RULES[recipe.split]:
        fields = reads(rule.holds)
        if not {*fields} <= {*known} or all(field.startswith("fast_") for field in fields):
            continue
        if (placed or rule.name != UNPLACED) and not bool(rule.allows(inputs, known)):
            shown = [f for f in fields if rule.name != "split_allows" or known[f] != 1]
            said = ", ".join(f"{_short(f)}={known[f]}" for f in shown)
            able = (split.value for split in RULES if not lacked(split.value) & {*shown})
            numbers = {"global_batch": inputs.global_batch, "domain": inputs.system.fast_domain}
            fact = rule.fact.format(**vars(inputs.model), **numbers, able=" or ".join(able))
            return f"{said} is one of the {rule.words}; {fact}"
    return ""


def _short(field: str) -> str:
    return str(Plan.__dataclass_fields__[field].metadata["symbol"] or field)


# ---- Every legal plan of a cluster ---------------------------------------------------------------

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
