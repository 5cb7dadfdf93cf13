"""The search command: search, print and write the plans of one or several cluster sizes."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import PLAN_FIELDS, own_plan, parse_share, why_not_allowed
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.search_options import SearchOptions, searched
from jaxroof.engine.search.all_plans import survey
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.engine.search.ranking import first_of_each, rank_plans
from jaxroof.errors import InputError
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.step import memory_limit, published
from jaxroof.io.formats import check_writable
from jaxroof.views.text import search as words
from jaxroof.views.text import tables
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.plan import glossary, plan_sentence
from jaxroof.views.text.plan import plan_fields as fields_of


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """The results of the search at one cluster size."""

    question: SearchProblem
    data: xr.Dataset  # every legal plan
    order: np.ndarray  # plans that fit, best first
    shown: np.ndarray  # plans printed
    own: int | None  # position of the user's plan in the data
    refused: str = ""  # why the user's plan is not allowed

    @property
    def gpus(self) -> int:
        """Return the number of accelerators of the cluster."""
        return int(self.question.inputs.gpus)

    @property
    def limit(self) -> float:
        """Return the memory that a step may fill [B]."""
        return float(memory_limit(self.question.inputs))

    @property
    def best(self) -> xr.Dataset | None:
        """Return the best plan, None if nothing fits."""
        return self.data.isel(plan=int(self.order[0])) if len(self.order) else None

    @property
    def about_own(self) -> str:
        """Return the sentences about the user's plan; empty if there is none."""
        if self.own is None:
            return f"Yours is not allowed: {self.refused}." if self.refused else ""
        aim = self.question.objective
        return words.mine_sentences(self.data, self.own, self.order, aim, self.limit)


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
    answers = []
    for size in sizes:
        question = check_search(
            published,
            inputs,
            where=rules,
            objective=asked.objective,
            top=asked.top,
            settings={"gpus": size, **settings},
        )
        answers.append(_answer(question, asked.placements, asked.mine))
    outputs.write_data(output, _written(answers, asked.everything))
    title = f"{asked.question}, batch {asked.sequences:,}"
    if len(answers) == 1:
        _print_one(title, answers[0], close)
    else:
        _print_sizes(title, answers)
    outputs.report_written(output)
    return 0 if any(answer.best is not None for answer in answers) else 1


def _answer(question: SearchProblem, placements: bool, mine: str | None) -> Answer:
    own = {} if mine is None else own_plan(mine, question.inputs, question.recipe)
    data = survey(published, question.inputs, question.recipe, where=question.where)
    order = rank_plans(published, data, question.objective, question.sign, data.feasible.values)
    shown = order if placements else first_of_each(published, data, order)
    place = _position(data, own, order) if own else None
    refused = "" if place is not None or not own else _refused(own, question, data.sizes["plan"])
    return Answer(question, data, order, shown[: question.top], place, refused)


def _refused(own: dict[str, int], question: SearchProblem, legal: int) -> str:
    """Return why the user's plan is not among the legal plans."""
    why = why_not_allowed(own, question.inputs, question.recipe)
    if why:
        return why
    said = ", ".join(f"{field}={value}" for field, value in own.items())
    left = " that --where leaves" if question.where else ""
    return f"{said}: none of the {legal:,} legal plans{left} has these fields"


def _print_one(title: str, answer: Answer, close: float) -> None:
    question, data, best = answer.question, answer.data, answer.best
    refusals = {rule.name: rule.words for rule in RULES[question.recipe.split]}
    rules = [str(c) for c in question.where]
    counts = words.counts_sentence(data, answer.limit, refusals, rules)
    say(Detail.USUAL, title, style="bold")
    if best is None:
        sentence = words.nothing_fits(data, answer.limit) if data.sizes["plan"] else ""
        say(Detail.QUIET, sentence[:1].upper() + sentence[1:], counts)
        inputs = question.inputs
        if not data.sizes["plan"]:
            gpus, domain = int(inputs.gpus or 0), int(inputs.system.fast_domain)
            say(Detail.USUAL, words.domain_sentence(gpus, domain))
    else:
        sentence = words.best_sentence(best, len(answer.order), answer.limit)
        say(Detail.USUAL, sentence, plan_sentence(best))
        say(Detail.QUIET, tables.plans_table(data, answer.shown, answer.limit))
        say(Detail.USUAL, glossary(data), words.parts_sentence(best))
        aim = question.objective
        say(Detail.USUAL, words.close_sentence(data, answer.order, aim, close))
        say(Detail.VERBOSE, counts)
    say(Detail.USUAL, answer.about_own)


def _print_sizes(title: str, answers: list[Answer]) -> None:
    rows = [
        {
            "gpus": answer.gpus,
            "legal": answer.data.sizes["plan"],
            "feasible": len(answer.order),
            "best": answer.best,
            "limit": answer.limit,
        }
        for answer in answers
    ]
    say(Detail.USUAL, title, style="bold")
    say(Detail.QUIET, tables.sizes_table(rows, fields_of(answers[0].data)))
    say(Detail.USUAL, glossary(answers[0].data))
    for answer in answers:
        on = f"On {answer.gpus:,}:"
        if answer.best is None:
            say(Detail.USUAL, f"{on} {words.nothing_fits(answer.data, answer.limit)}")
        if answer.about_own:
            say(Detail.USUAL, f"{on} {answer.about_own}")
    fits = [answer.gpus for answer in answers if answer.best is not None]
    if fits:
        first = f"{fits[0]:,}, the first that fits"
        say(Detail.USUAL, f"Scaling: throughput per accelerator relative to {first}.")


def _written(answers: list[Answer], everything: bool) -> xr.Dataset:
    """Return all plans, or only the plans printed, of all sizes, with a column of sizes."""
    parts = []
    for answer in answers:
        some = answer.data if everything else answer.data.isel(plan=answer.shown)
        about = {"units": "1", "long_name": "Accelerators"}
        sizes = np.full(some.sizes["plan"], answer.gpus)
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
