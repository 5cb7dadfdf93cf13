"""Who may reach the page: the loopback alone, checked origins, and only with the extra."""

import asyncio
import base64
import http
import http.client
import logging
import signal
import socket
import sys
import threading

import pytest

from jaxroof.app import live
from jaxroof.app import serve as serving
from jaxroof.app.serve import LOOPBACK, origins, pairs_of, serve
from jaxroof.errors import InputError


@pytest.fixture
def port():
    """Serve the page in a thread; yield its port."""
    ready: dict[str, object] = {}
    begun = threading.Event()

    def run():
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        with socket.socket() as one:
            one.bind((LOOPBACK, 0))
            free = one.getsockname()[1]
        server = serve(port=free, start=False)
        server.start()
        ready.update(loop=loop, port=server.port, server=server)
        begun.set()
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(30)
    yield ready["port"]
    ready["loop"].call_soon_threadsafe(ready["server"].stop)
    ready["loop"].call_soon_threadsafe(ready["loop"].stop)
    thread.join(10)


def answer(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Return the status and the text of what the server answers; a websocket has no text."""
    one = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        one.request("GET", path, headers={n.replace("_", "-"): v for n, v in headers.items()})
        found = one.getresponse()
        opened = found.status == http.HTTPStatus.SWITCHING_PROTOCOLS
        return found.status, "" if opened else found.read().decode()
    finally:
        one.close()


def connected(port: int, origin: str, host: str = "") -> bool:
    """Return whether the server takes a page of an origin, which calls it by a host's name."""
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13"}
    upgrade |= {"Sec_WebSocket_Key": KEY, "Origin": origin, "Host": host or f"{LOOPBACK}:{port}"}
    return answer(port, "/ws", **upgrade)[0] == http.HTTPStatus.SWITCHING_PROTOCOLS


KEY = base64.b64encode(bytes(16)).decode()  # any, as the protocol asks for one


def test_a_name_of_a_stranger_that_leads_here_is_refused_and_so_is_another_origin(port):
    """DNS rebinding: a site's own name stands for this machine, so that all is of one origin."""
    own = f"http://localhost:{port}"
    assert connected(port, own, f"localhost:{port}")
    assert connected(port, f"http://{LOOPBACK}:{port}")
    assert not connected(port, f"http://evil.example:{port}")
    for host in ("evil.example", f"evil.example:{port}", f"localhost.evil.example:{port}"):
        assert not connected(port, own, host)
        assert not connected(port, f"http://{host}", host)
        for path in ("/", "/ws", "/autoload.js", "/static/js/bokeh.min.js"):
            status, said = answer(port, path, Host=host)
            assert (status, said.count("\n")) == (http.HTTPStatus.FORBIDDEN, 1)
            assert "evil" not in said


STRANGE = [  # of Bokeh: where its scripts are loaded from, and another's session
    ("/?bokeh-absolute-url=http://evil.example/", {}),
    ("/?bokeh-absolute-url=%22%3E%3Cscript%3Ealert(7)%3C/script%3E", {}),
    ("/?bokeh-token=abc", {}),
    ("/?gpus=8&bokeh-session-id=abc", {}),
    ("/autoload.js?bokeh-autoload-element=x", {}),
    ("/", {"Sec_Fetch_Mode": "no-cors"}),  # a stranger's page that opens hundreds
]


@pytest.mark.parametrize(("path", "headers"), STRANGE, ids=[path for path, _ in STRANGE])
def test_what_no_link_of_the_page_has_is_refused_in_a_line(port, path, headers):
    status, said = answer(port, path, **headers)
    assert status == http.HTTPStatus.FORBIDDEN
    assert said.count("\n") == 1
    assert "evil" not in said
    assert "<" not in said


def test_so_many_pages_are_open_and_no_more(port, monkeypatch):
    monkeypatch.setattr(serving, "MOST_SESSIONS", 2)
    each = [answer(port, "/") for _ in range(3)]
    assert [status for status, _ in each] == [200, 200, 503]
    assert each[-1][1].startswith("page: open 2 times; expected fewer")


def test_what_cannot_be_made_is_one_escaped_line(port, monkeypatch, caplog):
    def broken(*_):
        raise KeyError("<img src=x onerror=alert(7)>")

    monkeypatch.setattr(serving, "Page", broken)
    status, said = answer(port, "/")
    assert status == 200
    for words in ("Traceback", "onerror", "jaxroof/"):
        assert words not in said
    assert "onerror" in caplog.text


@pytest.mark.parametrize("address", [LOOPBACK, "192.0.2.7"])
def test_an_address_is_reached_by_its_own_name_alone(address):
    known = {one.rpartition(":")[0] for one in origins(address, 5006)}
    assert known <= {address, "localhost"}
    assert address in known


def test_a_field_of_a_link_may_be_given_twice():
    given = {"gpus": [b"8"], "where": [b"tp<=8", b"pp=4"]}
    assert pairs_of(given) == [("gpus", "8"), ("where", "tp<=8"), ("where", "pp=4")]


def test_that_a_browser_left_is_no_news():
    class WebSocketClosedError(Exception):
        pass

    for error, news in ((WebSocketClosedError(), False), (KeyError(), True)):
        record = logging.LogRecord("asyncio", 40, "", 1, "", (), (type(error), error, None))
        assert serving.is_news(record) is news


def test_without_the_extra_the_command_says_what_to_install(jaxroof, monkeypatch):
    for name in [one for one in sys.modules if one.startswith("jaxroof.app.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "panel", None)
    said = jaxroof("app")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "pip install 'jaxroof[app]'" in said.err


def test_a_browser_that_leaves_does_not_end_the_server(jaxroof, monkeypatch):
    handlers = []
    monkeypatch.setattr(
        serving, "serve", lambda *_: handlers.append(signal.getsignal(signal.SIGPIPE))
    )
    before = signal.getsignal(signal.SIGPIPE)
    try:
        said = jaxroof("app")
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert said.code == 0
    assert f"http://{LOOPBACK}:" in said.out
    assert handlers == [signal.SIG_IGN]


def test_a_file_that_is_no_question_ends_the_command_in_a_line(jaxroof, tmp_path):
    (tmp_path / "x.toml").write_text("x = 1", encoding="utf-8")
    said = jaxroof("app x.toml")
    assert said.code == 2
    assert said.err.startswith("jaxroof: x.toml: model: missing")


def answered(quick, questions, late=lambda _: iter(())):
    """Return what is shown of questions that follow one another at once, and the errors."""
    shown, failed = [], []

    async def ask():
        loop = asyncio.get_running_loop()
        told = (shown.append, lambda said, _: failed.append(said), lambda _: None, loop.call_soon)
        one = live.Live(quick, late, *told)
        for question in questions:
            one.ask(question)
        while one.first.works or one.second.works:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)

    asyncio.run(ask())
    return shown, failed


def test_only_the_latest_question_is_answered():
    asked = []

    def quick(question):
        asked.append(question)
        return question

    shown, _ = answered(quick, range(50), lambda answer: iter([-answer]))
    assert shown == [49, -49]
    assert len(asked) < 5


def test_a_late_answer_keeps_no_quick_one_waiting_and_is_left_between_its_pieces():
    held, shown, made = threading.Event(), [], []

    def late(answer):
        for piece in range(1000 if answer == "first" else 1):
            made.append(f"{answer} {piece}")
            if made[-1] == "first 1":
                held.wait(10)
            yield made[-1]

    async def ask():
        loop = asyncio.get_running_loop()
        one = live.Live(str, late, shown.append, print, lambda _: None, loop.call_soon)
        for question, last in (("first", "first 0"), ("second", "second"), ("", "second 0")):
            if question:
                one.ask(question)
            else:
                held.set()
            while last not in shown:
                await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(ask(), 20))
    assert shown == ["first", "first 0", "second", "second 0"]
    assert len(made) < 10


def test_an_error_of_ours_is_a_line_without_its_trace(caplog):
    def ours(_):
        raise KeyError("secret")

    def late(_):
        raise InputError("gpus: expected more")
        yield

    assert answered(str, ["bad input"], late) == (["bad input"], ["gpus: expected more"])
    _, failed = answered(ours, ["ours"])
    assert failed == [live.OURS.format(kind="KeyError")]
    assert "secret" not in failed[0]
    assert "secret" in caplog.text
