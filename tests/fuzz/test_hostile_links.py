"""Whatever a link holds, the page opens: with its question, or as at first and with one line.

``pytest -m slow tests/fuzz`` opens 10,000 links; tests/app/test_browser.py some in a real browser.
"""

import json
import time
from collections import Counter

import hypothesis
import pytest
from hostile_links import REPRODUCERS, links
from hypothesis import given, settings
from tornado.escape import parse_qs_bytes

from jaxroof.app.controls import question_form
from jaxroof.app.html import alert
from jaxroof.app.live import OURS, attempted
from jaxroof.app.plans import best_plans
from jaxroof.app.serve import opening, pairs_of
from jaxroof.app.state import START, to_link

FEW = 64  # GPUs on which a question is asked too
SECONDS = 5  # of this process, to open a page
OWN = OURS.partition("(")[0]  # how the line of an error of ours begins


def outcome(link: str) -> str:
    """Return how the page of a link opens, after checking what it sends to a browser."""
    begun = time.process_time()
    state, error = opening(pairs_of(parse_qs_bytes(link.encode())), START)
    assert error.isprintable() or not error, error
    assert not error.startswith(OWN), link
    assert len(error) < 2000
    form = question_form(state)
    sent = [form.fields, form.values, to_link(state), alert(error)]
    json.dumps(sent).encode()
    assert time.process_time() - begun < SECONDS, link
    assert "<" not in sent[-1].removeprefix('<p class="alert" role="alert">').removesuffix("</p>")
    if error:
        assert state == START
        return "refused"
    if state.gpus > FEW:
        return "opened"
    _, words = attempted(best_plans(one, 1) for one in [state])
    assert not words.startswith(OWN), (link, words)
    return "no answer" if words else "answered"


@pytest.mark.parametrize("cases", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_page_opens_whatever_a_link_holds(cases):
    ended: Counter[str] = Counter()

    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=cases < 10_000,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @given(link=links)
    def check(link):
        ended[outcome(link)] += 1

    check()
    assert set(ended) >= {"refused", "answered"}
    print(f"\n{dict(ended)}")


@pytest.mark.parametrize("link", REPRODUCERS, ids=range(len(REPRODUCERS)))
def test_a_link_of_a_stranger_opens_the_first_page(link):
    assert outcome(link) == "refused"
