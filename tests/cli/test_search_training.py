"""`jaxroof search --estimator training`: by step time, or by memory where that is not known."""

import math
import re

import pytest
from daily import daily

import jaxroof as jr
from jaxroof.estimators.training.step import training

ASKED = "search --estimator training --model llama3-8b --system h100-nvs8 --batch 64"


def test_the_answer_names_plan_time_interval_and_what_cannot_be_told_apart(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --mine tp=2,pp=1 --verbose")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert re.search(r"Fastest of the [\d,]+ plans that fit: dp", text)
    assert "in 80 % of measured runs" in text
    assert "plans are too close for the model to tell apart" in text
    assert "Where the step's time goes: arithmetic" in text
    assert "Within a layer: matrix products" in text
    assert "Yours: dp 4 tp 2" in text
    assert "MFU: model FLOP with causal attention (half of it)" in text


def test_several_sizes_are_a_line_each(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 1,8,16 --where off=0")
    lines = [line.split() for line in said.out.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("8", "16")] == ["8", "16"]
    assert "On 1: none of " in said.out


@pytest.mark.parametrize("width", [60, 80])
def test_tables_and_sentences_keep_to_the_width(jaxroof, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = jaxroof(f"{ASKED} --gpus 16 --mine tp=4,pp=2")
    assert max(map(len, said.out.splitlines())) <= width
    first = next(i for i, line in enumerate(said.out.splitlines()) if line.startswith(" #  dp"))
    assert "step" in said.out.splitlines()[first - 1]


@pytest.mark.parametrize(("more", "words"), [
    ("--top 0", "top: expected a whole number from 1 to 1,000,000, given 0"),
    ("--top -1", "top: expected a whole number from 1 to 1,000,000, given -1"),
    ("--objective device --top 0", "top: expected a whole number from 1 to 1,000,000, given 0"),
    ("--mine tp=8,pp=0", "mine: pp: expected whole numbers from 1 to 4096, given '0'"),
    ("--mine tp=-8", "mine: tp: expected whole numbers from 1 to 1e9, given '-8'"),
    ("--mine tq=8", "mine: tq: no such plan field"),
])  # fmt: skip
def test_bad_input_is_one_line(more, words, jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 {more}")
    assert said.code == 2
    assert len(said.err.splitlines()) == 1
    assert words in said.err


def test_an_own_plan_says_what_makes_it_slower(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --mine tp=8 -o plans.nc")
    text = " ".join(said.out.split())
    assert re.search(r"Yours: dp 1 tp 8 .* s\): place .*% slower.* It spends .* more in", text)


def test_a_plan_of_no_measured_kind_names_the_best_of_one(jaxroof):
    said = jaxroof(f"{ASKED} --gpus 8 --where off=1")
    assert "of a measured kind" not in said.out  # there is no other
    asked = "search --model llama3-70b --system h100-nvs8 --batch 512 --gpus 64"
    said, kept = jaxroof(asked), jaxroof(f"{asked} --where off=0")
    text = " ".join(said.out.split())
    time = re.search(r"of a measured kind, .* takes ([\d.]+) s", text).group(1)
    assert f"{time} s a step" in " ".join(kept.out.split())


def test_numbers_near_by_with_a_plan_are_named(jaxroof):
    said = jaxroof("search --model llama3-70b --system h100-nvs8 --gpus 500 --batch 512")
    assert "none is legal on 500 accelerators; expected 480 or 512 accelerators" in said.err


def plan_of(said) -> str:
    """Return the line with every field of the best plan."""
    return next(line for line in said.out.splitlines() if line.startswith("Plan: "))[6:]


def test_the_plan_that_is_printed_can_be_pasted_everywhere(jaxroof):
    best = plan_of(jaxroof(f"{ASKED} --gpus 16"))
    assert best.split()[::2] == [n for n in training.short_names if n not in ("ord", "rs")]  # usual
    said = jaxroof(f"{ASKED} --gpus 16 --mine '{best}'")
    assert f"Yours: {best}, " in said.words
    assert "it is the best of the" in said.words
    question = "--model llama3-8b --system h100-nvs8"
    for line in (f"layers {question}", f"fit {question} --batch 64"):
        pasted = jaxroof(f"{line} --plan '{best}'")
        assert pasted.code == 0, pasted.err


def test_how_much_is_printed(jaxroof):
    usual, quiet, verbose = (
        jaxroof(f"{ASKED} --gpus 8 {how}").out for how in ("", "--quiet", "--verbose")
    )
    assert quiet.strip() in usual
    assert "Fastest" not in quiet
    assert {*usual.splitlines()} < {*verbose.splitlines()}
    assert "legal plans;" in verbose


def test_json_is_what_is_written(jaxroof, tmp_path):
    for more in ("--gpus 8", "--gpus 8,16", "--gpus 8 --objective memory"):
        said = jaxroof(f"{ASKED} {more} --json -o plans.json")
        written = (tmp_path / "plans.json").read_text(encoding="utf-8")
        second = re.compile(r"\d\d:\d\d:\d\dZ")  # of the history, when each was made
        assert second.sub("", said.out) == second.sub("", written)
    wrong = jaxroof(f"{ASKED} --gpus 8 --json --quiet")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--json and --quiet exclude each other" in wrong.err


@pytest.mark.parametrize("level", daily([0, 1, 2], 2))
def test_fit_reads_how_much_a_plan_computes_again(level, jaxroof, tmp_path):
    """The memory that fit finds for a whole plan is the one that a search has for it."""
    asked = f"{ASKED} --gpus 16 --where rc={level} --top 1 -o best.json"
    best = plan_of(jaxroof(asked))
    need = float(jr.read("best.json").memory[0])
    said = jaxroof(f"fit --model llama3-8b --system h100-nvs8 --batch 64 --plan '{best}' -o f.json")
    assert said.code == 0, said.err
    assert float(jr.read("f.json").device.max()) == pytest.approx(need, rel=1e-6)


def test_unequal_stages_are_told_by_every_command_that_names_the_plan(jaxroof):
    asked = "--model llama3-8b --system h100-nvs8 --gpus 7 --batch 28 --where pp=7,off=0"
    said = [jaxroof(f"{command} {asked}").words for command in ("search", "explain", "compare")]
    layers = {text[text.index("The layers of its") :].partition(".")[0] for text in said}
    assert len(layers) == 1


# ---- The run, and the plan as options of software -----------------------------------------------

RUN = "search --model llama3-8b --system h100-nvs8 --gpus 16 --batch 64 --where tp=8,off=0"


def test_a_search_says_what_the_run_takes(jaxroof, tmp_path):
    assert "A training on 15 T tokens takes " in jaxroof(RUN).words
    said = jaxroof(f"{RUN} --tokens 300B -o plans.nc").words
    data = jr.read(tmp_path / "plans.nc")
    hours = float(data.training_days[0]) * 24 * 16
    assert "A training on 0.3 T tokens takes " in said
    assert f"on these 16: {hours:,.0f} GPU-hours." in said
    seconds = 300e9 / (8192 * 64) * float(data.step_time[0])
    assert float(data.training_days[0]) == pytest.approx(seconds / 86400, rel=1e-9)


@pytest.mark.parametrize("name", ["megatron", "nemo", "torchtitan", "deepspeed"])
def test_the_best_plan_is_printed_as_options_and_read_again(name, jaxroof, tmp_path):
    """What a software is told is, but for fields without an option, the plan of the table."""
    said = jaxroof(f"{RUN} --top 1 --as {name} --quiet")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].split()[0] != "#", "two lines of heads"
    options = said.out.partition("\n\n")[2]
    (tmp_path / "run.sh").write_text(f"python train.py {options}")
    again = jaxroof(f"{RUN} --mine run.sh")
    assert again.code == 0, again.err
    assert "Yours: dp 2 tp 8" in again.words


OPTIONS = [  # of --mine and --as, what is said
    ("--mine '--tensor-model-parallel-size 8 --global-batch-size 12'", "global batch 12, but"),
    ("--mine '--tensor-model-parallel-size x'", "expected a whole number, given 'x'"),
    ("--as megatrn", "no such software with launch options. Did you mean 'megatron'?"),
    ("--tokens none", "--tokens: not a finite number"),
    ("--tokens -3T", "--tokens: expected tokens above 0, such as 15T, given '-3T'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), OPTIONS)
def test_options_of_software_that_cannot_be_used_are_one_line(options, said, jaxroof):
    ended = jaxroof(f"{RUN} {options}")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("division", ["uneven", "even"])
def test_the_layers_of_the_stages_are_those_of_the_model(division, jaxroof):
    line = "search --model llama3-70b --system h100-nvs8 --gpus 64 --batch 128"
    rule = {"uneven": "pp=2,vp=41", "even": "pp=8,vp=3"}[division]
    said = jaxroof(f"{line} --where {rule},tp=8 --set layer_division={division}")
    told = re.search(r"The layers of its \d+ chunks of stages: ([^.]*)\.", said.words)[1]
    runs = [part.split(" x ") for part in told.split(", ")]
    assert sum(math.prod(map(int, run)) for run in runs) == 80
