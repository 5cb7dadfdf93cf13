"""What can be asked: the estimators by name, their inputs and their answers."""

from collections.abc import Iterable

from jaxroof import estimators
from jaxroof.errors import unknown
from jaxroof.shell.commands import console, say
from jaxroof.shell.entries import print_entries
from jaxroof.views.estimators import inputs_table, results_table


def list_estimators() -> None:
    """Print every estimator and the question that it answers."""
    print_entries([(name, estimators.estimator(name).about) for name in estimators.names()])


def show_estimator(name: str, entries: Iterable[str]) -> None:
    """Print what an estimator asks and what it answers.

    Raises: InputError with the nearest name among the estimators and the catalogue's ``entries``.
    """
    if name not in estimators.names():
        raise unknown("", name, "model, system or estimator", [*entries, *estimators.names()])
    estimator = estimators.estimator(name)
    page = console()
    say(page, f"{name}: {estimator.about}")
    page.print(inputs_table(estimator))
    page.print(results_table(estimator))
    say(page, f"Ask it with: jaxroof evaluate {name} ROWS.csv, jr.evaluate({name!r}, {{...}}).")
