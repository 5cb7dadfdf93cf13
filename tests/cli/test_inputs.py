"""What a question may be given as: a config.json, files over files, numbers with commas."""

import json
import pathlib

import pytest
from daily import daily

from jaxroof.cli.types import parse_counts
from jaxroof.errors import InputError

FILES = pathlib.Path(__file__).parents[1] / "catalog" / "huggingface"
CONFIG = FILES / "llama-3.1-8b.json"
ASKED = f"--model {CONFIG} --system h100-nvs8"
QUESTIONS = [  # every command that asks about a model
    f"search {ASKED} --gpus 8 --batch 64", f"search {ASKED} --gpus 8 --batch 64 --objective memory",
    f"compare {ASKED} --gpus 8 --batch 64", f"pareto {ASKED} --gpus 8 --batch 64",
    f"layers {ASKED} --plan tp=4", f"schedule {ASKED} --plan tp=4,pp=2,dp=1 --batch 64",
    f"fit {ASKED} --plan dp=8 --batch 64", f"fit {ASKED} --gpus 8 --batch 64",
]  # fmt: skip


@pytest.mark.parametrize("question", [*QUESTIONS, f"explain {ASKED} --gpus 8 --batch 64"])
def test_a_model_without_a_sequence_is_refused_alike(jaxroof, question):
    said = jaxroof(question)
    assert said.code == 2
    assert said.err.startswith("jaxroof: model.sequence: not given; expected a value: Tokens of")
    assert said.err.strip().endswith("; give it with --sequence")


@pytest.mark.parametrize("question", daily(QUESTIONS, 0, 5))
def test_a_sequence_may_be_given_three_ways(jaxroof, question):
    ways = ("--sequence 4096", "--set sequence=4096", "--set model.sequence=4096")
    first, *others = (jaxroof(f"{question} {way}") for way in ways)
    assert first.code in (0, 1), first.err
    assert [one.out for one in others] == [first.out, first.out]
    assert "given twice" in jaxroof(f"{question} --sequence 4096 --set sequence=4096").err


def test_a_file_may_change_another_file(jaxroof, tmp_path):
    (tmp_path / "config.json").write_text(CONFIG.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "long.toml").write_text('base = "config.json"\nsequence = 4096\n', encoding="utf-8")
    (tmp_path / "half.toml").write_text('base = "long.toml"\nlayers = 16\n', encoding="utf-8")
    said = jaxroof(f"layers --model {tmp_path / 'half.toml'} --system h100-nvs8 --plan tp=4")
    assert said.code == 0, said.err
    shown = jaxroof(f"show {tmp_path / 'half.toml'}")
    assert ["layers", "16"] in [line.split() for line in shown.out.splitlines()]


def test_files_that_change_each_other_are_refused(jaxroof, tmp_path):
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{one}.toml").write_text(f'base = "{other}.toml"\n', encoding="utf-8")
    said = jaxroof(f"search --model {tmp_path / 'a.toml'} --system h100-nvs8 --gpus 8 --batch 8")
    assert said.code == 2
    assert "a.toml: changes this file itself" in said.err


@pytest.mark.parametrize(
    ("text", "found"), [("64,256", [64, 256]), ("2,048", [2048]), ("1024, 2048", [1024, 2048])]
)
def test_a_comma_may_stand_between_thousands(text, found):
    assert parse_counts("--gpus", text) == found


WRONG = ["1,024,2,048", "8,8", "0", "8,", "2,04", "2.5", "2e9", "many", "nan", "1e400", "", "8,,16"]


@pytest.mark.parametrize("text", [*WRONG, "8,x", "8 GB", "-8", "9" * 400])
def test_what_is_no_list_of_counts_is_refused(text):
    with pytest.raises(InputError, match="--gpus"):
        parse_counts("--gpus", text)


QUESTION = "--model llama3-8b --gpus 8 --batch 64"


