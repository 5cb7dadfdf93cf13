"""The page in a real browser: it opens, a slider changes the answer, a link restores it.

One server and one Chromium serve all tests; where neither can be had, they say why they skip.
"""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

import pytest
from hostile_links import FOR_A_BROWSER, REPRODUCERS
from places import ROOT

from jaxroof.app.plans import best_plans, headline
from jaxroof.app.state import START, TABS, from_link
from jaxroof.views.text.fastest_plans import plans_table

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
SMALL = "model=llama3-8b&gpus=16&batch=64"
WAIT = 60_000  # milliseconds, on a busy machine
# the element of the page that a click at the middle of a figure hits
MIDDLE = """
() => {
  const models = Bokeh.documents.flatMap((one) => [...one._all_models.values()]);
  const cells = models.find((model) => model.name === "cells");
  return cells && cells.data.left ? cells.data.left.length : 0;
}
"""
# the opacity of everything around the answers
OPAQUE = """
() => {
  const found = [];
  const look = (root) => root.querySelectorAll("*").forEach((one) => {
    if (one.shadowRoot) {
      found.push(getComputedStyle(one).opacity);
      look(one.shadowRoot);
    }
  });
  look(document.querySelector("main"));
  return found;
}
"""


# everything that the page says, inside its components too
TEXT = """
() => {
  const found = [];
  const look = (root) => {
    found.push(root.textContent);
    root.querySelectorAll("*").forEach((one) => { if (one.shadowRoot) look(one.shadowRoot); });
  };
  look(document.body);
  return found.join(" ");
}
"""


@pytest.fixture(scope="module")
def server():
    """Yield the address of the page, served by the command itself."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    line = [sys.executable, "-m", "jaxroof", "app", "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for _ in range(240):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.25)
    yield f"http://127.0.0.1:{port}/"
    with socket.create_connection(("127.0.0.1", port)) as one:  # what leaves at once ends nothing
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    time.sleep(0.5)
    assert process.poll() is None
    process.terminate()
    said = process.communicate(timeout=20)[0]
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def window():
    """Yield a window with one page: to open each test's link there is half the work of another."""
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = chromium.new_context()
        context.set_default_timeout(WAIT)
        context.new_page()
        yield context
        chromium.close()


@pytest.fixture
def open_page(server, window):
    """Open links, each a session of its own, further ones beside.

    A page asks no other host, opens no dialog, and meets no error.
    """
    free, elsewhere, errors = [*window.pages], [], []
    on = {
        "weberror": lambda wrong: errors.append(str(wrong.error)),
        "dialog": lambda dialog: (errors.append(dialog.message), dialog.dismiss()),
        "request": lambda request: elsewhere.append(request.url),
    }
    for event, heard in on.items():
        window.on(event, heard)

    def one(question: str = SMALL, width: int = 1440):
        page = free.pop() if free else window.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{server}?{question}")
        page.wait_for_selector(".headline h2")
        return page

    yield one
    for event, heard in on.items():
        window.remove_listener(event, heard)
    for page in window.pages[1:]:
        page.close()
    assert [url for url in elsewhere if not url.startswith((server, "blob:", "data:"))] == []
    assert errors == []


def best(page) -> str:
    return page.locator(".headline h2").inner_text()


def wait_until(page, what, seconds: float = 20.0) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come to hold"
        page.wait_for_timeout(50)


def said_of(link: str) -> str:
    return headline(best_plans(from_link(link))).what


def link(page) -> str:
    return "?" + page.url.partition("?")[2]


def move(page, name: str, stop: int) -> None:
    """Move a slider to one of its stops, as a hand does."""
    slider = page.locator(f'[id="in-{name}"]')
    slider.evaluate("(it, to) => { it.value = to; it.dispatchEvent(new Event('input')); }", stop)


