"""A checked sweep, its fingerprint among other sweeps, and its size in memory and on disk."""

import contextlib
import dataclasses
import hashlib
import inspect
import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis, AxisValues
from jaxroof.engine.grid.chunks import programs
from jaxroof.engine.grid.dataset import provenance
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.size import COPIES, NUMBER, REMEDY, search_size, table_size, winner_numbers
from jaxroof.engine.grid.tabulate import axes_of_results, table_axes
from jaxroof.engine.search.all_plans import AllPlans
from jaxroof.engine.search.all_plans import list_all_plans as every_plan
from jaxroof.engine.search.candidates import plan_product
from jaxroof.engine.search.problem import check_searches, constraints_of, searchable_report
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.io.atomic import Path
from jaxroof.io.layout import Layout
from jaxroof.limits import check_disk, check_memory, counted
from jaxroof.records import field_at, replace_all
from jaxroof.units import show

LISTED = 1000  # longest axis whose values are stored one by one; longer ones are hashed
SHOWN = 3  # differences that an error lists
CODE = "code"  # fingerprint key: hash of the code of a user's own estimator
SHOWN_AS = ("title", "picture")  # attributes that affect only how a result is shown
EXACT = ("jaxroof", "jax", "jaxlib", "numpy")  # packages whose version may change the last bit

COMPRESSED = 0.1  # of a store's numbers that it takes on disk: 1/40 to 1/4 were measured
LINE = 2000  # bytes of a finished chunk in the record of a store
WHOLE = "expected fewer points"
# plans x points that are searched in some seconds: every plan weighed, or most passed over by a
# bound, whose evaluation takes longer
WEIGHED, BOUNDED = 1 << 30, 1 << 27
# bytes of memory and of disk for each byte of the results, while a kind of file is written;
# measured on searches of 90,000 to 1,000,000 points
FILES = {
    "": (COPIES, 0.0),
    ".nc": (COPIES + 0.5, 1.0),
    ".csv": (5.0, 1.5),
    ".json": (5.0, 2.5),
}


@dataclasses.dataclass(frozen=True, eq=False)
class SweepJob:
    """A checked sweep."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    axes: tuple[Axis, ...]
    options: Mapping[str, Any]
    searched: bool
    about: Mapping[str, str]  # attributes of the result: its title, its picture
    every: AllPlans | None = None  # set if every plan is evaluated, legal or not

    @property
    def points(self) -> int:
        """Return how many points the grid has."""
        return math.prod(len(axis) for axis in self.axes)


def sweep_job(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    searched: bool = True,
    plans: bool = False,
    about: Mapping[str, str] | None = None,
    **options: Any,
) -> SweepJob:
    """Return a checked sweep: a search, a table, or every plan of each point (``plans``).

    The arguments are those of ``search``, ``tabulate`` or ``list_all_plans``.
    """
    asked = ask(estimator, inputs, recipe, axes=axes)
    inputs, recipe = asked.inputs, asked.recipe
    listed = every_plan(estimator, asked, **options) if plans else None
    if listed is not None:
        inputs, read, _ = table_axes(estimator, listed.inputs, recipe, [listed.axis])
        every, searched, options = tuple(read), False, {}
    elif searched:
        every, questions = check_searches(estimator, asked, **options)
        inputs = questions[0].inputs
    else:
        inputs, read, _ = table_axes(estimator, asked)
        every = tuple(read)
    return SweepJob(estimator, inputs, recipe, every, options, searched, about or {}, listed)


def fingerprint(asked: SweepJob) -> dict[str, Any]:
    """Return everything that determines the results, by the path that a user knows it under."""
    about = provenance(asked.estimator, asked.inputs, asked.recipe, asked.axes)
    versions = json.loads(about["versions"])
    found = {
        "estimator": about["estimator"],
        CODE: _code(asked.estimator),
        **{f"versions.{name}": versions[name] for name in EXACT},
        **(json.loads(about["recipe"]) or {}),
        **json.loads(about["inputs"]),
        **{f"search.{name}": option for name, option in asked.options.items()},
        "axes": [axis.name for axis in asked.axes],
    }
    for axis in asked.axes:
        found |= {f"axes.{path}": list(labels) for path, labels in axis.labels.items()}
        found |= {f"axes.{path}": _kept(column) for path, column in axis.columns.items()}
        brought = {k: some for k, some in axis.choices.items() if k not in axis.labels}
        found |= {f"axes.{key}": [str(m) for m in some] for key, some in brought.items()}
    found |= {name: text for name, text in asked.about.items() if name not in SHOWN_AS}
    return json.loads(json.dumps(found, default=str))


def _kept(column: np.ndarray) -> Any:
    values = np.asarray(column, np.float64)
    if len(values) <= LISTED:
        return values.tolist()
    return f"{len(values):,} values of SHA-256 {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def _code(estimator: Estimator) -> str:
    """Return the SHA-256 of the source file of a user's own estimator, empty for one of jaxroof."""
    step = inspect.unwrap(estimator.step)
    if step.__module__.partition(".")[0] == "jaxroof":
        return ""  # the version of jaxroof identifies it
    try:
        source = inspect.getsourcefile(step)
        content = pathlib.Path(source).read_bytes() if source else b""
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(content).hexdigest()


