"""Golden rows of servers as inputs: every column an array, rows of one recipe together."""

import csv
import dataclasses
import gzip
from collections.abc import Iterator
from typing import Any

import numpy as np
from places import GOLDEN

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.catalog.system import System
from jaxroof.estimators.serving.inputs import FORMATS, Precision, ServingInputs, Workload
from jaxroof.estimators.training.recipe import Embeddings, Mlp, Recipe
from jaxroof.records import checked, units

Rows = list[dict[str, str]]
WORK = ("prompt", "output", "hit", "drafts", "acceptance", "draft_share", "variation")


def rows(name: str) -> Rows:
    """Return the rows of a golden file."""
    with gzip.open(GOLDEN / "serving" / f"{name}.csv.gz", "rt", newline="") as file:
        return [*csv.DictReader(file)]


RECORDS = {
    kind: {row[kind]: row for row in rows(name)}
    for kind, name in (("model", "models"), ("system", "systems"), ("software", "software"))
}
KINDS = {"model": Architecture, "system": System, "software": ServingSoftware}


def by_recipe(every: Rows) -> Iterator[tuple[Recipe, Rows]]:
    """Yield rows whose models have one recipe."""
    groups: dict[tuple[str, str], Rows] = {}
    for row in every:
        model = RECORDS["model"][row["model"]]
        groups.setdefault((model["gated"], model["tied"]), []).append(row)
    for (gated, tied), some in groups.items():
        mlp = Mlp.GATED if float(gated) else Mlp.PLAIN
        embeddings = Embeddings.TIED if float(tied) else Embeddings.SEPARATE
        yield Recipe(mlp=mlp, embeddings=embeddings), some


def column(some: Rows, name: str) -> np.ndarray:
    """Return the numbers of a column, NaN where a cell is empty."""
    return np.array([float(row[name] or "nan") for row in some])


def _record(kind: str, some: Rows) -> Any:
    fields = units(KINDS[kind])
    held = [{**RECORDS[kind][row[kind]], **(row if kind == "software" else {})} for row in some]
    found = {name: column(held, name) for name in held[0] if name in fields}
    if kind == "model":  # a width of 0 where no layer is dense: any width does
        found["feedforward"] = np.maximum(found["feedforward"], 1.0)
    return KINDS[kind](**found)


def inputs(some: Rows, plan: type[Any], **more: Any) -> ServingInputs:
    """Return rows as inputs whose leaves are columns."""
    formats = {
        f"{part}_format": np.array([float(FORMATS.index(row[f"{part}_format"])) for row in some])
        for part in ("attention", "mlp")
    }
    work = {name: column(some, name) for name in WORK if some[0].get(name)}
    fields = {n: column(some, n) for n in units(plan) if n != "busy"}
    if "busy" in units(plan):
        fields["busy"] = 10.0 * column(some, "share")
    given = ServingInputs(
        model=_record("model", some),
        system=_record("system", some),
        software=_record("software", some),
        precision=Precision(cache_width=column(some, "cache_width"), **formats),
        workload=Workload(**work),
        **more,
    )
    return dataclasses.replace(checked(given), plan=plan(**fields))  # b = 0 is of a step alone
