"""The page served on this machine: one state a session, checked origins, sizes limited."""

import logging
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import panel as pn
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

from jaxroof.app.html import alert, text
from jaxroof.app.live import line_of
from jaxroof.app.opened import opening
from jaxroof.app.page import Page, template
from jaxroof.app.state import START, State
from jaxroof.errors import InputError

LOOPBACK = "127.0.0.1"
MOST_MESSAGE = 1_000_000  # bytes of one message of a browser
IDLE = 60_000  # milliseconds after which the state of a closed page is forgotten
MOST_SESSIONS = 64  # pages that are open at once, each of some megabytes
LEFT = ("WebSocketClosedError", "StreamClosedError")  # errors of a connection that is gone
EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for all of the machine


def page_of(first: State) -> Callable[[], Any]:
    """Return the function that makes the page of a new session: of its link, or the first.

    What it cannot make is a line, as Panel would show an error with its trace, unescaped.
    """

    def made() -> Any:
        try:
            page = Page(*opening(pairs_of(pn.state.session_args), first))
            pn.state.onload(page.ask)
            pn.state.on_session_destroyed(page.ended)
            return template(page)
        except Exception as error:
            return text(alert(line_of(error)))

    return made


def pairs_of(arguments: Mapping[str, Sequence[bytes]]) -> list[tuple[str, str]]:
    """Return the fields of a link as the server has them."""
    return [
        (name, value.decode("utf-8", "replace"))
        for name, values in arguments.items()
        for value in values
    ]


def origins(address: str, port: int) -> list[str]:
    """Return the origins from which a page may be opened.

    >>> origins("127.0.0.1", 5006)
    ['127.0.0.1:5006', 'localhost:5006']
    """
    name = f"[{address}]" if ":" in address else address
    here = [socket.gethostname().lower(), "localhost", LOOPBACK]
    names = here if address in EVERYWHERE else [name]
    names += ["localhost"] if address == LOOPBACK else []
    return [f"{name}:{port}" for name in dict.fromkeys(names)]


def why_refused(
    request: HTTPServerRequest, hosts: Collection[str], sessions: int
) -> tuple[HTTPStatus, str] | None:
    """Return why a request is refused before the page sees it, None where it is not.

    Another host stands for a stranger's site whose name leads here (DNS rebinding). Bokeh's own
    arguments choose where scripts are loaded from; no link of the page has them. ``sessions`` are
    the pages that are open.
    """
    if request.host_name not in hosts:
        return HTTPStatus.FORBIDDEN, f"Host: expected {' or '.join(hosts)}"
    if any(name.startswith("bokeh-") for name in request.arguments):
        return HTTPStatus.FORBIDDEN, "link: expected fields of the page"
    if request.path == "/" and request.headers.get("Sec-Fetch-Mode", NAVIGATE) != NAVIGATE:
        return HTTPStatus.FORBIDDEN, "page: expected to be opened, not fetched by another"
    if request.path == "/" and sessions >= MOST_SESSIONS:
        said = f"page: open {sessions} times; expected fewer: close some, and wait a minute"
        return HTTPStatus.SERVICE_UNAVAILABLE, said
    return None


NAVIGATE = "navigate"  # how a browser asks for what it shows


class Gate(Matcher):
    """Matches the requests that are refused; ``sessions`` counts the pages that are open."""

    def __init__(self, hosts: Collection[str], sessions: Callable[[], int]) -> None:
        self.hosts, self.sessions = hosts, sessions

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return why, as arguments of ``Refused``."""
        why = why_refused(request, self.hosts, self.sessions())
        return None if why is None else {"target_kwargs": {"why": why}}


class Refused(RequestHandler):
    """Answers what is refused with one line of plain text, whatever the method."""

    def initialize(self, why: tuple[HTTPStatus, str]) -> None:
        """Keep why."""
        self.why = why

    def prepare(self) -> None:
        """Say why."""
        self.set_status(self.why[0])
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self.why[1]}\n")


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
    allowed = origins(address, port)
    try:
        server = pn.serve(
            {"/": page_of(first)},
            port=port,
            address=address,
            websocket_origin=allowed,
            title="jaxroof",
            show=False,
            start=False,
            verbose=False,
            websocket_max_message_size=MOST_MESSAGE,
            unused_session_lifetime_milliseconds=IDLE,
            check_unused_sessions_milliseconds=IDLE // 4,
        )
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"port: {port} at {address}: {reason}; expected a free one") from error
    hosts = [one.rpartition(":")[0] for one in allowed]
    gate = Gate(hosts, lambda: len(server.get_sessions()))
    server._tornado.default_router.rules.insert(0, Rule(gate, Refused))
    if start:
        server.start()
        server.io_loop.start()
    return server
