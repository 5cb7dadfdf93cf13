"""Who wrote a file: the command line and its time, as the attribute ``history`` of the CF names."""

import contextlib
import datetime
from collections.abc import Iterator
from contextvars import ContextVar

HISTORY = "history"
LONGEST = 2000  # characters of a command line that are kept
_COMMAND: ContextVar[str] = ContextVar("command", default="")


@contextlib.contextmanager
def of_command(line: str) -> Iterator[None]:
    """Let the files that are written in the block say which command line wrote them."""
    token = _COMMAND.set(line)
    try:
        yield
    finally:
        _COMMAND.reset(token)


def history() -> dict[str, str]:
    """Return the attribute of a file: time and command line; none where no command writes it.

    >>> with of_command("jaxroof run map.toml"):
    ...     history()["history"].partition("Z: ")[2]
    'jaxroof run map.toml'
    >>> history()
    {}
    """
    command = _COMMAND.get()
    if not command:
        return {}
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {HISTORY: f"{now}: {command[:LONGEST]}"}


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
