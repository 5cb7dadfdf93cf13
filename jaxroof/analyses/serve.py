"""Which plan serves a model under limits: on accelerators that do both, or in two pools.

Source: docs/models/serving.md, sections 6 to 9.
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.legal_plans import told
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture
from jaxroof.catalog.serving_software import (
    ServingSoftware,
    measured_ways,
    serving_name,
    weak_points,
)
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.none_legal import NoLegalPlan, none_legal
from jaxroof.engine.search.one_machine import (
    OneMachine,
    Whole,
    as_variables,
    fields_of,
    one_machine,
)
from jaxroof.engine.search.problem import check_search
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.estimators.serving.server import closed_loop
from jaxroof.plan_lists import distinct_rows
from jaxroof.records import value_or
from jaxroof.units import parse

AGGREGATED = "serving"
POOLS = {"prefill": "serving_prefill", "decode": "serving_decode"}
OTHERS = {"prefill": ("tpot", "load"), "decode": ("ttft", "load")}  # limits of no use to a pool
SPLITS = ("aggregated", "disaggregated", "both")
DEGREES = ("tensor", "data", "pipeline")  # their product is a replica
COST, LOAD = "accelerator_time", "load_gpus"
AT = (np.s_[:, None, None], np.s_[None, :, None])  # plans of prefill, and of decode, in an array
MOST_POWER = 11  # up to 1,024 accelerators are tried where the memory holds no plan
REACH = 66  # replicas for prompts that one more of decode may displace: it has 64 ranks at most
Settings = Mapping[str, Any]


def serve(
    *,
    model: Any,
    system: Any,
    gpus: Any,
    prompt: Any,
    output: Any,
    users: float | None = None,
    split: str = SPLITS[0],
    own: str | None = None,
    objective: str | None = None,
    where: str = "",
    top: int = 5,
    settings: Settings | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the plans that serve a model within limits, those of most tokens a second first.

    ``split``: every accelerator takes prompts and answers (aggregated), pools of their own do
    (disaggregated), or both side by side. ``settings`` and ``more`` are further inputs of the
    estimator ``serving``: the limits ``ttft``, ``tpot`` and ``load`` (requests a second of all
    accelerators), ``software``, ``precision``, ``cache``, ``rent``. ``users`` are the requests at
    once that all accelerators must hold; ``own`` are fields of an aggregated plan of yours.

    Returns: a Dataset over ``plan``, the best of each split into ranks, of plan fields and results;
    of pools over ``prefill_plan`` and ``decode_plan``, which ``pool_of`` takes apart. Without a
    dimension: counts, limits, what relaxing each gives, whole pools.
    Raises: InputError for bad input, NoLegalPlan where no plan is legal.

    >>> data = serve(
    ...     model="llama3-8b", system="h100-nvs8", gpus=8, prompt=1024, output=256, tpot="20 ms"
    ... )
    >>> bool(data.tpot[0] < 0.02)
    True
    """
    if split not in SPLITS:
        raise unknown("split", split, "split", SPLITS)
    asked = {"model": model, "system": system, "gpus": gpus, "prompt": prompt, "output": output}
    given = {n: v for n, v in {**asked, **(settings or {}), **more}.items() if v is not None}
    for name, value in (("--mine", own), ("--users", users)):
        if split == "disaggregated" and value is not None:
            raise refusal(name, "of one server; expected --split aggregated or both")
    if split != SPLITS[0] and objective is not None:
        raise refusal("--objective", "of one server; expected --split aggregated")
    data = xr.Dataset()
    if split != "disaggregated":
        machine = machine_of(named(AGGREGATED), given, where, objective)
        data = _aggregated(machine, users, top, own)
        if not machine.held.any() and np.all(machine.over[machine.question.estimator.need] > 0.0):
            data = data.assign(as_variables(_enough(given, where)))
        if objective is None and machine.held.any():
            data = data.assign(as_variables(_fewer(given, where, float(data[COST][0]))))
    if split != "aggregated":
        try:
            data = data.assign(_pools(given, where, top))
        except InputError as error:
            if split == "both":
                data.attrs["pools_refused"] = str(error)
            else:
                raise
    if not data.attrs.get("estimator"):  # of pools alone
        every = [pool_of(data, name).attrs for name in POOLS]
        numbers = {k: v for one in every for k, v in json.loads(one["inputs"]).items()}
        data = data.assign_attrs(every[-1], inputs=json.dumps(numbers))
    return data.assign_attrs(said_of(given), question="serve", split=split, gpus=float(gpus))


