"""The checked question of a state: inputs without a plan, choices and rules; files read safely."""

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof import catalog
from jaxroof.analyses.training_plans import plans_asked
from jaxroof.app.state import START, State, Upload, checked
from jaxroof.catalog import huggingface
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.errors import refusal, unknown
from jaxroof.estimators.training.step import training
from jaxroof.records import leaves
from jaxroof.settings import choices_of

SHOWN = {  # fields of a state that choose what is shown, not what is asked
    name: getattr(START, name) for name in ("mine", "other", "across", "up", "schedule", "tab")
}
NAMES = ("base", "chip")  # fields of a file that name another entry
MOST_LINE = 500  # characters of a line: a key of thousands of parts takes a minute to read


def asked(state: State) -> SearchProblem:
    """Return the checked search of a state, with its accelerators.

    Raises: InputError that names what cannot be asked.

    >>> float(asked(START).inputs.gpus)
    256.0
    """
    return _asked(dataclasses.replace(checked(state), **SHOWN))


@functools.lru_cache(maxsize=64)
def _asked(state: State) -> SearchProblem:
    model = model_of(state.own_model) if state.own_model else state.model
    machine = training_system(table_of(state.own_system)) if state.own_system else state.system
    precision = {"precision": state.precision} if state.precision != START.precision else {}
    named = {"model": model, "system": machine, "global_batch": float(state.batch)}
    found = plans_asked(training, {**named, **_settings(state), **precision}, state.where)
    inputs = dataclasses.replace(found.inputs, gpus=np.float64(state.gpus))
    return dataclasses.replace(found, inputs=inputs)


def unchanged(state: State) -> State:
    """Return the state with the numbers of the catalogue."""
    return dataclasses.replace(state, changes=())


def _settings(state: State) -> dict[str, Any]:
    """Return the changed numbers and choices as settings.

    Raises: InputError for a name that is neither (with the nearest), or that is given elsewhere.
    """
    known = choices_of(training.recipe)
    for name, _ in state.choices:
        if name not in known:
            raise unknown("choice", name, "structural choice", known)
    for path, _ in state.changes:
        if path.partition(".")[0] not in ("system", "model", "software", "shared"):
            raise refusal(path, "expected a number of the system, the model or the software")
    return {**dict(state.changes), **dict(state.choices)}


def numbers(found: SearchProblem) -> dict[str, tuple[float, Any]]:
    """Return every number of the inputs that is there, with the metadata of its field."""
    told = leaves(dataclasses.replace(found.inputs, plan=None))
    return {
        path: (float(value), field.metadata) for path, field, value in told if value is not None
    }


# ---- Files that were dropped in -----------------------------------------------------------------


def model_of(own: Upload) -> tuple[Any, dict[str, str]]:
    """Return the record of a model's file, and the structural choices that come with it.

    Raises: InputError of the reader, which starts with the file's name.

    >>> config = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 50'
    >>> record, choices = model_of(Upload("config.json", config + ', "n_positions": 16}'))
    >>> float(record.layers), choices["norm"]
    (2.0, 'layernorm')
    """
    if own.name.endswith(".toml"):
        return architecture_with_choices(table_of(own))
    config = huggingface.entry(own.name, own.text)
    return architecture_with_choices(catalog.Table(own.name, config))


def table_of(own: Upload) -> catalog.Table:
    """Return what a TOML file says; the entries that it changes are those of the catalogue.

    Raises: InputError for what is no TOML, and for a path: no file of this machine is opened.

    >>> table_of(Upload("m.toml", 'base = "/etc/passwd"'))
    Traceback (most recent call last):
    jaxroof.errors.InputError: m.toml: base: a path; expected a name of the catalogue
    """
    if not own.name.endswith(".toml"):
        raise refusal(own.name, "expected a .toml file")
    longest = max(map(len, own.text.splitlines()), default=0)
    if longest > MOST_LINE:
        raise refusal(own.name, f"a line of {longest:,} characters; expected at most {MOST_LINE}")
    try:
        written = tomllib.loads(own.text)
    except (ValueError, RecursionError) as error:
        raise refusal(own.name, f"not TOML: {error}; expected a TOML file") from None
    for where, inside in ((own.name, written), (f"{own.name}: chip", written.get("chip"))):
        named = {name: inside.get(name) for name in NAMES} if isinstance(inside, Mapping) else {}
        for field, name in named.items():
            if isinstance(name, str) and catalog.is_file(name):
                raise refusal(f"{where}: {field}", "a path; expected a name of the catalogue")
    return catalog.Table(own.name, written)
