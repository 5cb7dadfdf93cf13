"""Who wrote a file: the command line and its time, as the attribute ``history`` of the CF names.

``history`` is for people. What is asked again is what ``arguments`` holds: options by name.
"""

import contextlib
import datetime
import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

HISTORY, ARGUMENTS = "history", "arguments"
LONGEST = 2000  # characters of a command line that are kept
_COMMAND: ContextVar[tuple[str, Mapping[str, Any]]] = ContextVar("command", default=("", {}))


@contextlib.contextmanager
def of_command(line: str, arguments: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Let the files that are written in the block say which command wrote them, and what it asks.

    ``arguments`` are the name of the command and its options, without those that say what is
    written.
    """
    token = _COMMAND.set((line, arguments or {}))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def history() -> dict[str, str]:
    """Return the attributes of a file: time and command line, and arguments; none of no command.

    >>> with of_command("jaxroof run map.toml"):
    ...     history()["history"].partition("Z: ")[2]
    'jaxroof run map.toml'
    >>> history()
    {}
    """
    command, arguments = _COMMAND.get()
    if not command:
        return {}
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    asked = {ARGUMENTS: json.dumps(arguments)} if arguments else {}
    return {HISTORY: f"{now}: {command[:LONGEST]}", **asked}


def parts_of(written: object) -> tuple[str, str]:
    """Return time and command of a history, the last of its lines; empty where it has none.

    >>> parts_of("2026-01-02T03:04:05Z: jaxroof run map.toml")
    ('2026-01-02 03:04:05 UTC', 'jaxroof run map.toml')
    >>> parts_of(3)
    ('', '')
    """
    last = written.strip().splitlines()[-1:] if isinstance(written, str) else []
    time, found, command = "".join(last).partition("Z: ")
    return (f"{time.replace('T', ' ')} UTC", command) if found else ("", "".join(last))
