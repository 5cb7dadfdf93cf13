"""The trace command: one MLP step, event by event, written or drawn."""

import dataclasses
from typing import Any

from jaxroof.analyses.one_plan import trace
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import parse_settings
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.counts import parse_count
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.errors import refusal, unknown
from jaxroof.estimators.mlp_pipeline.inputs import Plan
from jaxroof.estimators.mlp_pipeline.recipe import Order
from jaxroof.io.traces import side_by_side
from jaxroof.units import parse
from jaxroof.views.text.trace import answer

FIELDS = [field.name for field in dataclasses.fields(Plan)]
SHORT = {"dp": "data", "tp": "tensor", "pp": "pipeline", "m": "microbatches"}
GIVEN = {
    "model": "--model",
    "system": "--system",
    "global_batch": "--batch",
    "profile": "--profile",
    "order": "--schedule",
}


def trace_command(
    *,
    mlp_name: str,
    system_name: str,
    plan_text: str,
    batch: str | None,
    profile: str | None,
    names: str | None,
    sets: tuple[str, ...],
    start: str | None,
    end: str | None,
    output: str,
) -> None:
    """Trace one configuration under one schedule or several; write or draw it, and print its times.

    Raises: InputError for settings that are unknown, out of range or not allowed.
    """
    outputs.check_output(output)
    window = [
        parse(text, "s", name) if text is not None else None
        for name, text in (("--from", start), ("--to", end))
    ]
    if (start or end) and not outputs.is_picture(output):
        name = "--from" if start else "--to"
        raise refusal(name, f"cuts a picture; {output} has all events")
    degrees = dict.fromkeys(FIELDS, 1) | parse_plan("--plan", plan_text, Plan, SHORT, FIELDS)
    asked: dict[str, Any] = {"model": mlp_name, "system": system_name}
    asked |= {f"plan.{field}": degree for field, degree in degrees.items()}
    asked |= {"global_batch": parse_count("--batch", batch)} if batch is not None else {}
    asked |= {"profile": profile} if profile is not None else {}
    asked |= parse_settings(sets, GIVEN)
    orders = [{"order": name} for name in _orders(names)] if names is not None else [{}]
    found = [trace("pipeline", {**asked, **order}) for order in orders]
    data = found[0] if len(found) == 1 else side_by_side(found)
    outputs.write_or_draw(output, data, lambda plots: plots.timeline(data, *window))
    for one in found:
        say_all(answer(one))
    outputs.report_written(output)


def _orders(names: str) -> list[str]:
    """Parse schedules from a text such as ``gpipe,1f1b``, each once."""
    known = [order.value for order in Order]
    listed = [name.strip() for name in names.split(",")]
    for name in listed:
        if name not in known:
            raise unknown("--schedule", name, "schedule of an MLP", known)
        if listed.count(name) > 1:
            raise refusal("--schedule", f"{name}: given twice; expected each once")
    return listed
