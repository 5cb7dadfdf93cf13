"""Types of the options of the command line, read before any array library is imported."""

import re
from collections.abc import Callable
from typing import Any

import click

from jaxroof.errors import InputError, refusal, shown
from jaxroof.limits import BOUNDS, check_bound
from jaxroof.units import parse

_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+")  # as results print a number: 16,384


class Read(click.ParamType):  # type: ignore[type-arg]  # which older versions lack
    """A type of options: a function from an option's name and its text to a value.

    A value that a file holds, or that was read before, is read again.
    """

    def __init__(self, read: Callable[[str, str], Any]) -> None:
        self.read, self.name = read, read.__name__

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of an option.

        Raises: InputError that names the option.
        """
        assert param is not None
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        return self.read(max(param.opts, key=len), text)


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
    return each_once(option, [parse_count(option, part) for part in parts])


def parse_names(option: str, text: str) -> list[str]:
    """Parse the names of a list such as ``A,B``, each once."""
    return each_once(option, [name.strip() for name in text.split(",")])


def each_once(option: str, found: list[Any]) -> list[Any]:
    """Return a list without repetition.

    Raises: InputError that names the option.
    """
    for one in found:
        if found.count(one) > 1:
            raise refusal(option, f"{one}: given twice; expected each once")
    return found


def parse_tokens(option: str, text: str) -> float:
    """Parse tokens of a training: ``15e12``, ``15T`` (trillions) or ``300B`` (billions).

    >>> parse_tokens("--tokens", "15T"), parse_tokens("--tokens", "3e11")
    (15000000000000.0, 300000000000.0)
    """
    plain = text.strip()
    many = {"T": 1e12, "B": 1e9}.get(plain[-1:].upper(), 1.0)
    value = parse(plain[:-1] if many > 1.0 else plain, "1", option) * many
    if not 0.0 < value < 1e18:
        raise refusal(option, f"expected tokens above 0, such as 15T, given {shown(plain)}")
    return value


def parse_deadline(option: str, text: str) -> str:
    """Return a deadline with its unit: of a plain number, days.

    >>> parse_deadline("--deadline", "80"), parse_deadline("--deadline", "2000 h")
    ('80 days', '2000 h')
    """
    return f"{text.strip()} days" if re.fullmatch(r"[0-9.]+", text.strip()) else text


def bounded(expected: str, holds: Callable[[float], bool], unit: str = "1") -> Read:
    """Return the type of a number for which something holds, and of what is ``expected``."""

    def read(option: str, text: str) -> float:
        value = parse(text, unit, option)
        if not holds(value):
            raise refusal(option, f"expected {expected}, given {shown(text.strip())}")
        return value

    return Read(read)


def parse_pairs(option: str, texts: Any, expected: str = "PATH=VALUE") -> dict[str, str]:
    """Parse texts such as ``system.nics=2``, each name once.

    Raises: InputError that names the option.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise refusal(option, f"expected {expected}, given {shown(text)}")
        if name in found:
            raise refusal(option, f"{name}: given twice; expected it once")
        found[name] = value
    return found


def joined(context: click.Context, option: click.Parameter, lists: Any) -> Any:
    """Return one list of those of an option that may be repeated; None where it is not given."""
    found = [one for some in lists or () for one in some]
    return each_once(max(option.opts, key=len), found) if found else None


COUNT, COUNTS, NAMES = Read(parse_count), Read(parse_counts), Read(parse_names)
TOKENS, DEADLINE = Read(parse_tokens), Read(parse_deadline)
SHARE = bounded("a share of at least 0, such as 2%", lambda value: value >= 0.0)
MARGIN = bounded("a share from 0 to 99%, as 10%", lambda value: 0.0 <= value < 1.0)
LIST: dict[str, Any] = {"multiple": True, "callback": joined}  # --gpus 8,16, or --gpus 8 --gpus 16
DAYS = bounded("days above 0, such as 30", lambda value: value > 0.0, "day")
SPAN = bounded("a factor above 1 and at most 1e6", lambda value: 1.0 < value <= 1e6)
