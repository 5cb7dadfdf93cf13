"""From the shell: the plans that need the least memory, of `fit` without a plan and of `search`."""

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import jaxroof as jr
from jaxroof.analyses.legal_plans import joined
from jaxroof.analyses.training_plans import fastest_plans
from jaxroof.estimators.training.step import training
from jaxroof.units import size
from jaxroof.views.text import least_memory as views

ASKED = "--model llama3-8b --system h100-nvs8 --batch 12"
SEARCH = f"search --objective device --estimator training {ASKED}"


def test_fit_without_a_plan_finds_the_fewest_accelerators(jaxroof: Any) -> None:
    said = jaxroof(f"fit {ASKED} --where off=0,zero<=1 --verbose")
    assert said.code == 0, said.err
    assert "The fewest accelerators that hold it are" in said.words
    assert "In the table: dp data, tp tensor, pp pipeline" in said.words
    assert "Your constraints dropped" in said.words
    jaxroof(f"fit {ASKED} --where off=0,zero<=1 -o found.json")
    found = jr.read("found.json")
    assert f"are {int(found.gpus)}:" in said.words
    assert bool(found.fits)
    assert float(found.device[0]) <= float(found.capacity)


def test_fit_on_given_accelerators_says_yes_and_the_fastest_of_search(jaxroof: Any) -> None:
    said = jaxroof(f"fit {ASKED} --gpus 8 -o found.json")
    found = jr.read("found.json")
    about = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 12, "gpus": 8}
    best = jr.search("training", **about)
    assert said.code == 0
    yes = f"Yes: {int(best.plans_feasible):,} of {int(best.plans_legal):,} legal plans fit on 8"
    assert said.out.splitlines()[1].startswith(yes)
    assert float(found.step_time[0]) == float(best.step_time)
    assert f"{float(best.step_time):.4g} s a step" in said.words
    lean = json.loads(str(found.lean_plan.values))
    time, memory = float(found.lean), float(found.lean_memory)
    assert time <= 1.1 * float(best.step_time)
    assert memory < float(best.memory)
    assert lean["offload_optimizer"] == 0
    fields = {name: lean[name] for name in training.plan_fields}
    again = jr.evaluate("training", {**about, **{f"plan.{n}": v for n, v in fields.items()}})
    assert (float(again.step_time), float(again.memory)) == (time, memory)
    assert f"needs {size(memory, 'B')}" in said.words


def test_no_lean_plan_was_overlooked() -> None:
    about = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 12, "gpus": 8}
    data = fastest_plans(**about, top=100_000)
    near = data.step_time <= 1.1 * data.step_time[0]
    kept = data.isel(plan=np.flatnonzero(near & (data.offload_optimizer == 0)))
    assert float(data.lean_memory) == float(kept.memory.min())


def test_what_does_not_fit_is_told_the_fewest_more(jaxroof: Any) -> None:
    said = jaxroof(f"fit {ASKED} --gpus 1 --where off=0 -o found.json")
    assert said.code == 1
    assert said.out.splitlines()[1].startswith("No plan fits on 1 accelerators.")
    ways = json.loads(jr.read("found.json").attrs["ways"])
    assert ways == {"constraints": 1, "accelerators": 2}
    assert "Without your constraints a plan fits on these 1." in said.words
    assert "The fewest accelerators that hold it are 2." in said.words
    assert not json.loads(json.loads(jaxroof(f"fit {ASKED} --gpus 1 --json").out)["attrs"]["ways"])
    fewest = jaxroof(f"fit {ASKED}").words
    assert "The fewest accelerators that hold it are 1:" in fewest
    assert "Without offload the fewest are 2." in fewest
    assert "lie in host memory, of 250 GB there." in fewest


def test_a_search_ranks_by_memory_and_counts_what_was_refused(jaxroof: Any) -> None:
    said = jaxroof(f"{SEARCH} --gpus 8 --top 3 --mine tp=2,rc=0 --verbose")
    assert said.code == 0, said.err
    assert "llama3-8b on 8 x h100-nvs8, batch 12 of 8,192 tokens" in said.words
    assert "Least memory: dp 1 tp" in said.words
    assert "legal plans;" in said.words
    assert "The rules dropped" in said.words
    assert "Yours, at its leanest" in said.words


def test_several_sizes_are_rows_of_a_table_and_of_a_file(jaxroof: Any, tmp_path: Any) -> None:
    said = jaxroof(f"{SEARCH} --gpus 2,4,13 --top 2 -o plans.csv")
    assert said.code == 0, said.err
    assert "On 13: none is legal on 13 accelerators" in said.words
    with open("plans.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["gpus"] for row in rows] == ["2", "2", "4", "4"]
    for row in rows:
        degrees = [int(row[name]) for name in ("data", "tensor", "context", "pipeline")]
        product = 1
        for degree in degrees:
            product *= degree
        assert product == int(row["gpus"])


def test_nothing_fits_is_exit_code_1(jaxroof: Any) -> None:
    said = jaxroof(f"{SEARCH} --gpus 1 --where off=0")
    assert said.code == 1
    assert "No plan fits on 1 accelerators. The leanest" in said.words


def test_tables_fit_80_columns() -> None:
    """Degrees and memory stay, though experts and interleaving take columns of their own."""
    asked = {"model": "mixtral-8x7b", "system": "h100-nvs8", "global_batch": 96}
    data = jr.least_memory(**asked, gpus=48, top=40, where="rc<=1,pp>1")
    page = Console(width=80, record=True, file=io.StringIO())
    page.print(views.plans_table(data))
    for one in views.answer(joined([data, data], {})):
        page.print(one.piece)
    lines = page.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(name in " ".join(lines) for name in ("dp", "tp", "pp", "HBM", "gpus"))


WRONG = [
    (f"{SEARCH} --gpus 8 --split summa", "split: no such field of"),
    (f"{SEARCH} --gpus 8".replace("device", "regime"),
     "regime: no such objective of training; expected one of"),
    (f"{SEARCH} --gpus 8 --set rc=1", "rc: a field of the plan; constrain it"),
    (f"{SEARCH} --gpus 8 --set recompute=full", "recompute: a field of the plan; constrain it"),
    (f"{SEARCH} --gpus 8 --sequence 4 --set sequence=3", "sequence: given twice; expected it in"),
    (f"{SEARCH} --gpus 13", "plan: none is legal on 13 accelerators"),
    (f"search --estimator mfu {ASKED} --gpus 8",
     "--estimator: mfu: has no plans; expected one that is searched"),
    (f"fit {ASKED} --plan tp=8 --where tp=8", "--where: constrains the plans of a search"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_bad_input_is_one_line_and_exit_code_2(jaxroof: Any, line: str, message: str) -> None:
    said = jaxroof(line)
    assert said.code == 2
    assert message in said.err
    assert len(said.err.splitlines()) == 1
