"""The legal plans of today's training as a product, the memory and the step time of each."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.distinct_rows import distinct_rows
from jaxroof.estimators.enumeration import rows_where
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.memory_step import device_memory
from jaxroof.estimators.training.offload_time import offload_time
from jaxroof.estimators.training.plan_time import LAYER, layer, time_of_layers
from jaxroof.estimators.training.plans import STATES, splits
from jaxroof.records import with_named_absences
from jaxroof.structure import map_numbers

ALIKE = math.prod(map(len, STATES.values()))  # plans of the same degrees and microbatch
SPLITS = 1 << 12  # evaluated at a time, so that what is written stays in the cache


class Listed(NamedTuple):
    """Legal plans as a product: every split with every value of what shards and recomputes."""

    split: Mapping[str, np.ndarray]  # a column a field
    states: Mapping[str, np.ndarray]  # the values of each field of STATES
    refused: Mapping[str, int]

    @property
    def size(self) -> int:
        """Return the number of plans."""
        return len(self.split["data"]) * math.prod(map(len, self.states.values()))

    def at(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the fields of some plans, counted in the order of the plan's fields."""
        shape = (len(self.split["data"]), *map(len, self.states.values()))
        row, *places = np.unravel_index(positions, shape)
        found = {name: column[row] for name, column in self.split.items()}
        chosen = zip(self.states.items(), places, strict=True)
        return {**found, **{name: values[place] for (name, values), place in chosen}}

    def having(self, where: Iterable[Constraint]) -> np.ndarray:
        """Return the positions of the plans that satisfy constraints."""
        masks = [np.ones(len(self.split["data"]), bool)]
        masks += [np.ones(len(values), bool) for values in self.states.values()]
        for one in where:
            states = one.field in self.states
            place = 1 + list(self.states).index(one.field) if states else 0
            masks[place] &= one.holds(self.states if states else self.split)
        whole = masks[0].reshape(-1, 1, 1, 1)
        for place, mask in enumerate(masks[1:]):
            whole = whole & mask.reshape([-1 if axis == place + 1 else 1 for axis in range(4)])
        return np.flatnonzero(whole)


def listed(inputs: Any, recipe: Any, gpus: int, where: tuple[Constraint, ...] = ()) -> Listed:
    """Return the legal plans of some accelerators that constraints leave."""
    split, refused = splits(inputs, recipe, gpus)
    every = len(split["data"]) * ALIKE
    states = dict(STATES)
    for one in where:
        some = states if one.field in states else split
        mask = one.holds(some)
        if some is states:
            states[one.field] = states[one.field][mask]
        else:
            split = rows_where(split, mask)
    found = Listed(split, states, refused)
    return found._replace(refused={**refused, "where": every - found.size} if where else refused)


def memory_of_all(inputs: Any, recipe: Any, plans: Listed) -> np.ndarray:
    """Return the memory of listed plans [B].

    What goes with every split has dimensions of its own, so that a term which it does not move is
    evaluated once a split.
    """
    states = dict(zip(plans.states, np.ix_(*plans.states.values()), strict=True))
    shape = tuple(map(len, plans.states.values()))
    rows = len(plans.split["data"])
    need = np.empty((rows, *shape))
    for start in range(0, rows if plans.size else 0, SPLITS):
        some = slice(start, start + SPLITS)
        tall = {name: column[some].reshape(-1, 1, 1, 1) for name, column in plans.split.items()}
        wide = with_plans(inputs, {**tall, **states})
        with np.errstate(all="ignore"):
            need[some] = device_memory(with_named_absences(wide), recipe)
    return need.ravel()


def with_plans(inputs: Any, plans: Mapping[str, np.ndarray]) -> Any:
    """Return inputs with plans as columns of numbers."""
    columns: dict[str, Any] = {field: column.astype(np.float64) for field, column in plans.items()}
    return dataclasses.replace(inputs, plan=TrainingPlan(**columns))


def plan_times(inputs: Any, recipe: Any, plans: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the step time of columns of plans [s]; layers are timed once a distinct row.

    The result equals ``step_time`` of the report.
    """
    first, number = distinct_rows([plans[name] for name in LAYER])
    rows = {name: plans[name][first].astype(np.float64) for name in LAYER}
    with np.errstate(all="ignore"):
        few = layer(with_named_absences(inputs), recipe, **rows)
        spread = map_numbers(lambda value: value[number] if np.ndim(value) else value, few)
        asked = with_named_absences(with_plans(inputs, plans))
        time: Any = time_of_layers(asked, recipe, spread).step_time + offload_time(asked, recipe)
    return np.broadcast_to(np.asarray(time), number.shape)
