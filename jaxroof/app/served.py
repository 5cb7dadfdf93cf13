"""The question of a server that a state asks: for Python, for the shell, and its answer."""

from typing import Any

import xarray as xr

from jaxroof.analyses.serve import SPLITS, serve
from jaxroof.app.controls import numbers_of
from jaxroof.app.question import MAIN, OF_TABS, RENT, SERVED, model_table, table_of
from jaxroof.app.state import State
from jaxroof.app.tabs.share import command_line, exact, program
from jaxroof.catalog.lookup import serving_system
from jaxroof.catalog.serving_software import serving_name, serving_software
from jaxroof.estimators.serving.serving import served_architecture

TOP = 5  # plans of a table
RATES = ("matrix_flops", "fp8_flops", "fp4_flops")


def served(state: State) -> dict[str, Any]:
    """Return the question of a state as it is typed, names and files as words.

    >>> found = served(State())
    >>> found["prompt"], found["tpot"], found["rent"]
    (4096, '50 ms', '2 $/h')
    """
    found: dict[str, Any] = {"model": state.model_words, "system": state.system_words}
    found["gpus"] = state.gpus
    for path in (*SERVED, RENT):
        value = dict(state.changes).get(path, OF_TABS[path].value)
        name, unit = path.rpartition(".")[2], OF_TABS[path].unit
        if unit == "token":
            found[name] = int(value) if value == int(value) else value
        elif value:
            found[name] = exact(value, unit).replace("request", "")
    asked = {"software": state.software, "precision": state.weights, "cache": state.cache}
    found |= {name: value for name, value in asked.items() if value}
    return found | ({"split": state.split} if state.split != SPLITS[0] else {})


def machine_settings(state: State) -> dict[str, str]:
    """Return the machine's changed numbers by path; the rates of all formats move alike."""
    known, changes = numbers_of(state), dict(state.changes)
    read = [path for path in MAIN if path in changes and path in known and "tiers" not in path]
    found = {path: exact(changes[path], known[path].unit) for path in read}
    compute = f"system.{RATES[0]}"
    if compute in found:
        more = changes[compute] / known[compute].value
        own = given(state)["system"]
        machine = serving_system(own) if isinstance(own, str) else own
        rates = {name: getattr(machine, name) for name in RATES}
        every = {name: rate * more for name, rate in rates.items() if rate is not None}
        found |= {f"system.{name}": exact(float(rate), "FLOP/s") for name, rate in every.items()}
    return found


def command(state: State) -> str:
    """Return the command line of the question.

    >>> command(State())[:41]
    'jaxroof serve --model llama3-70b --system'
    """
    named = {"input" if name == "prompt" else name: v for name, v in served(state).items()}
    return command_line("serve", named, machine_settings(state))


def python(state: State) -> str:
    """Return the question as a Python program."""
    return program("serve(", {**served(state), "settings": machine_settings(state)}, "data")


def given(state: State) -> dict[str, Any]:
    """Return the question of a state with its files read."""
    found = served(state)
    if state.own_model:
        found["model"], _ = served_architecture(model_table(state.own_model))
    if state.own_system:
        table = table_of(state.own_system)
        found["system"] = serving_system(table)
        found["software"] = serving_software(state.software or None, table)
    return found


def best_servers(state: State) -> xr.Dataset:
    """Return the plans that serve the model of a state, as `jaxroof serve` ranks them."""
    data = serve(**given(state), top=TOP, settings=machine_settings(state))
    told = {"model": state.model_words, "system": state.system_words}
    if state.own_system:
        told["software"] = str(serving_name(state.software or None, table_of(state.own_system)))
    return data.assign_attrs(told)
