"""Reading TOML files: load them, check keys and types, and read axes and uncertain inputs."""

import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from jaxroof.engine.grid.spacing import Between, Spacing, Values
from jaxroof.errors import InputError, errors_in, refusal, shown, unknown

SPACING_KEYS = {
    "from": (int, float, str), "to": (int, float, str), "count": int, "spacing": str,
    "between": list,
}  # fmt: skip
SPACINGS = ("linear", "log")
UNCERTAIN = {"title": str, "samples": Any, "seed": Any, "distributions": dict}
WORDS = {
    int: "a whole number", str: "a text", bool: "true or false", list: "a list", dict: "a table"
}  # fmt: skip
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]")  # of a terminal


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    try:
        written = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError("no such file") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    except RecursionError:
        raise InputError("not valid TOML: nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML: {error}") from None
    except ValueError:  # Python's limit on the digits of an integer
        most = sys.get_int_max_str_digits()
        raise InputError(f"a whole number of more than {most:,} digits; expected fewer") from None
    for text in _texts(written):
        if _COMMANDS.search(text):
            raise refusal(shown(text), "a control character; expected text that can be printed")
    return written


def _texts(written: Any) -> Iterator[str]:
    """Yield every key and every text of nested tables and lists."""
    if isinstance(written, str):
        yield written
    elif isinstance(written, dict):
        for key, value in written.items():
            yield key
            yield from _texts(value)
    elif isinstance(written, list):
        for value in written:
            yield from _texts(value)


def axes(written: Mapping[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Return the axes; a table without keys of a spacing varies several paths together."""
    read: dict[str, Any] = {}
    for key, values in written.items():
        together = isinstance(values, dict) and values and not set(values) & set(SPACING_KEYS)
        if together:
            read[key] = {path: _values(path, v, folder) for path, v in values.items()}
        else:
            read[key] = _values(key, values, folder)
    return read


def beside(folder: pathlib.Path, value: Any) -> Any:
    """Resolve the path of a file relative to ``folder``; return other values unchanged."""
    named = isinstance(value, str) and value.endswith((".toml", ".json"))
    return str(folder / value) if named else value


def _values(path: str, written: Any, folder: pathlib.Path) -> Values:
    if isinstance(written, list):
        return [beside(folder, value) for value in written]
    if not isinstance(written, dict):
        raise refusal(f"axes.{path}", "expected a list or a table with from, to and count")
    typed(f"axes.{path}", written, SPACING_KEYS)
    needed = ("between", "count") if "between" in written else ("from", "to", "count")
    for key in needed:
        if key not in written:
            listed = f"{', '.join(needed[:-1])} and {needed[-1]}"
            raise refusal(f"axes.{path}", f"{key} is missing; expected {listed}")
    if "between" in written:
        for key in written:
            if key not in needed:
                raise refusal(f"axes.{path}", f"{key} beside between; expected between and count")
        return Between(tuple(written["between"]), written["count"])
    spacing = written.get("spacing", "linear")
    if spacing not in SPACINGS:
        raise unknown(f"axes.{path}.spacing", spacing, "spacing", SPACINGS)
    return Spacing(written["from"], written["to"], written["count"], log=spacing == "log")


def flat(written: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested tables under its dotted path."""
    for key, value in written.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def once(changes: Mapping[str, Any], place: str, given: Mapping[str, Any], *keys: str) -> None:
    """Check that [set] does not give again what another place of a file gives."""
    for key in keys:
        if key in changes and key in given:
            raise refusal(f"set.{key}", f"given {place} too; expected it once")


def typed(
    table: str,
    written: Mapping[str, Any],
    kinds: Mapping[str, Any],
    what: str = "key of a sweep file",
) -> None:
    """Check that every key is known and its value has the right type."""
    for key, value in written.items():
        where = f"{table}.{key}" if table else key
        if key not in kinds:
            raise unknown("", where, what, kinds)
        kind = kinds[key]
        flag = isinstance(value, bool) and kind is not bool
        if kind is not Any and (flag or not isinstance(value, kind)):
            expected = WORDS.get(kind, "a number or a text with a unit")
            raise refusal(where, f"expected {expected}, given {shown(value)}")


def read_uncertain(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a table of uncertain inputs, as arguments of ``uncertain``."""
    with errors_in(path):
        written = load(path)
        typed("", written, UNCERTAIN, "key of a table of uncertain inputs")
        if not written.get("distributions"):
            example = '"system.matrix_efficiency" = ["70 %", "90 %"]'
            raise refusal("distributions", f"nothing is there; expected lines such as {example}")
        return {key: value for key, value in written.items() if key != "title"}
