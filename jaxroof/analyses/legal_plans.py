"""The best plans of one machine, of any estimator that is searched; answers of several machines."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.search.none_legal import NoLegalPlan, none_legal
from jaxroof.engine.search.one_machine import (
    NoSuchPlan,
    OneMachine,
    Whole,
    as_variables,
    fields_of,
    one_machine,
    place_of,
    standing,
)
from jaxroof.engine.search.plan_text import own_fields
from jaxroof.engine.search.problem import check_search
from jaxroof.engine.search.several_limits import limits_told, relaxed_told
from jaxroof.estimator import TIE, Estimator

CLOSE = 0.02  # share of the best by which a plan may be worse and still be close to it


def legal_plans(estimator: Estimator, *, own: str | None = None, **asked: Any) -> xr.Dataset:
    """Return the best plans of one machine; where none is within every limit, the leanest.

    Arguments: ``own`` are fields of a plan of the user's; ``asked`` are those of a search.
    Returns: a Dataset over ``plan`` of plan fields and results, and without a plan what
    ``standing`` says, how many plans are legal and fit, what they need, and which are ``close`` to
    the best. The attribute ``own_refused`` says why the user's plan is not legal; ``relaxed`` is
    what ``relaxed_limits`` returns, as JSON.
    Raises: InputError for bad input, NoLegalPlan if no plan is legal.
    """
    question = check_search(estimator, None, **asked)
    machine = one_machine(question)
    if not machine.plans.size:
        raise NoLegalPlan(none_legal(question, machine.refused))
    best, _ = machine.best(question.top)
    return told(machine, best if len(best) else machine.leanest(question.top), own)


def told(machine: OneMachine, shown: np.ndarray, own: str | None = None) -> xr.Dataset:
    """Return some plans of a machine in their order, and what holds for all; as ``legal_plans``."""
    question, data = machine.question, machine.reports(shown)
    fits = len(machine.fitting) > 0
    whole: dict[str, tuple[Any, str, str]] = {
        "plans_legal": (machine.plans.size, "1", "Legal plans"),
        "plans_feasible": (len(machine.fitting), "1", "Legal plans that fit"),
        "need_least": (float(machine.need.min()), "1", "What the leanest legal plan needs"),
        "need_most": (float(machine.need.max()), "1", "What the fullest legal plan needs"),
    }
    attrs = {"objective": question.objective, **limits_told(machine), **relaxed_told(machine)}
    if np.isfinite(machine.limit):
        whole["need_limit"] = machine.limit, "1", "What a plan may need"
    if fits:
        whole |= {**standing(machine, data.isel(plan=0)), **_close(machine, data.isel(plan=0))}
    if own is not None:
        given = own_fields(question, "--mine", own)
        try:
            whole |= place_of(machine, ",".join(f"{f}={value}" for f, value in given.items()))
            better = question.sign * whole["own"][0] * (1.0 - question.sign * TIE)
            whole["own_place"] = 1 + len(machine.within(better)[0]), *whole["own_place"][1:]
        except NoSuchPlan as error:
            attrs["own_refused"] = error.why
    return data.assign(as_variables(whole)).assign_attrs(attrs)


def _close(machine: OneMachine, best: xr.Dataset) -> Whole:
    """Return how many other plans are close to the best, and the leanest of them and the best."""
    aim = machine.question.objective
    value = machine.question.sign * float(best[aim])
    near, _ = machine.within(value + CLOSE * abs(value))
    near = machine.ranked(near)
    lean = int(near[np.argmin(machine.need[near])])
    row = machine.reports(np.array([lean])).isel(plan=0)
    said = "of the leanest of the plans close to the best"
    return {
        "close": (len(near) - 1, "1", f"Other plans within {100.0 * CLOSE:.0f} % of the best"),
        "close_lean": (float(row[aim]), str(row[aim].attrs["units"]), f"What is optimised, {said}"),
        "close_need": (float(machine.need[lean]), "1", f"What is needed, {said}"),
        **fields_of(machine, lean, "close_plan"),
    }


def of_sizes(
    sizes: Sequence[int],
    ask: Callable[[int], xr.Dataset],
    refused: tuple[type[Exception], ...] = (),
) -> xr.Dataset | None:
    """Return the plans of each number of accelerators in one Dataset; None if there are none.

    With several numbers, the attribute ``each`` says what holds for all plans of one, and ``none``
    why others have none: the errors NoLegalPlan and ``refused``.
    Raises: NoLegalPlan if no number has a legal plan.
    """
    found: list[xr.Dataset] = []
    none: dict[int, str] = {}
    legal = False
    for size in sizes:
        try:
            found.append(ask(size).assign(gpus=_accelerators(size)))
        except NoLegalPlan as error:
            none[size] = str(error)
            if size == sizes[-1] and not found and not legal:
                raise
        except refused as error:
            legal, none[size] = True, str(error)
    if len(sizes) == 1 or not found:
        return found[0] if found else None
    return joined(found, none)


def joined(found: Sequence[xr.Dataset], none: Mapping[int, str]) -> xr.Dataset:
    """Return the plans of several numbers of accelerators in one Dataset."""
    columns, each = [], {}
    for one in found:
        names = [name for name in one.data_vars if one[name].dims == ("plan",)]
        many = _accelerators(np.full(one.sizes["plan"], int(one.gpus)))
        columns.append(one[names].assign(gpus=many))
        single = {name: one[name] for name in one.data_vars if not one[name].dims}
        each[int(one.gpus)] = {str(name): value.values.item() for name, value in single.items()}
        each[int(one.gpus)] |= {n: one.attrs[n] for n in BY_SIZE if n in one.attrs}
    data = xr.concat(columns, "plan", combine_attrs="override")
    return data.assign_attrs(each=json.dumps(each), none=json.dumps(none))


# attributes that differ by size
BY_SIZE = ("own_refused", "beyond", "why_none", "regime", "outside")


def _accelerators(values: Any) -> xr.Variable:
    about = {"units": "1", "long_name": "Accelerators"}
    return xr.Variable(("plan",) * np.ndim(values), values, about, {"_FillValue": -1})
