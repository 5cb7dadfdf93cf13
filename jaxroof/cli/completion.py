"""Names of the catalogue that a shell completes."""

from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem


def models(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the models that begin as typed, and files."""
    from jaxroof import catalog

    return _beginning(typed, *(catalog.names(kind) for kind in catalog.MODELS))


def systems(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the systems that begin as typed, and files."""
    from jaxroof import catalog

    return _beginning(typed, catalog.names("systems"))


def entries(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the entries of every kind that begin as typed, and files."""
    from jaxroof import catalog

    kinds = (*catalog.MODELS, "mlps", "systems", "software")
    return _beginning(typed, *(catalog.names(kind) for kind in kinds))


def kinds(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return what `list` lists."""
    names = ("models", "mlps", "systems", "software", "estimators")
    return [CompletionItem(name) for name in names if name.startswith(typed)]


def _beginning(typed: str, *lists: Sequence[str]) -> list[CompletionItem]:
    """Return the names that begin as typed; after a comma, those of a list's last item."""
    first, comma, last = typed.rpartition(",")
    names = sorted({name for some in lists for name in some if name.startswith(last)})
    files = [] if names else [CompletionItem(typed, type="file")]
    return [CompletionItem(f"{first}{comma}{name}") for name in names] + files
