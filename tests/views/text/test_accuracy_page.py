"""The page on measured step times is what the command writes, and says what is fitted to what."""

import io
import re

import pytest
from places import ROOT
from rich.console import Console

from jaxroof.validation.sources import sources
from jaxroof.validation.steps import packaged_answers, regime_scores, scores, worst
from jaxroof.views.text.scores import STEPS, page, rows_table, scores_table, unseen, worst_lines


@pytest.fixture(scope="module")
def found():
    return packaged_answers()


def test_the_page_is_what_the_command_writes(found):
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert text == page(STEPS, found, text), "jaxroof validate -o docs/accuracy.md"
    for name, one in sources("steps").items():
        assert f"| {name} | {one.title}: {one.where} | {one.fitted} | " in text


def test_the_readme_has_the_medians_of_the_page(found):
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\n  ", " ")
    *regimes, everything = regime_scores(found)
    assert f"against {everything.rows:,} measured steps" in text
    for score in regimes[:3]:
        assert f"{score.median:.1f} % ({score.regime})" in text
    first, second = (f"{score.median:.1f} %" for score in regime_scores(unseen(found))[:2])
    assert f"fitted to a source: {first} and {second}" in text


def test_tables_fit_80_columns(found):
    written = io.StringIO()
    screen = Console(width=80, file=written)
    screen.print(scores_table(STEPS, [*scores(found), *regime_scores(found)]))
    screen.print(rows_table(STEPS, found.drop_duplicates("source")))
    said = written.getvalue()
    assert max(map(len, said.splitlines())) <= 80
    assert "covered" in said
    assert "not calibrated" in said


def test_the_worst_rows_are_said_with_their_parts(found):
    head, *lines = worst_lines(STEPS, worst(found, 3))
    assert head.endswith(":")
    assert len(lines) == 3
    assert all(re.search(r"; arithmetic \d+ %, ", line) for line in lines)
