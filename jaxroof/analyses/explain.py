"""Which resource limits the best plan of one machine, by how much, and where that changes."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.explain_limits import Task, limit_turns, limits_of
from jaxroof.analyses.named_questions import estimator_for
from jaxroof.analyses.result_metadata import resources
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import check_search
from jaxroof.engine.search.search import search
from jaxroof.engine.sensitivity.elasticities import at_plan, default_parameters
from jaxroof.engine.sensitivity.response import capacity_steps, limiting, response
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.records import field_at, get_at, leaves
from jaxroof.structure import structure


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
    with ThreadPoolExecutor(1) as beside:
        told = beside.submit(_steps, task, rules)
        moved = response(
            estimator, task.inputs, choices, span=span, where=rules, parameters=_moved(task)
        )
        steps = told.result()
    best = _best(task, steps)
    there = bool(best.feasible)
    planned = task.planned(best) if there else task.any_plan
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
    """Return the checked task.

    Raises: InputError if it is not a search, or its objective is not a time made up by resources.
    """
    question = check_search(estimator, inputs, recipe, where=rules)
    aim = question.objective
    unit = field_at(question.report, aim).metadata["unit"]
    who = f"explain: {estimator.name or 'estimator'}"
    if unit != "s":
        raise refusal(who, f"{aim} is in {unit}; expected an objective that is a time")
    known = resources(roles(estimator, question.inputs, recipe)["resources"])
    if not known.signs:
        what = "no rate or latency stands for a resource; expected quantity(..., resource=NAME)"
        raise refusal(who, what)
    return Task(estimator, question.inputs, recipe, known)


def _moved(task: Task) -> list[str]:
    """Return the numbers of the machine that describe a resource."""
    return [p for p in default_parameters(task.estimator, task.inputs) if p in task.resources.of]


def _limits(task: Task) -> set[str]:
    """Return the paths of the inputs that the limit of plans depends on."""
    return set(limiting(task.estimator, task.inputs)) if task.estimator.limit else set()


def _steps(task: Task, rules: Iterable[Any]) -> xr.Dataset:
    """Return the effect of more and less capacity; only the best plan if none is needed."""
    asked = (task.estimator, task.inputs, task.recipe)
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


def _elasticities(task: Task, inputs: Any, there: bool) -> xr.Dataset:
    """Return the elasticities at the plan of the inputs, with the attributes of each parameter.

    Parameters are every number of the machine, and the whole numbers of model and plan taken as
    real. Inputs that only list the plans are left out: the plan repeats them.
    """
    estimator, aim = task.estimator, task.estimator.objective
    moving = dependencies(estimator, task.recipe, structure(task.inputs)).results[aim]
    unused = (f"plan.{field}" for field in estimator.unused_fields(task.recipe))
    lacks = {*unused, *(path for path in estimator.structural if path not in moving)}
    whole = [path for path, field, _ in leaves(inputs) if field.metadata["whole"]]
    known = moving | _limits(task) | set(estimator.structural)
    machine = [path for path in default_parameters(estimator, task.inputs) if path in known]
    asked = list(dict.fromkeys([*machine, *(path for path in whole if path not in lacks)]))
    found = at_plan(estimator, inputs, task.recipe, tuple(asked), aim)
    found.coords["value"] = ("parameter", [float(get_at(inputs, path)) for path in asked])
    found.attrs |= task.about
    return found if there else found.isel(parameter=slice(0))


# ---- Limits of each operation --------------------------------------------------------------------


def _operations(task: Task, inputs: Any, there: bool) -> xr.Dataset:
    """Return the seconds of a step by contribution and by limiting resource."""
    names, times, seconds = limits_of(task.estimator, inputs, task.recipe)
    about = {"units": "s", "long_name": "Time of the step"}
    by = {"units": "s", "long_name": "Time of the step, by what limits it"}
    found = xr.Dataset(
        {
            "time": ("operation", times[0], about),
            "seconds": (("operation", "limit"), seconds[0], by),
        },
        {"operation": names, "limit": list(task.names)},
        task.about,
    )
    return found if there else found.isel(operation=slice(0))


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
    data = xr.merge([_named(one, f"{part}.") for part, one in parts.items()])
    about = {f"{part}.attrs": json.dumps(one.attrs) for part, one in parts.items()}
    told = {"question": QUESTION, **({"title": title} if title else {})}
    return data.assign_attrs({**found.elasticities.attrs, **told, **about})


def _named(data: xr.Dataset, start: str) -> xr.Dataset:
    """Return a Dataset whose names all begin alike, and that has no attributes."""
    names = {*data.variables, *data.dims}
    return data.rename({name: f"{start}{name}" for name in names}).drop_attrs(deep=False)


def explanation_of(data: xr.Dataset) -> Explanation:
    """Return the explanation that a Dataset holds.

    Raises: InputError for a Dataset that holds none.
    """
    try:
        return Explanation(**{part: _part(data, part) for part in PARTS})
    except (LookupError, ValueError, TypeError) as error:
        raise refusal("explanation", "not in this file, or damaged") from error


def _part(data: xr.Dataset, part: str) -> xr.Dataset:
    start = f"{part}."
    of = [name for name in data.variables if str(name).startswith(start)]
    found = data[of].drop_vars([name for name in data.coords if name not in of], errors="ignore")
    names = {name: str(name).removeprefix(start) for name in {*found.variables, *found.dims}}
    bare = found.rename(names).drop_attrs(deep=False)
    return bare.assign_attrs(json.loads(data.attrs[f"{start}attrs"]))
