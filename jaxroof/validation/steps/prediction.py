"""What the estimator ``training`` predicts for measured steps, many rows in one call."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.catalog import lookup
from jaxroof.catalog.system import System
from jaxroof.engine.grid.question import resolve
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.interval import REGIMES, of_own_runs
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.training_recipe import TrainingRecipe
from jaxroof.records import leaves, replace_at
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.machine import machines_of
from jaxroof.validation.steps.step_rows import SYSTEMS, StepRow, step_rows

PARTS = tuple(
    f.name for f in dataclasses.fields(TrainingReport) if f.metadata["part_of"] == "step_time"
)
OWN = ", own runs"  # of a regime, where the chip was calibrated on them


class StepGroup(NamedTuple):
    """Measured steps with the same choices, on the same system: columns of inputs."""

    places: np.ndarray  # of its rows among those that were asked
    inputs: TrainingInputs
    recipe: TrainingRecipe


class StepAnswer(NamedTuple):
    """A measured row with the step predicted for it, or the reason why there is none."""

    row: Row
    step: StepRow | None
    reason: str
    time: float = np.nan  # [s]
    low: float = np.nan
    high: float = np.nan
    regime: str = ""
    parts: Mapping[str, float] = {}  # [s] of a step; they sum to the time

    @property
    def error(self) -> float | None:
        """Return predicted over measured, less 1."""
        measured = None if self.step is None else self.step.measured
        return None if measured is None else self.time / measured - 1.0

    @property
    def covered(self) -> bool | None:
        """Return whether the measured time lies in the interval."""
        measured = None if self.step is None else self.step.measured
        return None if measured is None else self.low <= measured <= self.high


class Groups(NamedTuple):
    """Measured steps as inputs of ``training``, and why some of them are none, by their place."""

    groups: list[StepGroup]
    refused: dict[int, InputError]


def step_groups(rows: Sequence[StepRow], chip: str | None = None) -> Groups:
    """Return steps as inputs of ``training``: those with the same choices are columns of one.

    ``chip`` replaces what the catalogue says of chips.
    Raises: InputError for a chip that there is not, or a file that is none.
    """
    apart: dict[Any, list[int]] = defaultdict(list)
    for place, one in enumerate(rows):
        names = {k: v if isinstance(v, str) else "" for k, v in one.settings.items()}
        apart[frozenset(names.items())].append(place)
    systems = {name: system_of(name, chip) for name in {one.system for one in rows}}
    found = [one for some in apart.values() for one in _resolved(rows, np.array(some), systems)]
    alike: dict[Any, list[StepGroup]] = defaultdict(list)
    for one in found:
        if isinstance(one, StepGroup):
            alike[one.recipe, tuple(path for path, _, _ in leaves(one.inputs))].append(one)
    refused = dict(one for one in found if not isinstance(one, StepGroup))
    return Groups([_joined(some) for some in alike.values()], refused)


def system_of(name: str, chip: str | None = None) -> System:
    """Return a system by name with its chip, or with another one."""
    return dataclasses.replace(lookup.device(name), chip=lookup.chip_of(name, chip))


def _resolved(
    rows: Sequence[StepRow], places: np.ndarray, systems: Mapping[str, System]
) -> list[Any]:
    """Return a group of rows with the same names; if some are refused, the others and those."""
    first = rows[places[0]].settings
    settings: dict[str, Any] = {
        name: value
        if isinstance(value, str)
        else np.array([rows[place].settings[name] for place in places])
        for name, value in first.items()
    }
    try:
        asked = {**settings, "system": systems[str(first["system"])]}
        return [StepGroup(places, *resolve(training, asked)[:2])]
    except InputError as error:
        if len(places) == 1:
            return [(int(places[0]), error)]
        return [one for half in np.array_split(places, 2) for one in _resolved(rows, half, systems)]


def _joined(groups: Sequence[StepGroup]) -> StepGroup:
    """Return groups with the same choices as one, every input a column."""
    sizes = [len(one.places) for one in groups]
    columns = [{path: value for path, _, value in leaves(one.inputs)} for one in groups]
    inputs = groups[0].inputs
    for path in columns[0]:
        each = [np.broadcast_to(c[path], n) for c, n in zip(columns, sizes, strict=True)]
        inputs = replace_at(inputs, path, np.concatenate(each))
    return StepGroup(np.concatenate([one.places for one in groups]), inputs, groups[0].recipe)


def answers(rows: Iterable[Row], chip: str | None = None) -> list[StepAnswer]:
    """Return every row with its prediction, or the reason why there is none.

    A ``chip`` in a file that was calibrated on runs like these has their intervals.
    Raises: InputError for a chip that there is not, or a file that is none.
    """
    rows = list(rows)
    found = [
        StepAnswer(row, None, str(one)) if isinstance(one, InputError) else StepAnswer(row, one, "")
        for row, one in zip(rows, step_rows(rows, machines_of(chip) or SYSTEMS), strict=True)
    ]
    asked = [place for place, one in enumerate(found) if one.step is not None]
    groups, refused = step_groups([one.step for one in found if one.step is not None], chip)
    for group in groups:
        for place, said in zip(group.places, _predicted(group), strict=True):
            found[asked[place]] = found[asked[place]]._replace(**said)
    for place, error in refused.items():
        found[asked[place]] = StepAnswer(found[asked[place]].row, None, str(error))
    return found


def _predicted(group: StepGroup) -> Iterator[dict[str, Any]]:
    """Yield what is predicted for each row of a group."""
    report = training.evaluate(group.inputs, group.recipe)

    def column(name: str) -> np.ndarray:
        return np.broadcast_to(getattr(report, name), np.shape(group.places))

    times, low, high = (column(f"step_time{end}") for end in ("", "_low", "_high"))
    regimes = column("regime")
    own, parts = of_own_runs(low, high, regimes), {name: column(name) for name in PARTS}
    for i in range(len(group.places)):
        yield {
            "time": float(times[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "regime": REGIMES[int(regimes[i])].words + OWN * bool(own[i]),
            "parts": {name: float(values[i]) for name, values in parts.items()},
        }
