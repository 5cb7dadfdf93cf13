"""Measured runs as rows of inputs: a table of them, and what they ask of ``training``.

A column is an input as ``jaxroof evaluate training ROWS.csv`` reads it; columns that begin with #
say what was measured, and the rest of what stands beside a row.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxroof import catalog
from jaxroof.analyses.rows.columns import Faults, at_places, row_problem
from jaxroof.catalog import lookup
from jaxroof.catalog.lookup import tpu_system
from jaxroof.catalog.system import System
from jaxroof.engine.runs.row_stream import RowGroup, joined
from jaxroof.errors import refusal, shown
from jaxroof.estimator import Estimator
from jaxroof.estimators import TORUS, estimator
from jaxroof.estimators.training.step import training
from jaxroof.io.csv_blocks import RowFile, open_rows

NOTES = {  # columns beside the inputs: what a cell holds
    "id": "a name of the row that no other row has",
    "#source": "who measured",
    "#model": "name of the model",
    "#machine": "the accelerator in the words of the source",
    "#chip": "the accelerator as scores name it",
    "#group": "group of rows of one configuration",
    "#measured_step_time_s": "seconds of a step",
    "#measured_allocated_bytes": "peak that PyTorch counts",
    "#measured_active_bytes": "active peak that PyTorch counts",
    "#measured_reserved_bytes": "peak that PyTorch's allocator took",
    "#measured_device_bytes": "what nvidia-smi shows",
    "#stage": "stage that measured the memory: last, max or its number",
    "#kind": "kind of row, where errors of memory are told apart",
    "#software": "code whose memory it is, if not Megatron's of today: fsdp2 or one of 2021",
    "#modules": "what selective recomputation computes again, if not a choice of the recipe",
    "#layer_split": "layers of every virtual stage, if not even",
    "#loss": "loss under FSDP2: eager, compiled or chunked",
    "#ends": "group of the head under FSDP2: root or head",
    "#compiled": "whether blocks are compiled under FSDP2",
    "#refused": "why the row has no inputs",
    "#filled": "model whose public configuration has filled blank dimensions or kinds of layers",
    "#recipe": "release and recipe that say what the software does with experts",
}
NAMED = ("model", "machine", "chip", "group", "filled", "recipe")  # notes beside an answer
FROM = "#from"  # table of which a row is, where several are joined
MEASURED_STEP = "#measured_step_time_s"
Systems = Callable[[str], System]  # reads a system by its name


class Rows(NamedTuple):
    """Measured runs, and what they ask of ``training``."""

    frame: pd.DataFrame  # every cell as a text, by the line of its row
    groups: Sequence[RowGroup]  # rows with the same choices, as columns of inputs
    reasons: dict[int, str]  # why rows ask nothing, by their places

    def note(self, name: str) -> list[str]:
        """Return a column, blank where there is none."""
        return note(self.frame, name)


def note(frame: pd.DataFrame, name: str) -> list[str]:
    """Return the cells of a column, blank where there is none."""
    return frame[name].tolist() if name in frame.columns else [""] * len(frame)


def table_of(rows: Any) -> pd.DataFrame:
    """Return a table of measured runs: of a file, or as it is, every cell a text."""
    if isinstance(rows, str | os.PathLike):
        with open_rows(rows) as file:
            return read_table(file)
    return _checked(rows.attrs.get("where", "rows"), rows.astype(str).where(rows.notna(), ""))


def read_table(file: RowFile) -> pd.DataFrame:
    """Return the table of an open file of measured runs."""
    parts = []
    while (block := file.take(1 << 20)) is not None:
        for row, why in block.ragged.items():
            raise refusal(f"{file.path}: line {block.lines[row]}", why)
        cells = dict(enumerate(block.cells))
        parts.append(pd.DataFrame(cells, index=pd.Index(block.lines), dtype=object))
    if not parts:
        raise refusal(file.path, "no rows; expected a measured run a line")
    whole = pd.concat(parts)
    whole.columns = pd.Index(file.headings)
    return _checked(file.path, whole)


def _checked(where: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns and rows have one name each; a row without is its line."""
    if "row_id" in frame.columns:
        said = "row_id: rows in the words of their source; expected inputs by path and an id"
        raise refusal(f"{where}: line 1", f"{said}, as python -m tools.rows.convert makes them")
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise refusal(f"{where}: line 1", f"{twice[0]}: twice; expected each column once")
    cells = {name: [*map(str.strip, frame[name])] for name in frame.columns}
    frame = pd.DataFrame(cells, index=frame.index, dtype=object)
    pairs = zip(frame.index, note(frame, "id"), strict=True)
    names = [name or f"line {line}" for line, name in pairs]
    frame["id"] = names
    again = np.flatnonzero(frame["id"].duplicated())
    if len(again):
        first = frame.index[names.index(names[again[0]])]
        said = f"id: {shown(names[again[0]])} is line {first} too; expected {NOTES['id']}"
        raise refusal(f"{where}: line {frame.index[again[0]]}", said)
    frame.attrs["where"] = where
    return frame


