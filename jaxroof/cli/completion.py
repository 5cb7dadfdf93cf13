"""Names of the catalogue that a shell completes."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
MODELS = ("models", "architectures")
OTHERS = (
    *("mlps", "systems", "fabrics", "software", "dispatchers", "constants", "serving_software"),
)


def _names_of(*kinds: str) -> Complete:
    """Return what completes entries of some kinds, and files; after a comma, a list's last item."""

    def complete(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
        from jaxroof import catalog

        first, comma, last = typed.rpartition(",")
        every = {name for kind in kinds for name in catalog.names(kind)}
        names = sorted(name for name in every if name.startswith(last))
        files = [] if names else [CompletionItem(typed, type="file")]
        return [CompletionItem(f"{first}{comma}{name}") for name in names] + files

    return complete


models, systems = _names_of(*MODELS), _names_of("systems")
entries = _names_of(*MODELS, *OTHERS)


def kinds(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return what `list` lists."""
    names = ("models", *OTHERS, "estimators")
    return [CompletionItem(name) for name in names if name.startswith(typed)]
