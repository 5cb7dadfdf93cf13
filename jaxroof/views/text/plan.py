"""Plans in words and in columns of a table, as their estimator names their fields."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import (
    about,
    head_of,
    label_of,
    parts_of,
    roles,
    said_of,
    unused,
    words_of,
)
from jaxroof.engine.grid.dataset import attributes
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.plans import SELDOM
from jaxroof.estimators.training.recipe import LayerDivision
from jaxroof.estimators.training.stages import chunk_split
from jaxroof.units import equal_runs
from jaxroof.views.text.layout import Shown
from jaxroof.views.text.margin import mark_words

MANY = 8  # more fields than these are too many to print those that say nothing
ALWAYS = ("data", "tensor", "pipeline")  # degrees that are shown whatever they are
VALUES = {  # what the values of a plan field mean
    "reshard": "0: weights gathered, gradients reduced once a step",
    "recompute": "0 none, 1 selective, 2 full",
    "rank_order": "1: stages of a replica side by side, replicas outermost",
    "offload_optimizer": "1: optimizer states in host memory",
}


# ---- Which fields ------------------------------------------------------------------------------


def used_fields(data: xr.Dataset) -> list[str]:
    """Return the plan fields that some recipe choice uses, the split before its placement."""
    known, none = roles(data), unused(data)
    fields = [*known.get("split", ()), *known.get("placement", ())]
    return [name for name in fields if name in data.data_vars and name not in none]


def plan_fields(data: xr.Dataset) -> list[str]:
    """Return the plan fields to show: of many, those that are not at their default throughout."""
    found = used_fields(data)
    if len([name for name in found if name in roles(data).get("split", ())]) <= MANY:
        return found
    return [name for name in found if not is_usual(data, name)]


def shown_fields(data: xr.Dataset) -> list[str]:
    """Return the fields of plans of today's training to show: degrees, and what is not as usual.

    Tensor ranks always share the tokens in a list of plans.
    """
    fields = [name for name in used_fields(data) if name != "sequence_parallel"]
    return [name for name in fields if name in ALWAYS or not is_usual(data, name)]


def is_usual(data: xr.Dataset, name: str) -> bool:
    """Return whether a field has its default in every plan that there is."""
    other = about(data, name).get("part_of")
    if isinstance(other, str) and other in data:  # it says how the other one is done
        return is_usual(data, other)
    usual, values = about(data, name).get("default"), data[name].values
    return usual is not None and bool(np.all((values == float(usual)) | (values < 0)))


def split_fields(data: xr.Dataset, fields: Iterable[str] | None = None) -> list[str]:
    """Return the fields of a split among some plan fields (by default all)."""
    placed = roles(data).get("placement", ())
    return [f for f in (plan_fields(data) if fields is None else fields) if f not in placed]


def placement_fields(data: xr.Dataset, fields: Iterable[str] | None = None) -> list[str]:
    """Return the fields of a placement among some plan fields (by default all)."""
    placed = roles(data).get("placement", ())
    return [f for f in (plan_fields(data) if fields is None else fields) if f in placed]


# ---- In words ----------------------------------------------------------------------------------


def fields_words(
    data: xr.Dataset,
    plan: Mapping[str, int],
    fields: Iterable[str] | None = None,
    named: Callable[[xr.Dataset, str], str] = head_of,
) -> str:
    """Return some fields of a plan, by default all that are given, with their short names.

    What says how another one is done is told where that one is used.
    """
    shown = plan if fields is None else fields
    told = [name for name in shown if plan.get(about(data, name).get("part_of", "")) != 1]
    return " ".join(f"{named(data, name)} {said_of(data, name, plan[name])}" for name in told)


def plan_numbers(plan: xr.Dataset) -> dict[str, int]:
    """Return the fields that a plan uses."""
    return {field: int(plan.data_vars[field]) for field in used_fields(plan)}


def plan_words(plan: xr.Dataset) -> str:
    """Return a split in short forms, such as ``dp 16 tp 4 pp 32 mb 1``."""
    return fields_words(plan, plan_numbers(plan), split_fields(plan), words_of)


def usual_words(plan: xr.Dataset) -> str:
    """Return the fields of a plan of today's training that are not at their usual value."""
    return fields_words(plan, plan_numbers(plan), shown_fields(plan))


def whole_plan(plan: xr.Dataset) -> str:
    """Return every field of a plan, as ``--plan`` and ``--mine`` read them.

    What a search seldom tries is told where it is not as usual.
    """
    numbers = plan_numbers(plan)
    told = [name for name in numbers if name not in SELDOM or not is_usual(plan, name)]
    return fields_words(plan, numbers, told)


def plan_sentence(plan: xr.Dataset) -> str:
    """Return the line with every field of a plan, to launch it or to paste it after --plan."""
    return f"Plan: {whole_plan(plan)}"


def placement_words(plan: xr.Dataset, fields: Iterable[str] | None = None) -> str:
    """Return the placement of a split, its factors in order; empty if a plan has no placement."""
    return "x".join(str(int(plan.data_vars[f])) for f in placement_fields(plan, fields))


