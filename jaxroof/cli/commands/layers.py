"""The command `jaxroof layers`: what every operation of one layer costs."""

from typing import Any

import click

from jaxroof.cli.options import Command, settings_of, shared


@click.command(
    name="layers",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof layers --model llama3.1-405b --system h100-nvs8 \\
      --plan dp=32,tp=8,pp=16
  jaxroof layers --model deepseek-v3 --system gb200-nvl72 \\
      --plan dp=128,pp=16,ep=64 -o layer.png
  jaxroof layers --estimator published --model gpt3-1t --system h200-nvs4 \\
      --plan dp=64,tp=4,pp=8,microbatch=1
  jaxroof layers --estimator unfused --model gpt3 --system a100-unfused \\
      --plan tp=4 -o layer.csv
""",
)
@shared("model", "system")
@shared("plan")
@click.option(
    "--estimator", default="training", show_default=True, metavar="NAME",
    help="training: models of today; published: the study's; unfused: each operator alone.",
)  # fmt: skip
@shared("sequence", "set", "output", "json", "quiet", "verbose", "format", "split")
def command(
    model_name: str,
    system_name: str,
    plan_text: str,
    estimator: str,
    number_format: str | None,
    output: str | None,
    **options: Any,
) -> None:
    """Print what every operation of one layer costs."""
    import json

    from jaxroof.analyses.one_plan import layers
    from jaxroof.cli import deliver
    from jaxroof.cli.question import left_open, machine, named, plan_settings
    from jaxroof.views.text.plan import heading

    deliver.check_output(output)
    of = named(estimator, "layers")
    settings = {"model": model_name, "system": machine(of, system_name, number_format)}
    settings |= settings_of(**options, gpus="--plan")
    if of.candidates is None:  # blocks alone, whose degrees are no plan of a machine
        settings = _unfused(plan_text, settings)
    else:
        settings, _ = plan_settings(of, plan_text, settings)
    data = layers(estimator=of, settings=settings)
    if of.usual:  # a plan may leave fields open
        numbers = json.loads(data.attrs["inputs"])
        plan = {k.removeprefix("plan."): v for k, v in numbers.items() if k.startswith("plan.")}
        data.attrs["title"] = (
            f"{model_name} on {system_name}, {heading(plan)}: one layer, one microbatch, one "
            "accelerator"
        )
        held = {name: plan[name] for name in ("microbatch", "zero_stage", "recompute")}
        data.attrs["left_open"] = left_open(plan_text, held)
    deliver.deliver(data, output)


def _unfused(text: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the degrees of the unfused blocks, from a text such as ``tp=4,sp=2``.

    Raises: InputError for a degree that the blocks do not have, or that exceeds what it divides.
    """
    from jaxroof.engine.grid.question import ask
    from jaxroof.engine.search.plan_text import parse_plan, plan_items
    from jaxroof.errors import refusal
    from jaxroof.estimators.published.unfused import DIVIDED, Plan, Variant, unfused
    from jaxroof.views.text.layers import SHORT, WORDS

    degrees = {short: degree for degree, short in SHORT.items()}
    for name in plan_items("--plan", text):
        if name not in {*degrees, *degrees.values()}:
            what = "the unfused blocks have no such degree"
            raise refusal("--plan", f"{name}: {what}; expected tp or sp")
    given = parse_plan("--plan", text, Plan, degrees, degrees.values())
    asked = {**settings, **{f"plan.{name}": degree for name, degree in given.items()}}
    _, inputs, recipe, _ = ask(unfused, settings=asked)
    if recipe.variant is Variant.TENSOR and given.get("sequence", 1) != 1:
        said = "the ends of a block are split by tp; expected --set variant=sequence_parallel"
        raise refusal("--plan", f"sp={given['sequence']}: {said}, or no sp")
    for name, fields in DIVIDED[recipe.variant].items():
        for field in fields:
            held, degree = float(getattr(inputs.model, field)), given.get(name, 1)
            if degree > held:
                what = f"expected at most the {held:.0f} {WORDS[field]} that it divides"
                raise refusal("--plan", f"{SHORT[name]}: {what}, given {degree}")
    return asked
