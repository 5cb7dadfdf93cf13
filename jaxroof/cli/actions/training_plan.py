"""The options of commands about one plan of today's training, parsed when they are read."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from jaxroof.engine.search.plan_text import parse_plan, plan_items
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.step import training


def plan_settings(text: str) -> dict[str, int]:
    """Return the fields of ``--plan`` by their paths, from a text such as ``dp=32,tp=8``.

    Raises: InputError for a text that is not a plan, with what would be right.
    """
    found = parse_plan("--plan", text, TrainingPlan, training.short_names)
    return {f"plan.{field}": value for field, value in found.items()}


def left_open(text: str, held: Mapping[str, Any], named: Collection[str] = ()) -> str:
    """Return which fields a plan leaves open, with the values that they have; empty if none.

    Arguments: ``held`` has the values of fields that count here, ``named`` are set otherwise.
    """
    given = {training.short_names.get(name, name) for name in plan_items("--plan", text)}
    fields = {field.name: field.metadata["symbol"] for field in dataclasses.fields(TrainingPlan)}
    some = {name: value for name, value in held.items() if name not in {*given, *named}}
    said = " ".join(f"{fields[name]} {float(value):g}" for name, value in some.items())
    fill = "search --mine fills them in with the fastest"
    return f"Left open in --plan, so as usual: {said}; {fill}." if said else ""
