"""Uncertain inputs: bands of the best result, the plan to commit to, and Sobol indices.

All draws are lanes of one search, along one axis on which the uncertain fields vary together.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import Axis, read_axes
from jaxroof.engine.grid.dataset import Columns, dataset, field_metadata, provenance, stack_choices
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.tabulate import table_axes, tabulate
from jaxroof.engine.search.candidates import read_paths
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import SearchProblem, check_searches
from jaxroof.engine.uncertainty.commitment import WORST, score_plans
from jaxroof.engine.uncertainty.distributions import Distribution, distribution, indices, points
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import field_at, get_at
from jaxroof.structure import results

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SAMPLE = "sample"  # the axis of the draws
LISTED = 5  # best plans of each draw that are considered as commitments


class Draws(NamedTuple):
    """The drawn values: one column for each path, the current value first, then the draws."""

    spread: dict[str, Distribution]
    columns: dict[str, np.ndarray]
    number: int  # of draws; in the columns, crossings for the indices follow them
    seed: int


def uncertain(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    distributions: Mapping[str, Any],
    samples: int = 1024,
    seed: int = 0,
    axes: Mapping[str, Any] | None = None,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    top: int = 10,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the spread of a result under uncertain inputs, and the plans to commit to.

    Arguments: ``distributions`` maps dotted paths to distributions as ``distribution`` reads them,
    such as ``("70 %", "90 %")`` or ``{"around": "50 %"}``; ``samples`` is the number of draws, a
    power of two; ``top`` the number of candidate plans returned; the rest as in ``search``.
    Returns: a Dataset over the axes. Over ``quantile``: the objective of each draw's best plan
    and, as ``_kept``, of the plan that is best at the current inputs. Over ``candidate``: plans,
    the probability that each is best, and the cost of committing to it before the inputs are known
    (relative to the best plan, on average and in the worst 5 % of the draws; all plans among the
    best five of a draw are considered). Over ``parameter``: the Sobol indices, and the saving from
    knowing that input alone before the plan is chosen, NaN where some draw fits no plan. Over
    ``draw``: the drawn inputs and their results. For inputs with a plan, and estimators without
    plans, only the bands and the indices are returned.
    Raises: InputError for an invalid distribution, for uncertain inputs that decide which plans
    exist or what they need, and for an invalid search.
    """
    chosen = {**(settings or {}), **more}
    if SAMPLE in (axes or {}):
        raise refusal(SAMPLE, "the name of the draws; expected another name of the axis")
    _, inputs, recipe, read = ask(estimator, inputs, recipe, chosen, axes)
    draws = _draws(inputs, distributions, samples, seed)
    drawn = {SAMPLE: draws.columns}
    asked = read_axes(inputs, drawn, recipe, estimator.names, before=read)
    if estimator.candidates is None or getattr(inputs, "plan", None) is not None:
        if where:
            raise refusal("where", "no plan is chosen here; expected no constraints")
        return _tabled(estimator, inputs, recipe, asked, objective, draws)
    read, questions = check_searches(
        estimator, inputs, recipe, axes=asked, where=where, objective=objective, top=LISTED,
        placements=True,
    )  # fmt: skip
    for question in questions:
        for path in draws.spread:
            if path in read_paths(estimator, question.recipe, question.inputs):
                what = "decides which plans there are or what they need, so that it cannot be drawn"
                raise refusal(path, f"{what}; expected it on an axis, or a plan of your own")
    parts = [_searched(question, draws, top) for question in questions]
    grid = [axis for axis in read if axis.name != SAMPLE]
    rules = [str(c) for c in questions[0].where]
    return _told(questions[0], grid, stack_choices(grid, parts), draws, where=rules)


def _draws(inputs: Any, distributions: Mapping[str, Any], count: int, seed: int) -> Draws:
    """Return the draws of every uncertain field."""
    if not distributions:
        raise InputError("distributions: nothing is uncertain; expected paths with their ranges")
    spread = {path: distribution(inputs, path, w) for path, w in distributions.items()}
    shares = points(len(spread), count, seed)
    columns = {}
    for (path, one), share in zip(spread.items(), shares, strict=True):
        held = get_at(inputs, path)
        today = float(one.at(np.array(0.5)) if held is None else held)
        columns[path] = np.concatenate([[today], one.at(share)])
    return Draws(spread, columns, count, seed)


