"""Options of the command `jaxroof show`."""

import click

from jaxroof.cli import completion
from jaxroof.cli.entries import entry_rows, print_entries, print_wrapped
from jaxroof.errors import refusal


@click.command(short_help="Show an entry, an estimator, or what a file asks.")
@click.argument("name", metavar="NAME|MODULE:NAME|FILE", shell_complete=completion.entries)
@click.option("--trust", is_flag=True, help="Run the code of an estimator beside a sweep file.")
def command(name: str, trust: bool) -> None:
    """Show an entry of the catalogue, with its source, or what an estimator asks and answers.

    MODULE:NAME is an estimator of your own, in the current folder. A file is shown as the entry
    that it is, or by what it asks: a sweep, a design or ranges. A model of today is shown with its
    parameters, in all and by part.
    """
    from jaxroof import catalog

    if name.endswith((".toml", ".json")):
        from jaxroof.cli.actions.show_file import show_file

        show_file(name, trust)
        return
    if name.endswith((".nc", ".csv", ".zarr")):
        expected = "expected jaxroof report, plot or rerun of it"
        raise refusal(name, f"show tells of entries and questions, not of results; {expected}")
    kinds = (*catalog.MODELS, "mlps", "systems", "software")
    known = {entry: kind for kind in kinds for entry in catalog.names(kind)}
    for kind in kinds:
        name = catalog.canonical(kind, name)
    if name not in known:
        from jaxroof.cli.actions.show import show_estimator

        show_estimator(name, known)
        return
    print_entries(entry_rows(catalog.describe(known[name], name)))
    if known[name] == "systems":
        from jaxroof.catalog.needs import training_note

        print_wrapped(training_note(name))
    if known[name] == "architectures":
        from jaxroof.cli.actions.show import show_size

        show_size(name)
