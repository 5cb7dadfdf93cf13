"""The search command: search, print and write the plans of one or several cluster sizes."""

from typing import Any

import numpy as np
import xarray as xr

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import PLAN_FIELDS, own_plan, parse_share, why_not_allowed
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.search_options import SearchOptions, searched
from jaxroof.engine.search.all_plans import survey
from jaxroof.engine.search.driver import first_of_each, rank_plans
from jaxroof.engine.search.none_legal import check_legal
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.errors import InputError
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.step import memory_limit, published
from jaxroof.io.formats import check_writable
from jaxroof.views.text.answers.legal_plans import LegalPlans, answer, answer_of_sizes


def search_command(*, uncertain: str | None, dry_run: bool = False, **options: Any) -> int:
    """Search one or several cluster sizes for the study's plans; return the exit status.

    If ``uncertain`` names a table of uncertain inputs, search in every draw of them.
    """
    asked = SearchOptions(**options)
    searched(asked.estimator)
    if uncertain is None:
        return _search(asked)
    from jaxroof.cli.actions.search_uncertain import uncertain_command

    return uncertain_command(uncertain, asked, dry_run)


def _search(asked: SearchOptions) -> int:
    output = asked.output
    if asked.everything and output is None:
        raise InputError("--all: writes every plan to a file; expected -o FILE.csv, .json or .nc")
    if output is not None:
        check_writable(output)
    sizes, close = asked.sizes, parse_share("--within", asked.within)
    inputs, settings, rules = asked.inputs, asked.settings, asked.rules
    found, everything = [], asked.everything
    for size in sizes:
        question = check_search(
            published,
            inputs,
            where=rules,
            objective=asked.objective,
            top=asked.top,
            settings={"gpus": size, **settings},
        )
        found.append(_legal_plans(question, asked.placements, asked.mine))
    if not any(each.data.sizes["plan"] for each in found):
        check_legal(published, inputs, where=rules, settings={"gpus": sizes[-1], **settings})
    outputs.write_data(output, _written(found, everything))
    title = f"{asked.question}, batch {asked.sequences:,}"
    one = len(found) == 1
    say_all(answer(found[0], title, close) if one else answer_of_sizes(found, title))
    outputs.report_written(output)
    return 0 if any(each.best is not None for each in found) else 1


def _legal_plans(question: SearchProblem, placements: bool, mine: str | None) -> LegalPlans:
    """Return the legal plans of one size, ranked, and the user's own among them."""
    inputs, recipe = question.inputs, question.recipe
    own = {} if mine is None else own_plan(mine, inputs, recipe)
    data = survey(published, inputs, recipe, where=question.where)
    order = rank_plans(published, data, question.objective, question.sign, data.feasible.values)
    shown = order if placements else first_of_each(published, data, order)
    place = _position(data, own, order) if own else None
    refused = "" if place is not None or not own else _refused(own, question, data.sizes["plan"])
    return LegalPlans(
        data=data,
        gpus=int(inputs.gpus),
        limit=float(memory_limit(inputs)),
        order=order,
        shown=shown[: question.top],
        objective=question.objective,
        where=[str(rule) for rule in question.where],
        refusals={rule.name: rule.words for rule in RULES[recipe.split]},
        own=place,
        refused=refused,
    )


def _refused(own: dict[str, int], question: SearchProblem, legal: int) -> str:
    """Return why the user's plan is not among the legal plans."""
    why = why_not_allowed(own, question.inputs, question.recipe)
    if why:
        return why
    said = ", ".join(f"{field}={value}" for field, value in own.items())
    left = " that --where leaves" if question.where else ""
    return f"{said}: none of the {legal:,} legal plans{left} has these fields"


def _written(found: list[LegalPlans], everything: bool) -> xr.Dataset:
    """Return all plans, or only the plans printed, of all sizes, with a column of sizes."""
    parts = []
    for one in found:
        some = one.data if everything else one.data.isel(plan=one.shown)
        about = {"units": "1", "long_name": "Accelerators"}
        sizes = np.full(some.sizes["plan"], one.gpus)
        count = xr.Variable("plan", sizes, about, {"_FillValue": -1})
        parts.append(xr.Dataset({"gpus": count, **some.data_vars}, attrs=some.attrs))
    joined = xr.concat(parts, "plan", combine_attrs="override") if len(parts) > 1 else parts[0]
    return joined[["gpus", *[n for n in joined.data_vars if n != "gpus"]]]


def _position(data: xr.Dataset, own: dict[str, int], order: np.ndarray) -> int | None:
    """Return the position of the plan with the given fields, in its best placement.

    Among several splits, the best that fits, else the one that needs least memory; or None.
    """
    rows = np.flatnonzero(np.all([data[field].values == own[field] for field in own], axis=0))
    if not len(rows):
        return None
    first = order[np.isin(order, rows)]
    split = first[0] if len(first) else rows[np.argmin(data.memory.values[rows])]
    alike = np.isin(np.arange(data.sizes["plan"]), rows)
    for field in set(PLAN_FIELDS) - set(published.placement):
        alike &= data[field].values == data[field].values[split]
    return int(rank_plans(published, data, published.objective, 1.0, alike)[0])