def test_the_page_opens_with_the_answer_of_the_search_and_a_slider_changes_it(open_page):
    page = open_page()
    assert page.title() == "jaxroof"
    assert best(page) == said_of(SMALL)
    rows = page.locator("tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    columns = plans_table(best_plans(from_link(SMALL))).columns
    assert cells == [list(row) for row in zip(*(one.cells for one in columns), strict=True)]
    before = best(page)
    move(page, "system.matrix_flops", 20)
    wait_until(page, lambda: best(page) != before)
    wait_until(page, lambda: "system.matrix_flops" in page.url)
    wait_until(page, lambda: best(page) == said_of(link(page)))


def test_a_typed_value_and_its_unit_count_and_a_wrong_one_is_one_line(open_page):
    page = open_page()
    before = best(page)
    exact = page.locator('[id="in-system.hbm_bandwidth-exact"]')
    exact.fill("1 TB/s")
    exact.press("Enter")
    wait_until(page, lambda: best(page) != before)
    wait_until(page, lambda: "system.hbm_bandwidth=1000000000000.0" in page.url)
    exact.fill("1 GB")
    exact.press("Enter")
    alert = page.locator("[role=alert]")
    alert.wait_for()
    assert re.fullmatch(r"HBM bandwidth: .*expected B/s.*", alert.inner_text())
    wait_until(page, lambda: best(page) == "No answer to this question")
    assert exact.get_attribute("aria-invalid") == "true"
    said = page.locator(f'[id="{exact.get_attribute("aria-describedby")}"]')
    assert said.inner_text() == alert.inner_text()
    assert said.is_visible()
    exact.fill("2 TB/s")
    exact.press("Enter")
    alert.wait_for(state="detached")
    assert exact.get_attribute("aria-invalid") is None
    wait_until(page, lambda: "system.hbm_bandwidth=2000000000000.0" in page.url)
    wait_until(page, lambda: best(page) == said_of(link(page)))


def test_a_question_without_an_answer_is_one_line_and_a_good_one_mends_it(open_page):
    page = open_page()
    gpus = page.locator("#in-gpus-exact")
    gpus.fill("127")
    gpus.press("Enter")
    alert = page.locator("[role=alert]")
    alert.wait_for()
    assert "none is legal on 127 accelerators" in alert.inner_text()
    wait_until(page, lambda: gpus.get_attribute("aria-invalid") == "true")
    page.get_by_text("The best plans that fit").wait_for(state="hidden")
    page.locator("#tab-share").click()
    page.get_by_text("--gpus 127 ").first.wait_for()
    page.locator("#tab-plans").click()
    gpus.fill("32")
    gpus.press("Enter")
    alert.wait_for(state="detached")
    wait_until(page, lambda: best(page) == said_of(SMALL.replace("gpus=16", "gpus=32")))
    page.get_by_text("The best plans that fit").wait_for()
    assert set(page.evaluate(OPAQUE)) == {"1"}
    answered, mine = best(page), page.locator("#in-mine")
    mine.fill("tp=banana")
    mine.press("Enter")
    alert.wait_for()
    wait_until(page, lambda: mine.get_attribute("aria-invalid") == "true")
    assert page.locator("#in-mine-error").inner_text().startswith("my plan: tp: ")
    assert best(page) == answered  # what was asked beside it has its answer


@pytest.mark.slow  # links restore states daily: below
def test_going_back_asks_the_question_before_and_forward_the_next(open_page):
    page = open_page()
    first, links = best(page), [link(page)]
    for gpus in ("32", "64"):
        page.locator("#in-gpus-exact").fill(gpus)
        page.locator("#in-gpus-exact").press("Enter")
        wait_until(page, lambda gpus=gpus: f"gpus={gpus}" in page.url)
        links.append(link(page))
    page.keyboard.type("9")  # the field is in focus still, and this was never sent
    for gpus, asked in (("32", links[1]), ("16", links[0])):
        page.go_back()
        wait_until(page, lambda gpus=gpus: page.locator("#in-gpus-exact").input_value() == gpus)
        wait_until(page, lambda asked=asked: best(page) == said_of(asked))
        assert link(page) == asked
    assert best(page) == first
    page.go_forward()
    wait_until(page, lambda: best(page) == said_of(links[1]))
    assert link(page) == links[1]


@pytest.mark.slow  # the answers of the map daily: test_answers.py
def test_a_map_that_cannot_be_drawn_is_mended_on_its_tab_and_a_click_sets_the_machine(open_page):
    page = open_page(f"{SMALL}&tab=map&across=secret")
    alert = page.locator("[role=alert]")
    alert.wait_for()
    assert alert.inner_text().startswith("across: secret: no such field of a map")
    page.locator("#in-across").select_option("system.hbm_bandwidth")
    page.get_by_text("Over this map").wait_for()
    alert.wait_for(state="detached")
    assert set(page.evaluate(OPAQUE)) == {"1"}
    wait_until(page, lambda: page.evaluate(MIDDLE) > 0)
    canvas = page.locator(".bk-Canvas").first
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 0.7 * box["width"], box["y"] + 0.3 * box["height"])
    wait_until(page, lambda: "system.hbm_bandwidth" in page.url)
    state = from_link(link(page))
    changes = dict(state.changes)
    assert set(changes) == {"system.hbm_bandwidth", "system.matrix_flops"}
    wait_until(page, lambda: best(page) == said_of(link(page)))


