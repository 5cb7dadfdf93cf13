"""``--json`` prints what ``-o FILE.json`` writes, and both are read back."""

import json
from typing import Any

import pytest
from daily import daily

import jaxroof as jr

LLAMA = "--model llama3-8b --system h100-nvs8 --batch 64"
COMMANDS = [
    f"search {LLAMA} --gpus 8", f"fit {LLAMA} --plan dp=8", f"fit {LLAMA} --gpus 8",
    f"explain {LLAMA} --gpus 8 --where tp<=2,cp=1,off=0", f"pareto {LLAMA} --gpus 8",
    "compare --model llama3-8b --batch 64 --gpus 8 --system h100-nvs8,b200-nvs8",
    "layers --model llama3-8b --system h100-nvs8 --plan dp=8", f"schedule {LLAMA} --plan pp=4,dp=2",
]  # fmt: skip


@pytest.mark.parametrize("line", daily(COMMANDS, 0, 1, 5, 6))
def test_json_is_the_file(line: str, jaxroof: Any) -> None:
    said = jaxroof(f"{line} --json -o found.json")
    with open("found.json", encoding="utf-8") as file:
        printed, written = json.loads(said.out), json.load(file)
    assert {**printed, "attrs": 0} == {**written, "attrs": 0}
    assert {*jr.read("found.json").variables} == {*written["coords"], *written["data_vars"]}
