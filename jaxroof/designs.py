"""Design files: a budget, prices and bounds in TOML -> the machine that they should buy."""

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from jaxroof.engine.design import design
from jaxroof.errors import refusal, unknown
from jaxroof.estimators.training.inputs import Inputs
from jaxroof.estimators.training.step import training
from jaxroof.files import named
from jaxroof.named import model, system
from jaxroof.written import known, load, table, text, typed

KEYS = (
    "title", "model", "system", "format", "plan", "set", "minimise", "budget", "fixed", "starts",
    "where", "price", "bounds",
)  # fmt: skip
PLAN_KEYS = {"gpus": int, "global_batch": int, "split": str}
AIMS = {"training_days": False, "cost_days": True}  # whether times the cost
NUMBERS = {"budget": (int, float), "fixed": (int, float), "starts": int}


def run_design(path: str | os.PathLike[str]) -> xr.Dataset:
    """Return the machine that a design file's budget should buy for a training step.

    Raises: InputError, led by the file's name, for whatever is wrong with it.
    """
    with named(path):
        return _designed(load(path), pathlib.Path(path))


def _designed(written: Mapping[str, Any], path: pathlib.Path) -> xr.Dataset:
    what = "key of a design file"
    known("", written, KEYS, what)
    for key in ("model", "system", "price"):
        if key not in written:
            raise refusal(key, "missing; a design file has a model, a system and prices")
    plan, changes = table(written, "plan"), table(written, "set")
    typed("plan", plan, PLAN_KEYS)
    for key in changes:
        if key in plan or key.partition(".")[0] == "plan":
            raise refusal(
                f"set.{key}", "of the plan; expected it in plan, or the search chooses it"
            )
    if "gpus" not in plan:
        raise refusal("plan.gpus", "missing; expected the number of accelerators to split over")
    aim = text(written, "minimise", "training_days")
    if aim not in AIMS:
        raise unknown("minimise", aim, "aim", AIMS)
    numbers = {key: written[key] for key in NUMBERS if key in written}
    typed("", numbers, NUMBERS)
    formats = [text(written, "format", "")] if "format" in written else []
    data = design(
        training,
        Inputs(
            model=model(_entry(written, "model", path.parent)),
            system=system(_entry(written, "system", path.parent), *formats),
        ),
        prices=dict(_paths(table(written, "price"))),
        bounds=dict(_paths(table(written, "bounds"))),
        minimise="training_days",
        times_cost=AIMS[aim],
        where=text(written, "where", ""),
        **numbers,
        **plan,
        **changes,
    )
    return data.assign_attrs(title=text(written, "title", path.stem))


def _paths(written: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every entry under its dotted path, which may be written without quotes."""
    for key, value in written.items():
        if isinstance(value, dict) and all(isinstance(v, dict | list) for v in value.values()):
            yield from _paths(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _entry(written: Mapping[str, Any], key: str, folder: pathlib.Path) -> str:
    """Return a catalogue name, or the path of a TOML file as seen from the design file."""
    name = text(written, key, "")
    return str(folder / name) if name.endswith(".toml") else name
