"""The command `jaxroof report`: one page of HTML from stored results."""

import click

from jaxroof.cli.options import Command


@click.command(
    name="report",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof report map.nc
  jaxroof report fit.nc search.nc map.zarr -o plans.html
""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="An .html file.  [default: FILE.html]")
def command(files: tuple[str, ...], output: str | None) -> None:
    """Write one page of HTML that shows stored results.

    A FILE is a .nc, .json or .zarr file of any command. The page has their sentences, tables and
    pictures, what was assumed and what made them. It needs no server and no network.
    """
    import pathlib

    from jaxroof.cli.progress import working
    from jaxroof.units import size
    from jaxroof.views.report import report

    target = output or f"{pathlib.Path(files[0]).stem}.html"
    with working("drawing the results"):
        report(files, target)
    written = size(pathlib.Path(target).stat().st_size, "B")
    click.echo(f"wrote {target}, {written}", err=True)
