"""Every command that searches takes any estimator by name, and knows none of its fields."""

import pathlib
import shutil
from typing import Any

import pytest
from daily import daily

import jaxroof as jr
from tests.helpers import server

FILE = """
estimator = "server:estimator"
model = "llama3-8b"
system = "h100-nvs8"
plan = {{ gpus = 8 }}
{more}
"""
AXES = """
[axes]
"system.hbm_bandwidth" = ["2 TB/s", "4 TB/s"]
"limits.token" = ["2 ms", "5 ms"]
"""
PRICES = """
[price]
"system.hbm_bandwidth" = { price = 0.5, per = "1 GB/s" }
[bounds]
"system.hbm_bandwidth" = ["1 TB/s", "20 TB/s"]
"""
MACHINE = "--model llama3-8b --system h100-nvs8"
ASKED = f"--estimator server:estimator {MACHINE}"
PAIR = "--estimator server:estimator --model llama3-8b --system h100-nvs8,b200-180-sxm --gpus 8"


@pytest.fixture(autouse=True)
def beside(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in a folder that has the module, a sweep, a design and rows of it."""
    shutil.copy(str(server.__file__), tmp_path / "server.py")
    monkeypatch.chdir(tmp_path)
    pathlib.Path("map.toml").write_text(FILE.format(more=AXES))
    pathlib.Path("part.toml").write_text(FILE.format(more=PRICES))
    pathlib.Path("rows.csv").write_text("model,system,gpus,tp,b\nllama3-8b,h100-nvs8,8,2,4\n")


BEST = "tp 2 b 128"
LINES = [  # the command, what it says
    (f"search {ASKED} --gpus 8 --mine tp=2,b=4", f"plans that fit: {BEST}, accelerator time 30"),
    (f"search {ASKED} --gpus 8,16", "16 2 128 30.79 ms"),
    (f"compare {PAIR}", "Best: b200-180-sxm, accelerator time 13.39 ms. b200-180-sxm is 2.30"),
    (f"pareto {ASKED} --gpus 8", "In 80 GB: 30.79 ms. With 60.88 GB more memory it is 0.06 %"),
    (f"explain {ASKED} --gpus 8", f"Best plan: {BEST}, 30.79 ms, 70.44 GB of 80 GB. Plan: {BEST}"),
    (f"pareto {ASKED} --gpus 8,16", "70.44 GB 30.79 ms"),
    ("run map.toml --trust", "Least accelerator time: 25.79 ms, tp 2 b 128 at hbm_bandwidth"),
    ("design part.toml --trust", "buys nothing better than the base: 30.79 ms"),
    ("evaluate server:estimator rows.csv", "1 row in"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), LINES)
def test_a_command_takes_an_estimator_by_name(jaxroof: Any, line: str, said: str) -> None:
    ended = jaxroof(line)
    assert ended.code == 0, ended.err
    assert said in ended.words.replace(" | ", " ")
    for word in ("a step", "the step", "Days", "MFU", "the accelerator and"):
        assert word not in ended.words


@pytest.mark.parametrize("line", daily([one for one, _ in LINES[:5]], 2))
def test_its_answers_are_drawn_reported_and_plotted(jaxroof: Any, line: str) -> None:
    assert jaxroof(f"{line} -o found.nc").code == 0
    assert jaxroof("plot found.nc -o found.png").code == 0
    assert jaxroof("report found.nc -o found.html").code == 0


REFUSED = [  # the command, the one line
    (f"search {ASKED} --gpus 8 --batch 4", "--batch: not of the estimator server; expected it"),
    (f"compare {PAIR} --sequence 4", "--sequence: not of the estimator server; expected it left"),
    (f"search {ASKED} --gpus 8 --tokens 1T", "--tokens: not of the estimator server"),
    (f"pareto {ASKED} --gpus 8 --days 3", "--days: not of the estimator server"),
    (f"pareto {MACHINE} --gpus 8 --estimator mfu --batch 8", "--estimator: mfu: has no plans"),
    (f"explain {MACHINE} --gpus 8", "Missing option '--batch'"),
    (f"layers {MACHINE} --plan tp=2 --estimator mfu", "--estimator: mfu: has no layers"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_an_option_that_its_inputs_lack_is_refused_in_one_line(
    jaxroof: Any, line: str, said: str
) -> None:
    ended = jaxroof(line)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err


TASK = "--set prompt=1024 --set output=256"
NAMED = [  # of the catalogue, and commands that take it
    ("tpu_training --system tpu-v5p --batch 64", "search pareto compare explain"),
    ("stage_memory --system h100-nvs8 --batch 64", "search compare"),
    (f"serving --system h100-nvs8 {TASK}", "search pareto compare explain"),
    (f"serving_decode --system h100-nvs8 {TASK}", "search pareto compare explain"),
]


@pytest.mark.parametrize(("asked", "commands"), daily(NAMED, 0, 1, 2))
def test_one_of_the_catalogue_is_named_too(jaxroof: Any, asked: str, commands: str) -> None:
    asked = f"--model llama3-8b --gpus 8 --estimator {asked}"
    for command in commands.split():
        assert jaxroof(f"{command} {asked}").code == 0


def test_a_limit_besides_memory_chooses_another_plan(jaxroof: Any) -> None:
    ended = jaxroof(f"compare {PAIR} --set limits.token=1ms -o pair.nc")
    assert ended.code == 0
    assert float(jr.read("pair.nc").token.max()) <= 1e-3


def test_a_file_names_no_code_to_run(jaxroof: Any) -> None:
    """What the user typed once a stranger's file may not: the code of a module beside it."""
    assert jaxroof(f"pareto {ASKED} --gpus 8 -o found.nc").code == 0
    ended = jaxroof("rerun found.nc")
    assert ended.code == 2
    assert "whose code no file may name" in ended.err
