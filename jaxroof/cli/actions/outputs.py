"""Output files: results or a picture, by the suffix of the name."""

import importlib
import pathlib
import sys
from collections.abc import Callable, Collection
from typing import Any

import xarray as xr

from jaxroof.cli.detail import detail
from jaxroof.errors import InputError, shown
from jaxroof.io.formats import WRITERS, check_writable, json_text, write
from jaxroof.views.text.detail import Detail

PICTURES = (".png", ".svg", ".pdf")


def is_picture(output: str | None) -> bool:
    """Return whether a name has the suffix of a picture."""
    return output is not None and pathlib.Path(output).suffix in PICTURES


def check_output(output: str | None, kinds: Collection[str] = (*PICTURES, *WRITERS)) -> None:
    """Check, before any work, that a picture or one of the kinds of files can be written.

    Raises: InputError with the reason it cannot.
    """
    if output is None:
        return
    kind = pathlib.Path(output).suffix
    if kind in PICTURES:
        importlib.import_module("jaxroof.views.plots").drawable(output)  # raises if it cannot
    elif kind not in kinds:
        known = ", ".join(kinds)
        what = (
            f"cannot tell the kind of file from {shown(kind)}; expected a name that ends in {known}"
        )
        raise InputError(f"{output}: {what}")
    else:
        check_writable(output)


def write_or_draw(output: str | None, data: xr.Dataset, draw: Callable[[Any], Any]) -> None:
    """Write the results to a file, or draw them if its name has the suffix of a picture.

    With --json they are printed too.
    """
    if output is None or not is_picture(output):
        write_data(output, data)
        return
    write_data(None, data)
    from jaxroof.views import plots

    plots.save(draw(plots), output)


def write_data(output: str | None, data: xr.Dataset) -> None:
    """Write the results to a file, if one is named; with --json print them."""
    if detail() is Detail.JSON:
        print(json_text(data))
    if output is not None:
        write(data, output)


def report_written(output: str | None) -> None:
    """Report the file that was written, if one was requested."""
    if output is not None:
        print(f"wrote {output}", file=sys.stderr)
