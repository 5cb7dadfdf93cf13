"""The frontier of serving: the most tokens a second and accelerator at every speed that users see.

Source: docs/models/serving.md, sections 9 and 10.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.serve import AGGREGATED, COST, OTHERS, POOLS, SPLITS, machine_of, said_of
from jaxroof.engine.search.none_legal import NoLegalPlan
from jaxroof.errors import refusal
from jaxroof.estimators import estimator as named
from jaxroof.estimators.serving.named_settings import formats_in_words
from jaxroof.units import parse

MOST = 8  # frontiers in one answer
CASE = "case"
KEPT = (  # results of a plan that a frontier keeps
    *("tpot", "tpot_low", "tpot_high", "interactivity", "output_rate", COST),
    *("ttft", "ttft_low", "ttft_high", "memory", "users", "rate", "regime", "request_cost"),
)
Names = str | Sequence[Any] | None


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
    if split not in SPLITS:
        raise refusal("split", f"expected one of {', '.join(SPLITS)}, given {split!r}")
    ways = SPLITS[:2] if split == "both" else [split]
    lists = {"system": system, "software": software, "precision": precision, "split": ways}
    every = {n: [*v] if isinstance(v, list | tuple) else [v] for n, v in lists.items()}
    cases = [dict(zip(every, each, strict=True)) for each in itertools.product(*every.values())]
    if len(cases) > MOST:
        raise refusal("system", f"{len(cases)} frontiers; expected {MOST} at most")
    several = [name for name, values in every.items() if len(values) > 1] or ["system"]
    given = {"model": model, "gpus": gpus, "prompt": prompt, "output": output, **more}
    given = {n: v for n, v in {**given, **(settings or {})}.items() if v is not None}
    found: list[xr.Dataset] = []
    told: list[dict[str, str]] = []
    without: dict[str, str] = {}
    for case in cases:
        name = ", ".join(_name(case[key]) for key in several)
        asked = {**given, **{n: v for n, v in case.items() if v is not None and n != "split"}}
        try:
            one = _steps(asked, where, pools=case["split"] != SPLITS[0])
        except NoLegalPlan as error:
            without[name] = str(error)
            continue
        if one.sizes["step_number"]:
            label = np.full(one.sizes["step_number"], name)
            found.append(one.assign_coords({CASE: ("step_number", label)}))
            told.append({"name": name, **said_of(asked), "precision": one.attrs["precision"]})
        else:
            without[name] = str(one.attrs["why_none"])
    if not found:
        raise NoLegalPlan("; ".join(f"{name}: {why}" for name, why in without.items()))
    data = xr.concat(found, "step_number", combine_attrs="override", fill_value=0)
    attrs = {"question": "frontier", "model": _name(model), "gpus": float(gpus)}
    attrs |= {"cases": json.dumps(told)}
    attrs |= {"without": json.dumps(without), "split": split}
    attrs |= {} if len(every["system"]) > 1 else {"system": _name(every["system"][0])}
    attrs |= {} if tpot is None else {"tpot_asked": parse(tpot, "s", "tpot")}
    return data.assign_attrs(attrs)


def _name(given: Any) -> str:
    return given if isinstance(given, str) else "own"


def _steps(asked: Mapping[str, Any], where: str, pools: bool) -> xr.Dataset:
    """Return the steps of one frontier, the shortest time of a token first."""
    if not pools:
        machine = machine_of(named(AGGREGATED), asked, where)
    else:
        prefill, machine = (
            machine_of(
                named(of),
                {k: v for k, v in asked.items() if k not in OTHERS[name]},
                where,
                whole=True,
            )
            for name, of in POOLS.items()
        )
    places = machine.frontier("tpot")
    data = machine.reports(places).rename(plan="step_number")
    fields = [*machine.question.estimator.plan_fields]
    data = data[[n for n in (*fields, *KEPT) if n in data]]
    codes = vars(machine.question.inputs.precision)
    named_formats = {f"precision.{name}": float(code) for name, code in codes.items()}
    data.attrs["precision"] = formats_in_words(named_formats)
    data.attrs["why_none"] = machine.why_none
    if pools:
        best = prefill.best(1)[0]
        if not len(best):
            return data.isel(step_number=slice(0)).assign_attrs(why_none=prefill.why_none)
        first = prefill.reports(best).isel(plan=0)
        both = data[COST] + float(first[COST])
        rate = float(machine.question.inputs.workload.output) / both
        data = data.assign({COST: data[COST].copy(data=both.values)})
        data["output_rate"] = data["output_rate"].copy(data=rate.values)
        data.attrs["prefill_plan"] = json.dumps(prefill.plan(int(best[0])))
    return data
