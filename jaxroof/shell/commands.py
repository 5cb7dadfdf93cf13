"""What the commands do: read what was typed, ask the engine, print."""

import dataclasses
import sys
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console

from jaxroof.engine.constraints import constraints
from jaxroof.engine.question import Question, ask
from jaxroof.engine.ranking import first_of_each, ranked
from jaxroof.engine.search import survey
from jaxroof.engine.store import writable, write
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import Inputs, Plan
from jaxroof.estimators.training.legality import RULES
from jaxroof.estimators.training.step import memory_limit, training
from jaxroof.named import model, system
from jaxroof.settings import settle
from jaxroof.shell import outputs
from jaxroof.shell.options import (
    PLAN_FIELDS,
    SHORT,
    own_plan,
    plan_fields,
    settings,
    share,
    whole,
    whole_plan,
    why_not_allowed,
)
from jaxroof.views import tables, words
from jaxroof.views.layers import layer_table
from jaxroof.views.layers import layers as layers_of
from jaxroof.views.layout import wrapped
from jaxroof.views.plans import plan_fields as fields_of


def console() -> Console:
    """Return where results are printed; a pipe is as wide as the tables need."""
    wide = Console()
    return wide if wide.is_terminal else Console(width=max(wide.width, 160))


def say(page: Console, text: str, style: str | None = None) -> None:
    """Print a sentence: wrapped between words at a terminal's width, on one line to a pipe."""
    lines = wrapped(page, text, page.width) if page.is_terminal else [text.rstrip()]
    page.print("\n".join(lines), style=style, soft_wrap=True, markup=False, highlight=False)


