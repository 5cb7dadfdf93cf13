"""The schedule command for today's training: its stages under several pipeline schedules."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import xarray as xr

from jaxroof.analyses.one_plan import training_schedule
from jaxroof.analyses.training_question import TrainingStep, filled_settings, training_step
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import parse_settings
from jaxroof.cli.actions.console import OPTION_OF, say_all
from jaxroof.cli.actions.schedule_options import chunks_of, sends_of, simulating, traced
from jaxroof.cli.actions.training_plan import left_open, plan_settings
from jaxroof.cli.counts import parse_count
from jaxroof.errors import refusal
from jaxroof.estimators.pipelines import check_schedules
from jaxroof.schedules import CHUNKED
from jaxroof.views.text.plan import heading
from jaxroof.views.text.schedule import answer, best_of

HELD = ("microbatch", "zero_stage", "recompute", "offload_optimizer")  # often left open


def training_command(
    *,
    model_name: str,
    system_name: str,
    plan_text: str,
    names: str,
    batch: str,
    chunks: str | None,
    sends: str | None,
    sets: tuple[str, ...],
    output: str | None,
    trace: str | None,
    **_: Any,
) -> int:
    """Print, write and draw the schedules of one plan; return 1 if none fits."""
    outputs.check_output(output)
    outputs.check_output(trace)
    listed = check_schedules([name.strip() for name in names.split(",")], "--schedule")
    how: dict[str, Any] = {
        "chunks": chunks_of(chunks, listed),
        "sends": None if sends is None else sends_of(sends),
    }
    given = {
        "model": model_name,
        "system": system_name,
        "global_batch": parse_count("--batch", batch),
        **plan_settings(plan_text),
        **parse_settings(sets, {**OPTION_OF, "gpus": "--plan"}),
    }
    settings, filled = filled_settings(given, _chunks(how["chunks"], listed))
    asked = training_step(settings, None, {})
    if asked.plan.pipeline < 2:
        raise refusal("--plan", "pp=1: a schedule is of a pipeline; expected pp=2 or more")
    with simulating(asked.plan, asked.inputs.global_batch):
        data = training_schedule(*asked, schedules=listed, **how)
    data.attrs["title"] = _title(model_name, system_name, asked, data)
    held = {name: getattr(asked.plan, name) for name in HELD}
    data.attrs.update(filled or {"left_open": left_open(plan_text, held)})
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    say_all(answer(data))
    outputs.report_written(output)
    if trace is not None:
        _trace(trace, asked, {"schedule": traced(data), **how})
    return 0 if best_of(data) is not None else 1


def _chunks(chunks: int | None, names: Sequence[str]) -> dict[str, int]:
    """Return the field of the plan that chunks, or schedules without a choice of them, decide."""
    if chunks is not None:
        return {"interleave": chunks}
    return {} if {*names} & {*CHUNKED} else {"interleave": 1}


def _title(model_name: str, system_name: str, asked: TrainingStep, data: xr.Dataset) -> str:
    """Return the title: the plan and its microbatches."""
    plan = asked.plan
    said = f"{model_name} on {system_name}, {heading(vars(plan))}"
    return f"{said}: {int(data.microbatches):,} microbatches"


def _trace(path: str, asked: TrainingStep, how: dict[str, Any]) -> None:
    """Write or draw every visit of one schedule."""
    from jaxroof.analyses.one_plan import trace

    every = {field.name: getattr(asked.inputs, field.name) for field in fields(asked.inputs)}
    given = {name: value for name, value in every.items() if value is not None}
    events = trace("training", {**given, **vars(asked.recipe), **how})
    outputs.write_or_draw(path, events, lambda plots: plots.draw(events))
    outputs.report_written(path)
