"""The fit command: does a training step fit, and what fills every stage."""

import json
from typing import Any

import xarray as xr

from jaxroof.analyses.fit import fit
from jaxroof.analyses.fit_changes import MOST
from jaxroof.cli.actions.arguments import parse_pairs
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import PICTURES, check_output, report_written, write_or_draw
from jaxroof.cli.actions.training_plan import left_open
from jaxroof.cli.counts import parse_count
from jaxroof.cli.progress import working
from jaxroof.engine.search.plan_text import plan_items
from jaxroof.errors import refusal
from jaxroof.views.text.fit import answer

KINDS = (*PICTURES, ".csv", ".json", ".nc")
OPTIONS = {  # settings that have an option
    "model": "--model",
    "system": "--system",
    "global_batch": "--batch",
    "gpus": "--gpus",
    "software": "--software",
}


def fit_command(
    *,
    model_name: str,
    plan_text: str,
    system_name: str,
    batch: str,
    gpus: str | None,
    software: str | None,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    """Print or write the memory of every stage; return 1 if the fullest one does not fit."""
    check_output(output, KINDS)
    settings = parse_pairs("--set", sets, "NAME=VALUE")
    for name in settings:
        if name in OPTIONS:
            raise refusal("--set", f"{name}: expected it in {OPTIONS[name]}")
    with working("weighing the memory of every stage, and of changes"):
        data = fit(
            model=model_name,
            plan=plan_items("--plan", plan_text),
            system=system_name,
            global_batch=parse_count("--batch", batch),
            gpus=None if gpus is None else parse_count("--gpus", gpus),
            software=software,
            settings=settings,
            changes=MOST,
            fill=True,
        )
    if "filled" not in data.attrs:
        data.attrs["left_open"] = left_open(plan_text, _held(data), settings)
    write_or_draw(output, data, lambda plots: plots.memory_by_stage(data))
    say_all(answer(data))
    report_written(output)
    return 0 if bool(data.fits) else 1


def _held(data: xr.Dataset) -> dict[str, Any]:
    """Return the values of the fields of the plan that a question often leaves open."""
    asked = json.loads(data.attrs["inputs"])
    staged = asked.get("plan.pipeline", 1.0) > 1.0
    fields = ["plan.interleave"] * staged
    fields += ["plan.microbatch", "plan.zero_stage", "plan.offload_optimizer"]
    return {path.partition(".")[2]: asked[path] for path in fields if path in asked}
