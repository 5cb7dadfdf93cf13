"""The command `jaxroof explain`: what limits the best plan, and where that changes."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, FieldOption, shared


@click.command(
    name="explain",
    cls=Command,
    short_help="Print what binds the best plan, and where that changes.",
    epilog="""\b
Examples:
  jaxroof explain --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048
  jaxroof explain --estimator published --model vit-era5 \\
      --system h200-nvs8 --gpus 2048 --batch 4096 --set split=context --json
  jaxroof explain --model deepseek-v3 --system gb200-nvl72 --gpus 2048 \\
      --batch 15360 -o tornado.png
""",
)
@shared("model", "system", "estimator")
@click.option(
    "--gpus", required=True, cls=FieldOption, metavar="N", type=types.COUNT,
    help="Accelerators to split over.",
)  # fmt: skip
@shared("batch", "sequence", "tokens", "set", "where")
@click.option(
    "--span", default="16", show_default=True, metavar="X", type=types.SPAN,
    help="Parameters are moved from 1/X to X times today's.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE", help="A .png .svg .pdf .json or .nc.")
@shared("json", "quiet", "verbose", "format", "split")
def command(span: float, output: str | None, **options: Any) -> int:
    """Print which resource binds the best plan, by how much, and where that changes."""
    from jaxroof.analyses.explain import explain, explanation_dataset
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.cli.question import PlansQuestion
    from jaxroof.engine.search.none_legal import check_legal
    from jaxroof.views.answers import answer
    from jaxroof.views.text.said import Detail, Page

    asked = PlansQuestion(**options)
    deliver.check_output(output, (*deliver.PICTURES, ".json", ".nc"))
    chosen = {"gpus": asked.gpus, **asked.settings}
    with working("searching plans at every value of every parameter"):
        found = explain(estimator=asked.of, where=asked.rules, span=span, settings=chosen)
    if not found.steps.sizes["step"]:
        check_legal(asked.of, None, where=asked.rules, settings=chosen)
    data = explanation_dataset(found, asked.title)
    if deliver.is_picture(output) and not found.feasible:
        output = None  # nothing to draw
    page = Page(deliver.console().width, every=deliver.detail() is Detail.VERBOSE)
    deliver.deliver(data, output, said=answer(data, page))
    return 0 if found.feasible else 1
