"""Options of the command `jaxroof list`."""

from typing import Any

import click

from jaxroof.cli import completion, systems
from jaxroof.cli.entries import page_width, print_entries, print_wrapped

OF = {"models": "; of --estimator published"}  # what the entries of a kind are asked with
EXAMPLES = 4  # names shown per kind in the list of all kinds


@click.command(name="list", short_help="List what the catalogue holds, and what can be asked.")
@click.argument(
    "kind",
    metavar="[models|mlps|systems|software|estimators]",
    default="",
    shell_complete=completion.kinds,
)
def command(kind: str) -> None:
    """List one kind of the catalogue's entries, or what can be asked; alone, list the kinds."""
    from jaxroof import catalog

    if not kind:
        _list_kinds()
        return
    if kind == "estimators":
        from jaxroof.estimators.questions import QUESTIONS

        print_entries([*QUESTIONS.items()])
        return
    if kind == "systems":
        click.echo("\n".join([*systems.list_systems(page_width()), ""]))
        for note in systems.NOTES:
            print_wrapped(note)
        return
    kinds = catalog.MODELS if kind == "models" else (kind,)
    rows = [
        (name, f"{entry['title']}: {_summary(entry)}{OF.get(one, '')}")
        for one in kinds
        for name in catalog.names(one)
        for entry in [catalog.describe(one, name)]
    ]
    print_entries(rows)


def _list_kinds() -> None:
    """Print the kinds that can be listed, with the count and the first names of each."""
    from jaxroof import catalog, estimators

    kinds = {kind: catalog.names(kind) for kind in ("models", "mlps", "systems", "software")}
    kinds["models"] = tuple(name for kind in catalog.MODELS for name in catalog.names(kind))
    kinds["estimators"] = estimators.names()
    print_entries(
        [(kind, f"{len(some)}: {', '.join(some[:EXAMPLES])}, ...") for kind, some in kinds.items()]
    )
    print_wrapped("All of a kind: jaxroof list systems. One of them: jaxroof show b200-nvs8.")


def _summary(entry: dict[str, Any]) -> str:
    if "note" in entry and "formulas" in entry:  # software
        return str(entry["note"])
    fields = ("layers", "hidden", "heads", "experts", "sequence")
    return ", ".join(f"{field} {entry[field]}" for field in fields if field in entry)
