"""Numbers of the command line, read before any array library is imported."""

import re
from typing import Any

import click

from jaxroof.errors import InputError, refusal, shown
from jaxroof.limits import BOUNDS, check_bound
from jaxroof.units import parse

_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+")  # as results print a number: 16,384


def parse_count(option: str, text: str) -> int:
    """Parse a whole number of at least 1, with or without commas between thousands.

    Raises: InputError that names the option.

    >>> parse_count("--batch", "2,048")
    2048
    """
    plain = text.strip()
    try:
        value = parse(plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else text, "1", option)
    except InputError:
        value = 0.5  # of no number, or of one with another unit
    if not value.is_integer() or value < 1 or value > BOUNDS["whole"]:
        raise refusal(option, f"expected whole numbers from 1 to 1e9, given {shown(plain)}")
    return int(value)


def parse_counts(option: str, text: str) -> list[int]:
    """Parse a list of whole numbers, each once; ``2,048`` is one number, ``64,256`` are two.

    Raises: InputError that names the option.

    >>> parse_counts("--gpus", "64,256"), parse_counts("--gpus", "2,048")
    ([64, 256], [2048])
    """
    parts = [part.strip() for part in text.split(",")]
    if any(part.startswith("0") and part.isdigit() and len(part) > 1 for part in parts):
        if not _THOUSANDS.fullmatch(text.strip()) or len(parts) > 2:
            said = f"commas between numbers or thousands, given {shown(text.strip())}"
            raise refusal(option, f"{said}; expected numbers without commas in them, as 1024,2048")
        return [parse_count(option, text)]
    check_bound(f"{option}: how many", "sizes", len(parts))
    found = [parse_count(option, part) for part in parts]
    for value in found:
        if found.count(value) > 1:
            raise refusal(option, f"{value}: given twice; expected each once")
    return found


def read_sequence(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Return the tokens of one sequence, None if they are not given."""
    return None if text is None else parse_count("--sequence", text)


def with_sequence(options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose ``--sequence`` is one of the settings.

    Raises: InputError if a setting gives it too.

    >>> with_sequence({"sequence": 4096, "sets": ("attention=gated",)})
    {'sets': ('attention=gated', 'model.sequence=4096')}
    """
    rest = {name: value for name, value in options.items() if name != "sequence"}
    if options["sequence"] is None:
        return rest
    for text in rest["sets"]:
        if text.partition("=")[0].strip() in ("sequence", "model.sequence"):
            raise refusal("--set", "sequence: given twice; expected it in --sequence alone")
    return {**rest, "sets": (*rest["sets"], f"model.sequence={options['sequence']}")}


def read_margin(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Return the share of the memory that stays free, None if it is not given.

    Raises: InputError for a share that leaves nothing.
    """
    if text is None:
        return None
    value = parse(text, "1", "--margin")
    if not 0.0 <= value < 1.0:
        raise refusal("--margin", f"expected a share from 0 to 99%, as 10%, given {shown(text)}")
    return value


def with_margin(options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose ``--margin`` is the setting of what a step may fill.

    Raises: InputError if a setting gives it too.

    >>> with_margin({"margin": 0.1, "sets": ()})
    {'sets': ('system.hbm_usable=0.9',)}
    """
    rest = {name: value for name, value in options.items() if name != "margin"}
    if options["margin"] is None:
        return rest
    path = "system.hbm_usable"
    if any(text.partition("=")[0].strip() == path for text in rest["sets"]):
        raise refusal("--set", f"{path}: given by --margin too; expected one of them")
    return {**rest, "sets": (*rest["sets"], f"{path}={1.0 - options['margin']:.12g}")}
