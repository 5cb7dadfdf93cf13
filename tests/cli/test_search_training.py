"""`jaxroof search --estimator training`: by step time, or by memory where that is not known."""

import csv

import pytest
from places import ROOT

ASKED = "search --estimator training --model llama3-8b --system h100-nvs8 --batch 64"


def test_the_answer_names_plan_time_interval_and_what_cannot_be_told_apart(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --mine tp=2,pp=1")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "Fastest: dp" in text
    assert "80 % took between" in text
    assert "cannot be told apart by this model" in text
    assert "Of the step: arithmetic" in text
    assert "Of a layer's time: matrix products" in text
    assert "Yours, at its fastest (dp 4 tp 2" in text
    assert "MFU: Megatron-LM's convention with halved attention" in text


def test_several_sizes_are_a_line_each(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 1,8,16 --where off=0")
    lines = [line.split() for line in said.out.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("8", "16")] == ["8", "16"]
    assert "No plan fits on 1 gpus" in said.out


@pytest.mark.parametrize("width", [60, 80])
def test_tables_and_sentences_keep_to_the_width(jaxroof, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = jaxroof(f"{ASKED} --gpus 16 --mine tp=4,pp=2")
    assert max(map(len, said.out.splitlines())) <= width
    assert "step" in said.out


def test_by_memory_where_asked_or_where_no_run_was_measured(jaxroof):
    asked = jaxroof(f"{ASKED} --gpus 8 --objective device")
    assert "Least memory:" in asked.out
    other = jaxroof(f"{ASKED.replace('h100-nvs8', 'mi300x')} --gpus 8")
    assert "By memory instead:" in other.out
    assert "Least memory:" in other.out
    refused = jaxroof(f"{ASKED.replace('h100-nvs8', 'mi300x')} --gpus 8 --objective step_time")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)


def test_what_is_written_is_what_is_shown(jaxroof, tmp_path):
    said = jaxroof(f"{ASKED} --gpus 8,16 --top 2 -o plans.csv")
    assert said.code == 0, said.err
    with (tmp_path / "plans.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert [row["gpus"] for row in rows] == ["8", "8", "16", "16"]
    for row in rows:
        low, time, high = (float(row[f"step_time{end}"]) for end in ("_low", "", "_high"))
        assert low < time < high


README = (ROOT / "README.md").read_text(encoding="utf-8").split("```")
SHOWN = [  # a command of the README, and what it prints there
    (line.partition("jaxroof ")[2].partition("jaxroof ")[2] or line.partition("jaxroof ")[2], shown)
    for line, shown in ((README[1], README[3]), (README[5], README[7]))
]


@pytest.mark.parametrize(("line", "shown"), SHOWN)
def test_the_readme_shows_what_the_search_prints(line, shown, jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "118")
    said = jaxroof(line.strip())
    assert said.code == 0, said.err
    lines = [text.rstrip() for text in said.out.rstrip().splitlines()]
    assert lines == shown.strip().splitlines()
