"""The command `jaxroof plot`: a picture of a file of results, or of a sweep file."""

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, shared


@click.command(
    name="plot",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof plot map.nc
  jaxroof plot sweeps/p7_gpt3_bandwidth_capacity.toml -o map.svg
  jaxroof plot days.nc --kind normalised_throughput -o throughput.png
""",
)
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", metavar="FILE", help="A .png, .svg or .pdf.  [default: FILE.png]")
@click.option("--kind", metavar="NAME", help="Picture to draw.  [default: what the file asks for]")
@click.option("--at", "points", multiple=True, metavar="DIM=VALUE", help="Cut at one point.")
@shared("trust")
def command(
    file: str, output: str | None, kind: str | None, points: tuple[str, ...], trust: bool
) -> None:
    """Draw a file of results, or a sweep file, which is run first."""
    import contextlib
    import importlib
    import pathlib

    from jaxroof.cli.progress import working
    from jaxroof.config.sweep_file import run
    from jaxroof.errors import unknown
    from jaxroof.io.formats import errors_of_contents, read
    from jaxroof.views.answers import picture

    plots = importlib.import_module("jaxroof.views.plots")  # matplotlib is an optional dependency
    target = output or f"{pathlib.Path(file).stem}.png"
    plots.drawable(target)
    if kind is not None and kind not in {*plots.KINDS, *plots.OLD}:
        raise unknown("--kind", kind, "kind of picture", plots.KINDS)
    chosen = types.parse_pairs("--at", points, "DIM=VALUE, such as gpus=8192")
    with working("drawing"):
        ours = file.endswith(".toml")
        data = run(file, trust=trust) if ours else read(file)
        with contextlib.nullcontext() if ours else errors_of_contents(file):
            data = plots.pick(data, chosen, "--at").load()
            plots.save(picture(data) if kind is None else plots.draw(data, kind), target)
    click.echo(f"wrote {target}", err=True)
