"""Options of the command `jaxroof show`."""

import click

from jaxroof.cli.entries import entry_rows, print_entries


@click.command(short_help="Show an entry, an estimator, or what a file asks.")
@click.argument("name", metavar="NAME|MODULE:NAME|FILE.toml")
def command(name: str) -> None:
    """Show an entry of the catalogue, with its source, or what an estimator asks and answers.

    MODULE:NAME is an estimator of your own, in the current folder. A file is shown as the entry
    that it is, or by what it asks: a sweep, a design or ranges.
    """
    from jaxroof import catalog

    if name.endswith(".toml"):
        from jaxroof.cli.actions.list_show import show_file

        show_file(name)
        return
    known = {entry: kind for kind in ("models", "mlps", "systems") for entry in catalog.names(kind)}
    if name not in known:
        from jaxroof.cli.actions.list_show import show_estimator

        show_estimator(name, known)
        return
    print_entries(entry_rows(catalog.describe(known[name], name)))
