"""Inputs and results of an estimator, and the parameters of a model, as tables."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from jaxroof.catalog.architecture import Architecture
from jaxroof.dependence import dtypes
from jaxroof.engine.grid.dependencies import completed, dependencies
from jaxroof.errors import InputError
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.layer_kinds import CHUNKS, WINDOWS, LayerKind
from jaxroof.estimators.whole_run.operation import FOR_FILES
from jaxroof.records import get_at, is_quantity, leaves
from jaxroof.settings import kind_of_choice, least, paths_of, variants
from jaxroof.structure import results, structure
from jaxroof.units import percent, show
from jaxroof.views.text.layout import PlainTable, Shown

RUN = "operation"  # of a step, what its whole run meets
TOTAL, ACTIVE, BESIDE = "parameters", "active_parameters", "parameters_mtp"


def inputs_table(estimator: Estimator) -> Table:
    """Return every input by path: its letter, an example, its meaning."""
    table = PlainTable("inputs")
    table.add_column("path", no_wrap=True)
    table.add_column("letter", no_wrap=True, optional=2)
    table.add_column("example", no_wrap=True, optional=1)
    table.add_column("meaning")
    example = estimator.example() if estimator.example else None
    step = estimator.plan is not None
    for path, field in listed(estimator):
        of, _, name = path.rpartition(".")
        if step and of == RUN and name in FOR_FILES:
            continue
        if step and path == RUN:
            about = "How the whole run is operated: below; jaxroof show whole_run has all of it."
            table.add_row(path, "", "", about)
        if not is_quantity(field):
            if path in estimator.names:
                table.add_row(path, "", "a name", "Record of the catalogue, or its fields below.")
            continue
        table.add_row(path, field.metadata["symbol"], _example(example, path, field), _doc(field))
    for field in dataclasses.fields(estimator.recipe) if estimator.recipe is not None else ():
        held = getattr(estimator.recipe, field.name)
        kind = kind_of_choice(estimator.recipe, field.name)
        if not issubclass(kind, enum.Enum):
            table.add_row(field.name, "", str(held), "Size of the program, found by itself.")
            continue
        about = f"A choice: {', '.join(str(member.value) for member in kind)}."
        if held is None:
            about = f"Left to the {next(iter(vars(estimator.recipe)))}, or {about[2:]}"
        table.add_row(field.name, "", "" if held is None else str(held.value), about)
    return table


def results_table(estimator: Estimator) -> Table:
    """Return every result: its name, unit and meaning."""
    table = PlainTable("results")
    for header in ("name", "unit"):
        table.add_column(header, no_wrap=True)
    table.add_column("meaning")
    if estimator.example is None:
        return table
    inputs = estimator.example()
    report: Any = dtypes(lambda i: estimator.evaluate(i, estimator.recipe), inputs)
    kinds = dataclasses.fields(report) if dataclasses.is_dataclass(report) else ()
    said = {f.name: f.metadata for f in kinds if is_quantity(f)}
    for name, value in results(report).items():
        about = said.get(name, {"unit": "", "doc": ""})  # a step may return a plain mapping
        truth = value.dtype == bool
        table.add_row(name, "true or false" if truth else about["unit"], about["doc"])
    return table


def listed(estimator: Estimator) -> list[tuple[str, "dataclasses.Field[Any]"]]:
    """Return the inputs of an estimator by path; for a machine, only those that some result needs.

    An input is needed if a result of the example depends on it under any single recipe choice, or
    if it is required when only the minimum of inputs is given.
    """
    bare, needed = least(estimator.inputs), set[str]()
    full = completed(estimator, bare, estimator.recipe)
    asked = {path for path, _, _ in leaves(full)} - {path for path, _, _ in leaves(bare)}
    for recipe in variants(estimator.recipe):
        try:
            given = estimator.example() if estimator.example else completed(estimator, full, recipe)
            needed |= _used(estimator, given, recipe)
        except InputError:  # this combination of choices is not allowed
            continue
    if not asked <= needed:
        needed |= asked | _used(estimator, full, estimator.recipe)
    every = paths_of(estimator.inputs)
    return [(path, f) for path, f in every if not path.startswith("system.") or path in needed]


def _used(estimator: Estimator, inputs: Any, recipe: Any) -> set[str]:
    found = dependencies(estimator, recipe, structure(inputs))
    return set().union(*found.results.values())


def _example(example: Any, path: str, field: "dataclasses.Field[Any]") -> str:
    value = None
    try:
        value = get_at(example, path) if example is not None else None
    except ValueError:  # a record that the example does not have
        return ""
    return "" if value is None else show(float(value), field.metadata["unit"])


def _doc(field: "dataclasses.Field[Any]") -> str:
    return str(field.metadata["doc"])


# ---- A model ------------------------------------------------------------------------------------


def size_sentence(report: Any) -> str:
    """Return how many parameters a model has, in all, for one token, and beside the model.

    Some makers leave the embedding out of what a token meets, since no product reads it.
    """
    total, active, beside = (float(getattr(report, name)) for name in (TOTAL, ACTIVE, BESIDE))
    met = f"{active:,.0f} of them ({percent(active / total, 1)})" if active < total else "all"
    said = f"{total:,.0f} parameters; a token meets {met}."
    if active < total and float(report.parameters_head):  # which is not the embedding
        rest = active - float(report.parameters_embedding)
        said = f"{said[:-1]}, embedding and head included; {rest:,.0f} without the embedding."
    if beside:
        said += (
            f" Modules of multi-token prediction have {beside:,.0f} more, which are not counted."
        )
    return said


def size_table(report: Any) -> Table:
    """Return the parameters of a model by part, the largest first, parts that it has alone."""
    parts = [field for field in dataclasses.fields(report) if field.metadata["part_of"] == TOTAL]
    counts = {field.metadata["words"]: float(getattr(report, field.name)) for field in parts}
    whole = float(getattr(report, TOTAL))
    columns = [
        Shown("part", str, 0, "left"),
        Shown("parameters", lambda words: f"{counts[words]:,.0f}"),
        Shown("share", lambda words: percent(counts[words] / whole, 2)),
    ]
    rows = sorted(filter(counts.get, counts), key=lambda words: -counts[words])
    return PlainTable("parameters by part").add_rows(columns, rows)


def kinds_table(kinds: Sequence[LayerKind]) -> Table:
    """Return the parameters of a model by kind of layer: of all layers, and those a token meets."""
    whole = sum(kind.parameters for kind in kinds)
    columns = [
        Shown("kind of layer", lambda kind: kind.words, 0, "left"),
        Shown("layers", lambda kind: f"{kind.layers:,.0f}" if kind.layers else ""),
        Shown("parameters", lambda kind: f"{kind.parameters:,.0f}"),
        Shown("share", lambda kind: percent(kind.parameters / whole, 2), 1),
    ]
    if any(kind.active < kind.parameters for kind in kinds):
        columns.insert(3, Shown("a token meets", lambda kind: f"{kind.active:,.0f}"))
    return PlainTable("parameters by kind of layer").add_rows(columns, kinds)


def mixers_sentences(model: Architecture, kinds: Sequence[LayerKind]) -> list[str]:
    """Return what the layers of a model see, and what they cache in 16 bits."""
    mixers = [kind for kind in kinds if kind.token_bytes or kind.state_bytes]
    every = f"{float(model.layers):,.0f}"
    near = [kind for kind in mixers if kind.words in (WINDOWS, CHUNKS)]
    window, topk = float(model.window), float(model.index_topk)
    said = [
        f"{kind.layers:,.0f} of {every} layers see {_SPANS[kind.words]} of {window:,.0f} tokens."
        for kind in near
    ]
    if topk:
        owners = f"{float(model.index_layers):,.0f} of {every} layers own an indexer"
        said.append(f"{owners}; a query sees the {topk:,.0f} keys that it keeps.")
    caches = [_cached(kind, window) for kind in mixers]
    text = caches and float(model.vocabulary)
    return [*said, f"Cache in 16 bits: {'; '.join(caches)}."] if text else said


_SPANS = {WINDOWS: "a window", CHUNKS: "chunks"}


def _cached(kind: LayerKind, window: float) -> str:
    """Return what the layers of a kind cache, in words."""
    if kind.state_bytes:
        held = show(kind.state_bytes, "B")
        return f"{held} in {kind.layers:,.0f} {kind.words} layers, which does not grow"
    each = f"{kind.token_bytes:,.0f} B a token in {kind.layers:,.0f} layers"
    if kind.words not in _SPANS:
        return f"{each} that see all tokens"
    most = show(window * kind.token_bytes, "B")
    return f"{each} with {_SPANS[kind.words]}, so at most {most}"