def _searched(question: SearchProblem, draws: Draws, top: int) -> Columns:
    """Return the columns of one search: bands, plans and indices."""
    found = best_plans(question)
    dims = tuple(axis.name for axis in question.axes[:-1])
    told, aim = score_plans(question, found, draws.number, top), question.objective
    plans = {**told.plans, "probability": told.probability, "fits": told.fits}
    plans |= {"regret_mean": told.regret_mean, "regret_worst": told.regret_worst}
    if question.estimator.need:
        plans[question.estimator.need] = told.need
    there = told.need >= 0  # NaN where there are fewer plans
    one = {name: _number(c) for name, c in (("today", told.today), ("committed", told.committed))}
    return {
        **_bands(dims, aim, told.best),
        **_bands(dims, f"{aim}_kept", told.kept),
        f"{aim}_today": (dims, found.objective[..., 0, 0]),
        "feasible_share": (dims, np.isfinite(told.best).mean(-1)),
        "plans_best": (dims, told.winners),
        **{f"candidate_{name}": (dims, column) for name, column in one.items()},
        **{
            name: ((*dims, "candidate"), c if c.dtype == np.int64 else np.where(there, c, np.nan))
            for name, c in plans.items()
        },
        **_indices(dims, found.objective[..., 1:, 0], draws),
        "saved_if_known": ((*dims, "parameter"), told.known),
        "candidate_drawn": ((*dims, "draw"), _number(told.drawn)),
    }


def _number(position: np.ndarray) -> np.ndarray:
    """Return the numbers of candidates: 1 for the first, -1 for none."""
    return np.where(position < 0, -1, position + 1)


def _tabled(
    estimator: Estimator,
    inputs: Any,
    recipe: Any,
    axes: Sequence[Axis],
    objective: str | None,
    draws: Draws,
) -> xr.Dataset:
    """Return the bands and the indices of one result, where there is no plan to choose."""
    inputs, every, report = table_axes(estimator, inputs, recipe, axes)
    data = tabulate(estimator, inputs, recipe, axes=every)
    numbers = [name for name in results(report) if data[name].dtype.kind == "f"]
    aim = objective or estimator.objective or numbers[0]
    if aim not in numbers:
        raise unknown("objective", aim, "result", numbers)
    whole = xr.DataArray(np.empty([len(a) for a in every]), dims=[a.name for a in every])
    names = ("feasible", aim) if "feasible" in data else (aim,)
    *held, values = (data[n].broadcast_like(whole).transpose(*whole.dims).values for n in names)
    values = np.where(held[0], values, np.nan) if held else values
    dims = tuple(map(str, whole.dims[:-1]))
    drawn = values[..., 1 : 1 + draws.number]
    columns: Columns = {
        **_bands(dims, aim, drawn),
        f"{aim}_today": (dims, values[..., 0]),
        "feasible_share": (dims, np.isfinite(drawn).mean(-1)),
        **_indices(dims, values[..., 1:], draws),
    }
    question = SearchProblem(estimator, inputs, recipe, tuple(every), (), aim, 1.0, 1, True, report)
    return _told(question, every[:-1], columns, draws)


def _bands(dims: tuple[str, ...], name: str, drawn: np.ndarray) -> Columns:
    """Return the draws with the quantiles, mean and standard deviation of their finite values."""
    found = np.apply_along_axis(_summary, -1, drawn)
    return {
        name: ((*dims, "quantile"), found[..., 2:]),
        f"{name}_mean": (dims, found[..., 0]),
        f"{name}_deviation": (dims, found[..., 1]),
        f"{name}_drawn": ((*dims, "draw"), drawn),
    }


def _summary(row: np.ndarray) -> np.ndarray:
    held = row[np.isfinite(row)]
    if not len(held):
        return np.full(2 + len(QUANTILES), np.nan)
    return np.array([held.mean(), held.std(), *np.quantile(held, QUANTILES)])


def _indices(dims: tuple[str, ...], values: np.ndarray, draws: Draws) -> Columns:
    found = indices(values, len(draws.spread))._asdict()
    return {f"sobol_{name}": ((*dims, "parameter"), column) for name, column in found.items()}