def check_same(
    path: Path, asked: SweepJob, there: Mapping[str, Any], here: Mapping[str, Any]
) -> None:
    """Check that a store holds results of the same sweep; title and picture may differ."""
    there = {k: v for k, v in (there or {}).items() if k not in SHOWN_AS}
    if there == here:
        return
    keys = [key for key in {**there, **here} if there.get(key) != here.get(key)]
    said = [_difference(asked, key, there.get(key), here.get(key)) for key in keys]
    more = [f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else []
    raise different_sweep(
        "; ".join([*said[:SHOWN], *more]) if there else "a result written whole", path
    )


def different_sweep(what: str, path: Path) -> InputError:
    """Return the error for a store that holds another sweep."""
    return refusal(os.fspath(path), f"holds another sweep: {what}; use --overwrite to start anew")


def _difference(asked: SweepJob, key: str, there: Any, here: Any) -> str:
    """Return one difference in words."""
    if key == CODE:
        return f"the code of the estimator {asked.estimator.name} has changed"
    if isinstance(there, list) and isinstance(here, list) and key != "axes":
        if len(there) != len(here):
            return f"{key}: {len(there):,} values there, {len(here):,} here"
        at = next(i for i, pair in enumerate(zip(there, here, strict=True)) if pair[0] != pair[1])
        there, here = there[at], here[at]
    words = [_words(asked, key, value) for value in (there, here)]
    if words[0] == words[1]:
        words = [repr(there), repr(here)]
    return f"{key}: {words[0]} there, {words[1]} here"


def _words(asked: SweepJob, key: str, value: Any) -> str:
    if isinstance(value, float):
        with contextlib.suppress(InputError, KeyError):
            field = field_at(asked.inputs, key.removeprefix("axes."))
            return show(value, field.metadata["unit"])
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "nothing" if value is None else str(value)


# ---- Its size -----------------------------------------------------------------------------------


def results_size(asked: SweepJob, lengths: Mapping[str, int] | None = None) -> tuple[int, int]:
    """Return how many results a sweep has, and their bytes; ``lengths`` are those of its axes.

    By default the axes are whole.
    """
    sizes = {axis.name: len(axis) for axis in asked.axes} | dict(lengths or {})
    points, fields = math.prod(sizes.values()), len(asked.estimator.plan_fields)
    if asked.searched:
        report = searchable_report(asked.estimator, asked.inputs, asked.recipe)
        numbers, top = winner_numbers(report), asked.options.get("top", 1)
        return fields + numbers, search_size(points, top, fields, numbers)
    number, size = 0, 0
    for recipe, grid in programs(asked.axes, asked.recipe):
        moved = axes_of_results(asked.estimator, asked.inputs, recipe, grid)
        some = table_size([sizes[axis.name] for axis in grid], moved)
        number, size = max(number, len(moved)), size + some
    if asked.every is not None:  # the values on its axis are columns of the result too
        columns = len(asked.axes[0].columns)
        return number + columns, size + NUMBER * points * columns
    return number, size


def check_whole(asked: SweepJob, output: str | os.PathLike[str] | None) -> None:
    """Check that a sweep that is computed whole fits in memory, and its file on the disk."""
    memory, disk, what = whole_size(asked, output)
    check_memory(what, memory, WHOLE if asked.every is not None else REMEDY)
    if output is not None:
        check_disk(what, disk, pathlib.Path(output).parent, WHOLE)


def whole_size(asked: SweepJob, output: str | os.PathLike[str] | None) -> tuple[float, float, str]:
    """Return the bytes of memory and of disk of a sweep that is computed whole, and its words."""
    number, size = results_size(asked)
    kind = "" if output is None else pathlib.Path(output).suffix
    memory, disk = FILES.get(kind, FILES[""])
    if kind == ".csv":  # every column is written at every point
        size = NUMBER * asked.points * (number + len(asked.axes))
    top = asked.options.get("top", 1) if asked.searched else 1
    best = "" if top == 1 else f" with the best {top:,} plans"
    what = f"{counted(asked.points, 'point')}{best} of {counted(number, 'result')}"
    return memory * size, disk * size, what


def check_chunks(asked: SweepJob, layout: Layout, path: Any, missing: int) -> None:
    """Check that a piece of a store fits in memory, and the missing ones on the disk."""
    memory, disk, number = chunk_sizes(asked, layout)
    points = math.prod(layout.inner.values())
    where = os.fspath(path)
    what = f"{where}: pieces of {counted(points, 'point')} of {counted(number, 'result')}"
    check_memory(what, memory, "expected smaller ones, by --chunk")
    what = f"{where}: {counted(asked.points, 'point')} of {counted(number, 'result')}, compressed,"
    check_disk(what, disk * missing / layout.count, pathlib.Path(path).parent, WHOLE)
    remedy = "expected larger ones, by --chunk, or fewer points"
    check_memory(f"{where}: {counted(layout.count, 'chunk')}", LINE * layout.count, remedy)


def chunk_sizes(asked: SweepJob, layout: Layout) -> tuple[float, float, int]:
    """Return the bytes of memory of a piece, of all chunks on disk, and how many results."""
    number, size = results_size(asked, layout.inner)
    return COPIES * size, COMPRESSED * results_size(asked)[1], number


def searched_points(asked: SweepJob) -> int:
    """Return how many points of a search are some seconds of work, by the plans of its ends."""
    estimator, where = asked.estimator, asked.options.get("where", ())
    columns = {path: column for axis in asked.axes for path, column in axis.columns.items()}
    ends = (
        replace_all(asked.inputs, {path: column[place] for path, column in columns.items()})
        for place in (0, -1)
    )
    rules = constraints_of(estimator, where)
    most = max(plan_product(estimator, some, asked.recipe, rules).size for some in ends)
    return (WEIGHED if estimator.lower_bound is None else BOUNDED) // max(1, most)