def rows_of(
    frame: pd.DataFrame, systems: Systems | None = None, of: Estimator | None = None, **shared: Any
) -> Rows:
    """Return a table as inputs of ``training``; ``systems`` reads the names of its machines.

    ``of`` is another estimator, which reads names itself.
    """
    refused = note(frame, "#refused")
    reasons = {place: why for place, why in enumerate(refused) if why}
    if of is None:
        of = estimator_of(frame)
        systems = systems or (on_system if of is training else tpu_system)
    names = {**of.names, **({"system": systems} if systems else {})}
    asked = dataclasses.replace(of, names=names)
    where = frame.attrs.get("where", "rows")
    folder = pathlib.Path(where).parent if where.endswith(".csv") else pathlib.Path.cwd()
    question = row_problem(asked, list(frame.columns), shared, folder, where, f"{where}: line 1")
    places = np.array([place for place, why in enumerate(refused) if not why], int)
    faults = Faults()
    cells = [frame[name].to_numpy(object)[places].tolist() for name in frame.columns]
    chunk = question.chunk(cells, len(places), faults)
    reasons |= {int(places[row]): why for row, (_, why) in faults.items()}
    groups = [group._replace(rows=places[group.rows]) for group in chunk.groups]
    return Rows(frame, groups, reasons)


def estimator_of(frame: pd.DataFrame) -> Estimator:
    """Return the estimator that a table's columns are inputs of: on slices MaxText's."""
    return estimator(TORUS) if "plan.slice" in frame.columns else training


def together(tables: Mapping[str, Rows]) -> Rows:
    """Return the rows of several tables as those of one, with ``FROM`` of which each is.

    Groups with the same choices and the same numbers given become one, evaluated in one call.
    """
    frames = [rows.frame.assign(**{FROM: name}) for name, rows in tables.items()]
    reasons: dict[int, str] = {}
    groups: list[RowGroup] = []
    start = 0
    for rows in tables.values():
        reasons |= {start + place: why for place, why in rows.reasons.items()}
        groups += [group._replace(rows=start + group.rows) for group in rows.groups]
        start += len(rows.frame)
    return Rows(pd.concat(frames, ignore_index=True).fillna(""), joined(groups), reasons)


def on_system(name: str) -> System:
    """Return a system with its chip, or without one where no run of it was fitted."""
    base = catalog.base_of("systems", name)
    known = base is None or lookup.known_chip(base)
    return lookup.training_system(name) if known else lookup.device(name)


def measured(frame: pd.DataFrame, name: str, reasons: dict[int, str]) -> np.ndarray:
    """Return a measured number of every row, NaN where there is none; say what is no number."""
    cells = note(frame, name)
    values = np.array(pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce"), float)
    for place, cell in enumerate(cells):
        if cell and not 0.0 < values[place] < np.inf:
            said = f"not a number above 0, given {shown(cell)}; expected {NOTES[name]}"
            reasons.setdefault(place, f"{name}: {said}")
            values[place] = np.nan
    return values


def taken(group: RowGroup, here: np.ndarray) -> RowGroup:
    """Return some of the rows of a group, by their positions in it."""

    return RowGroup(group.rows[here], at_places(group.inputs, here), group.recipe)


# ---- Answers to rows: what step times and memory have in common ----------------------------------


class Score(NamedTuple):
    """Errors over the rows of one source and two kinds of its own, in per cent."""

    source: str
    chip: str  # or software and chip
    regime: str  # or quantity
    rows: int
    median: float  # of the absolute errors
    mean: float
    p90: float
    bias: float  # median of the signed errors
    covered: float  # rows whose 80 % interval holds what was measured
    covered_50: float | None = None  # the same of other intervals, where there are such
    covered_90: float | None = None


def scored(found: pd.DataFrame, names: Sequence[str]) -> list[Score]:
    """Return the errors of rows that were compared, by three of their columns."""
    known = found.dropna(subset="error")
    return [score(key, some) for key, some in known.groupby([*names], sort=False)]


def score(key: Any, some: pd.DataFrame) -> Score:
    """Return the errors of some rows below three names."""
    errors = 100.0 * some["error"].to_numpy()
    sizes = np.abs(errors)
    numbers = (np.median(sizes), np.mean(sizes), np.quantile(sizes, 0.9), np.median(errors))
    held: dict[str, Any] = {
        n: 100.0 * float(some[n].mean()) for n in Score._fields[-3:] if n in some
    }
    first, second, third = map(str, key)
    return Score(first, second, third, len(some), *map(float, numbers), **held)


def by_regime(found: pd.DataFrame, order: Iterable[str]) -> list[Score]:
    """Return the errors by regime over all sources, in an order, and over all rows."""
    known = found.dropna(subset="error")
    some = {name: known[known["regime"] == name] for name in order}
    some = {name: rows for name, rows in some.items() if len(rows)} | {"all": known}
    return [score(("all", "", name), rows) for name, rows in some.items() if len(rows)]


class Reason(NamedTuple):
    """Rows that were not answered for the same reason."""

    source: str
    reason: str
    rows: int


def about(rows: Rows) -> pd.DataFrame:
    """Return what names rows: a table to which answers are added."""
    columns = {name: rows.note(f"#{name}") for name in NAMED}
    names = {"source": rows.note(FROM), "id": rows.note("id"), **columns}
    return pd.DataFrame(names, index=pd.RangeIndex(len(rows.frame)))


def reasons(found: pd.DataFrame) -> list[Reason]:
    """Return why rows were not answered, or not compared, the commonest reason first."""
    said = found[found["reason"] != ""]
    counted = collections.Counter(zip(said["source"], said["reason"], strict=True))
    every = [Reason(source, reason, rows) for (source, reason), rows in counted.items()]
    return sorted(every, key=lambda one: -one.rows)


def furthest(found: pd.DataFrame, sizes: Iterable[float], most: int) -> pd.DataFrame:
    """Return the rows of the largest sizes, one of each configuration."""
    order = np.argsort(-np.asarray(sizes, float), kind="stable")
    ordered = found.iloc[order]
    group = ordered["group"].where(ordered["group"] != "", ordered["id"])
    once = ~pd.DataFrame({"source": ordered["source"], "group": group}).duplicated()
    return ordered[once][:most]
