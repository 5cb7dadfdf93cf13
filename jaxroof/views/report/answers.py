"""Which answer a stored Dataset holds: what its command says, with all its details."""

from collections.abc import Callable, Iterable, Iterator

import xarray as xr

from jaxroof.analyses.explain import QUESTION, explanation_of
from jaxroof.io.traces import labelled_parts
from jaxroof.views.text.answers import (
    compare,
    design,
    explain,
    fastest_plans,
    fit,
    layers,
    least_memory,
    legal_plans,
    pareto,
    roofline,
    schedule,
    sweep,
    trace,
    uncertain,
)
from jaxroof.views.text.answers.plans_by_size import by_size
from jaxroof.views.text.explain import with_capacity
from jaxroof.views.text.said import Said

WIDE = 10_000  # columns: a page shows them all
MOST = 20  # points of an axis: a page has room for more than a terminal


def answer(data: xr.Dataset) -> Iterator[Said]:
    """Yield the sentences and tables that the command of a Dataset prints; none if unknown."""
    for found, said in KINDS:
        if found(data, str(data.attrs.get("question", ""))):
            yield from said(data)
            return


def title_of(data: xr.Dataset, said: Iterable[Said]) -> str:
    """Return the title of an answer: its own if it has one, else that of the Dataset."""
    titles = [str(one.piece) for one in said if one.is_title and one.piece]
    if len(titles) == 1:
        return titles[0]
    named = [str(data.attrs[name]) for name in ("model", "system") if name in data.attrs]
    return str(data.attrs.get("title") or " on ".join(named))


Found = Callable[[xr.Dataset, str], bool]
Kind = tuple[Found, Callable[[xr.Dataset], Iterator[Said]]]


def _asked(*names: str) -> Found:
    return lambda _, question: question in names


def _along(*dims: str) -> Found:
    return lambda data, _: {*dims} <= {*map(str, data.sizes)}


def drawn_of(data: xr.Dataset) -> xr.Dataset:
    """Return what a picture of a Dataset shows: of an explanation, the step as parameters vary."""
    if data.attrs.get("question") != QUESTION:
        return data
    found = explanation_of(data)
    title = f"{data.attrs.get('title', '')}: the step as each parameter varies, every plan weighed"
    return with_capacity(found.response, found.steps).assign_attrs(title=title)


def _of_sizes(name: str) -> Found:
    return lambda data, question: question == name and data["gpus"].ndim > 0


def _systems(data: xr.Dataset, _: str) -> bool:
    return "memory_limit" in data and "system" in data.sizes


def _every_plan(data: xr.Dataset, question: str) -> bool:
    return question == "every plan" or data.attrs.get("answer") == "plans"


def _nothing(_: xr.Dataset) -> Iterator[Said]:
    return iter(())


def _sweep(data: xr.Dataset) -> Iterator[Said]:
    return sweep.answer(data, WIDE, MOST)


def _traces(data: xr.Dataset) -> Iterator[Said]:
    parts = labelled_parts(data).items()
    return trace.answer(one.assign_attrs(title=name) if name else one for name, one in parts)


KINDS: list[Kind] = [  # the first that holds
    (_of_sizes("fastest plans"), lambda data: fastest_plans.answer_of_sizes(by_size(data))),
    (_asked("fastest plans"), fastest_plans.answer),
    (_of_sizes("least memory"), lambda data: least_memory.answer_of_sizes(by_size(data))),
    (_asked("least memory"), least_memory.answer),
    (_asked("legal plans"), legal_plans.answer_of_file),
    (_asked("fit"), fit.answer),
    (_asked("fit_stages"), _sweep),
    (_asked(QUESTION), lambda data: explain.answer(explanation_of(data), "", True)),
    (_asked("roofline"), lambda data: roofline.answer(data, MOST)),
    (_asked("design"), design.answer),
    (_along("event"), _traces),
    (_along("operation"), lambda data: layers.answer(data, WIDE)),
    (_along("stage"), _sweep),
    (_every_plan, _sweep),
    (_along("quantile", "draw"), uncertain.answer),
    (_along("step_number"), lambda data: pareto.answer(data, pareto.sizes_of(data))),
    (_along("schedule", "device"), schedule.answer),
    (_along("parameter", "factor"), _nothing),
    (lambda data, _: "elasticity" in data, _sweep),
    (_systems, compare.answer),
    (_asked("search", "table"), _sweep),
]
