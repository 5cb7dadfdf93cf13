"""Commands: the options of each in a file of its own, its implementation in ``actions``."""

from jaxroof.cli.main import cli, main

__all__ = ["cli", "main"]
