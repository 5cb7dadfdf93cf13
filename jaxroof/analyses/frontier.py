"""The frontier of serving: the most tokens a second and accelerator at every speed that users see.

Source: docs/models/serving.md, sections 9 and 10.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.serve import (
    AGGREGATED,
    COST,
    DEGREES,
    OTHERS,
    POOLS,
    SPLITS,
    machine_of,
    said_of,
)
from jaxroof.catalog.lookup import serving_system
from jaxroof.catalog.serving_software import serving_name
from jaxroof.engine.search.one_machine import OneMachine
from jaxroof.errors import InputError, unknown
from jaxroof.estimators import estimator as named
from jaxroof.estimators.serving.named_settings import formats_in_words
from jaxroof.units import parse

MOST = 8  # frontiers in one answer
CASE = "case"
KEPT = (  # results of a plan that a frontier keeps
    *("tpot", "tpot_low", "tpot_high", "interactivity", "output_rate", COST),
    *("ttft", "ttft_low", "ttft_high", "memory", "users", "rate", "regime", "request_cost"),
)
OWN = ("precision", "prefill")  # what a case is told by, beside its names
Names = str | Sequence[Any] | None


class NothingWithin(InputError):
    """Plans are legal, but none is within the limits."""


def frontier(
    *,
    model: Any,
    system: Any,
    gpus: Any,
    prompt: Any,
    output: Any,
    tpot: Any = None,
    software: Names = None,
    precision: Names = None,
    split: str = SPLITS[0],
    where: str = "",
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the plans that give most tokens a second at every bound of the time of a token.

    Several systems, software, precisions, or both ways of splitting give a frontier each. ``tpot``
    is a bound that was asked for: it marks a place, and limits nothing. The other arguments are
    those of ``serve``.

    Returns: a Dataset over ``step_number``, one frontier after another, told apart by ``case``:
    plan fields, ``interactivity`` (tokens a second that a user sees), ``output_rate`` of an
    accelerator, and others. The attribute ``without`` says which cases have no plan, and why.
    """
    cases = _cases(system, software, precision, split)
    several = [n for n in cases[0] if len({_name(one[n]) for one in cases}) > 1] or ["system"]
    given = {"model": model, "gpus": gpus, "prompt": prompt, "output": output, **more}
    given = {n: v for n, v in {**given, **(settings or {})}.items() if v is not None}
    found: list[xr.Dataset] = []
    told: list[dict[str, str]] = []
    without: dict[str, str] = {}
    nothing = False
    for case in cases:
        name = ", ".join(_name(case[key]) for key in several)
        asked = {**given, **{n: v for n, v in case.items() if v is not None and n != "split"}}
        try:
            one = _steps(asked, where, pools=case["split"] != SPLITS[0])
        except InputError as error:  # of this case alone, if another one has an answer
            without[name] = str(error)
            continue
        if one.sizes["step_number"]:
            label = np.full(one.sizes["step_number"], name)
            found.append(one.assign_coords({CASE: ("step_number", label)}))
            told.append({"name": name, **said_of(asked), **{n: one.attrs[n] for n in OWN}})
        else:
            without[name], nothing = str(one.attrs["why_none"]), True
    if not found:
        why = "; ".join(f"{name}: {said}" for name, said in without.items())
        why = why if len(without) > 1 else next(iter(without.values()))
        raise (NothingWithin if nothing else InputError)(why)
    data = xr.concat(found, "step_number", combine_attrs="override", fill_value=0)
    attrs = {"question": "frontier", "model": _name(model), "gpus": float(gpus)}
    attrs |= {"cases": json.dumps(told)}
    attrs |= {"without": json.dumps(without), "split": split}
    attrs |= {} if "system" in several and len(cases) > 1 else {"system": _name(cases[0]["system"])}
    attrs |= {} if tpot is None else {"tpot_asked": parse(tpot, "s", "tpot")}
    return data.assign_attrs(attrs)


def _cases(system: Names, software: Names, precision: Names, split: str) -> list[dict[str, Any]]:
    """Return what each frontier is of: every combination of what is given as a list.

    Raises: InputError for names that nobody knows, and for too many.
    """
    if split not in SPLITS:
        raise unknown("split", split, "split", SPLITS)
    ways = SPLITS[:2] if split == "both" else [split]
    lists = {"system": system, "software": software, "precision": precision, "split": ways}
    every = {n: [*v] if isinstance(v, list | tuple) else [v] for n, v in lists.items()}
    cases = [dict(zip(every, each, strict=True)) for each in itertools.product(*every.values())]
    if not 1 <= len(cases) <= MOST:
        raise InputError(f"system: {len(cases)} frontiers; expected 1 to {MOST}")
    for case in cases:
        if isinstance(case["system"], str):
            serving_system(case["system"])
        if isinstance(case["software"], str):
            serving_name(case["software"], case["system"])
    return cases


def _name(given: Any) -> str:
    return given if isinstance(given, str) else "own"


def _steps(asked: Mapping[str, Any], where: str, pools: bool) -> xr.Dataset:
    """Return the steps of one frontier, the shortest time of a token first."""
    if not pools:
        machine = machine_of(named(AGGREGATED), asked, where)
        return _frontier(machine)
    prefill, decode = (
        machine_of(named(of), {k: v for k, v in asked.items() if k not in OTHERS[name]}, where,
                   whole=True)
        for name, of in POOLS.items()
    )  # fmt: skip
    data, best = _frontier(decode), prefill.best(1)[0]
    if not len(best):
        return data.isel(step_number=slice(0)).assign_attrs(why_none=prefill.why_none)
    first = prefill.reports(best).isel(plan=0)
    for name in (COST, "request_cost"):  # a request takes both pools
        data[name] = data[name].copy(data=data[name].values + float(first[name]))
    rate = float(decode.question.inputs.workload.output) / data[COST].values
    data["output_rate"] = data["output_rate"].copy(data=rate)
    size = data.sizes["step_number"]
    for name in ("ttft", "ttft_low", "ttft_high"):
        data[name] = ("step_number", np.full(size, float(first[name])), first[name].attrs)
    short, words = prefill.question.estimator.shortest, prefill.question.estimator.words
    plan = {k: v for k, v in prefill.plan(int(best[0])).items() if v > (k in DEGREES)}
    said = [f"{short[k]} {words[k][v] if k in words else v}" for k, v in plan.items()]
    return data.assign_attrs(prefill=" ".join(said))


def _frontier(machine: OneMachine) -> xr.Dataset:
    """Return the best plan of a machine at every bound of the time of a token."""
    data = machine.reports(machine.frontier("tpot")).rename(plan="step_number")
    data = data[[n for n in (*machine.question.estimator.plan_fields, *KEPT) if n in data]]
    codes = vars(machine.question.inputs.precision)
    formats = formats_in_words({f"precision.{name}": float(code) for name, code in codes.items()})
    return data.assign_attrs(precision=formats, why_none=machine.why_none, prefill="")