def placed_words(plan: xr.Dataset) -> str:
    """Return a plan in words: its split, followed by its placement, if any, in brackets."""
    placement = placement_words(plan)
    return f"{plan_words(plan)} ({placement})" if placement else plan_words(plan)


def placement_head(data: xr.Dataset, fields: Iterable[str]) -> str:
    """Return the head of a column of ``placement_words``."""
    return " x ".join(words_of(data, field) for field in placement_fields(data, fields))


def placement_title(data: xr.Dataset) -> str:
    """Return the common prefix of the names of all placement fields, such as ``fast``."""
    heads = {name.partition("_")[0] for name in roles(data).get("placement", ())}
    return heads.pop() if len(heads) == 1 else "placed"


def filled_sentence(data: xr.Dataset) -> str:
    """Return which fields of the user's plan were left open, and what they were filled with."""
    if "own_filled" not in data:
        return ""
    said = fields_words(data, json.loads(str(data.own_filled.values)))
    return f" Filled in: {said}." if said else ""


def plan_line(data: xr.Dataset) -> str:
    """Return what was filled in of the one plan of an answer, or what open fields have."""
    own = _training_plan().assign(own_filled=str(data.attrs.get("filled", "{}")))
    return filled_sentence(own).strip() or str(data.attrs.get("left_open", ""))


def _training_plan() -> xr.Dataset:
    fields = {f.name: ((), 1, attributes(f.metadata)) for f in dataclasses.fields(TrainingPlan)}
    return xr.Dataset(fields, attrs={"roles": "-"})


def heading(plan: Mapping[str, float]) -> str:
    """Return a plan of today's training in short forms, without fields at their usual value.

    >>> heading({"data": 2.0, "context": 2.0, "exchange": 0.0, "microbatch": 1.0})
    'dp 2 cp 2 cx all-to-all mb 1'
    """
    data = _training_plan()
    given = {str(name): int(plan[str(name)]) for name in data.data_vars if name in plan}
    always = {"microbatch", *parts_of(data, "context")}
    told = [n for n in given if n in always or given[n] != int(about(data, n).get("default", 0))]
    return fields_words(data, given, told)


def stages_sentence(plan: xr.Dataset) -> str:
    """Return the layers of the stages of a plan; empty where all have as many, or none is told."""
    asked = json.loads(plan.attrs.get("inputs", "{}"))
    layers, more = (int(asked.get(f"model.{name}", 0)) for name in ("layers", "mtp_layers"))
    if not layers or "interleave" not in plan:
        return ""
    chunks = int(plan.pipeline) * int(plan.interleave)
    if layers % chunks == 0:
        return ""
    said = json.loads(plan.attrs.get("recipe", "{}")).get("layer_division")
    division = tuple(said) if isinstance(said, list) else LayerDivision(said or "uneven")
    first, *others, last = chunk_split(layers, more, chunks, division)
    middle = "".join(f", {count} x {each}" for each, count in equal_runs(others))
    on_top = f" and {more} of multi-token prediction" if more else ""
    what = "stages" if int(plan.interleave) == 1 else f"{chunks} chunks of stages"
    return f"The layers of its {what}: {first}{middle}, {last}{on_top}."


# ---- In a table --------------------------------------------------------------------------------


def plan_columns(data: xr.Dataset, rows: Iterable[xr.Dataset], soon: int = 4) -> list[Shown]:
    """Return a column for each field of a split, and one for its placement.

    The placement leaves a narrow page ``soon``, where no split is placed in several ways.
    """
    fields, rows = plan_fields(data), list(rows)
    placed = placement_fields(data, fields)
    columns = field_columns(data, split_fields(data, fields))
    if not placed:
        return columns
    head = f"{placement_title(data)}\n{placement_head(data, placed)}"
    if len(placed) > 3:  # four on one line would make the table wide
        head = head.replace("\n", " ", 1).replace(" x ", " x\n", 1)
    splits = {tuple(column.cell(row) for column in columns) for row in rows}
    ways = {(*(c.cell(row) for c in columns), placement_words(row, placed)) for row in rows}
    soon = 0 if len(ways) > len(splits) else soon
    return [*columns, Shown(head, lambda row: placement_words(row, placed), soon)]


def field_columns(data: xr.Dataset, fields: Sequence[str]) -> list[Shown]:
    """Return a column for each of some fields; a dash where the split of a row lacks it."""

    def column(name: str) -> Shown:
        head = words_of(data, name).replace(" ", "\n")
        return Shown(head, lambda row: said_of(row, name) if name in used_fields(row) else "-")

    return [column(name) for name in fields]


def glossary(data: xr.Dataset, fields: Iterable[str] | None = None, *more: str) -> str:
    """Return what the short names of a table mean, by default of its plan fields; then ``more``."""
    shown = list(plan_fields(data) if fields is None else fields)
    said = [
        " ".join(dict.fromkeys((head_of(data, field), label_of(data, field))))
        + (f" ({VALUES[field]})" if field in VALUES else "")
        for field in split_fields(data, shown)
    ]
    if placed := placement_fields(data, shown):
        words = placement_head(data, placed)
        said.append(f"{placement_title(data)} {words}: ranks of each that share an NVLink domain")
    every = [*said, *more, *mark_words(data)]
    return f"In the table: {', '.join(every)}." if every else ""
