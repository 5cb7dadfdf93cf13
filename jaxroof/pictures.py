"""The plot command: a file of results, or a sweep file, drawn."""

import importlib
import pathlib
import sys
from typing import Any

import xarray as xr

from jaxroof.engine.store import read
from jaxroof.errors import refusal, unknown
from jaxroof.files import run
from jaxroof.units import parse


def plot_command(
    *, file: str, output: str | None, kind: str | None, points: tuple[str, ...]
) -> None:
    """Draw a file of results, or of a sweep that is run first, into a picture."""
    plots = importlib.import_module("jaxroof.views.plots")  # matplotlib is an extra
    target = output or f"{pathlib.Path(file).stem}.png"
    plots.drawable(target)
    if kind is not None and kind not in plots.KINDS:
        raise unknown("--kind", kind, "kind of picture", plots.KINDS)
    data = run(file) if file.endswith(".toml") else read(file)
    for text in points:
        data = _at(data, text)
    plots.save(plots.draw(data, kind), target)
    print(f"wrote {target}", file=sys.stderr)


def _at(data: xr.Dataset, text: str) -> xr.Dataset:
    """Return the data at the point of an axis that lies nearest to DIM=VALUE."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise refusal("--at", f"expected DIM=VALUE, such as gpus=8192, given {text!r}")
    if name not in data.sizes:
        raise unknown("--at", name, "dimension of the data", map(str, data.sizes))
    coordinate = data[name]
    if coordinate.dtype.kind not in "if":
        labels = [str(label) for label in coordinate.values]
        if value not in labels:
            raise unknown(f"--at: {name}", value, "point of this axis", labels)
        return data.isel({name: labels.index(value)})
    wanted: Any = parse(value, str(coordinate.attrs.get("units", "1")), f"--at: {name}")
    return data.sel({name: wanted}, method="nearest")
