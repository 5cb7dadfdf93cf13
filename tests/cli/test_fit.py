"""The command fit: one sentence, the stages, what was assumed; in a terminal, as JSON, in files."""

import io
import json

import pytest
from rich.console import Console

import jaxroof as jr
from jaxroof.views.text import fit as views

SMALL = "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 128"
LARGE = (
    "fit --model llama3.1-405b --system h100-nvs8 --plan tp=8,cp=1,pp=16,dp=128 --batch 2048 "
    "--gpus 16384 --set layer_split=7,14x8,7"
)


def test_the_first_sentence_is_the_answer(jaxroof):
    said = jaxroof(f"{SMALL} --set recompute=full")
    assert said.code == 0
    first, second, *_ = said.out.splitlines()
    assert first == "llama3-8b on 8 x h100-nvs8, dp 8 microbatch 1, batch 128 of 8,192 tokens"
    assert second == (
        "It fits: the one stage needs 71.69 GB of 80 GB, 8.306 GB are left. Largest term: "
        "gradients, without routed experts, 32.12 GB. The margin is less than the error of that "
        "number (± 15 %)."
    )
    assert "Assumed, because not given: attention kernel cudnn; loss kernel fused;" in said.words
    assert (
        "The answer hangs on the loss kernel: with cross_entropy=native (80.6 GB) or "
        "cross_entropy=eager (85.06 GB) it would not fit."
    ) in said.words
    assert "No other attention kernel would turn the answer." in said.words


def test_what_does_not_fit_exits_with_1(jaxroof):
    said = jaxroof(LARGE)
    assert said.code == 1
    assert said.out.splitlines()[1].startswith(
        "It does not fit: stage 1, the fullest of 16, needs 91.38 GB, 11.38 GB more than the 80 GB "
        "there are. Largest term: inside dense MLPs, 39.26 GB."
    )
    assert "with recompute=full (28.35 GB) it would fit." in said.words


def test_json_is_what_python_says(jaxroof):
    said = jaxroof(f"{LARGE} --json")
    told = json.loads(said.out)
    plan = {"tp": 8, "pp": 16, "dp": 128}
    asked = {"model": "llama3.1-405b", "system": "h100-nvs8", "plan": plan, "global_batch": 2048}
    data = jr.fit(**asked, layer_split="7,14x8,7")
    assert said.code == 1
    assert (told["fits"], told["fullest_stage"]) == (False, 1)
    assert told["missing"] == float(data.missing)
    assert [row["device"] for row in told["stages"]] == data.device.values.tolist()
    assert told["bounds"]["allocated"] == "± 1 % + 15 MiB"


@pytest.mark.parametrize("kind", [".csv", ".json", ".nc"])
def test_files_hold_a_row_a_stage(kind, jaxroof, tmp_path):
    path = tmp_path / f"stages{kind}"
    said = jaxroof(f"{LARGE} -o {path}")
    assert said.err == f"wrote {path}\n"
    assert jr.read(path).device.size == 16


def test_table_and_bars_fit_80_columns():
    plan = {"tp": 8, "pp": 16, "dp": 128}
    asked = {"model": "llama3.1-405b", "system": "h100-nvs8", "plan": plan, "global_batch": 2048}
    data = jr.fit(**asked, layer_split="even")
    page = Console(width=80, record=True, file=io.StringIO())
    page.print(views.stages_table(data))
    lines = page.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(word in lines[2] or word in lines[3] for word in ("weights", "vations", "fers"))
    bars = list(views.bars(data, 80))
    assert max(map(len, bars)) <= 80
    assert " ".join(bars[16:]).endswith("· outside  | 80 GB")
    ends = {bar.index("|") for bar in bars[:16]}
    assert len(ends) == 1, "the capacity stands in one column"
    longest = max(bars[:16], key=lambda bar: len(bar.replace("|", "").rstrip()))
    assert longest == bars[int(data.fullest_stage)]


BAD = [
    (f"{SMALL} --set recompute=ful", "recompute: ful: no such Recompute. Did you mean 'full'?"),
    (f"{SMALL} --set gpus=8", "--set: gpus: expected it in --gpus"),
    (f"{SMALL} -o stages.png", "stages.png: expected a name that ends in .csv, .json, .nc"),
    (f"{SMALL} -o stages.txt", "stages.txt: cannot tell the kind of file from '.txt'; expected a"),
    (SMALL.replace("dp=8", "dp"), "--plan: expected FIELD=NUMBER, such as tp=8, given 'dp'"),
    (SMALL.replace("dp=8", "tp=3"), "plan: tp=3: not legal (tensor degrees that do not divide"),
    (SMALL.replace("dp=8", "tp=x"), "plan.tensor: not a finite number, given 'x'; expected"),
    (SMALL.replace("128", "1.5"), "--batch: expected whole numbers from 1 to 1e9, given '1.5'"),
    (SMALL.replace("llama3-8b", "gpt3"), "gpt3: bare layers"),
]


@pytest.mark.parametrize(("line", "said"), BAD)
def test_bad_input_is_one_line(line, said, jaxroof):
    ended = jaxroof(line)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"jaxroof: {said}")
