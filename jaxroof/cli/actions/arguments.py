"""Parsing and checks of command-line arguments."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.evaluate import place_best
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.published.inputs import Inputs, Plan, Split
from jaxroof.estimators.published.legality import broken_words, lacked
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


def refuse_illegal(option: str, plan: Mapping[str, int], inputs: Inputs, recipe: Any) -> None:
    """Check a plan against the rules of the split that concern its given fields.

    Raises: InputError for the first rule that a field breaks, with a legal value.
    """
    if broken := broken_words(plan, inputs, recipe, placed=False):
        raise refusal(option, broken)


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
