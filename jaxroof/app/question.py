"""The checked question of a state: inputs without a plan, choices, rules and capacity."""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from jaxroof.analyses.training_plans import plans_asked
from jaxroof.app.state import START, State, checked
from jaxroof.app.uploads import model_of, table_of
from jaxroof.catalog.lookup import training_system
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.one_machine import limit_of
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.errors import refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.step import training
from jaxroof.records import leaves
from jaxroof.settings import choices_of


class Asked(NamedTuple):
    """A checked question: what is searched, on how many accelerators, under which rules."""

    estimator: Estimator
    inputs: Any  # with the accelerators, without a plan
    recipe: Any
    where: tuple[Constraint, ...]
    capacity: float  # bytes that a step may fill
    of_training: SearchProblem  # the same, as the analyses of a training step have it

    @property
    def gpus(self) -> int:
        """Return the number of accelerators."""
        return int(self.inputs.gpus)


def asked(state: State) -> Asked:
    """Return the checked question of a state.

    Raises: InputError that names what cannot be asked.

    >>> asked(START).gpus
    256
    """
    return _asked(dataclasses.replace(checked(state), **SHOWN))


SHOWN = {  # fields of a state that choose what is shown, not what is asked
    name: getattr(START, name) for name in ("mine", "other", "across", "up", "schedule", "tab")
}


@functools.lru_cache(maxsize=64)
def _asked(state: State) -> Asked:
    model = model_of(state.own_model) if state.own_model else state.model
    machine: Any = state.system
    if state.own_system:
        machine = training_system(table_of(state.own_system))
    precision = {"precision": state.precision} if state.precision != START.precision else {}
    named = {"model": model, "system": machine, "global_batch": float(state.batch)}
    found = plans_asked(training, {**named, **_settings(state), **precision}, state.where)
    inputs = dataclasses.replace(found.inputs, gpus=np.float64(state.gpus))
    return Asked(training, inputs, found.recipe, found.where, limit_of(found), found)


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


def numbers(found: Asked) -> dict[str, tuple[float, Any]]:
    """Return every number of the inputs that is there, with the metadata of its field."""
    told = leaves(dataclasses.replace(found.inputs, plan=None))
    return {
        path: (float(value), field.metadata) for path, field, value in told if value is not None
    }
