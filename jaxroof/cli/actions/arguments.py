"""Parsing and checks of command-line arguments."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.placement import place_best
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimator import reads
from jaxroof.estimators.published.inputs import Inputs, Plan
from jaxroof.estimators.published.legality import PANEL, RULES, lacked
from jaxroof.estimators.published.recipe import Split
from jaxroof.estimators.published.step import published
from jaxroof.units import parse

PLAN_FIELDS = [f.name for f in dataclasses.fields(Plan)]
SHORT = {**published.short_names}  # short forms accepted at the command line


def parse_share(option: str, text: str) -> float:
    """Parse a share of at least 0, such as ``2%``.

    Raises: InputError that names the option.
    """
    value = parse(text, "1", option)
    if value < 0:
        raise refusal(option, f"expected a share of at least 0, such as 2%, given {shown(text)}")
    return value


def parse_pairs(option: str, texts: Sequence[str], expected: str = "PATH=VALUE") -> dict[str, str]:
    """Parse texts such as ``system.nics=2``, each name once.

    Raises: InputError that names the option.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise refusal(option, f"expected {expected}, given {shown(text)}")
        if name in found:
            raise refusal(option, f"{name}: given twice; expected it once")
        found[name] = value
    return found


def parse_settings(sets: Sequence[str], given: Mapping[str, str]) -> dict[str, Any]:
    """Parse changed fields from texts such as ``system.nics=2``.

    ``given`` maps a field to the option that already sets it. Raises: InputError for a malformed
    text, and for a field that is repeated, set by an option, or part of the plan.
    """
    found = parse_pairs("--set", sets)
    for path in found:
        if path in given:
            raise refusal("--set", f"{path}: given twice; expected it in {given[path]} alone")
        if path.partition(".")[0] == "plan":
            raise refusal("--set", f"{path}: not a field of the question; use --where or --plan")
    return dict(found)


def own_plan(text: str, inputs: Inputs, recipe: Any) -> dict[str, int]:
    """Return the fields of the user's plan; the number of accelerators sets its data degree.

    Raises: InputError if the degrees do not multiply to the number of accelerators.
    """
    own, gpus = parse_plan("--mine", text, Plan, SHORT), int(inputs.gpus or 1)
    inner, spelled = _inner(recipe)
    split = math.prod(own.get(f, 1) for f in ("tensor", "context", "pipeline"))
    if inner <= set(own) and "data" not in own and gpus % split == 0:
        own["data"] = gpus // split
    if {*inner, "data"} <= set(own) and split * own["data"] != gpus:
        used = split * own["data"]
        raise refusal("--mine", f"dp x {spelled} = {used}; expected the {gpus} of --gpus")
    return own


def why_not_allowed(own: Mapping[str, int], inputs: Inputs, recipe: Any) -> str:
    """Return the rule that the user's plan breaks, with a legal value; empty if there is none."""
    inner, spelled = _inner(recipe)
    if inner <= set(own) and "data" not in own:
        split = math.prod(own[f] for f in inner)
        return f"{spelled} = {split} does not divide {int(inputs.gpus or 1)} gpus"
    return _broken("--mine", own, inputs, recipe)


def _inner(recipe: Any) -> tuple[set[str], str]:
    """Return the degrees of a split other than the data degree, and their product in words."""
    named = {field: short for short, field in SHORT.items()}
    lacks = lacked(recipe.split.value)
    inner = [f for f in ("tensor", "context", "pipeline") if f not in lacks]
    return set(inner), " x ".join(named[f] for f in inner)


def refuse_illegal(option: str, plan: Mapping[str, int], inputs: Inputs, recipe: Any) -> None:
    """Check a plan against the rules of the split that concern its given fields.

    Raises: InputError for the first rule that a field breaks, with a legal value.
    """
    broken = _broken(option, plan, inputs, recipe)
    if broken:
        raise refusal(option, broken)


def _broken(option: str, plan: Mapping[str, int], inputs: Inputs, recipe: Any) -> str:
    """Return the first rule that a field of a plan breaks, with a legal value."""
    named = {field: short for short, field in SHORT.items()}
    known = {**dict.fromkeys(lacked(recipe.split.value), 1), **plan}
    for rule in RULES[recipe.split]:
        fields = reads(rule.holds)
        if not set(fields) <= set(known) or all(f.startswith("fast_") for f in fields):
            continue
        if option == "--plan" and rule.name == "placement_fills_domain":
            continue
        if not bool(rule.allows(inputs, known)):
            shown = [f for f in fields if rule.name != "split_allows" or known[f] != 1]
            said = ", ".join(f"{named.get(f, f)}={known[f]}" for f in shown)
            return f"{said} is one of the {rule.words}; {_rule_remedy(rule.name, shown, inputs)}"
    return ""


def _rule_remedy(rule: str, fields: Sequence[str], inputs: Inputs) -> str:
    model = inputs.model
    able = [split.value for split in RULES if not lacked(split.value) & set(fields)]
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


def whole_plan(text: str, inputs: Inputs, recipe: Any) -> Plan:
    """Return the plan of ``--plan``: missing degrees are 1, and missing panels the fewest allowed.

    Its placement is the one given, or else the best.
    Raises: InputError for the first rule that it breaks, with a legal value.
    """
    given = parse_plan("--plan", text, Plan, SHORT)
    placed_by = [f for f in published.placement if f in given]
    free = [] if placed_by else published.placement
    plan = {**dict.fromkeys((f for f in PLAN_FIELDS if f not in free), 1), **given}
    if "panels" not in lacked(recipe.split.value) | set(given):
        plan["panels"] = max(plan["tensor"], plan["context"])
    refuse_illegal("--plan", plan, inputs, recipe)
    own = Plan(**{field: np.float64(value) for field, value in plan.items()})
    whole: Plan = place_best(published, dataclasses.replace(inputs, plan=own), recipe).plan
    return whole


def _listed(option: str, text: str) -> list[str]:
    """Parse the names of a list such as ``A,B``.

    Raises: InputError for a repeated name.
    """
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if found.count(name) > 1:
            raise refusal(option, f"{name}: given twice; expected each once")
    return found


def parse_split(text: str) -> Split:
    """Parse the name of a split."""
    members = {split.value: split for split in Split}
    if text not in members:
        raise unknown("--split", text, "split", members)
    return members[text]
