"""What binds a training step, by how much, and where that changes: one machine, one cluster."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxroof.engine.constraints import Constraint
from jaxroof.engine.dataset import provenance
from jaxroof.engine.points import padded
from jaxroof.engine.response import capacity_steps, response
from jaxroof.engine.sensitivity import at_plan, default_parameters
from jaxroof.engine.slopes import scaled
from jaxroof.estimators.training.binding import contributions
from jaxroof.estimators.training.inputs import Inputs, Plan
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.estimators.training.step import memory_limit, training
from jaxroof.records import checked, get_at, leaves, replace_at
from jaxroof.views.plans import lacked
from jaxroof.views.resources import LIMITS, RESOURCES, SIGNS

UNTOLD = ("gpus",)  # whole numbers that the plan says again
POINTS = 64  # of a parameter in one pass
PASSES = 3  # each cuts the cell of the one before into so many
NAMES = tuple(LIMITS)
TURNS: dict[str, tuple[type[Any], str]] = {  # of a parameter: where another limit comes to bind
    "turn_parameter": (np.str_, "Dotted path of what is moved"),
    "turn_factor": (float, "Where another limit comes to bind, as a multiple of today's value"),
    "turn_value": (float, "Where another limit comes to bind"),
    "turn_limit": (np.str_, "What binds there"),
}


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What binds a training step, by how much, and where that changes.

    ``best`` is the best plan with its results; ``elasticities`` those of its step time over
    ``parameter``, with the ``value`` of each; ``operations`` the seconds of the step over
    ``operation`` and ``limit``; ``turns`` where another limit comes to bind as one parameter moves;
    ``response`` how the best over all plans moves and where another takes over; ``steps`` what more
    or less memory does. Where nothing fits ``best`` has no plan, and all but ``steps`` no rows.
    """

    best: xr.Dataset
    elasticities: xr.Dataset
    operations: xr.Dataset
    turns: xr.Dataset
    response: xr.Dataset
    steps: xr.Dataset

    @property
    def feasible(self) -> bool:
        """Return whether any plan fits."""
        return bool(self.best.feasible)

    @property
    def limits(self) -> dict[str, float]:
        """Return the seconds of the step by what limits them, the most first."""
        sums = self.operations.seconds.sum("operation").values.tolist()
        return dict(sorted(zip(NAMES, sums, strict=True), key=lambda item: -item[1]))


