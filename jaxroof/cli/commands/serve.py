"""The command `jaxroof serve`: which plan serves a model within limits."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, settings_of, shared


@click.command(
    name="serve",
    cls=Command,
    short_help="Print which plan serves a model within limits.",
    epilog="""\b
Examples:
  jaxroof serve --model llama3-70b --system h200-141-sxm --gpus 16 \\
      --input 8192 --output 1024 --ttft 2s --tpot 50ms
  jaxroof serve --model llama3-70b --system h100-nvs8 --gpus 32 \\
      --input 8192 --output 1024 --ttft 2s --tpot 50ms --load 3/s --split both
  jaxroof serve --model llama3-70b --system h100-nvs8,b200-nvs8 --gpus 16 \\
      --input 4096 --output 1024 --tpot 20ms --frontier -o frontier.png
""",
)
@shared("model")
@click.option(
    "--system", "systems", required=True, metavar="S[,S...]", type=types.NAMES,
    help="Name or file; several with --frontier.",
)  # fmt: skip
@click.option("--gpus", required=True, metavar="N", type=types.COUNT, help="Accelerators.")
@click.option("--input", "prompt", required=True, metavar="N", help="Tokens of a prompt.")
@click.option("--output", "answer", required=True, metavar="N", help="Tokens of an answer.")
@click.option("--ttft", metavar="T", help="Most time to the first token, such as 2s.")
@click.option("--tpot", metavar="T", help="Most time of each further token, such as 50ms.")
@click.option("--load", metavar="R", help="Requests that all must carry, such as 3/s.")
@click.option("--users", metavar="N", type=types.COUNT, help="Requests at once to hold.")
@click.option(
    "--software", metavar="NAME", type=types.NAMES,
    help="What serves, such as vllm-2026.  [default: the newest measured on such chips]",
)  # fmt: skip
@click.option(
    "--precision", metavar="NAME", type=types.NAMES,
    help="Of weights: bf16, fp8, fp4, mxfp4, or attention:mlp.  [default: of 8 bits, if it can]",
)  # fmt: skip
@click.option("--cache", metavar="NAME", help="Of the cache: bf16 or fp8.  [default: bf16]")
@click.option(
    "--split", default="aggregated", show_default=True, metavar="WAY",
    help="aggregated, disaggregated (pools of their own), or both.",
)  # fmt: skip
@click.option("--frontier", is_flag=True, help="The best rate at every time of a token instead.")
@click.option("--mine", metavar="PLAN", help="Rank your own: tp=8,batch=64,chunk=2048.")
@click.option("--objective", metavar="NAME", help="Result to improve.  [default: accelerator_time]")
@click.option("--rent", metavar="R", help="Of one accelerator: '2.2 $/h'.")
@click.option("--top", default=5, show_default=True, help="Plans to print.")
@shared("where", "set")
@click.option("-o", "output", metavar="FILE", help="A .png .svg .pdf .csv .json or .nc.")
@shared("json", "quiet", "verbose")
def command(
    frontier: bool,
    systems: list[str],
    answer: str,
    sets: tuple[str, ...],
    mine: str | None,
    users: int | None,
    objective: str | None,
    top: int,
    output: str | None,
    **options: Any,
) -> int:
    """Print the plan that serves a model at the most tokens a second within limits.

    Exit 1 if none is within them.
    """
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.errors import refusal

    deliver.check_output(output)
    if (rent := options["rent"]) and rent.replace(".", "", 1).isdigit():
        raise refusal("--rent", f"{rent}: a price of no time; expected such as '{rent} $/h'")
    asked = {"model": options.pop("model_name"), "output": answer, **options}
    lists = {"system": systems, **{n: asked.pop(n) for n in ("software", "precision")}}
    asked["settings"] = settings_of(sets)
    if frontier:
        from jaxroof.analyses.frontier import NothingWithin
        from jaxroof.analyses.frontier import frontier as of_frontier

        for name, value in (("--mine", mine), ("--objective", objective), ("--users", users)):
            if value is not None:
                raise refusal(name, "of one plan; expected no --frontier")
        try:
            with working("finding the best plan at every time of a token"):
                data = of_frontier(**asked, **lists)
        except NothingWithin as error:
            click.echo(f"Nothing is within every limit: {error}.")
            return 1
        deliver.deliver(data, output)
        return 0
    from jaxroof.analyses.serve import found_some, serve, table

    for name, some in lists.items():
        if some is not None and len(some) > 1:
            raise refusal(f"--{name}", "several are compared with --frontier; expected one")
    single = {name: some and some[0] for name, some in lists.items()}
    with working("weighing every legal plan"):
        data = serve(**asked, **single, users=users, own=mine, objective=objective, top=top)
    csv = output is not None and output.endswith(".csv")
    deliver.deliver(data, output, table=table(data) if csv else None)
    return 2 if "own_refused" in data.attrs else 0 if found_some(data) else 1
