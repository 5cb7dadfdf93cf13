"""The page served on this machine: one state a session, checked origins, sizes limited."""

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import panel as pn

from jaxroof.app.page import Page, template
from jaxroof.app.state import START, State, from_pairs
from jaxroof.errors import InputError

LOOPBACK = "127.0.0.1"
MOST_MESSAGE = 1_000_000  # bytes of one message of a browser
IDLE = 60_000  # milliseconds after which the state of a closed page is forgotten
LEFT = ("WebSocketClosedError", "StreamClosedError")  # errors of a connection that is gone
EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for all of the machine


def page_of(first: State) -> Callable[[], pn.Template]:
    """Return the function that makes the page of a new session: of its link, or the first."""

    def made() -> pn.Template:
        state, error = first, ""
        try:
            pairs = pairs_of(pn.state.session_args)
            state = from_pairs(pairs) if pairs else first
        except InputError as wrong:
            error = str(wrong)
        page = Page(state, error)
        pn.state.onload(page.ask)
        pn.state.on_session_destroyed(page.ended)
        return template(page)

    return made


def pairs_of(arguments: Mapping[str, Sequence[bytes]]) -> list[tuple[str, str]]:
    """Return the fields of a link as the server has them; its own are left out."""
    return [
        (name, value.decode("utf-8", "replace"))
        for name, values in arguments.items()
        for value in values
        if not name.startswith("bokeh-")
    ]


def origins(address: str, port: int) -> list[str]:
    """Return the origins from which a page may be opened.

    >>> origins("127.0.0.1", 5006)
    ['127.0.0.1:5006', 'localhost:5006']
    """
    names = [socket.gethostname(), "localhost", LOOPBACK] if address in EVERYWHERE else [address]
    names += ["localhost"] if address == LOOPBACK else []
    return [f"{name}:{port}" for name in dict.fromkeys(names)]


def is_news(record: logging.LogRecord) -> bool:
    """Return whether a line of the log is more than that a browser left while it was answered."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ not in LEFT


def serve(
    first: State = START, port: int = 5006, address: str = LOOPBACK, *, start: bool = True
) -> Any:
    """Serve the page until it is interrupted; with ``start`` false return the server.

    Raises: InputError where the port cannot be had.
    """
    pn.extension(notifications=False)
    logging.getLogger("asyncio").addFilter(is_news)
    try:
        return pn.serve(
            {"/": page_of(first)},
            port=port,
            address=address,
            websocket_origin=origins(address, port),
            title="jaxroof",
            show=False,
            start=start,
            verbose=False,
            websocket_max_message_size=MOST_MESSAGE,
            unused_session_lifetime_milliseconds=IDLE,
            check_unused_sessions_milliseconds=IDLE // 4,
        )
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"port: {port} at {address}: {reason}; expected a free one") from error
