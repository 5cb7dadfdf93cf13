"""Sweep files that ask for the memory of every stage of today's training: `answer = "stages"`."""

import pathlib
from collections.abc import Mapping
from typing import Any

import xarray as xr

from jaxroof.analyses.fit_stages import fit_stages
from jaxroof.config.toml_reader import axes, beside, known, table, text
from jaxroof.errors import refusal

ESTIMATOR, ANSWER = "training", "stages"
KEYS = ("title", "picture", "answer", "estimator", "model", "system", "plan", "set", "axes")
OF_THE_BATCH = ("gpus", "global_batch", "sequence")  # stand in the plan of a file


def asks_for_stages(written: Mapping[str, Any]) -> bool:
    """Return whether a sweep file asks for the stages of today's training."""
    return written.get("estimator") == ESTIMATOR and written.get("answer") == ANSWER


def stages_of_file(written: Mapping[str, Any], folder: pathlib.Path) -> xr.Dataset:
    """Return the memory of every stage over the axes of a sweep file.

    Raises: InputError for an unknown key (with the nearest), or what ``fit`` refuses.
    """
    known("", written, KEYS)
    plan, settings = table(written, "plan"), table(written, "set")
    varied = axes(table(written, "axes"), folder=folder)
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
