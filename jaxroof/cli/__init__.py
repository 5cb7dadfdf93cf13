"""Commands: what each takes in a file of its own, what each does in ``actions``."""

from jaxroof.cli.main import cli, main

__all__ = ["cli", "main"]
