"""From the shell: the plans that need the least memory, of `fit` without a plan and of `search`."""

import csv
import io
import json
from typing import Any

import pytest
from rich.console import Console

import jaxroof as jr
from jaxroof.views.text import least_memory as views

ASKED = "--model llama3-8b --system h100-nvs8 --batch 12"
SEARCH = f"search --objective device --estimator training {ASKED}"


def test_fit_without_a_plan_finds_the_fewest_accelerators(jaxroof: Any) -> None:
    said = jaxroof(f"fit {ASKED} --where off=0,zero<=1 --verbose")
    assert said.code == 0, said.err
    assert "The fewest accelerators that hold it are" in said.words
    assert "In the table: dp data, tp tensor, pp pipeline" in said.words
    assert "Your constraints dropped" in said.words
    answer = jaxroof(f"fit {ASKED} --where off=0,zero<=1 --json")
    found = json.loads(answer.out)
    assert f"are {found['gpus']}:" in said.words
    assert found["fits"]
    assert found["plans"][0]["device"] <= found["capacity"]


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
    page.print(views.sizes_table([data, data]))
    lines = page.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(name in " ".join(lines) for name in ("dp", "tp", "pp", "HBM", "gpus"))


WRONG = [
    (f"{SEARCH} --gpus 8 --split summa", "--split: belongs to --estimator published; expected it"),
    (
        f"{SEARCH} --gpus 8 --objective regime",
        "regime: no such objective of training; expected one of",
    ),
    (f"{SEARCH} --gpus 8 --set rc=1", "rc: a field of the plan; constrain it"),
    (f"{SEARCH} --gpus 8 --set recompute=full", "recompute: a field of the plan; constrain it"),
    (f"{SEARCH} --gpus 8 --sequence 4 --set sequence=3", "sequence: given twice; expected it in"),
    (f"{SEARCH} --gpus 13", "plan: none is legal on 13 accelerators"),
    (
        f"search --estimator mfu {ASKED} --gpus 8",
        "--estimator: mfu: no such estimator of a training step",
    ),
    (f"fit {ASKED} --plan tp=8 --where tp=8", "--where: constrains the plans of a search"),
    (f"fit {ASKED} -o plans.png", "plans.png: expected a name that ends in"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_bad_input_is_one_line_and_exit_code_2(jaxroof: Any, line: str, message: str) -> None:
    said = jaxroof(line)
    assert said.code == 2
    assert message in said.err
    assert len(said.err.splitlines()) == 1