def said_of(given: Settings) -> dict[str, str]:
    """Return attributes that name the model, the machine and the software of a question."""
    model, system, software = (given.get(name) for name in ("model", "system", "software"))
    about = {"model": model, "system": system}
    found = {key: one if isinstance(one, str) else "own" for key, one in about.items()}
    asked = {name: name in given for name in ("software", "precision", "cache")}
    found["usual"] = json.dumps([name for name, told in asked.items() if not told])
    if isinstance(software, ServingSoftware):
        return {**found, "software": "own", "weak": "[]", "measured": "{}"}
    weak = weak_points(software, system, float(_architecture(model).experts) > 0.0)
    name = str(serving_name(software, system))
    found["measured"] = json.dumps(measured_ways(software, system))
    return {**found, "software": name, "weak": json.dumps([*weak])}


def _architecture(model: Any) -> Architecture:
    return model if isinstance(model, Architecture) else architecture(model)


def pool_of(data: xr.Dataset, name: str) -> xr.Dataset:
    """Return the plans of one pool of an answer, as a search of that pool gives them."""
    head = f"{name}_"
    own = data[[n for n in data.data_vars if str(n).startswith(head)]]
    own = own.rename({n: str(n).removeprefix(head) for n in (*own.data_vars, *own.dims)})
    for one in own.variables.values():
        moved = {k: v.removeprefix(head) for k, v in one.attrs.items() if k == "part_of"}
        one.attrs = {**one.attrs, **moved}
    return own.assign_attrs(json.loads(data[f"{name}_found"].attrs["attrs"]))


def machine_of(
    of: Estimator, given: Settings, where: str, objective: str | None = None, whole: bool = False
) -> OneMachine:
    """Return the legal plans of a question; ``whole``: settings may be of another pool.

    Raises: NoLegalPlan where there are none.
    """
    question = check_search(
        of, ask(of, settings=given, whole=whole), where=_rules(of, where), objective=objective
    )
    machine = one_machine(question)
    if not machine.plans.size:
        raise NoLegalPlan(none_legal(question, machine.refused))
    return machine


def _rules(of: Estimator, where: str) -> str:
    """Return the constraints without those on fields that other plans of a server alone have."""
    every = (named(name) for name in (AGGREGATED, *POOLS.values()))
    known = {name for one in every for name in (*one.short_names, *one.plan_fields)}
    others = known - {*of.short_names, *of.plan_fields}
    rules = where.split(",")
    return ",".join(rule for rule in rules if re.split("[<>=!]", rule)[0].strip() not in others)


def replicas(machine: OneMachine, places: np.ndarray) -> np.ndarray:
    """Return the accelerators of a replica of each of some plans."""
    fields = machine.at(places, DEGREES)
    return np.prod([fields[name] for name in DEGREES], axis=0)


# ---- One server ---------------------------------------------------------------------------------


def _aggregated(machine: OneMachine, users: float | None, top: int, own: str | None) -> xr.Dataset:
    """Return the best plan of each split into ranks, or the nearest where none is within limits."""
    fits = machine.fitting
    whole: dict[str, Any] = {}
    if users is not None and len(fits):
        gpus, size = float(machine.question.inputs.gpus), replicas(machine, fits)
        each = machine.columns(["users"])["users"][fits]
        held = each / size * gpus
        fewest = float((np.ceil(users / each) * size).min())
        whole["users_asked"] = users, "request", "Requests at once that were asked for"
        whole["users_most"] = float(held.max()), "request", "The most that plans within limits hold"
        whole["users_fewest"] = fewest, "1", "Fewest accelerators that hold those asked for"
        enough = fits[held >= users]
        fits = enough if len(enough) else fits
    order = _order(machine, fits)
    if users is not None and machine.held[order[0]]:
        whole |= _with_users(machine, int(order[0]), users)
    data = told(machine, order[:top], own)
    whole |= {**_load(machine), **_without_data(machine, order)}
    return data.assign(as_variables(whole))


def _without_data(machine: OneMachine, order: np.ndarray) -> Whole:
    """Return the best plan without data-parallel attention, if no server with it was measured."""
    ranks = machine.at(order, ("data",))["data"]
    alone = order[ranks == 1]
    software = machine.question.inputs.software
    held = len(alone) and machine.held[alone[0]]
    if ranks[0] == 1 or not held or software.data_measured or not software.calibrated:
        return {}
    rate = float(machine.columns(["output_rate"])["output_rate"][alone[0]])
    said = "The best of an accelerator on one attention rank"
    plan = fields_of(machine, int(alone[0]), "one_rank_plan")
    return {"one_rank_rate": (rate, "token/s", said), **plan}