def explain(
    inputs: Inputs,
    recipe: Recipe | None = None,
    *,
    where: str | Iterable[str | Constraint] = (),
    span: float = 16.0,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Explanation:
    """Return what binds the best training step of a machine, by how much, and where that changes.

    Arguments: ``inputs`` with a cluster size (a plan in them is not read: the best is found);
    ``where`` constrains plans; parameters are moved from 1/``span`` to ``span`` times what they
    are today; ``settings`` and ``more`` are fields of the inputs or the recipe.
    Raises: InputError for anything that is not a search of one machine.
    """
    chosen = {**(settings or {}), **more}
    inputs, choices = training.resolve(inputs, recipe, chosen)[:2]
    inputs = dataclasses.replace(checked(inputs), plan=None)
    rules = [where] if isinstance(where, str) else list(where)
    with ThreadPoolExecutor(3) as workers:  # programs are compiled side by side
        told = workers.submit(capacity_steps, training, inputs, choices, where=rules)
        workers.submit(_ahead, inputs, choices)
        moved = response(training, inputs, choices, span=span, where=rules)
        steps = told.result()
    best = _best(inputs, steps)
    there = bool(best.feasible)
    planned = _planned(inputs, best) if there else _any_plan(inputs)
    operations = _operations(planned, choices, there)
    return Explanation(
        best=best,
        elasticities=_elasticities(planned, choices, there),
        operations=operations,
        turns=_turns(planned, choices, moved, operations.seconds.sum("operation").values, there),
        response=moved,
        steps=steps,
    )


def _best(inputs: Inputs, steps: xr.Dataset) -> xr.Dataset:
    """Return the plan that fits and is the fastest, with its results, and what memory there is."""
    here = np.flatnonzero(steps.place.values == 0)
    best = steps.isel(step=int(here[0])) if len(here) else xr.Dataset(attrs=steps.attrs)
    about = {"units": "B", "long_name": "Memory that a step may fill"}
    best["memory_limit"] = ((), float(memory_limit(inputs)), about)
    best["feasible"] = ((), len(here) > 0, {"units": "1", "long_name": "Whether any plan fits"})
    return best


def _planned(inputs: Inputs, plan: Any) -> Inputs:
    """Return the inputs with the plan of a mapping of its fields."""
    fields: dict[str, Any] = {f: np.asarray(plan[f], float) for f in training.plan_fields}
    return dataclasses.replace(inputs, plan=Plan(**fields))


def _any_plan(inputs: Inputs) -> Inputs:
    return _planned(inputs, dict.fromkeys(training.plan_fields, 1.0))


def _ahead(inputs: Inputs, recipe: Recipe) -> None:
    """Compile what is asked of the best plan, beside what finds it."""
    limits_of(_any_plan(inputs), recipe)
    _elasticities(_any_plan(inputs), recipe, True)


def _elasticities(inputs: Inputs, recipe: Recipe, there: bool) -> xr.Dataset:
    """Return the elasticities at the plan of the inputs, beside what each parameter is.

    Of every number of the machine, and of what is whole in model and plan, taken as real.
    """
    whole = [path for path, field, _ in leaves(inputs) if field.metadata["whole"]]
    lacks = {*UNTOLD, *(f"plan.{field}" for field in lacked(recipe.split.value))}
    asked = [p for p in dict.fromkeys([*default_parameters(inputs), *whole]) if p not in lacks]
    found = at_plan(training, inputs, recipe, tuple(asked), training.objective)
    found.coords["value"] = ("parameter", [float(get_at(inputs, path)) for path in asked])
    found.attrs |= provenance(training, inputs, recipe)
    return found if there else found.isel(parameter=slice(0))


# ---- What limits each operation -----------------------------------------------------------------


def _operations(inputs: Inputs, recipe: Recipe, there: bool) -> xr.Dataset:
    """Return the seconds of a step by what adds them and by what limits that."""
    names, times, seconds = limits_of(inputs, recipe)
    about = {"units": "s", "long_name": "Time of the step"}
    by = {"units": "s", "long_name": "Time of the step, by what limits it"}
    found = xr.Dataset(
        {
            "time": ("operation", times[0], about),
            "seconds": (("operation", "limit"), seconds[0], by),
        },
        {"operation": names, "limit": list(NAMES)},
        provenance(training, inputs, recipe),
    )
    return found if there else found.isel(operation=slice(0))


def limits_of(inputs: Inputs, recipe: Recipe) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return what adds to a step under the plan of the inputs, and its seconds by what limits it.

    Leaves of the inputs are numbers or columns of one length, of at most ``POINTS``.
    Returns: names, seconds [points, names] and [points, names, limits]; over limits these sum to
    those, and over names both to the step time.
    """
    paths = tuple(path for path, _, _ in leaves(inputs) if path in SIGNS)
    columns = {path: np.atleast_1d(np.asarray(value)) for path, _, value in leaves(inputs)}
    count = max(len(column) for column in columns.values())
    for path, column in columns.items():
        wide = np.repeat(padded(column, POINTS), len(paths))  # a column of points x parameters
        inputs = replace_at(inputs, path, wide)
    times, slopes = _slopes(recipe, paths, inputs)
    by = [[SIGNS[path] * (RESOURCES[path] == limit) for limit in NAMES] for path in paths]
    shape = (POINTS, len(paths))
    own = [np.asarray(time).reshape(shape)[:count, 0] for time in times.values()]
    along = [np.asarray(slope).reshape(shape)[:count] for slope in slopes.values()]
    return list(times), np.stack(own, axis=1), np.stack(along, axis=1) @ np.array(by)


HURRY = {"xla_backend_optimization_level": 0}  # compiled for a few short calls


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=HURRY)
def _slopes(
    recipe: Recipe, paths: tuple[str, ...], inputs: Inputs
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return every contribution, and its slopes with ln(parameter), columns points x parameters.

    Each parameter moves in its own places of the columns: one pass for all of them.
    """
    each = jnp.tile(jnp.eye(len(paths)), (POINTS, 1))

    def seconds(change: jax.Array) -> Any:
        moved = scaled(inputs, paths, 1.0 + change)
        return jax.tree.map(jnp.asarray, contributions(moved, recipe))

    return jax.jvp(seconds, (jnp.zeros_like(each),), (each,))


# ---- Where another limit comes to bind ----------------------------------------------------------


def _turns(
    inputs: Inputs, recipe: Recipe, moved: xr.Dataset, today: np.ndarray, there: bool
) -> xr.Dataset:
    """Return where another limit comes to take most of the step as one parameter moves.

    Looked for on a grid of factors to either side of today and at both ends of every plan's reign,
    however short, then in the cell where it lies.
    """
    span, first = float(moved.factor.max()), int(today.argmax())
    rows = []
    for path in (str(path) for path in moved.parameter.values if there and str(path) in SIGNS):
        for end in (span, 1.0 / span):
            cell, then = (1.0, end), first
            factors = _factors(moved, path, end)
            for _ in range(PASSES):
                tops = _tops(inputs, recipe, moved, path, factors)
                other = np.flatnonzero(tops != first)
                if not len(other):
                    break
                at = int(other[0])
                cell, then = (factors[max(at - 1, 0)], factors[at]), int(tops[at])
                factors = np.geomspace(*cell, POINTS)
            if then != first:
                rows.append((path, cell[1], cell[1] * float(get_at(inputs, path)), NAMES[then]))
    rows.sort(key=lambda row: abs(np.log(row[1])))
    columns = list(zip(*rows, strict=True)) or [()] * len(TURNS)
    return xr.Dataset(
        {
            name: ("turn", np.array(column, dtype=kind), {"long_name": doc})
            for (name, (kind, doc)), column in zip(TURNS.items(), columns, strict=True)
        }
    )


def _factors(moved: xr.Dataset, path: str, end: float) -> np.ndarray:
    """Return factors of a parameter from today's to an end, plans before and behind each switch."""
    at = moved.switch_factor.values[moved.switch_parameter.values == path]
    at = at[(at > 1.0) == (end > 1.0)]
    found = np.concatenate([np.geomspace(1.0, end, POINTS), np.nextafter(at, 1.0), at])
    return found[np.argsort(np.abs(np.log(found)), kind="stable")]


def _tops(
    inputs: Inputs, recipe: Recipe, moved: xr.Dataset, path: str, factors: np.ndarray
) -> np.ndarray:
    """Return which limit takes most of the step at factors of a parameter, plans chosen anew."""
    found = []
    for start in range(0, len(factors), POINTS):
        some = factors[start : start + POINTS]
        asked = replace_at(inputs, path, get_at(inputs, path) * some)
        *_, seconds = limits_of(_planned(asked, plans_at(inputs, moved, path, some)), recipe)
        found.append(seconds.sum(axis=1).argmax(axis=1))
    return np.concatenate(found)


def plans_at(
    inputs: Inputs, moved: xr.Dataset, path: str, factors: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the plan fields that are best at factors of a parameter, by a response's switches."""
    own = moved.isel(switch=np.flatnonzero(moved.switch_parameter.values == path))
    at = own.switch_factor.values
    # of the switches on the way to a factor the furthest counts; without any today's plan, put last
    passed = ((at >= 1.0) & (at <= factors[:, None])) | ((at < 1.0) & (at >= factors[:, None]))
    order = np.where(passed, own.switch_order.values, 0.0)
    place = np.hstack([order, np.full((len(factors), 1), 0.5)]).argmax(axis=1)
    return {
        field: np.append(own[f"switch_{field}"].values, getattr(inputs.plan, field))[place]
        for field in training.plan_fields
    }