@pytest.mark.parametrize(("systems", "set_", "said"), [
    ("h100-nvs8,rtx-4090", "", "No step time of rtx-4090: lacks hbm_capacity,"),
    ("h100-nvs8,a100-80-sxm", "--set precision=fp8", "a100-80-sxm has no products at it."),
])  # fmt: skip
def test_a_machine_without_step_time_is_one_line_of_a_comparison(jaxroof, systems, set_, said):
    found = jaxroof(f"compare {QUESTION} --system {systems} {set_}")
    assert found.code == 0, found.err
    assert said in found.words
    assert "Best plan on h100-nvs8" in found.words


def test_no_step_time_at_all_ends_with_1(jaxroof):
    found = jaxroof(f"compare {QUESTION} --system rtx-4090")
    assert found.code == 1, found.err
    assert "lacks hbm_capacity" in found.words


@pytest.mark.parametrize("system", ["h100-book", "a100-book"])
def test_a_chip_that_was_never_measured_is_answered_by_the_nearest(jaxroof, system):
    found = jaxroof(f"search {QUESTION} --system {system} --top 1")
    assert found.code == 0, found.err
    assert f"No run on the chip of {system} was measured: its constants are those" in found.words
    assert "not calibrated" in found.words


def test_a_torus_is_answered_as_gpus_are(jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = jaxroof(f"search {QUESTION} --system tpu-v5p --top 2")
    assert found.code == 0, found.err
    for said in ("MaxText, dense", "Memory: it ", "MFU", "slice", "Where the step's time goes"):
        assert said in found.words
    assert all(len(line) <= 80 for line in found.out.splitlines())


ON_GPUS = [
    ("layers --model llama3-8b --plan tp=8", "whose step is MaxText's"),
    ("fit --model llama3-8b --batch 64 --plan tp=8", "whose step is MaxText's"),
    (f"search {QUESTION} --as megatron", "MaxText on TPUs has no launch options"),
    (f"search {QUESTION} --set precision=nvfp4", "no such number format of MaxText on TPUs"),
]


@pytest.mark.parametrize(("line", "said"), ON_GPUS)
def test_what_is_of_gpus_alone_is_refused_of_a_torus(jaxroof, line, said):
    found = jaxroof(f"{line} --system tpu-v5p")
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_an_objective_may_be_any_result_that_ranks_plans(jaxroof):
    first, by_mfu = (
        jaxroof(f"search {QUESTION} --system h100-nvs8 {more}") for more in ("", "--objective mfu")
    )
    assert first.out == by_mfu.out
    by_memory = jaxroof(f"search {QUESTION} --system h100-nvs8 --objective memory")
    assert by_memory.code == 0
    assert by_memory.out == jaxroof(f"search {QUESTION} --system h100-nvs8 --objective device").out


def test_a_batch_that_divides_badly_is_told_a_better_one(jaxroof):
    bad, good = (
        jaxroof(f"search --model llama3-8b --system h100-nvs8 --gpus 64 --batch {batch}")
        for batch in (1023, 1024)
    )
    assert "This batch divides badly: one of 1,024 trains" in bad.words
    assert "divides badly" not in good.words


def test_days_name_their_tokens(jaxroof):
    asked = "compare --model llama3-8b --system h100-nvs8 --gpus 8 --batch 64"
    assert "Days are of a training on 15 T tokens." in jaxroof(asked).words
    other = jaxroof(f"{asked} --set training_tokens='2 T'")
    assert "Days are of a training on 2 T tokens." in other.words


def test_no_legal_plan_names_the_rules(jaxroof):
    said = jaxroof("search --model llama3-8b --system h100-nvs8 --gpus 13 --batch 64")
    assert said.code == 2
    assert "; refused are " in said.err


def test_setting_the_capacity_that_show_prints_changes_nothing(jaxroof):
    shown = jaxroof("show h100-nvs8").words
    capacity = shown.partition("hbm_capacity is ")[2].partition(" there")[0]
    asked = f"search {QUESTION} --system h100-nvs8"
    assert jaxroof(asked).out == jaxroof(f"{asked} --set system.hbm_capacity='{capacity}'").out


def test_an_example_of_a_config_file_has_no_sequence():
    assert "sequence" not in json.loads(CONFIG.read_text(encoding="utf-8"))
