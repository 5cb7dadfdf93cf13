"""Commands: the options and the body of each in a file of its own in ``commands``."""

from jaxroof.cli.main import cli, main

__all__ = ["cli", "main"]
