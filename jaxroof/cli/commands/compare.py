"""The command `jaxroof compare`: systems and splits side by side."""

from typing import Any

import click

from jaxroof.cli import completion, types
from jaxroof.cli.options import FIELDS, Command, settings_of, shared


@click.command(
    name="compare",
    cls=Command,
    short_help="Print the best plans of systems and splits side by side.",
    epilog="""\b
Examples:
  jaxroof compare --model llama3.1-405b --gpus 1024 --batch 1024 \\
      --system h100-nvs8,h200-141-sxm,gb200-nvl72
  jaxroof compare --model deepseek-v3 --batch 15360 \\
      --system h800-nvs8:2048:fp8,gb200-nvl72:1024:mxfp8
  jaxroof compare --model deepseek-v3 --batch 15360 --gpus 1024 \\
      --system gb200-nvl72 --set dispatcher=alltoall,hybridep
  jaxroof compare --estimator published --model gpt3-1t --gpus 512,4096 \\
      --batch 4096 --system h200-nvs4 -o compare.png
""",
)
@click.option(
    "--model",
    "model_names",
    required=True,
    metavar="M[,M...]",
    type=types.NAMES,
    help="Names or files.",
    shell_complete=completion.models,
    **types.LIST,
)
@click.option(
    "--system", "--systems", "system_names", required=True, metavar="S[,S...]", type=types.NAMES,
    help="Names or files, each as S or S:GPUS:PRECISION.", shell_complete=completion.systems,
    **types.LIST,
)  # fmt: skip
@click.option(
    "--gpus", metavar="N[,N...]", type=types.COUNTS,
    help="Accelerators, of systems without their own.", **types.LIST,
)  # fmt: skip
@shared("estimator", "batch", "sequence", "tokens", "where", "margin", "set", "output")
@shared("json", "quiet", "verbose", "format", "split")
def command(
    estimator: str,
    model_names: list[str],
    system_names: list[str],
    gpus: list[int] | None,
    batch: int | None,
    where: str,
    output: str | None,
    number_format: str | None,
    split: str | None,
    tokens: float | None,
    **options: Any,
) -> int:
    """Print the best plan of each system and split side by side, and why they differ."""
    from jaxroof.analyses.compare import NoStepTime, compare
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import progress_bar
    from jaxroof.cli.question import check_fields, searched, whole_run
    from jaxroof.errors import InputError
    from jaxroof.views.text.compare import without_sentences

    deliver.check_output(output)
    of = searched(estimator)
    sizes = {"sequence": options["sequence"], "training_tokens": tokens}
    check_fields(of, {"global_batch": batch, **sizes})
    settings = {**whole_run(of, tokens), **settings_of(**options)}
    named = settings.pop("split", split)
    several = "," in str(settings.get("dispatcher", ""))
    dispatchers = settings.pop("dispatcher").split(",") if several else ()
    own = getattr(of.recipe, "split", None)
    every = () if own is None else (one.value for one in type(own))
    try:
        with progress_bar() as progress:
            data = compare(
                system=system_names,
                model=model_names,
                gpus=gpus,
                global_batch=batch,
                where=where,
                estimator=of,
                number_format=number_format,
                splits=types.parse_names("--split", named) if named else [*every],
                dispatchers=dispatchers,
                settings=settings,
                progress=progress,
            )
    except NoStepTime as error:
        deliver.print_text(deliver.console(), *without_sentences(error.without))
        return 1
    except InputError as error:
        options_of = {field: option for option, field in FIELDS.items()}
        if (where := str(error).partition(":")[0]) not in ("model", "system", "gpus"):
            raise
        raise InputError(str(error).replace(where, options_of[where], 1)) from None
    deliver.deliver(data, output)
    return 0 if bool(data.feasible.any()) else 1
