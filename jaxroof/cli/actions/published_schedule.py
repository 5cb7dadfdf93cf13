"""The schedule command for the study's model: pipeline schedules of one plan."""

import dataclasses
from typing import Any

import xarray as xr

from jaxroof.analyses.one_plan import schedule
from jaxroof.catalog.lookup import model, system
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import parse_settings, whole_plan
from jaxroof.cli.actions.console import OPTION_OF, say_all
from jaxroof.cli.actions.schedule_options import chunks_of, sends_of, simulating, traced
from jaxroof.cli.counts import parse_count
from jaxroof.engine.grid.question import ask
from jaxroof.errors import refusal
from jaxroof.estimators.pipelines import check_schedules
from jaxroof.estimators.published.details import layer_equivalents
from jaxroof.estimators.published.inputs import Inputs, Plan, Recipe
from jaxroof.estimators.published.step import published
from jaxroof.schedules.clock import Sends
from jaxroof.views.text.schedule import answer, best_of

ENDS = ("first", "last")


def published_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    plan_text: str,
    names: str,
    batch: str,
    chunks: str | None,
    first: str,
    last: str,
    sends: str | None,
    split: str,
    sets: tuple[str, ...],
    output: str | None,
    trace: str | None,
) -> int:
    """Print, write and draw the schedules of one plan; return the exit status."""
    outputs.check_output(output)
    outputs.check_output(trace)
    listed = check_schedules([name.strip() for name in names.split(",")], "--schedule")
    asked: dict[str, Any] = {
        "chunks": chunks_of(chunks, listed) or 2,
        "first": layer_equivalents("--first", first),
        "last": layer_equivalents("--last", last),
        "sends": sends_of(sends or Sends.OVERLAPPED.value),
    }
    machine = system(system_name, number_format)
    inputs = Inputs(model=model(model_name), system=machine)
    chosen = {"model": model_name, **parse_settings(sets, {**OPTION_OF, "gpus": "--plan"})}
    chosen |= {"global_batch": parse_count("--batch", batch), "split": split}
    _, inputs, recipe, _ = ask(published, inputs, settings=chosen)
    plan = whole_plan(plan_text, inputs, recipe)
    if plan.pipeline < 2:
        raise refusal("--plan", "pp=1: a schedule is of a pipeline; expected pp=2 or more")
    inputs = dataclasses.replace(inputs, plan=plan)
    with simulating(plan, inputs.global_batch):
        data = schedule(inputs, recipe, schedules=listed, **asked)
    data.attrs["title"] = _title(model_name, system_name, plan, asked, data)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    say_all(answer(data))
    outputs.report_written(output)
    if trace is not None:
        _trace(trace, inputs, recipe, {"schedule": traced(data), **asked})
    return 0 if best_of(data) is not None else 1


def _title(
    model_name: str, system_name: str, plan: Plan, asked: dict[str, Any], data: xr.Dataset
) -> str:
    """Return the title: the plan and its settings."""
    words = {f.name: f.metadata["words"] or f.metadata["symbol"] for f in dataclasses.fields(Plan)}
    degrees = {f: int(getattr(plan, f)) for f in words if f not in published.placement}
    shown = [f for f, many in degrees.items() if many > 1 or f == "microbatch"]
    said = " ".join(f"{words[f] or f} {degrees[f]}" for f in shown)
    said += f": {int(data.microbatches):,} microbatches"
    heavier = [f"{end} stage {asked[end]:g} layers heavier" for end in ENDS if asked[end]]
    if asked["sends"] is not Sends.OVERLAPPED:
        heavier.append(f"{asked['sends'].value} sends")
    return f"{model_name} on {system_name}, {', '.join([said, *heavier])}"


def _trace(path: str, inputs: Inputs, recipe: Recipe, asked: dict[str, Any]) -> None:
    """Write or draw every visit of one schedule."""
    from jaxroof.analyses.one_plan import trace

    fields = ("model", "system", "precision", "global_batch", "plan")
    events = trace("published", {f: getattr(inputs, f) for f in fields}, **vars(recipe), **asked)
    outputs.write_or_draw(path, events, lambda plots: plots.draw(events))
    outputs.report_written(path)
