"""What limits the time of a plan, contribution by contribution, and where another limit takes over.

The limits of a contribution are the derivatives of its time with respect to the machine's rates and
latencies: times are homogeneous of degree one in reciprocal rates and latencies (Euler's theorem).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import Resources, resources
from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.dataset import provenance, roles
from jaxroof.engine.sensitivity.derivatives import Numbers, slopes_of
from jaxroof.estimator import Estimator
from jaxroof.records import get_at, leaves

POINTS = 64  # values of a parameter per pass
PASSES = 3  # refinement passes; each splits the cell of the previous one into this many
TURNS: dict[str, tuple[type[Any], str]] = {  # changes of the dominant limit as one parameter varies
    "turn_parameter": (np.str_, "Dotted path of what is moved"),
    "turn_factor": (float, "Where another limit comes to bind, as a multiple of today's value"),
    "turn_value": (float, "Where another limit comes to bind"),
    "turn_limit": (np.str_, "What binds there"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """One machine to explain: checked inputs and recipe without a plan, and its resources."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    resources: Resources

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the resources that take time."""
        return tuple(self.resources.limits)

    def planned(self, plan: Any) -> Any:
        """Return the inputs with a plan made from a mapping of its fields."""
        assert self.estimator.plan is not None
        fields = {f: np.asarray(plan[f], float) for f in self.estimator.plan_fields}
        return dataclasses.replace(self.inputs, plan=self.estimator.plan(**fields))

    @property
    def any_plan(self) -> Any:
        """Return the inputs with an arbitrary plan."""
        return self.planned(dict.fromkeys(self.estimator.plan_fields, 1.0))

    @property
    def about(self) -> dict[str, str]:
        """Return the attributes needed to repeat the run."""
        return provenance(self.estimator, self.inputs, self.recipe)


def limits_of(
    estimator: Estimator, inputs: Any, recipe: Any
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the contributions to a step under the plan of the inputs, with seconds per resource.

    Leaves of the inputs are numbers or columns of one length.
    Returns: names, seconds [points, names] and [points, names, limits]. The sum of the latter over
    limits equals the former; the sum over names equals the step time.
    """
    known = resources(roles(estimator, inputs, recipe)["resources"])
    paths = [path for path, _, _ in leaves(inputs) if path in known.signs]
    by = [[known.signs[p] * (known.of[p] == limit) for limit in known.limits] for p in paths]
    names, own, along = slopes_of(Numbers(estimator, recipe), inputs, paths)
    return names, own, along @ np.array(by)


# ---- Where another limit takes over -------------------------------------------------------------


class _Way(NamedTuple):
    """A parameter that is moved to one of its ends, and the cell in which the limit changes."""

    path: str
    cell: tuple[float, float]
    limit: int  # what binds at the end of the cell
    factors: np.ndarray  # where to look


def limit_turns(
    task: Task, inputs: Any, moved: xr.Dataset, today: np.ndarray, there: bool
) -> xr.Dataset:
    """Return where another limit becomes dominant in the step as one parameter varies.

    Searched on a grid of factors to either side of 1 and at both ends of every plan's interval,
    however short; then refined in the cell where the change lies.
    """
    span, first, signs = float(moved.factor.max()), int(today.argmax()), task.resources.signs
    ways = [
        _Way(path, (1.0, end), first, _factors(moved, path, end))
        for path in (str(path) for path in moved.parameter.values if there and str(path) in signs)
        for end in (span, 1.0 / span)
    ]
    for _ in range(PASSES):
        seen = zip(ways, _tops(task, inputs, moved, ways), strict=True)
        ways = [_finer(way, tops, first) for way, tops in seen]
        ways = [way for way in ways if way.limit != first]
    rows = [
        (
            way.path,
            way.cell[1],
            way.cell[1] * float(get_at(inputs, way.path)),
            task.names[way.limit],
        )
        for way in ways
    ]
    rows.sort(key=lambda row: abs(np.log(row[1])))
    columns = list(zip(*rows, strict=True)) or [()] * len(TURNS)
    return xr.Dataset(
        {
            name: ("turn", np.array(column, dtype=kind), {"long_name": doc})
            for (name, (kind, doc)), column in zip(TURNS.items(), columns, strict=True)
        }
    )


def _finer(way: _Way, tops: np.ndarray, first: int) -> _Way:
    """Return a parameter with the first cell behind which another limit dominates."""
    if np.all(tops == first):
        return way
    at = int(np.argmax(tops != first))
    cell = way.factors[max(at - 1, 0)], way.factors[at]
    return _Way(way.path, cell, int(tops[at]), np.geomspace(*cell, POINTS))


def _factors(moved: xr.Dataset, path: str, end: float) -> np.ndarray:
    """Return factors of a parameter from 1 to an end, with the plans on both sides of a switch."""
    at = moved.switch_factor.values[moved.switch_parameter.values == path]
    at = at[(at > 1.0) == (end > 1.0)]
    found = np.concatenate([np.geomspace(1.0, end, POINTS), np.nextafter(at, 1.0), at])
    return found[np.argsort(np.abs(np.log(found)), kind="stable")]


def _tops(task: Task, inputs: Any, moved: xr.Dataset, ways: Sequence[_Way]) -> list[np.ndarray]:
    """Return the dominant limit at the factors of each parameter, the plan chosen anew at each."""
    if not ways:
        return []
    ends = np.cumsum([len(way.factors) for way in ways])
    columns = {
        path: np.concatenate(
            [w.factors if w.path == path else np.ones(len(w.factors)) for w in ways]
        )
        for path in dict.fromkeys(way.path for way in ways)
    }
    each = [plans_at(inputs, moved, way.path, way.factors) for way in ways]
    plans = {field: np.concatenate([some[field] for some in each]) for field in each[0]}
    values = {path: get_at(inputs, path) * factor for path, factor in columns.items()}
    asked = dataclasses.replace(replace_all(inputs, values), plan=type(inputs.plan)(**plans))
    *_, seconds = limits_of(task.estimator, asked, task.recipe)
    return np.split(seconds.sum(axis=1).argmax(axis=1), ends[:-1])


def plans_at(
    inputs: Any, moved: xr.Dataset, path: str, factors: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the best plan's fields at factors of a parameter, from the switches of a response."""
    own = moved.isel(switch=np.flatnonzero(moved.switch_parameter.values == path))
    at = own.switch_factor.values
    # the furthest switch passed on the way to a factor counts; without any, the current plan (last)
    passed = ((at >= 1.0) & (at <= factors[:, None])) | ((at < 1.0) & (at >= factors[:, None]))
    order = np.where(passed, own.switch_order.values, 0.0)
    place = np.hstack([order, np.full((len(factors), 1), 0.5)]).argmax(axis=1)
    return {
        field: np.append(own[f"switch_{field}"].values, getattr(inputs.plan, field))[place]
        for field in (field.name for field in dataclasses.fields(inputs.plan))
    }
