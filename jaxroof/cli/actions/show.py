"""What `show` says of an estimator and of a model's size, without Datasets and without JAX."""

import pathlib
from collections.abc import Iterable

from jaxroof import estimators
from jaxroof.cli.actions.console import console, print_text
from jaxroof.engine.grid.question import ask
from jaxroof.errors import unknown
from jaxroof.estimators.plugins import estimator_of
from jaxroof.views.text.estimators import inputs_table, results_table
from jaxroof.views.text.model_size import size_sentence, size_table


def show_estimator(name: str, entries: Iterable[str]) -> None:
    """Print the inputs and the results of an estimator, ``module:name`` for one of the user's.

    Raises: InputError with the nearest name among the estimators and the catalogue's ``entries``.
    """
    if ":" not in name and name not in estimators.names():
        raise unknown("", name, "model, system or estimator", [*entries, *estimators.names()])
    estimator = estimator_of(name, pathlib.Path.cwd(), trust=True)
    page = console()
    print_text(page, f"{name}: {estimator.about}")
    page.print(inputs_table(estimator))
    page.print(results_table(estimator))
    asked = name.partition(":")[2] or repr(name)
    print_text(
        page, f"Ask it with: jaxroof evaluate {name} ROWS.csv, jr.evaluate({asked}, {{...}})."
    )


def show_size(name: str) -> None:
    """Print the parameters of a model of today: in all, for one token, and by part."""
    asked = estimators.estimator("model_size")
    _, inputs, recipe, _ = ask(asked, settings={"model": name})
    report = asked.evaluate(inputs, recipe)
    page = console()
    print_text(page, size_sentence(report))
    page.print(size_table(report))
