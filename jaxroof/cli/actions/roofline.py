"""The roofline command: what limits an operator, printed, written and drawn."""

import importlib.util
import os

import xarray as xr

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.analyses.roofline import roofline
from jaxroof.cli.actions import outputs
from jaxroof.cli.actions.arguments import parse_settings
from jaxroof.cli.actions.console import say_all
from jaxroof.errors import InputError, refusal
from jaxroof.views.text.roofline import answer
from jaxroof.views.text.said import Page

ROWS = 12  # sizes of a sweep that a terminal shows


def roofline_command(
    *,
    op: str,
    shape: str,
    dtypes: tuple[str, ...],
    system_names: str | None,
    number_format: str | None,
    sets: tuple[str, ...],
    sweep: str | None,
    output: str | None,
) -> None:
    """Evaluate an operator at a shape or over a sweep; print, write or draw what limits it."""
    outputs.check_output(output)
    data = roofline(
        op,
        shape,
        dtypes=dtypes,
        system=system_names,
        number_format=number_format,
        sweep=sweep,
        settings=parse_settings(sets, {"system": "--system"}),
    )
    if outputs.is_picture(output) and not roofs.is_roofline(data):
        raise refusal(
            "-o", f"{op} has no roof to draw; expected a name that ends in .csv, .json or .nc"
        )
    outputs.write_or_draw(output, data, lambda plots: plots.roofline(data))
    drawn = output if output or sweep is None else _drawn(op, data)
    say_all(answer(data, Page(most=ROWS, kept=drawn is not None)))
    outputs.report_written(drawn)


def _drawn(op: str, data: xr.Dataset) -> str | None:
    """Draw a sweep in the current folder if possible; return the file's name."""
    able = importlib.util.find_spec("matplotlib") is not None and os.access(os.curdir, os.W_OK)
    if not able or not roofs.is_roofline(data):
        return None
    name = f"{op}_roofline.png"
    try:
        outputs.write_or_draw(name, data, lambda plots: plots.roofline(data))
    except InputError:  # no such picture exists; the table has all the results
        return None
    return name
