"""The layers command for a training step: print and write its operations."""

import dataclasses

from jaxroof.analyses.one_plan import layers as layers_of
from jaxroof.catalog.lookup import model, system
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import SHORT, parse_settings, whole_plan
from jaxroof.cli.actions.console import OPTION_OF, say_all
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.estimators.published.inputs import Inputs, Plan
from jaxroof.estimators.published.step import published
from jaxroof.views.text.layers import answer


def published_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    split: str,
    sets: tuple[str, ...],
    plan_text: str,
    output: str | None,
) -> None:
    """Print the operations of one layer under a plan."""
    outputs.check_output(output)
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    fixed = {name: option for name, option in OPTION_OF.items() if name != "global_batch"}
    chosen = parse_settings(sets, {**fixed, "gpus": "--plan"})
    batch = _batch(inputs, parse_plan("--plan", plan_text, Plan, SHORT))
    asked = {"model": model_name, "global_batch": batch, "split": split, **chosen}
    _, inputs, recipe, _ = ask(published, inputs, settings=asked)
    plan = whole_plan(plan_text, inputs, recipe)
    data = layers_of(dataclasses.replace(inputs, plan=plan), recipe)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    say_all(answer(data))
    outputs.report_written(output)


def _batch(inputs: Inputs, plan: dict[str, int]) -> float:
    """Return a batch size that a plan divides; the costs of a layer do not depend on it."""
    least = float(plan.get("data", 1) * plan.get("microbatch", 1))
    return float(inputs.global_batch) if inputs.global_batch % least == 0 else least
