"""Which resource limits the best plan of one machine, by how much, and where that changes.

The limits of a contribution are the derivatives of its time with respect to the machine's rates and
latencies: times are homogeneous of degree one in reciprocal rates and latencies (Euler's theorem).
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.named_questions import estimator_for
from jaxroof.analyses.result_metadata import Resources, resources
from jaxroof.engine.grid.dataset import provenance, roles
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import check_search
from jaxroof.engine.search.search import search
from jaxroof.engine.sensitivity.derivatives import Numbers, slopes_of
from jaxroof.engine.sensitivity.elasticities import at_plan, default_parameters
from jaxroof.engine.sensitivity.response import capacity_steps, limiting, response
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.records import field_at, get_at, leaves, replace_all
from jaxroof.structure import structure

MTBF = "operation.chip_mtbf"  # of a whole run, where a step is operated
SAVED = {"wall_days": "reliability_days", "cost": "reliability_cost"}  # by 1 % more of it
POINTS = 64  # values of a parameter per pass
PASSES = 3  # refinement passes; each splits the cell of the previous one into this many
TURNS: dict[str, tuple[type[Any], str]] = {  # changes of the dominant limit as one parameter varies
    "turn_parameter": (np.str_, "Dotted path of what is moved"),
    "turn_factor": (float, "Where another limit comes to bind, as a multiple of today's value"),
    "turn_value": (float, "Where another limit comes to bind"),
    "turn_limit": (np.str_, "What binds there"),
}


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """Which resources limit the best plan, by how much, and where that changes.

    ``best`` is the best plan with its results. ``elasticities`` are those of its time over
    ``parameter``, with the ``value`` of each. ``operations`` are the seconds of that time over
    ``operation`` and ``limit``. ``turns`` are the points where another limit becomes dominant as a
    parameter varies. ``response`` is the best time over all plans as a parameter varies, with the
    switches of plan. ``steps`` is the effect of more or less memory. Where no plan fits, ``best``
    has no plan and only ``steps`` has rows.
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

    def __repr__(self) -> str:
        """Return the share of the step that each resource takes, and the parts to look into."""
        parts = ", ".join(field.name for field in dataclasses.fields(self))
        if not self.feasible:
            return f"Explanation(no plan fits; see {parts})"
        shares = {name: s / sum(self.limits.values()) for name, s in self.limits.items()}
        told = ", ".join(f"{name} {share:.3g}" for name, share in shares.items() if share > 5e-4)
        return f"Explanation(limits by share: {told}; see {parts})"

    @property
    def limits(self) -> dict[str, float]:
        """Return the seconds of the step by limiting resource, largest first."""
        names = self.operations["limit"].values.tolist()
        sums = self.operations.seconds.sum("operation").values.tolist()
        return dict(sorted(zip(names, sums, strict=True), key=lambda item: -item[1]))


