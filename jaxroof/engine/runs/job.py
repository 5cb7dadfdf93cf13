"""A checked sweep, and the fingerprint that distinguishes it from other sweeps."""

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
from jaxroof.engine.grid.dataset import provenance
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.tabulate import table_axes
from jaxroof.engine.search.all_plans import AllPlans
from jaxroof.engine.search.all_plans import list_all_plans as every_plan
from jaxroof.engine.search.problem import check_searches
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.io.atomic import Path
from jaxroof.records import field_at
from jaxroof.units import show

LISTED = 1000  # longest axis whose values are stored one by one; longer ones are hashed
SHOWN = 3  # differences that an error lists
CODE = "code"  # fingerprint key: hash of the code of a user's own estimator
SHOWN_AS = ("title", "picture")  # attributes that affect only how a result is shown
EXACT = ("jaxroof", "jax", "jaxlib", "numpy")  # packages whose version may change the last bit


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
