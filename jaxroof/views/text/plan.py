"""The displayed name of a plan: its split and its placement, as its estimator names them."""

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import about, roles, unused, words_of

MANY = 8  # more fields than these are too many to print those that say nothing
LONG = 8  # characters from which on a head is broken


def plan_fields(data: xr.Dataset) -> list[str]:
    """Return the plan fields of some results, the split before its placement.

    Fields that no recipe choice uses are left out; of many fields, those that are at their default
    in every plan too.
    """
    found = used_fields(data)
    if len([name for name in found if name in roles(data).get("split", ())]) <= MANY:
        return found
    return [name for name in found if not is_usual(data, name)]


def used_fields(data: xr.Dataset) -> list[str]:
    """Return the plan fields that some recipe choice uses, the split before its placement."""
    known, none = roles(data), unused(data)
    fields = [*known.get("split", ()), *known.get("placement", ())]
    return [name for name in fields if name in data.data_vars and name not in none]


def is_usual(data: xr.Dataset, name: str) -> bool:
    """Return whether a field has its default in every plan that there is."""
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


def plan_words(plan: xr.Dataset) -> str:
    """Return a split in the field's short forms, such as ``dp 16 tp 4 pp 32 microbatch 1``."""
    return " ".join(f"{words_of(plan, f)} {int(plan.data_vars[f])}" for f in split_fields(plan))


def placement_words(plan: xr.Dataset, fields: Iterable[str] | None = None) -> str:
    """Return the placement of a split, its factors in order; empty if a plan has no placement.

    ``fields`` are those to show, by default those of the plan's split.
    """
    return "x".join(str(int(plan.data_vars[f])) for f in placement_fields(plan, fields))


def placed_words(
    plan: xr.Dataset, fields: Iterable[str] | None = None, before: str = "", behind: str = ""
) -> str:
    """Return a plan in words: its split, followed by its placement, if any, in brackets.

    ``before`` and ``behind`` are words around the placement.
    """
    placement = placement_words(plan, fields)
    said = " ".join(filter(None, (before, placement, behind)))
    return f"{plan_words(plan)} ({said})" if placement else plan_words(plan)


def placement_head(data: xr.Dataset, fields: Iterable[str]) -> str:
    """Return the head of a column of ``placement_words``."""
    return " x ".join(words_of(data, field) for field in placement_fields(data, fields))


def placement_title(data: xr.Dataset) -> str:
    """Return the common prefix of the names of all placement fields, such as ``fast``."""
    heads = {name.partition("_")[0] for name in roles(data).get("placement", ())}
    return heads.pop() if len(heads) == 1 else "placed"


def split_heads(data: xr.Dataset, fields: Sequence[str]) -> list[str]:
    """Return the heads of the columns that ``split_cells`` fills."""
    heads = [_broken(words_of(data, field)) for field in split_fields(data, fields)]
    placed = placement_fields(data, fields)
    if not placed:
        return heads
    places = f"{placement_title(data)}\n{placement_head(data, fields)}"
    if len(placed) > 3:  # four on one line would make the table wide
        places = places.replace("\n", " ", 1).replace(" x ", " x\n", 1)
    return [*heads, places]


def _broken(head: str) -> str:
    """Return the head of a narrow column on several lines.

    >>> _broken("microbatch"), _broken("ring size"), _broken("tp")
    ('micro-\\nbatch', 'ring\\nsize', 'tp')
    """
    if head.startswith("micro") and len(head) > LONG:
        return head.replace("micro", "micro-\n", 1)
    return head.replace(" ", "\n")


def split_cells(row: xr.Dataset, fields: Sequence[str]) -> list[str]:
    """Return a plan's split and placement, one cell each; a dash for fields its split lacks."""
    own = used_fields(row)
    cells = [str(int(row.data_vars[f])) if f in own else "-" for f in split_fields(row, fields)]
    placed = placement_fields(row, fields)
    return [*cells, placement_words(row, fields)] if placed else cells
