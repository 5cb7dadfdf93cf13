"""The rule of a split that a plan of the user's breaks, in words, with a legal value."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof.estimator import reads
from jaxroof.estimators.published.inputs import Inputs, Plan
from jaxroof.estimators.published.legality import PANEL, RULES, lacked

INNER = ("tensor", "context", "pipeline")  # degrees besides that of the data


def why_not(inputs: Inputs, recipe: Any, given: Mapping[str, int]) -> str:
    """Return the rule that fields of a plan break, with a legal value; empty if there is none."""
    inner = [field for field in INNER if field not in lacked(recipe.split.value)]
    if {*inner} <= {*given} and "data" not in given:
        split = math.prod(given[field] for field in inner)
        spelled = " x ".join(_short(field) for field in inner)
        return f"{spelled} = {split} does not divide {int(inputs.gpus or 1)} gpus"
    return broken_words(given, inputs, recipe)


def broken_words(plan: Mapping[str, int], inputs: Inputs, recipe: Any, placed: bool = True) -> str:
    """Return the first rule that a field of a plan breaks, with a legal value.

    ``placed``: whether its placement has to fill fast domains.
    """
    known = {**dict.fromkeys(lacked(recipe.split.value), 1), **plan}
    for rule in RULES[recipe.split]:
        fields = reads(rule.holds)
        if not {*fields} <= {*known} or all(field.startswith("fast_") for field in fields):
            continue
        if not placed and rule.name == "placement_fills_domain":
            continue
        if not bool(rule.allows(inputs, known)):
            shown = [f for f in fields if rule.name != "split_allows" or known[f] != 1]
            said = ", ".join(f"{_short(f)}={known[f]}" for f in shown)
            return f"{said} is one of the {rule.words}; {_remedy(rule.name, shown, inputs)}"
    return ""


def _short(field: str) -> str:
    return str(Plan.__dataclass_fields__[field].metadata["symbol"] or field)


def _remedy(rule: str, fields: Sequence[str], inputs: Inputs) -> str:
    model = inputs.model
    able = [split.value for split in RULES if not lacked(split.value) & {*fields}]
    heads, hidden = f"the model has {int(model.heads)} heads", f"{int(model.hidden)}"
    batch = f"the batch is {int(inputs.global_batch)} sequences"
    tokens = f"a sequence has {int(model.sequence)} tokens"
    facts = {
        "split_allows": f"expected 1, or --split {' or '.join(able)}",
        "tensor_divides_heads": heads,
        "tensor_divides_hidden": f"the hidden width is {hidden}",
        "context_divides_hidden": f"the hidden width is {hidden}",
        "tensor_wide_enough": f"the hidden width is {hidden}",
        "context_long_enough": tokens,
        "panels_fit": f"expected the larger of tp and cp, or twice, four times, ... as many of "
        f"{PANEL} columns or more; the hidden width is {hidden}",
        "pipeline_divides_layers": f"the model has {int(model.layers)} layers",
        "data_divides_batch": batch,
        "microbatch_divides_batch": batch,
        "ranks_divide_tokens": tokens,
        "placement_divides": "expected each fast degree to divide its degree",
        "placement_fills_domain": f"the fast domain holds {int(inputs.system.fast_domain)}",
    }
    return facts[rule]
