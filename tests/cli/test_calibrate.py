"""The command calibrate: what it prints and writes, and that its file is a chip of evaluate."""

import csv
import gzip
import json
import pathlib
import re
import statistics
import time

import pytest

from jaxroof.catalog import lookup
from jaxroof.cli import progress
from jaxroof.validation import sources

BIGSCIENCE = pathlib.Path(sources.__file__).parent / "data" / "steps" / "bigscience_a100.csv.gz"


@pytest.fixture
def rows(tmp_path):
    """Write a handful of measured rows as a file of a user's."""
    head, *lines = gzip.decompress(BIGSCIENCE.read_bytes()).decode().splitlines()
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([head, *lines[::8]]) + "\n", encoding="utf-8")
    return path


def errors(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [abs(float(row["step_error_percent"])) for row in csv.DictReader(file)]


def test_a_calibrated_chip_predicts_better(jaxroof, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = jaxroof(f"calibrate {rows} --system a100-80-sxm -o mine.toml")
    assert (said.code, said.err) == (0, "wrote mine.toml\n")
    factor = re.search(r"software on a100-80-sxm take ([\d.]+) times as long", said.words)
    assert 1.1 < float(factor[1]) < 1.3
    assert re.search(r"from 8 rows of \d plans\.", said.words)
    assert "Not told by these rows, left as before: " in said.words
    assert "What a further measurement would teach:" in said.words
    assert float(lookup.chip(tmp_path / "mine.toml").matmul) < float(lookup.chip("ampere").matmul)
    asked = "search --model llama3-8b --gpus 8 --batch 64 --where off=0 --top 1 --system"
    mine, plain = jaxroof(f"{asked} mine.toml"), jaxroof(f"{asked} a100-80-sxm")
    assert "dense, 16 bit, own runs" in mine.words
    assert "dense, 16 bit)" in plain.words
    for chip in ("", "--chip mine.toml"):
        line = f"evaluate training {rows} --schema measured -o out{len(chip)}.csv {chip}"
        assert jaxroof(line).code == 0
    before, after = (errors(tmp_path / f"out{n}.csv") for n in (0, len("--chip mine.toml")))
    assert statistics.median(after) < 0.5 * statistics.median(before)


def test_json_has_all_of_it(jaxroof, rows):
    found = json.loads(jaxroof(f"calibrate {rows} --system a100-80-sxm --json").out)
    assert len(found["rows"]) == len(found["error_left_out_percent"]) == 8
    assert found["factor_alone"]["low"] < found["factor_alone"]["value"]
    assert found["chip"] == "ampere"
    assert found["next_measurements"]


def changed(path, place, column, value):
    """Change a cell of a row of a file."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[place][column] = value
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows[place]["id"]


def test_a_row_far_from_the_others_is_the_first(jaxroof, rows):
    name = changed(rows, 2, "#measured_step_time_s", "360000")
    said = jaxroof(f"calibrate {rows} --system a100-80-sxm").words
    assert "rows, furthest from the fit first" in said
    assert re.search(rf"{name} 100 hours?|{name} 360,000 s|{name} [\d.e+]+ s", said)


def test_a_column_that_nothing_reads_is_said(jaxroof, rows):
    text = rows.read_text(encoding="utf-8")
    for name, said in (
        ("step_seconds", "step_seconds: no such input of training"),
        (
            "#step_seconds",
            "no row can be used; the first, bigsci-033: #measured_step_time_s: blank",
        ),
    ):
        rows.write_text(text.replace("#measured_step_time_s", name, 1), encoding="utf-8")
        ended = jaxroof(f"calibrate {rows} --system a100-80-sxm")
        assert ended.code == 2
        assert said in ended.err


def test_what_takes_long_says_what_it_does(capsys, monkeypatch):
    for patience, said in ((0.01, "fitting [/] ...\n"), (60.0, "")):
        monkeypatch.setattr(progress, "PATIENCE", patience)
        with progress.working("fitting [/]"):
            time.sleep(0.2)
        assert capsys.readouterr().err == said


BAD = [
    ("calibrate none.csv --system h100-nvs8", "none.csv: no such file"),
    ("calibrate {rows} --system h100", "h100: no such system; expected one of h100-nvs"),
    ("calibrate {rows} --system h100-nvs8", "{rows}: no row can be used; the first, bigsci-"),
    ("calibrate {rows} --system mi300x", "{rows}: no row can be used; the first, bigsci-"),
    ("calibrate {rows} --system tpu-v5p", "--system: tpu-v5p: lacks fast_domain, fast_bandwidth"),
    ("calibrate {rows} --system mine.toml", "mine.toml: no such file"),
    ("calibrate {rows} --system a100-80-sxm -o a.csv", "a.csv: expected a name that ends in .toml"),
    ("calibrate {rows} --system a100-80-sxm -o no/a.toml", "no/a.toml: no such directory"),
    ("calibrate {rows}", "Missing option '--system'"),
    ("evaluate training {rows} --schema measured --chip amper", "amper: no such chip"),
    ("evaluate training {rows} --chip ampere", "--chip: ampere: for measured runs; expected"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), BAD)
def test_bad_input_is_one_line(line, said, jaxroof, rows):
    ended = jaxroof(line.format(rows=rows))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"jaxroof: {said.format(rows=rows)}")


def test_servers_tell_constants_of_their_software(jaxroof, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    head = "id,#kind,model,tp,prompt,output,batch,chunk,#step_s"
    rows = [f"{b},batch,llama3-8b,1,512,256,{b},512,{s}" for b, s in ((1, 9e-3), (8, 1e-2))]
    (tmp_path / "servers.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    said = jaxroof("calibrate servers.csv --system h100-nvs8 --software vllm -o mine.toml")
    assert (said.code, said.err) == (0, "wrote mine.toml\n")
    assert said.words.startswith("vllm-2026 on h100-nvs8, 2 measured values: median error ")
    assert "Not told by these rows, left as before: " in said.words
    found = json.loads(jaxroof("calibrate servers.csv --system h100-nvs8 --json").out)
    assert found["median_error"]["after"] < found["median_error"]["before"]
    assert {one["before"] for one in found["constants"].values()} <= {
        2.45e-5,
        7.49e-4,
        0.782,
        1.32e-5,
    }
    mine = jaxroof(
        "search --estimator serving --model llama3-8b --system h100-nvs8 --gpus 1 --top 1 "
        "--set prompt=512 --set output=256 --set software=mine.toml"
    )
    assert mine.code == 0, mine.err
