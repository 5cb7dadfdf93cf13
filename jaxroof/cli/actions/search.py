"""The search command: search, print and write the plans of one or several machines."""

from typing import Any

import numpy as np
import xarray as xr

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import parse_share
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.search_options import SearchOptions
from jaxroof.engine.search.none_legal import check_legal
from jaxroof.engine.search.one_machine import NoSuchPlan, OneMachine, one_machine
from jaxroof.engine.search.plan_text import own_fields
from jaxroof.engine.search.problem import check_search
from jaxroof.errors import InputError
from jaxroof.estimator import FAR
from jaxroof.io.formats import check_writable
from jaxroof.views.text.legal_plans import LegalPlans, answer_of_search, answer_of_sizes

MINE = "--mine"


def search_command(*, uncertain: str | None, dry_run: bool = False, **options: Any) -> int:
    """Search one or several cluster sizes for the plans of an estimator; return the exit status.

    If ``uncertain`` names a table of uncertain inputs, search in every draw of them.
    """
    asked = SearchOptions(**options)
    if uncertain is None:
        return _search(asked)
    from jaxroof.cli.actions.search_uncertain import uncertain_command

    return uncertain_command(uncertain, asked, dry_run)


def _search(asked: SearchOptions) -> int:
    output, estimator = asked.output, asked.asked_of
    if asked.everything and output is None:
        raise InputError("--all: writes every plan to a file; expected -o FILE.csv, .json or .nc")
    if output is not None:
        check_writable(output)
    close, settings, rules = parse_share("--within", asked.within), asked.settings, asked.rules
    found, written = [], []
    sizes = [{"gpus": size} for size in asked.sizes] or [{}]
    for size in sizes:
        question = check_search(
            estimator,
            None,
            where=rules,
            objective=asked.objective,
            top=asked.top,
            placements=asked.placements,
            settings={**size, **settings},
        )
        machine = one_machine(question)
        found.append(_legal_plans(machine, asked.mine, close))
        every = np.arange(machine.plans.size) if asked.everything else None
        data = found[-1].data if every is None else machine.reports(every)
        written.append(_with_size(data, size))
    if not any(each.legal for each in found):
        check_legal(estimator, None, where=rules, settings={**sizes[-1], **settings})
    outputs.write_data(output, _joined(written))
    title = asked.question + (f", batch {asked.sequences:,}" if asked.batch is not None else "")
    if estimator.name == "published" and len(found) > 1:
        say_all(answer_of_sizes(found, title))
    else:
        for size, one in zip(sizes, found, strict=True):
            on = "".join(f", {name} {value:,}" for name, value in size.items() if len(sizes) > 1)
            say_all(answer_of_search(one, f"{title}{on}", close))
    outputs.report_written(output)
    return 0 if any(each.best is not None for each in found) else 1


def _legal_plans(machine: OneMachine, mine: str | None, close: float) -> LegalPlans:
    """Return the best plans of one machine, those close to the best, and the user's own."""
    question = machine.question
    estimator, recipe = question.estimator, question.recipe
    order = machine.ranked(machine.fitting)
    order = order[machine.values(order) < FAR]
    shown = machine.distinct(order)[: question.top]
    place, why = np.empty(0, np.int64), ""
    if mine is not None:
        given = own_fields(question, MINE, mine)
        said = ", ".join(f"{field}={value}" for field, value in given.items())
        try:
            place = np.array([machine.own(said, given, MINE).place])
        except NoSuchPlan as error:
            why = error.why
    value = machine.values(order)
    near = order[np.abs(value - value[:1]) <= close * np.abs(value[:1])]
    lean = near[np.argsort(machine.need[near], kind="stable")][:1]
    return LegalPlans(
        data=machine.reports(shown),
        gpus=int(question.inputs.gpus) if hasattr(question.inputs, "gpus") else None,
        limit=machine.limit,
        feasible=len(order),
        objective=question.objective,
        where=[str(rule) for rule in question.where],
        refused=machine.refused,
        refusals=estimator.reasons(recipe) if estimator.reasons is not None else {},
        needs=machine.need,
        close=len(near) - 1,
        lean=_only(machine, lean),
        leanest=_only(machine, machine.leanest(1)),
        beyond={} if len(order) or not machine.plans.size else machine.beyond(),
        own=_only(machine, place),
        place=1 + int(np.flatnonzero(np.isin(order, place))[:1].sum()),
        not_allowed=why,
    )


def _only(machine: OneMachine, place: np.ndarray) -> xr.Dataset | None:
    """Return one plan with its results, None if there is none."""
    return machine.reports(place).isel(plan=0) if len(place) else None


def _with_size(data: xr.Dataset, size: dict[str, int]) -> xr.Dataset:
    """Return plans with a first column of the number of accelerators, if it is known."""
    about = {"units": "1", "long_name": "Accelerators"}
    columns = {
        name: xr.Variable("plan", np.full(data.sizes["plan"], n), about, {"_FillValue": -1})
        for name, n in size.items()
    }
    return xr.Dataset({**columns, **data.data_vars}, attrs=data.attrs)


def _joined(parts: list[xr.Dataset]) -> xr.Dataset:
    return xr.concat(parts, "plan", combine_attrs="override") if len(parts) > 1 else parts[0]
