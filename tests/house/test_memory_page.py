"""The page on memory prints what the model computes, and errors as the sheet has them."""

import re

import memory_choices
import pytest
from daily import daily
from places import ROOT

PAGE = memory_choices.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", daily(memory_choices.TABLES, 0, 1, 3, 4, 5))
def test_a_table_is_what_the_model_computes(name):
    assert memory_choices.written(name) == memory_choices.rendered(name)


def test_errors_are_those_of_the_sheet():
    sheet = (ROOT / "docs" / "models" / "parameters_flops_memory.md").read_text(encoding="utf-8")
    scores = [re.split(r"\s*[|/]\s*", line) for line in sheet.splitlines() if line.startswith("|")]
    rows = PAGE.split("| source | n |")[1].strip().splitlines()[2:]
    assert len(rows) == 6
    for row in rows:
        cells = [cell.strip() for cell in row.strip("| ").split("|")][1:]
        assert any({*cells} <= {c.split(" of ")[0] for c in line} for line in scores), row
