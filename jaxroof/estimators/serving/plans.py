"""The plans of a server, of a prefill pool and of a decode pool, as columns of whole numbers.

Source: docs/models/serving.md, section 8.
"""

import math
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from jaxroof.estimator import Candidates, reads
from jaxroof.estimators.legality import Filter, Rule, cross
from jaxroof.estimators.serving.inputs import LARGEST
from jaxroof.estimators.serving.interval import half_width_within_source
from jaxroof.estimators.serving.legality import DECODE_RULES, PREFILL_RULES, RULES
from jaxroof.records import value_or, with_named_absences

DEGREES = 2 ** np.arange(7)  # tensor, data
STAGES = 2 ** np.arange(4)
BATCHES = np.unique(
    np.round(2.0 ** (np.arange(4.0 * np.log2(LARGEST) + 1.0) / 4.0)).astype(np.int32)
)
CHUNKS = 2 ** np.arange(8, 15)
BUSY = np.arange(5, 10)  # tenths
LISTS: Mapping[str, np.ndarray] = {
    "tensor": DEGREES, "data": DEGREES, "pipeline": STAGES, "whole": np.arange(2),
    "batch": BATCHES, "chunk": CHUNKS, "busy": BUSY,
}  # fmt: skip
SELDOM = {"pipeline": 1}  # what a search does not try unless a rule on plans names it
SPLIT = ("tensor", "data", "pipeline", "whole")
COUNTS = (  # of the model that the rules read
    *("layers", "heads", "kv_heads", "kv_rank", "feedforward", "shared_feedforward"),
    *("experts", "expert_feedforward"),
)
Listing = Callable[[Any, Any], Candidates]
WhyNot = Callable[[Any, Any, Mapping[str, int]], str]


def _listing(rules: Iterable[Rule], rows: Iterable[str], free: Iterable[str]) -> Listing:
    """Return a function that lists the legal rows of some fields; others are free of rules."""

    def plans(inputs: Any, _: Any) -> Candidates:
        """Return every legal plan, sorted by the fields of the plan."""
        legal = Filter(rule_inputs(inputs), rules)
        first, *others = rows
        found = legal.keep({first: LISTS[first]})
        for name in others:
            found = legal.keep(cross(found, name, LISTS[name]))
        assert not legal.left, "rules that read fields no row has"
        return Candidates(found, legal.refused, {name: LISTS[name] for name in free}, SELDOM)

    return plans


plans = _listing(RULES, (*SPLIT, "batch"), ("chunk",))
prefill_plans = _listing(PREFILL_RULES, SPLIT, ("chunk", "busy"))
decode_plans = _listing(DECODE_RULES, (*SPLIT, "batch"), ())


def rule_inputs(inputs: Any) -> Any:
    """Return what the rules read of the inputs, counts as whole numbers."""
    known = with_named_absences(inputs)
    gpus = value_or(inputs.gpus, None)
    return types.SimpleNamespace(
        model=types.SimpleNamespace(**{name: int(getattr(known.model, name)) for name in COUNTS}),
        system=known.system,
        gpus=None if gpus is None else int(gpus),
    )


def alike(inputs: Any, plans: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return columns that are equal where plans differ only in name.

    Whole experts and slices of each are one plan where every rank has the same load.
    """
    even = np.all(inputs.software.imbalance == 1.0)
    return {**plans, "whole": np.zeros_like(plans["whole"])} if even else plans


# ---- A plan of the user's -----------------------------------------------------------------------


def close(best: Any) -> float:
    """Return by which share of its cost others are too close to a plan to tell apart."""
    return math.expm1(float(half_width_within_source(int(best["regime"]))))


def why_not(rules: Iterable[Rule]) -> WhyNot:
    """Return a function that says which rule no plan with some fields keeps, in words."""

    def said(inputs: Any, _: Any, given: Mapping[str, int]) -> str:
        """Return the rule, or the list that a value is not on; empty if there is neither."""
        asked = rule_inputs(inputs)
        facts = {**vars(asked.model), "gpus": asked.gpus, "fast_domain": asked.system.fast_domain}
        for rule in rules:
            fields = reads(rule.holds)
            some = [np.array([given[f]]) if f in given else LISTS[f] for f in fields]
            if not np.any(rule.allows(asked, dict(zip(fields, np.ix_(*some), strict=True)))):
                held = ",".join(f"{name}={given[name]}" for name in fields if name in given)
                return f"{held}: not legal ({rule.words}); {rule.fact.format(**facts)}".rstrip("; ")
        for name, value in given.items():
            if value not in LISTS[name]:
                return f"{name}={value}: a search tries {_few(LISTS[name], value)}"
        return ""

    return said


def _few(values: np.ndarray, near: int) -> str:
    """Return the values of a list, of a long one those beside a number."""
    if len(values) > len(DEGREES):
        place = int(np.searchsorted(values, near))
        values = values[max(place - 1, 0) : place + 1]
    return " and ".join(map(str, values)) if len(values) < 3 else ", ".join(map(str, values))
