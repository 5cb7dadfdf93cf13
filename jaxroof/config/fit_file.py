"""Sweep files that ask for the memory of every stage of today's training: `answer = "stages"`."""

import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import xarray as xr

from jaxroof.config.toml_reader import axes, beside, known, table, text
from jaxroof.engine.grid.spacing import length_of, thinned_values
from jaxroof.engine.runs.dry_run import thinned_lengths
from jaxroof.errors import refusal, shown

ESTIMATOR, ANSWER = "training", "stages"
KEYS = ("title", "picture", "answer", "estimator", "model", "system", "plan", "set", "axes")
OF_THE_BATCH = ("gpus", "global_batch", "sequence")  # stand in the plan of a file


def asks_for_stages(written: Mapping[str, Any]) -> bool:
    """Return whether a sweep file asks for the stages of today's training."""
    return written.get("estimator") == ESTIMATOR and written.get("answer") == ANSWER


def sampled_stages(
    written: Mapping[str, Any], folder: pathlib.Path
) -> tuple[dict[str, int], Callable[[int, str | None], tuple[int, xr.Dataset]]]:
    """Return the lengths of a file's axes, and a function that evaluates some of their points."""
    varied = axes(table(written, "axes"), folder=folder)
    lengths = {key: _length(key, values) for key, values in varied.items()}

    def sampled(count: int, executor: str | None) -> tuple[int, xr.Dataset]:
        some = thinned_lengths(list(lengths.values()), count)
        pairs = zip(varied.items(), some, strict=True)
        thin = {key: thinned_values(values, length) for (key, values), length in pairs}
        return math.prod(some), stages_of_file(written, folder, thin)

    return lengths, sampled


def _length(key: str, values: Any) -> int:
    """Return how many values an axis has.

    Raises: InputError for fields that move together, and for none.
    """
    if isinstance(values, Mapping):
        raise refusal(
            f"axes.{key or shown(key)}", "fields that move together; expected one field an axis"
        )
    if length_of(values) < 1:
        raise refusal(f"axes.{key or shown(key)}", "an empty axis; expected at least one value")
    return length_of(values)


def stages_of_file(
    written: Mapping[str, Any], folder: pathlib.Path, varied: dict[str, Any] | None = None
) -> xr.Dataset:
    """Return the memory of every stage over the axes of a sweep file, or over others.

    Raises: InputError for an unknown key (with the nearest), or what ``fit`` refuses.
    """
    from jaxroof.analyses.fit_stages import fit_stages  # of no other file

    known("", written, KEYS)
    plan, settings = dict(table(written, "plan")), dict(table(written, "set"))
    varied = axes(table(written, "axes"), folder=folder) if varied is None else varied
    for key, values in varied.items():
        _length(key, values)
    sizes = {name: plan.pop(name) for name in OF_THE_BATCH if name in plan}
    for name in sizes:
        if name in settings:
            raise refusal(f"set.{name}", "given in plan too; expected it once")
    for name in ("model", "system", "global_batch"):
        given = name in written or name in sizes or name in settings
        if given and name in varied:
            raise refusal(f"axes.{name}", "given beside the axes too; expected it once")
        if not given and name not in varied:
            place = "in plan or the axes" if name == "global_batch" else "or an axis of names"
            raise refusal(name, f"missing; expected it {place}")
    records = {name: beside(folder, text(written, name, "")) for name in ("model", "system")}
    data = fit_stages(
        model=records["model"],
        system=records["system"],
        plan=plan,
        global_batch=sizes.pop("global_batch", settings.pop("global_batch", None)),
        axes=varied,
        settings={**settings, **sizes},
    )
    about = {name: text(written, name, "") for name in ("model", "system") if name in written}
    return data.assign_attrs(about | {"title": text(written, "title", "Memory by stage")})