def _with_users(machine: OneMachine, place: int, users: float) -> Whole:
    """Return what a plan gives where so many requests are always in flight."""
    question = machine.question
    fields = {name: np.float64(value) for name, value in machine.plan(place).items()}
    assert question.estimator.plan is not None
    inputs = dataclasses.replace(question.inputs, plan=question.estimator.plan(**fields))
    each = users * replicas(machine, np.array([place])) / float(question.inputs.gpus)
    closed = closed_loop(inputs, question.recipe, np.float64(each[0]))
    report = question.estimator.evaluate(closed, question.recipe)
    return {
        "users_tpot": (float(report.tpot), "s", "Time of a token with these requests in flight"),
        "users_ttft": (float(report.ttft), "s", "Time to the first token with them"),
        "users_rate": (float(report.output_rate), "token/s", "What an accelerator gives with them"),
    }


def _order(machine: OneMachine, fits: np.ndarray) -> np.ndarray:
    """Return the best plan of each split into ranks, or the nearest where none is within limits."""
    order = machine.ranked(fits) if len(fits) else _nearest(machine)
    fields = machine.at(order, DEGREES)
    return order[np.sort(distinct_rows([*fields.values()])[0])]


def _nearest(machine: OneMachine) -> np.ndarray:
    """Return the plans that lack accelerators alone, or all, the smallest excess first.

    An excess is over its bound; the largest of a plan counts.
    """
    others = np.all([o <= 0.0 for name, o in machine.over.items() if name != LOAD], axis=0)
    if len(some := np.flatnonzero(others)):
        return some[np.lexsort((machine.values(some), machine.over[LOAD][some]))]
    bounds = {name: bound for name, bound in machine.bounds.items() if math.isfinite(bound)}
    shares = [machine.over[name] / bound for name, bound in bounds.items()]
    worst = np.max([np.maximum(share, 0.0) for share in shares], axis=0)
    return np.lexsort((machine.need, worst))


def _enough(given: Settings, where: str) -> Whole:
    """Return the first power of two of accelerators on which a plan is within every limit."""
    gpus = float(given["gpus"])
    for size in (2.0**p for p in range(MOST_POWER) if 2.0**p > gpus):
        machine = machine_of(named(AGGREGATED), {**given, "gpus": size}, where)
        if len(best := machine.best(1)[0]):
            said = "Accelerators on which a plan is within every limit"
            return {"enough": (size, "1", said), **fields_of(machine, int(best[0]), "enough_plan")}
    return {}


def _fewer(given: Settings, where: str, cost: float) -> Whole:
    """Return a better plan that leaves accelerators idle, where their number is no power of two.

    ``cost``: of the best that fills all of them. Replicas are powers of two, so that few divide 72.
    """
    gpus = float(given["gpus"])
    size = 2.0 ** math.floor(math.log2(gpus))
    if size == gpus:
        return {}
    try:
        machine = machine_of(named(AGGREGATED), {**given, "gpus": size}, where)
    except NoLegalPlan:
        return {}
    best = machine.best(1)[0]
    if not len(best) or machine.values(best)[0] * gpus / size >= cost:
        return {}
    rate = float(machine.reports(best).output_rate[0]) * size / gpus
    return {
        "fewer": (size, "1", "Accelerators of a better plan that leaves the others idle"),
        **fields_of(machine, int(best[0]), "fewer_plan"),
        "fewer_rate": (rate, "token/s", "What it gives an accelerator, idle ones too"),
    }


def _load(machine: OneMachine) -> Whole:
    """Return the fewest accelerators of replicas that carry the load, if one is asked for."""
    load = value_or(machine.question.inputs.limits.load, 0.0)
    if not load:
        return {}
    needed = machine.over[LOAD] + float(machine.question.inputs.gpus)
    held = np.all([o <= 0.0 for name, o in machine.over.items() if name != LOAD], axis=0)
    found = np.flatnonzero(held)
    if not len(found):
        return {}
    best = found[np.lexsort((machine.need[found], needed[found]))[0]]
    rate = machine.columns(["rate"])["rate"] / replicas(machine, np.arange(machine.plans.size))
    most = float(rate[found].max()) * float(machine.question.inputs.gpus)
    return {
        "fewest": (float(needed[best]), "1", "Fewest accelerators that carry the load"),
        **fields_of(machine, int(best), "fewest_plan"),
        "most_load": (most, "request/s", "Most requests a second of all accelerators"),
        "load_asked": (float(load), "request/s", "Requests a second that were asked for"),
    }


