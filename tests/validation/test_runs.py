"""Whole runs and powers of nodes: what is predicted, over what was published."""

import pytest

from jaxroof.validation.runs import node_answers, packaged_runs, run_answers, run_scores
from jaxroof.validation.sources import packaged

SCORES = {  # rows: n, range of the median; whole_run.md, section 12, had 0.79, 0.85 and 0.76
    "dense": (26, 0.76, 0.80),
    "dense, plan published": (6, 0.83, 0.89),
    "dense, by family": (10, 0.76, 0.86),
    "experts": (3, 0.95, 1.15),
}


@pytest.fixture(scope="module")
def runs():
    return packaged_runs()


@pytest.mark.slow  # daily docs/accuracy.md has their medians: views/text/test_accuracy_page.py
def test_every_run_is_answered_and_medians_stay(runs):
    assert len(runs) == 36
    assert (runs["reason"] == "").all()
    found = {score.rows: score for score in run_scores(runs)}
    assert set(found) == set(SCORES)
    for rows, (n, low, high) in SCORES.items():
        assert found[rows].n == n, rows
        assert low < found[rows].median < high, rows
    assert found["dense"].low == pytest.approx(0.57, abs=0.01)  # as in the sheet
    assert found["dense"].high == pytest.approx(0.97, abs=0.01)


def test_a_run_that_cannot_be_answered_says_why():
    frame = packaged("runs", "public_runs")[:1]
    wrong = run_answers(frame.assign(gpus="127"))
    assert wrong["ratio"].isna().all()
    assert "none is legal on 127 accelerators" in wrong["reason"].iloc[0]
    assert run_scores(wrong) == []


def test_nodes_draw_what_busy_and_waiting_chips_draw():
    nodes = node_answers()
    assert len(nodes) == 11
    assert nodes["error"].abs().median() < 0.02
    assert nodes["error"].abs().max() < 0.11
    assert nodes["all_busy"].abs().max() > 0.3  # of nodes that wait for others
