"""How much of an answer a command prints: --quiet, as usual, --verbose, or --json alone."""

from typing import Any

import click

from jaxroof.views.text.detail import Detail

KEY = "jaxroof.detail"  # in what a command line remembers


def remember(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Remember an option of this kind for the rest of the command.

    Raises: UsageError if another one was given.
    """
    if not given:
        return
    chosen = Detail[str(parameter.name).upper()]
    before = context.meta.setdefault(KEY, chosen)
    if before is not chosen:
        names = " and ".join(f"--{each.name.lower()}" for each in sorted((before, chosen)))
        raise click.UsageError(f"{names} exclude each other; expected one of them", context)


def detail() -> Detail:
    """Return how much the command that runs is to print."""
    context = click.get_current_context(silent=True)
    found: Any = Detail.USUAL if context is None else context.meta.get(KEY, Detail.USUAL)
    return Detail(found)
