"""Errors about inputs: a message of one line that ends with the remedy."""

import contextlib
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence

_LISTED = 12  # names that an error lists before it says "..."
_SHOWN = 60  # characters of a wrong value that an error repeats


_LONG = re.compile(r"[^\s/\\]{100,}")  # a word that no message needs, and no path has


def _cut(word: re.Match[str]) -> str:
    return word[0][: _SHOWN - 3] + "..."


class InputError(ValueError):
    """An input cannot be used; the one-line message says why and how to fix it.

    >>> str(InputError("gpt3.toml: no such file,\\n  given 'gpt3.toml'"))
    "gpt3.toml: no such file, given 'gpt3.toml'"
    """

    def __init__(self, message: str) -> None:
        lines = " ".join(line.strip() for line in message.splitlines())
        super().__init__(printable(_LONG.sub(_cut, lines.strip())))


class NotGiven(InputError):
    """The answer needs numbers that the inputs lack; ``paths`` lists them."""

    def __init__(self, message: str, paths: Iterable[str]) -> None:
        super().__init__(message)
        self.paths = tuple(paths)


class NoAnswer(InputError):
    """What is asked is in order, but the model has no answer to it: other systems may have one."""


def refusal(where: str, text: str) -> InputError:
    """Return the error ``where: text``, or ``text`` alone where ``where`` is empty.

    >>> str(refusal("gpt3.toml: title", "not text, given 3; expected a string."))
    'gpt3.toml: title: not text, given 3; expected a string.'
    """
    return InputError(f"{where}: {text}" if where else text)


@contextlib.contextmanager
def errors_in(where: str | os.PathLike[str]) -> Iterator[None]:
    """Put where something stands, if that is named, in front of every InputError of the block."""
    try:
        yield
    except InputError as error:
        kind = NoAnswer if isinstance(error, NoAnswer) else InputError
        raise kind(str(refusal(os.fspath(where), str(error)))) from error


def shown(value: object) -> str:
    """Return a wrong value as an error shows it; a long one is shortened.

    >>> shown("2 GB"), shown(True), shown(10**5000)
    ("'2 GB'", 'true', 'an integer of thousands of digits')
    """
    try:
        text = str(value).lower() if isinstance(value, bool) else repr(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        text = "an integer of thousands of digits"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def brief(text: str) -> str:
    r"""Return a text of the user as a sentence repeats it: on one line, printable, and cut.

    >>> brief("gpt3"), brief("a\x1b[2Jb"), len(brief("x" * 1000))
    ('gpt3', 'a\\x1b[2Jb', 60)
    """
    text = printable(text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def printable(text: str) -> str:
    r"""Return a text with control characters as escapes, so that it cannot command a terminal.

    >>> printable("a\tb\x1b[2J")
    'a\\tb\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(name: str, options: Iterable[str]) -> str | None:
    """Return the option most similar to ``name``, or None; case, ``-`` and ``_`` are ignored.

    >>> nearest("GPT3_1T", ["gpt3", "gpt3-1t"])
    'gpt3-1t'
    >>> nearest("hbm_bandwith", ["hbm_capacity", "hbm_bandwidth"])
    'hbm_bandwidth'
    >>> nearest("zebra", ["gpt3", "gpt3-1t"]) is None
    True
    """
    plain: dict[str, str] = {}
    for option in options:
        plain.setdefault(_plain(option), option)
    found = difflib.get_close_matches(_plain(name), plain, n=1)
    return plain[found[0]] if found else None


def spelled(name: str, options: Iterable[str]) -> str:
    """Return the option that a name is, written with ``-`` or ``_``; another name as it is.

    >>> spelled("zb_h1", ["1f1b", "zb-h1"]), spelled("zebra", ["1f1b", "zb-h1"])
    ('zb-h1', 'zebra')
    """
    alike = {option.replace("_", "-"): option for option in options}
    return alike.get(name.replace("_", "-"), name)


def unknown(where: str, name: object, what: str, options: Iterable[str]) -> InputError:
    """Return the error for a name that is not in ``options``, with the nearest option.

    >>> str(unknown("gpt3.toml", "system.hbm_bandwith", "field of System", ["hbm_bandwidth"]))
    "gpt3.toml: system.hbm_bandwith: no such field of System. Did you mean 'hbm_bandwidth'?"
    >>> str(unknown("", "zebra", "model", ["gpt3", "vit-era5"]))
    'zebra: no such model; expected one of gpt3, vit-era5.'
    """
    options = list(options)
    plain = isinstance(name, str) and name.strip() != "" and len(name) <= _SHOWN
    called = name if plain else shown(name)
    name = name if isinstance(name, str) else ""
    # Compare only the last part of a dotted name, unless the options are dotted themselves.
    near = nearest(name, options) or nearest(name.rpartition(".")[2], options)
    if near is not None:
        return refusal(where, f"{called}: no such {what}. Did you mean {near!r}?")
    return refusal(where, f"{called}: no such {what}; {expected_one(options)}")


def expected_one(options: list[str]) -> str:
    """Return what was expected instead of a name: one of the first options."""
    if not options:
        return "there is none to choose from."
    end = ", ..." if len(options) > _LISTED else "."
    return f"expected one of {', '.join(options[:_LISTED])}{end}"


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def listing(words: Sequence[str]) -> str:
    """Join words with commas and a final "and".

    >>> listing(["a"]), listing(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
