"""`jaxroof search --estimator training`: by step time, or by memory where that is not known."""

import re

import pytest

ASKED = "search --estimator training --model llama3-8b --system h100-nvs8 --batch 64"


def test_the_answer_names_plan_time_interval_and_what_cannot_be_told_apart(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --mine tp=2,pp=1")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "Fastest: dp" in text
    assert "in 80 % of runs" in text
    assert "The model cannot tell the first" in text
    assert "Where the step's time goes: arithmetic" in text
    assert "Within a layer: matrix products" in text
    assert "Yours (dp 4 tp 2" in text
    assert "MFU: model FLOP with causal attention (half of it)" in text


def test_several_sizes_are_a_line_each(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 1,8,16 --where off=0")
    lines = [line.split() for line in said.out.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("8", "16")] == ["8", "16"]
    assert "No plan is legal or fits on 1 gpus" in said.out


@pytest.mark.parametrize("width", [60, 80])
def test_tables_and_sentences_keep_to_the_width(jaxroof, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = jaxroof(f"{ASKED} --gpus 16 --mine tp=4,pp=2")
    assert max(map(len, said.out.splitlines())) <= width
    heads = said.out.splitlines()[2:4]
    assert "step" in heads[0]
    assert "tp" in heads[1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--top 0", "top: expected a whole number of at least 1, given 0"),
        ("--top -1", "top: expected a whole number of at least 1, given -1"),
        ("--objective device --top 0", "top: expected a whole number of at least 1, given 0"),
        ("--mine tp=8,pp=0", "mine: pp: expected whole numbers from 1 to 1e9, given '0'"),
        ("--mine tp=-8", "mine: tp: expected whole numbers from 1 to 1e9, given '-8'"),
        ("--mine tq=8", "mine: tq: no such plan field"),
    ],
)
def test_bad_input_is_one_line(more, words, jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 {more}")
    assert said.code == 2
    assert len(said.err.splitlines()) == 1
    assert words in said.err


def test_an_own_plan_says_what_makes_it_slower(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --mine tp=8 -o plans.nc")
    text = " ".join(said.out.split())
    assert re.search(r"Yours \(dp 1 tp 8 .*% slower: place .* The best spends .* less in", text)


def test_a_plan_of_no_measured_kind_names_the_best_of_one(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --where off=1")
    assert "of a measured kind" not in said.out  # there is no other
    asked = "search --model llama3-70b --system h100-nvs8 --batch 512 --gpus 64"
    said, kept = jaxroof(asked), jaxroof(f"{asked} --where off=0")
    time = re.search(r"of a measured kind, .* takes ([\d.]+) s", " ".join(said.out.split())).group(
        1
    )
    assert f"{time} s a step" in " ".join(kept.out.split())


def test_numbers_near_by_with_a_plan_are_named(jaxroof):
    said = jaxroof("search --model llama3-70b --system h100-nvs8 --gpus 500 --batch 512")
    assert "none is legal on 500 accelerators; expected 512 accelerators" in said.err
