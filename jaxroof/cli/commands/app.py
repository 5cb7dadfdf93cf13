"""The command `jaxroof app`: the page, served until it is interrupted."""

import click

from jaxroof.cli.options import Command
from jaxroof.errors import InputError

NEEDED = ("panel", "bokeh", "matplotlib", "tornado")


@click.command(
    name="app",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof app
  jaxroof app --port 8080 sweeps/gpt3_hbm.toml
\b
Needs the extra `app`: pip install 'jaxroof[app]'.
""",
)
@click.argument("file", required=False, metavar="[FILE.toml]")
@click.option("--port", default=5006, show_default=True, type=click.IntRange(1, 65535), metavar="N")
@click.option(
    "--address", default="127.0.0.1", show_default=True, metavar="A",
    help="Where to serve; another than the loopback lets others in.",
)  # fmt: skip
def command(file: str | None, port: int, address: str) -> int:
    """Open a page in the browser that answers while a slider moves.

    FILE is a sweep file whose question the page starts with.
    """
    try:
        from jaxroof.app.serve import LOOPBACK, opened, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        what = f"app: {error.name} is not installed"
        raise InputError(f"{what}; expected the extra: pip install 'jaxroof[app]'") from None
    from jaxroof.app.state import START, to_link
    from jaxroof.cli.deliver import console, print_text
    from jaxroof.cli.process import outlive_connections

    first = START if file is None else opened(file)
    page = console()
    print_text(page, f"The page is at http://{address}:{port}/{to_link(first)}")
    if address != LOOPBACK:
        print_text(page, "Who reaches this address can use it: there is no password.")
    print_text(page, "Ctrl-C ends it.")
    outlive_connections()
    serve(first, port, address)
    return 0
