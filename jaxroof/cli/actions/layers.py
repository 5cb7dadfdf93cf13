"""The layers command, by estimator: print and write the operations of one layer."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.analyses.one_plan import unfused_layers
from jaxroof.catalog.lookup import model, system
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import PLAN_FIELDS, SHORT, parse_settings
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.published_layers import published_command
from jaxroof.cli.actions.training_layers import training_command
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.plan_text import parse_plan, plan_items
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.published.unfused import DIVIDED, Inputs, Plan, Recipe, Variant, unfused
from jaxroof.views.text.layers import SHORT as SHORT_DEGREES
from jaxroof.views.text.layers import WORDS, answer

DEGREES = {short: degree for degree, short in SHORT_DEGREES.items()}


def layers_command(estimator: str, **options: Any) -> None:
    """Print and write the operations of one layer for an estimator.

    Raises: InputError for an estimator without layers, with the nearest name that has them.
    """
    if estimator not in LAYERS:
        raise unknown("--estimator", estimator, "estimator of layers", LAYERS)
    LAYERS[estimator](**options)


def unfused_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    split: str,
    sets: tuple[str, ...],
    plan_text: str,
    output: str | None,
) -> None:
    """Print the two tables of the unfused blocks and their sums over all layers."""
    outputs.check_output(output)
    if split != "1d":
        ways = " or ".join(variant.value for variant in Variant)
        text = (
            f"the unfused blocks have no split, given {shown(split)}; expected --set variant={ways}"
        )
        raise refusal("--split", text)
    plan = _plan(plan_text)
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format), plan=plan)
    chosen = {"model": model_name}
    chosen |= parse_settings(sets, {"model": "--model", "system": "--system"})
    _, inputs, recipe, _ = ask(unfused, inputs, settings=chosen)
    if recipe.variant is Variant.TENSOR and float(plan.sequence) != 1.0:
        text = "the ends of a block are split by tp; expected --set variant=sequence_parallel"
        raise refusal("--plan", f"sp={int(plan.sequence)}: {text}, or no sp")
    _check_degrees(inputs, recipe)
    data = unfused_layers(inputs, recipe)
    outputs.write_or_draw(output, data, lambda plots: plots.draw(data))
    say_all(answer(data))
    outputs.report_written(output)


def _plan(text: str) -> Plan:
    """Parse degrees from a text such as ``tp=4,sp=2``.

    Raises: InputError for a degree that the blocks do not have.
    """
    elsewhere = {*SHORT, *PLAN_FIELDS} - {*DEGREES, *DEGREES.values()}
    for name in plan_items("--plan", text):
        if name in elsewhere:
            what = "the unfused blocks have no such degree"
            raise refusal("--plan", f"{name}: {what}; expected tp or sp")
    given = parse_plan("--plan", text, Plan, DEGREES, DEGREES.values())
    return Plan(**{field: np.float64(degree) for field, degree in given.items()})


def _check_degrees(inputs: Inputs, recipe: Recipe) -> None:
    """Check that no degree exceeds the size it divides, which would leave nothing of the block."""
    for name, fields in DIVIDED[recipe.variant].items():
        degree, short = float(getattr(inputs.plan, name)), SHORT_DEGREES[name]
        for field in fields:
            held = float(getattr(inputs.model, field))
            if degree > held:
                what = f"expected at most the {held:.0f} {WORDS[field]} that it divides"
                raise refusal("--plan", f"{short}: {what}, given {degree:.0f}")


LAYERS: dict[str, Callable[..., None]] = {
    "training": training_command,
    "published": published_command,
    "unfused": unfused_command,
}
