"""The page served on this machine: one state a session, checked origins, sizes limited.

A session opens with the state of a link, or of a sweep file.
"""

import dataclasses
import logging
import os
import pathlib
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import panel as pn
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler

from jaxroof import catalog
from jaxroof.app.controls import can_be_shown
from jaxroof.app.html import alert, text
from jaxroof.app.live import line_of
from jaxroof.app.page import Page, template
from jaxroof.app.question import PRICE, asked
from jaxroof.app.state import PAID, PATHS, START, State, checked, from_pairs, upload
from jaxroof.config.sweep_file import KEYS
from jaxroof.config.toml_reader import axes, load, typed
from jaxroof.engine.grid.axes import paths_of
from jaxroof.errors import InputError, errors_in, refusal
from jaxroof.estimators.training.step import training
from jaxroof.records import field_at
from jaxroof.settings import choices_of
from jaxroof.units import parse

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
    """Serve the page until it is interrupted; with ``start`` false return the server."""
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


# ---- The state that the page opens with ---------------------------------------------------------


def opening(link: Sequence[tuple[str, str]], first: State) -> tuple[State, str]:
    """Return the state of the fields of a link, or the ``first`` one and why it is not the link's.

    >>> opening([("gpus", "64")], START)[0].gpus
    64
    >>> opening([("choice.<b>", "1")], START) == (START, "")
    False
    """
    try:
        return (can_be_shown(from_pairs(link)) if link else first), ""
    except Exception as error:
        return first, line_of(error)


def opened(path: str) -> State:
    """Return the state of a sweep file; two axes of it become the map."""
    with errors_in(path):
        return _state(load(path), pathlib.Path(path).parent)


def _state(written: Mapping[str, Any], folder: pathlib.Path) -> State:
    if "model" not in written or "system" not in written:
        raise refusal("model", "missing; expected a sweep file with a model and a system")
    typed("", written, KEYS)
    fields: dict[str, Any] = {}
    for key, value in written.get("plan", {}).items():
        name = next((short for short, full in PATHS.items() if full == key), None)
        if name is None:
            raise refusal(f"plan.{key}", "the page searches the plan; use [search] where")
        fields[name] = int(parse(value, "1", f"plan.{key}"))
    if written.get("estimator", training.name) != training.name:
        raise refusal("estimator", "the page answers training; `jaxroof run` takes any other")
    given = dict(written.get("set", {}))
    fields["precision"] = str(given.pop("precision", written.get("format", START.precision)))
    fields["dispatcher"] = str(given.pop("dispatcher", ""))
    fields["where"] = str(written.get("search", {}).get("where", ""))
    moved = sorted(paths_of(axes(written.get("axes", {}), folder)))
    if len(moved) == 2:  # the axes of a map
        fields |= {"across": moved[0], "up": moved[1], "tab": "map"}
    for field in ("model", "system"):
        fields |= _named(field, written[field], folder)
    return _with_changes(checked(State(**fields)), given)


def _named(field: str, name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Return a model or a system as a field of the state: by name, or its file."""
    if not catalog.is_file(name):
        return {field: name}
    try:
        content = (folder / name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(f"{field}: {name}", f"cannot be read: {error}") from None
    return {f"own_{field}": upload(os.path.basename(name), content)}


def _with_changes(state: State, given: Mapping[str, Any]) -> State:
    """Return a state with the numbers and the choices of [set]."""
    found, changes, choices = asked(state, run=True), {}, {}
    known = choices_of(found.recipe)
    for path, value in given.items():
        if path in known:
            choices[path] = str(value)
            continue
        full = f"system.{path}" if path.startswith("chip.") else path
        try:
            unit = field_at(found.inputs, full).metadata["unit"]
        except (InputError, KeyError):
            raise refusal(f"set.{path}", "no number that the page can change") from None
        changes[full] = parse(value, unit, f"set.{path}")
    both: dict[str, Any] = {"changes": tuple(changes.items()), "choices": tuple(choices.items())}
    both["paid"] = PAID[PRICE in changes]
    return can_be_shown(dataclasses.replace(state, **both))