def test_a_shared_link_restores_the_state_and_sessions_are_apart(open_page):
    first = open_page()
    move(first, "system.hbm_bandwidth", 10)
    first.locator("#in-where").fill("tp<=2")
    first.locator("#in-where").press("Enter")
    wait_until(first, lambda: "where" in first.url and "hbm_bandwidth" in first.url)
    shared = link(first)
    wait_until(first, lambda: best(first) == said_of(shared))
    second, third = open_page(shared.removeprefix("?")), open_page()
    assert best(second) == best(first)
    assert second.locator("#in-where").input_value() == "tp<=2"
    assert best(third) == said_of(SMALL)
    second.locator("#in-model").select_option("llama2-7b")
    wait_until(second, lambda: "llama2-7b" in second.url)
    wait_until(second, lambda: best(second) == said_of(link(second)))
    assert link(first) == shared
    assert best(first) == said_of(shared)


def test_a_config_dropped_in_is_asked(open_page):
    page = open_page()
    config = next((ROOT / "tests" / "catalog" / "huggingface").glob("*qwen3*.json"))
    page.locator("#in-own_model").set_input_files(config)
    wait_until(page, lambda: "own_model" in page.url)
    assert from_link(link(page)).model_words == config.name
    page.locator("#in-own_model").set_input_files(
        {"name": "bad.json", "mimeType": "application/json", "buffer": b'{"model_type": "<b>x"}'}
    )
    alert = page.locator("[role=alert]")
    alert.wait_for()
    assert alert.inner_text().startswith("bad.json: model_type: <b>x")


SLOW = pytest.mark.slow  # each is like one that runs daily; all tabs are walked by axe too


@pytest.mark.parametrize(
    "tabs",
    [
        ("time", "schedule", "share"),
        pytest.param(("memory", "binds", "collective", "compare", "run", "serving"), marks=SLOW),
    ],
)
def test_every_tab_shows_its_answer(open_page, tabs):
    """The first is opened by its link and reached by keys, the others by a click."""
    page = open_page(f"{SMALL}&where=pp%3D4&mine=tp%3D4,pp%3D1&tab={tabs[0]}")
    words = {
        "time": "Of the best plan's step", "memory": "What more memory would buy",
        "binds": "Most binding", "schedule": "Best: ", "compare": "Two machines side by side",
        "collective": "as a tuned library", "run": "With its stops it takes",
        "serving": "Beside other systems",
        "share": "jaxroof search --model llama3-8b",
    }  # fmt: skip
    page.locator(f"#tab-{tabs[0]}").press("ArrowLeft")
    page.locator(f"#tab-{TABS[TABS.index(tabs[0]) - 1]}").press("ArrowRight")
    for tab in tabs:
        page.locator(f"#tab-{tab}").click()
        page.get_by_text(words[tab]).first.wait_for()
        assert page.locator(f"#tab-{tab}").get_attribute("aria-selected") == "true"
        with page.expect_download() as download:
            if tab == "share":
                page.get_by_text("Download .csv").click()
            else:
                page.locator("button:has-text('Save as SVG'):visible").first.click()
        saved = download.value.path().read_text(encoding="utf-8")
        assert "step_time" in saved if tab == "share" else saved.startswith("<svg")


FEW_LINKS = ["model=/etc/passwd", *REPRODUCERS[::8]]  # tests/fuzz opens all of them on the server


@pytest.mark.parametrize("links", [FEW_LINKS, pytest.param(FOR_A_BROWSER, marks=SLOW)])
def test_a_link_runs_nothing_of_a_stranger(open_page, links):
    for link in links:
        page = open_page(link)
        page.locator(".headline h2").wait_for()
        content = page.evaluate(TEXT)
        assert "Traceback" not in content
        assert "/jaxroof/" not in content
        if "choice." in link or "passwd" in link:
            assert page.locator("[role=alert]").count() == 1
            assert best(page) == headline(best_plans(START)).what
        page.close()


@pytest.mark.slow
def test_axe_finds_nothing_in_a_page_that_refuses(open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page()
    for name, text in (("gpus-exact", "127"), ("mine", "tp=banana"), ("where", "tp<<8")):
        page.locator(f"#in-{name}").fill(text)
        page.locator(f"#in-{name}").press("Enter")
        page.locator(".wrong").first.wait_for()
        page.wait_for_timeout(300)
        found = axe.run(page).response["violations"]
        assert [(name, one["id"]) for one in found] == []


MOST = pytest.mark.slow  # each tab takes axe seconds


@pytest.mark.parametrize(
    ("width", "tabs"),
    [(400, ("plans",)), pytest.param(1440, TABS, marks=MOST), pytest.param(400, TABS, marks=MOST)],
)  # fmt: skip
def test_nothing_is_cut_and_axe_finds_nothing(open_page, width, tabs):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page(width=width)
    wide = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide[0] <= wide[1]
    for tab in tabs:
        page.locator(f"#tab-{tab}").click()
        page.wait_for_timeout(300)
        found = axe.run(page).response["violations"]
        assert [(tab, one["id"], len(one["nodes"])) for one in found] == []
