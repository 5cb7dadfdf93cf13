"""Options of the command `jaxroof app`."""

from typing import Any

import click

from jaxroof.cli import process


@click.command(
    name="app",
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
def command(**options: Any) -> None:
    """Open a page in the browser that answers while a slider moves.

    FILE is a sweep file whose question the page starts with.
    """
    process.act("app", options)