class Task(NamedTuple):
    """One machine to explain: checked inputs and recipe without a plan, and its resources."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    resources: Resources


def explain(
    inputs: Any = None,
    recipe: Any = None,
    *,
    estimator: Estimator | str | None = None,
    where: str | Iterable[str | Constraint] = (),
    span: float = 16.0,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Explanation:
    """Explain what limits the best plan of a machine, by how much, and where that changes.

    Arguments: ``inputs`` with a cluster size (a plan in them is ignored: the best is searched);
    without inputs, ``settings`` and ``more`` give them;
    ``estimator`` that of the inputs, or your own: its search must minimise a time, and its
    machine must declare its rates and latencies (``quantity(resource=...)``);
    ``where`` constrains plans; parameters vary from 1/``span`` to ``span`` times their current
    value; ``settings`` and ``more`` are fields of the inputs or the recipe.
    Raises: InputError for anything that is not a search of one machine for a time.
    """
    if isinstance(inputs, Estimator):
        what = "an estimator where the inputs belong"
        raise refusal("explain", f"{what}; expected explain(inputs, estimator=estimator)")
    chosen = {**(settings or {}), **more}
    if estimator is None:
        estimator = estimator_for(chosen if inputs is None else inputs)
    elif isinstance(estimator, str):
        estimator = named(estimator)
    _, inputs, choices, _ = ask(estimator, inputs, recipe, chosen)
    rules = [where] if isinstance(where, str) else list(where)
    task = _task(estimator, inputs, choices, rules)
    numbers = default_parameters(estimator, task.inputs)
    moving = [path for path in numbers if path in task.resources.of]
    with ThreadPoolExecutor(1) as beside:
        told = beside.submit(_steps, task, rules)
        moved = response(estimator, task.inputs, choices, span=span, where=rules, parameters=moving)
        steps = told.result()
    best = _best(task, steps)
    there = bool(best.feasible)
    plan: Any = best if there else dict.fromkeys(estimator.plan_fields, 1)
    fields = {field: np.asarray(plan[field]) for field in estimator.plan_fields}
    planned = with_plans(estimator, task.inputs, fields)
    best = best.assign(_reliability(task, planned, best))
    operations = _operations(task, planned, there)
    return Explanation(
        best=best,
        elasticities=_elasticities(task, planned, there),
        operations=operations,
        turns=limit_turns(task, planned, moved, operations.seconds.sum("operation").values, there),
        response=moved,
        steps=steps,
    )


def _task(estimator: Estimator, inputs: Any, recipe: Any, rules: Iterable[Any]) -> Task:
    question = check_search(estimator, inputs, recipe, where=rules)
    unit = field_at(question.report, question.objective).metadata["unit"]
    who = f"explain: {estimator.name or 'estimator'}"
    if unit != "s":
        what = f"{question.objective} is in {unit}; expected an objective that is a time"
        raise refusal(who, what)
    known = resources(roles(estimator, question.inputs, recipe)["resources"])
    if not known.signs:
        what = "no rate or latency stands for a resource; expected quantity(..., resource=NAME)"
        raise refusal(who, what)
    return Task(estimator, question.inputs, recipe, known)


def _steps(task: Task, rules: Iterable[Any]) -> xr.Dataset:
    """Return the effect of more and less capacity; only the best plan if none is needed."""
    asked = task[:3]
    if task.estimator.need and task.estimator.limit is not None:
        return capacity_steps(*asked, where=rules)
    found = search(*asked, where=rules)
    steps = found.expand_dims("step") if bool(found.feasible) else found.expand_dims(step=0)
    return steps.assign(place=("step", np.zeros(steps.sizes["step"], int)))


def _best(task: Task, steps: xr.Dataset) -> xr.Dataset:
    """Return the fastest plan that fits, with its results and the limit of the capacity."""
    estimator = task.estimator
    here = np.flatnonzero(steps.place.values == 0)
    best = steps.isel(step=int(here[0])) if len(here) else xr.Dataset(attrs=steps.attrs)
    if estimator.need and estimator.limit is not None:
        unit = str(steps[estimator.need].attrs["units"])
        about = {"units": unit, "long_name": "What a plan may need"}
        best[f"{estimator.need}_limit"] = ((), float(estimator.limit(task.inputs)), about)
    best["feasible"] = ((), len(here) > 0, {"units": "1", "long_name": "Whether any plan fits"})
    return best


def _reliability(task: Task, inputs: Any, best: xr.Dataset) -> dict[str, Any]:
    """Return what 1 % more time between failures of a chip saves of a whole run, if one is asked.

    The slope is of the whole chain: saves, restarts and the wait for spares.
    """
    found: dict[str, Any] = {}
    whole = SAVED.keys() & best.keys() if hasattr(inputs, "operation") else ()
    for name in whole:
        slope = at_plan(task.estimator, inputs, task.recipe, (MTBF,), name).elasticity
        unit = str(best[name].attrs["units"])
        about = {"units": unit, "long_name": "Saved by 1 % more time between failures of a chip"}
        found[SAVED[name]] = ((), -0.01 * slope.item() * float(best[name]), about)
    return found


def _elasticities(task: Task, inputs: Any, there: bool) -> xr.Dataset:
    """Return the elasticities at the plan of the inputs, with the attributes of each parameter.

    Parameters are every number of the machine, the fields of the plan and the whole numbers of the
    model taken as real. Inputs that only list the plans are left out: the plan repeats them.
    """
    estimator, aim = task.estimator, task.estimator.objective
    moving = dependencies(estimator, task.recipe, structure(task.inputs)).results[aim]
    unused = (f"plan.{field}" for field in estimator.unused_fields(task.recipe))
    lacks = {*unused, *(path for path in estimator.structural if path not in moving)}
    whole = [p for p, f, _ in leaves(inputs) if f.metadata["whole"] or p.startswith("plan.")]
    limiting_paths = limiting(estimator, task.inputs) if estimator.limit else ()
    known = moving | {*limiting_paths, *estimator.structural}
    machine = [path for path in default_parameters(estimator, task.inputs) if path in known]
    asked = list(dict.fromkeys([*machine, *(path for path in whole if path not in lacks)]))
    found = at_plan(estimator, inputs, task.recipe, tuple(asked), aim)
    found.coords["value"] = ("parameter", [float(get_at(inputs, path)) for path in asked])
    found.attrs |= provenance(*task[:3])
    return found if there else found.isel(parameter=slice(0))


# ---- Limits of each operation --------------------------------------------------------------------


def _operations(task: Task, inputs: Any, there: bool) -> xr.Dataset:
    """Return the seconds of a step by contribution and by limiting resource."""
    names, times, seconds = limits_of(task.estimator, inputs, task.recipe)
    about = {"units": "s", "long_name": "Time of the step"}
    by = {"units": "s", "long_name": "Time of the step, by what limits it"}
    columns = {
        "time": ("operation", times[0], about),
        "seconds": (("operation", "limit"), seconds[0], by),
    }
    labels = {"operation": names, "limit": list(task.resources.limits)}
    found = xr.Dataset(columns, labels, provenance(*task[:3]))
    return found if there else found.isel(operation=slice(0))


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


class _Way(NamedTuple):
    """A parameter that is moved to one of its ends: where to look, and what binds at the last."""

    path: str
    factors: np.ndarray
    limit: int


def limit_turns(
    task: Task, inputs: Any, moved: xr.Dataset, today: np.ndarray, there: bool
) -> xr.Dataset:
    """Return where another limit becomes dominant in the step as one parameter varies.

    Searched on a grid of factors to either side of 1 and at both ends of every plan's interval,
    however short; then refined in the cell where the change lies.
    """
    span, first, signs = float(moved.factor.max()), int(today.argmax()), task.resources.signs
    ways = [
        _Way(path, _factors(moved, path, end), first)
        for path in (str(path) for path in moved.parameter.values if there and str(path) in signs)
        for end in (span, 1.0 / span)
    ]
    for _ in range(PASSES):
        found = []
        for way, tops in zip(ways, _tops(task, inputs, moved, ways), strict=True):
            at = int(np.argmax(tops != first))
            if tops[at] != first:  # the first cell behind which another limit dominates
                cell = way.factors[max(at - 1, 0)], way.factors[at]
                found.append(_Way(way.path, np.geomspace(*cell, POINTS), int(tops[at])))
        ways = found
    limits = [*task.resources.limits]
    rows = [
        (way.path, factor, factor * float(get_at(inputs, way.path)), limits[way.limit])
        for way in sorted(ways, key=lambda way: abs(np.log(way.factors[-1])))
        for factor in way.factors[-1:]
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(TURNS)
    return xr.Dataset(
        {
            name: ("turn", np.array(column, dtype=kind), {"long_name": doc})
            for (name, (kind, doc)), column in zip(TURNS.items(), columns, strict=True)
        }
    )


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


# ---- A file ------------------------------------------------------------------------------------

QUESTION = "explanation"
PARTS = tuple(field.name for field in dataclasses.fields(Explanation))


def explanation_dataset(found: Explanation, title: str = "") -> xr.Dataset:
    """Return an explanation as one Dataset: names begin with those of its parts.

    >>> import jaxroof as jr
    >>> found = jr.explain(model="llama3-8b", system="h100-nvs8", gpus=8, global_batch=8,
    ...                    where="cp=1,off=0")
    >>> again = explanation_of(explanation_dataset(found))
    >>> all(getattr(again, part).identical(getattr(found, part)) for part in PARTS)
    True
    """
    parts = {part: getattr(found, part) for part in PARTS}
    named = (
        one.rename({name: f"{part}.{name}" for name in {*one.variables, *one.dims}})
        for part, one in parts.items()
    )
    data = xr.merge([one.drop_attrs(deep=False) for one in named])
    about = {f"{part}.attrs": json.dumps(one.attrs) for part, one in parts.items()}
    told = {"question": QUESTION, **({"title": title} if title else {})}
    return data.assign_attrs({**found.elasticities.attrs, **told, **about})


def explanation_of(data: xr.Dataset) -> Explanation:
    """Return the explanation that a Dataset holds."""
    try:
        return Explanation(**{part: _part(data, f"{part}.") for part in PARTS})
    except (LookupError, ValueError, TypeError) as error:
        raise refusal("explanation", "not in this file, or damaged") from error


def _part(data: xr.Dataset, start: str) -> xr.Dataset:
    of = [name for name in data.variables if str(name).startswith(start)]
    found = data[of].drop_vars([name for name in data.coords if name not in of], errors="ignore")
    names = {name: str(name).removeprefix(start) for name in {*found.variables, *found.dims}}
    bare = found.rename(names).drop_attrs(deep=False)
    return bare.assign_attrs(json.loads(data.attrs[f"{start}attrs"]))