# ---- Pools --------------------------------------------------------------------------------------


def _pools(given: Settings, where: str, top: int) -> dict[str, xr.Variable]:
    """Return the best plans of both pools under names of their own, and their pair."""
    found: dict[str, xr.Variable] = {}
    machines = {}
    for name, of in POOLS.items():
        some = {key: value for key, value in given.items() if key not in OTHERS[name]}
        machines[name] = machine = machine_of(named(of), some, where, whole=True)
        data = told(machine, _order(machine, machine.fitting)[:top])
        about = {"attrs": json.dumps(data.attrs), "long_name": "How these plans were found"}
        found[f"{name}_found"] = xr.Variable((), data.sizes["plan"], about)
        for key, one in data.variables.items():
            dims = tuple(f"{name}_{dim}" for dim in one.dims)
            own = {k: f"{name}_{v}" if k == "part_of" else v for k, v in one.attrs.items()}
            found[f"{name}_{key}"] = xr.Variable(dims, one.values, own, one.encoding)
    load = parse(given.get("load", 0.0), "request/s", "limits.load")
    asked: Whole = {"pools_load": (load, "request/s", "Requests a second that were asked for")}
    if all(len(machine.fitting) for machine in machines.values()):
        asked = {**asked, **_whole_pools(machines, float(given["gpus"]))}
    return {**found, **as_variables(asked)}


def _whole_pools(machines: Mapping[str, OneMachine], gpus: float) -> Whole:
    """Return how many whole replicas of each pool carry most on some accelerators.

    rate = max min(x_p r_p, x_d r_d), x_p n_p + x_d n_d <= N

    Of replicas of one size the best of their pool counts alone: it has the highest rate.
    """
    sizes, rates, places = {}, {}, {}
    for name, machine in machines.items():
        size = replicas(machine, machine.fitting)
        each = [machine.best(1, machine.fitting[size == n])[0] for n in np.unique(size)]
        places[name] = np.concatenate(each)
        sizes[name] = replicas(machine, places[name])
        rates[name] = machine.columns(["rate"])["rate"][places[name]]
    (n, r), (m, d) = ((sizes[k][at], rates[k][at]) for k, at in zip(POOLS, AT, strict=True))
    even = np.floor(gpus / (n + m * r / d))  # replicas for prompts, were decode not in whole ones
    count = np.clip(even + np.arange(-REACH, 2.0), 1.0, None)
    left = np.maximum(gpus - n * count, 0.0) // m
    rate = np.minimum(r * count, left * d)
    best = np.unravel_index(int(np.argmax(rate)), rate.shape)
    if rate[best] <= 0.0:
        return {}
    at = dict(zip(POOLS, best[:2], strict=True))  # places of the best plans
    prefill, decode = (
        fields_of(one, int(places[name][at[name]]), f"{name}_replicas_plan")
        for name, one in machines.items()
    )
    # no more prefill replicas than keep decode busy
    need = math.ceil(float(rate[best] / rates["prefill"][best[0]]) - 1e-9)
    return {
        "pools_rate": (float(rate[best]), "request/s", "Requests a second of whole pools"),
        "prefill_replicas": (need, "1", "Replicas that take prompts"),
        "decode_replicas": (int(left[best]), "1", "Replicas that decode"),
        **prefill,
        **decode,
    }


# ---- What became of it --------------------------------------------------------------------------


def found_some(data: xr.Dataset) -> bool:
    """Return whether a plan, or a pair of pools, is within every limit."""
    server = "feasible" in data and bool(data.feasible.values[0])
    held = "users_most" not in data or float(data.users_most) >= float(data.users_asked)
    pools = "pools_rate" in data and float(data.pools_rate) >= float(data.pools_load)
    return (server and held) or pools


def table(data: xr.Dataset) -> xr.Dataset:
    """Return all plans of an answer as rows: those of a server, and of each pool."""
    found = [("server", data)] if "plan" in data.sizes else []
    if "pools_refused" not in data.attrs and data.attrs["split"] != SPLITS[0]:
        found += [(name, pool_of(data, name)) for name in POOLS]
    rows = []
    for name, one in found:
        own = one[[n for n in one.data_vars if one[n].dims == ("plan",)]]
        rows.append(own.assign(part=("plan", np.full(own.sizes["plan"], name))))
    return xr.concat(rows, "plan", combine_attrs="override")