SAID = {  # fields that options give
    "model": "--model",
    "system": "--system",
    "gpus": "--gpus",
    "global_batch": "--batch",
    "split": "--split",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """What a search of one cluster size found."""

    question: Question
    data: xr.Dataset  # every legal plan
    order: np.ndarray  # of those that fit, best first
    shown: np.ndarray  # of those printed
    own: int | None  # where the user's own plan stands in the data
    refused: str = ""  # why it is not allowed

    @property
    def gpus(self) -> int:
        """Return the cluster's size."""
        return int(self.question.inputs.gpus)

    @property
    def limit(self) -> float:
        """Return the memory that a step may fill [B]."""
        return float(memory_limit(self.question.inputs))

    @property
    def best(self) -> xr.Dataset | None:
        """Return the best plan, None where nothing fits."""
        return self.data.isel(plan=int(self.order[0])) if len(self.order) else None

    @property
    def about_own(self) -> str:
        """Return the sentences about the user's own plan, nothing where there is none."""
        if self.own is None:
            return f"Yours is not allowed: {self.refused}." if self.refused else ""
        aim = self.question.objective
        return words.mine_sentences(self.data, self.own, self.order, aim, self.limit)


def search_command(*, uncertain: str | None, **options: Any) -> int:
    """Search one or several cluster sizes, print and write; return the exit status.

    Where ``uncertain`` names a table of uncertain inputs, in every draw of them.
    """
    if uncertain is None:
        return _search(**options)
    from jaxroof.shell.uncertain import uncertain_command  # which builds on this module

    return uncertain_command(uncertain, **options)


def _search(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    gpus: str,
    batch: str,
    split: str,
    top: int,
    placements: bool,
    where: str,
    mine: str | None,
    within: str,
    objective: str | None,
    everything: bool,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    if everything and output is None:
        raise InputError("--all: writes every plan to a file; expected -o FILE.csv, .json or .nc")
    if output is not None:
        writable(output)
    sizes = [whole("--gpus", text) for text in gpus.split(",")]
    close = share("--within", within)
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    chosen = {"model": model_name, "global_batch": whole("--batch", batch), "split": split}
    chosen |= settings(sets, SAID)
    rules = constraints(where, PLAN_FIELDS, SHORT)
    answers = []
    for size in sizes:
        question = ask(
            training,
            inputs,
            where=rules,
            objective=objective,
            top=top,
            settings={"gpus": size, **chosen},
        )
        answers.append(_answer(question, placements, mine))
    if output is not None:
        write(_written(answers, everything), output)
    page = console()
    if len(answers) == 1:
        _print_one(page, answers[0], close)
    else:
        _print_sizes(page, answers)
    if output is not None:
        print(f"wrote {output}", file=sys.stderr)
    return 0 if any(answer.best is not None for answer in answers) else 1


def _answer(question: Question, placements: bool, mine: str | None) -> Answer:
    own = {} if mine is None else own_plan(mine, question.inputs, question.recipe)
    data = survey(training, question.inputs, question.recipe, where=question.where)
    order = ranked(training, data, question.objective, question.sign, data.feasible.values)
    shown = order if placements else first_of_each(training, data, order)
    place = _position(data, own, order) if own else None
    refused = "" if place is not None or not own else _refused(own, question, data.sizes["plan"])
    return Answer(question, data, order, shown[: question.top], place, refused)


def _refused(own: dict[str, int], question: Question, legal: int) -> str:
    """Return why one's own plan is none of the legal plans."""
    why = why_not_allowed(own, question.inputs, question.recipe)
    if why:
        return why
    said = ", ".join(f"{field}={value}" for field, value in own.items())
    left = " that --where leaves" if question.where else ""
    return f"{said}: none of the {legal:,} legal plans{left} has these fields"


def _print_one(page: Console, answer: Answer, close: float) -> None:
    question, data, best = answer.question, answer.data, answer.best
    refusals = {rule.name: rule.refusal for rule in RULES[question.recipe.split]}
    rules = [str(c) for c in question.where]
    if best is not None:
        page.print(tables.plans_table(data, answer.shown, answer.limit))
        say(page, words.best_sentence(best, answer.limit))
    elif data.sizes["plan"]:
        sentence = words.nothing_fits(data, answer.limit)
        say(page, sentence[0].upper() + sentence[1:])
    say(page, words.counts_sentence(data, answer.limit, refusals, rules))
    if not data.sizes["plan"] and (unfilled := _unfilled_domains(question.inputs)):
        say(page, unfilled)
    if best is not None:
        say(page, words.close_sentence(data, answer.order, question.objective, close))
    if answer.about_own:
        say(page, answer.about_own)


def _unfilled_domains(inputs: Inputs) -> str:
    """Return why no plan can be legal where whole fast domains do not make up the accelerators."""
    gpus, domain = int(inputs.gpus or 0), int(inputs.system.fast_domain)
    if gpus <= domain or gpus % domain == 0:
        return ""
    share = max(part for part in range(1, domain) if gpus % part == 0)
    return (
        f"Fast domains of {domain} do not make up {gpus:,} accelerators; to use {share} of each, "
        f"add --set system.fast_domain={share}."
    )


def _print_sizes(page: Console, answers: list[Answer]) -> None:
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
    page.print(tables.sizes_table(rows, fields_of(answers[0].data)))
    for answer in answers:
        if answer.best is None:
            say(page, f"{answer.gpus:,} gpus: {words.nothing_fits(answer.data, answer.limit)}")
        if answer.about_own:
            say(page, f"{answer.gpus:,} gpus: {answer.about_own}")
    fits = [answer.gpus for answer in answers if answer.best is not None]
    if fits:
        first = f"{fits[0]:,}, the first that fits"
        say(page, f"Scaling: throughput per accelerator relative to {first}.")


def _written(answers: list[Answer], everything: bool) -> xr.Dataset:
    """Return every plan, or the plans printed, of all sizes, with a column of sizes."""
    parts = []
    for answer in answers:
        some = answer.data if everything else answer.data.isel(plan=answer.shown)
        about = {"units": "1", "long_name": "Accelerators"}
        sizes = np.full(some.sizes["plan"], answer.gpus)
        count = xr.Variable("plan", sizes, about, {"_FillValue": -1})
        parts.append(xr.Dataset({"gpus": count, **some.data_vars}, attrs=some.attrs))
    joined = xr.concat(parts, "plan", combine_attrs="override") if len(parts) > 1 else parts[0]
    return joined[["gpus", *[n for n in joined.data_vars if n != "gpus"]]]


def layers_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    split: str,
    sets: tuple[str, ...],
    plan_text: str,
    output: str | None,
) -> None:
    """Print one layer's operations under a plan."""
    outputs.check(output)
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    fixed = {name: option for name, option in SAID.items() if name != "global_batch"}
    chosen = settings(sets, {**fixed, "gpus": "--plan"})
    batch = _batch(inputs, plan_fields("--plan", plan_text))
    asked = {"model": model_name, "global_batch": batch, "split": split, **chosen}
    inputs, recipe = settle(inputs, training.recipe, asked, training.names)
    plan = whole_plan(plan_text, inputs, recipe)
    data = layers_of(dataclasses.replace(inputs, plan=plan), recipe)
    outputs.deliver(output, data, lambda plots: plots.draw(data))
    page = console()
    page.print(layer_table(data))
    parts = (f"{part}_backward" for part in ("compute", "memory", "tensor"))
    again = float((data.time_backward - sum(data[part] for part in parts)).sum())
    say(
        page,
        f"{float(data.time_forward.sum()) * 1e3:.4g} ms forward, "
        f"{float(data.time_backward.sum()) * 1e3:.4g} ms backward; "
        f"{float(data.weights.sum()) / 1e6:.4g} MB of weights, "
        f"{float(data.kept.sum()) / 1e6:.4g} MB kept a microbatch; {_shared(plan)}.",
    )
    if again > 1e-12 * float(data.time_backward.sum()):
        extra = f"{again * 1e6:.4g} us of forward work done again"
        say(page, f"The backward total holds {extra}, which the parts beside it leave out.")
    outputs.tell(output)


def _batch(inputs: Inputs, plan: dict[str, int]) -> float:
    """Return a batch that a plan divides: a layer's costs do not depend on it."""
    least = float(plan.get("data", 1) * plan.get("microbatch", 1))
    return float(inputs.global_batch) if inputs.global_batch % least == 0 else least


def _shared(plan: Plan) -> str:
    """Return how many ranks of a layer share a fast domain, and in how many panels it works."""
    said = f"{plan.fast_tensor:.0f} of the {plan.tensor:.0f} tensor ranks"
    if plan.context > 1:
        said += f" and {plan.fast_context:.0f} of the {plan.context:.0f} context ranks"
    panels = f"; {plan.panels:.0f} panels" if plan.panels > 1 else ""
    return f"{said} share a fast domain{panels}"


def _position(data: xr.Dataset, own: dict[str, int], order: np.ndarray) -> int | None:
    """Return the position of the plan that has the fields given, in its best placement.

    Of several splits the best that fits, else the leanest; None where no plan has the fields.
    """
    rows = np.flatnonzero(np.all([data[field].values == own[field] for field in own], axis=0))
    if not len(rows):
        return None
    first = order[np.isin(order, rows)]
    split = first[0] if len(first) else rows[np.argmin(data.memory.values[rows])]
    alike = np.isin(np.arange(data.sizes["plan"]), rows)
    for field in set(PLAN_FIELDS) - set(training.placement):
        alike &= data[field].values == data[field].values[split]
    return int(ranked(training, data, training.objective, 1.0, alike)[0])
