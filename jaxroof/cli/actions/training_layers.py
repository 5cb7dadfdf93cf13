"""The layers command for today's training: print and write the operations of a layer."""

from typing import Any

from jaxroof.analyses.one_plan import training_layers
from jaxroof.analyses.training_question import training_step
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import parse_settings
from jaxroof.cli.actions.console import OPTION_OF, say_all
from jaxroof.cli.actions.training_plan import left_open, plan_settings
from jaxroof.views.text.layers import answer
from jaxroof.views.text.plan import heading

OPTIONS = {name: option for name, option in OPTION_OF.items() if name != "global_batch"}


def training_command(
    *,
    model_name: str,
    system_name: str,
    sets: tuple[str, ...],
    plan_text: str,
    output: str | None,
    **_: Any,
) -> None:
    """Print the operations of one layer under a plan."""
    outputs.check_output(output)
    given = plan_settings(plan_text)
    chosen = parse_settings(sets, {**OPTIONS, "gpus": "--plan"})
    asked = training_step(
        {
            "model": model_name,
            "system": system_name,
            "global_batch": _batch(given),
            **given,
            **chosen,
        },
        None,
        {},
    )
    data = training_layers(*asked)
    title = f"{model_name} on {system_name}, {heading(vars(asked.plan))}"
    data.attrs["title"] = f"{title}: one layer, one microbatch, one accelerator"
    held = {name: getattr(asked.plan, name) for name in ("microbatch", "zero_stage", "recompute")}
    data.attrs["left_open"] = left_open(plan_text, held)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    say_all(answer(data))
    outputs.report_written(output)


def _batch(given: dict[str, int]) -> float:
    """Return a batch that any schedule of the plan can run; a layer does not depend on it."""
    degrees = ("data", "microbatch", "pipeline")
    found = 2.0
    for field in degrees:
        found *= given.get(f"plan.{field}", 1)
    return found