def _told(
    question: SearchProblem, axes: Sequence[Axis], columns: Columns, draws: Draws, **about: Any
) -> xr.Dataset:
    """Return the columns as a Dataset, with the drawn inputs."""
    attrs = provenance(
        question.estimator,
        question.inputs,
        question.recipe,
        axes,
        question="uncertain",
        objective=question.objective,
        samples=draws.number,
        seed=draws.seed,
        distributions={path: one.words for path, one in draws.spread.items()},
        **about,
    )
    meanings = _meanings(question, searched="probability" in columns)
    data = dataset(columns, axes, question.inputs, meanings, attrs)
    paths = list(draws.spread)
    fields = [field_at(question.inputs, path) for path in paths]
    data = data.assign_coords(
        quantile=("quantile", list(QUANTILES), _words("Share of the draws below")),
        parameter=("parameter", np.array(paths, np.str_)),
        units=("parameter", np.array([f.metadata["unit"] for f in fields], np.str_)),
        drawn_from=("parameter", np.array([d.words for d in draws.spread.values()], np.str_)),
        parameter_today=("parameter", [float(column[0]) for column in draws.columns.values()]),
    )
    drawn = [column[1 : 1 + draws.number] for column in draws.columns.values()]
    data["parameter_drawn"] = (("parameter", "draw"), np.array(drawn), _words("What was drawn"))
    if "candidate" not in data.sizes:
        return data
    others = [str(d) for d in data.probability.dims if d != "candidate"]
    there = data.probability.notnull().any(others)
    data = data.isel(candidate=slice(0, max(1, int(there.sum()))))
    number = np.arange(1, data.sizes["candidate"] + 1)
    return data.assign_coords(candidate=("candidate", number, _words("Place, most probable first")))


def _words(text: str, unit: str = "1") -> dict[str, str]:
    return {"units": unit, "long_name": text}


def _meanings(question: SearchProblem, searched: bool) -> dict[str, Mapping[str, Any]]:
    """Return the unit and the meaning of every column."""
    estimator, aim = question.estimator, question.objective
    known = field_metadata(estimator.plan, question.report)
    own = known.get(aim, {"unit": "1", "doc": aim})
    doc = own["doc"].rstrip(".")
    kinds = {"": ", the best plan of each draw", "_kept": ", the plan that is best today"}
    found: dict[str, Mapping[str, Any]] = {}
    for kind, plan in kinds.items():
        whose = plan if searched else ""
        for tail, what in (("", ""), ("_mean", ", mean"), ("_deviation", ", standard deviation")):
            found[f"{aim}{kind}{tail}"] = {**own, "doc": f"{doc}{whose}{what}"}
        found[f"{aim}{kind}_drawn"] = {**own, "doc": f"{doc}{whose}, draw by draw"}
    found[f"{aim}_today"] = {**own, "doc": f"{doc}, as the inputs are today"}
    beyond = "What it takes beyond the best of a draw, as a share of that"
    shares = {
        "feasible_share": "Share of the draws that can be answered",
        "plans_best": "Plans that are best in some draw",
        "candidate_today": "Plan that is best today",
        "candidate_committed": "Plan that costs least on average, of those that fit most often",
        "candidate_drawn": "Plan that is best, draw by draw",
        "probability": "Share of the draws in which the plan is the best",
        "fits": "Share of the draws in which the plan fits",
        "regret_mean": f"{beyond}, on average",
        "regret_worst": f"{beyond}, on average over the worst {100 * WORST:g} % of the draws",
        "saved_if_known": "What choosing the plan by this input alone saves, of the best",
        "sobol_first": "Share of the variance that the input explains by itself",
        "sobol_total": "Share of the variance that the input has a part in",
        "sobol_first_error": "Half width of the 95 % interval of sobol_first",
        "sobol_total_error": "Half width of the 95 % interval of sobol_total",
    }
    plain = {name: {"unit": "1", "doc": words} for name, words in shares.items()}
    fields = {name: known[name] for name in (*estimator.plan_fields, estimator.need) if name}
    return {**{n: m for n, m in fields.items() if n in known}, **found, **plain}
