"""What a person types at the command line, read and checked."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxroof.errors import refusal, unknown
from jaxroof.estimator import reads
from jaxroof.estimators.training.inputs import Inputs, Plan
from jaxroof.estimators.training.legality import RULES
from jaxroof.units import parse
from jaxroof.views.tables import SHORT

PLAN_FIELDS = [f.name for f in dataclasses.fields(Plan)]


def whole(option: str, text: str) -> int:
    """Return a whole number of at least 1.

    Raises: InputError that names the option.
    """
    value = parse(text, "1", option)
    if value != int(value) or value < 1 or value > 1e9:
        raise refusal(option, f"expected whole numbers from 1 to 1e9, given {text.strip()!r}")
    return int(value)


def share(option: str, text: str) -> float:
    """Return a share of at least 0, such as ``2%``.

    Raises: InputError that names the option.
    """
    value = parse(text, "1", option)
    if value < 0:
        raise refusal(option, f"expected a share of at least 0, such as 2%, given {text!r}")
    return value


def settings(sets: tuple[str, ...], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the changed fields of texts such as ``system.nics=2``.

    ``given`` says which option gives a field already. Raises: InputError for another form, a field
    twice, one that an option gives, or one of the plan.
    """
    found: dict[str, Any] = {}
    for text in sets:
        path, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not path or not value:
            raise refusal("--set", f"expected PATH=VALUE, given {text!r}")
        if path in given or path in found:
            place = given.get(path, "one --set")
            raise refusal("--set", f"{path}: given twice; expected it in {place} alone")
        if path.partition(".")[0] == "plan":
            raise refusal("--set", f"{path}: not a field of the question; use --where or --plan")
        found[path] = value
    return found


def plan_fields(option: str, text: str) -> dict[str, int]:
    """Return the plan fields of a text such as ``dp=64,tp=4``."""
    found = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        field = SHORT.get(name.strip(), name.strip())
        if not equals:
            raise refusal(option, f"expected FIELD=NUMBER, such as tp=8, given {item.strip()!r}")
        if field not in PLAN_FIELDS:
            raise unknown(option, name.strip(), "plan field", [*SHORT, *PLAN_FIELDS])
        if field in found:
            raise refusal(option, f"{name.strip()}: given twice; expected each field once")
        found[field] = whole(f"{option}: {name.strip()}", value)
    return found


def own_plan(text: str, inputs: Inputs, recipe: Any) -> dict[str, int]:
    """Return the fields of one's own plan, its data degree from the number of accelerators.

    Raises: InputError that names the rule that a degree breaks.
    """
    own, gpus = plan_fields("--mine", text), int(inputs.gpus or 1)
    split = own.get("tensor", 1) * own.get("pipeline", 1) * own.get("context", 1)
    if {"tensor", "pipeline"} <= set(own) and "data" not in own:
        if gpus % split:
            raise refusal("--mine", f"tp x pp = {split} does not divide {gpus} gpus")
        own["data"] = gpus // split
    if {"tensor", "pipeline", "data"} <= set(own) and split * own["data"] != gpus:
        used = split * own["data"]
        raise refusal("--mine", f"dp x tp x pp = {used}; expected the {gpus} of --gpus")
    refuse_illegal("--mine", own, inputs, recipe)
    return own


def refuse_illegal(option: str, plan: dict[str, int], inputs: Inputs, recipe: Any) -> None:
    """Check the rules of the split whose fields a plan gives.

    Raises: InputError for the first that a field breaks, with what would be right.
    """
    named = {field: short for short, field in SHORT.items()}
    for rule in RULES[recipe.split]:
        fields = reads(rule.holds)
        if not set(fields) <= set(plan) or all(f.startswith("fast_") for f in fields):
            continue
        if option == "--plan" and rule.name == "placement_fills_domain":
            continue
        if not bool(rule.holds(inputs, **{f: plan[f] for f in fields})):
            said = ", ".join(f"{named.get(f, f)}={plan[f]}" for f in fields)
            raise refusal(option, f"{said} is one of the {rule.refusal}; {_why(rule.name, inputs)}")


def _why(rule: str, inputs: Inputs) -> str:
    facts = {
        "tensor_divides_heads": f"the model has {int(inputs.model.heads)} heads",
        "tensor_divides_hidden": f"the hidden width is {int(inputs.model.hidden)}",
        "pipeline_divides_layers": f"the model has {int(inputs.model.layers)} layers",
        "data_divides_batch": f"the batch is {int(inputs.global_batch)} sequences",
        "microbatch_divides_batch": f"the batch is {int(inputs.global_batch)} sequences",
        "tensor_divides_tokens": f"a sequence has {int(inputs.model.sequence)} tokens",
        "placement_fills_domain": f"the fast domain holds {int(inputs.system.fast_domain)}",
    }
    return facts.get(rule, "see the docs of the split")
