"""The commands on measured rows: validate --memory, and evaluate --schema measured."""

import csv
import gzip
import json
import pathlib
import re

import pytest

from jaxroof.validation import sources
from jaxroof.validation.sources import packaged

DATA = pathlib.Path(sources.__file__).parent / "data" / "memory"


@pytest.fixture
def measured(tmp_path):
    """Return the path of a source's rows as a file of a user's."""

    def written(name, change=lambda text: text):
        text = gzip.decompress((DATA / f"{name}.csv.gz").read_bytes()).decode()
        path = tmp_path / f"{name}.csv"
        path.write_text(change(text), encoding="utf-8")
        return path

    return written


def test_validate_prints_errors_and_what_is_not_answered(jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = jaxroof("validate --memory --source torchtitan")
    assert said.code == 0
    assert "FSDP2, loss by rule" in said.out
    assert "torchtitan: recompute: blank; expected none, selective, full or a policy" in said.words
    assert "Furthest off" in said.words


def test_validate_writes_rows_and_json(jaxroof, tmp_path):
    said = jaxroof("validate --memory --source simumax_b200 --json -o errors.csv")
    assert said.err == "wrote errors.csv\n"
    assert {one["kind"] for one in json.loads(said.out)["scores"]} == {"dense", "MoE, capacity"}
    with open(tmp_path / "errors.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 23, "allocated and reserved"
    assert {row["number"] for row in rows} == {"allocated", "reserved"}


def test_validate_is_of_step_times(jaxroof, tmp_path):
    said = jaxroof("validate --source mt_nlg_a100 -o errors.csv")
    assert (said.code, said.err) == (0, "wrote errors.csv\n")
    assert "A100 80, not calibrated 3 19.4" in said.words
    assert "Furthest off, one of each configuration" in said.words
    assert re.search(r"predicted [\d.]+ s; arithmetic \d+ %, ", said.words)
    with open(tmp_path / "errors.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["regime"] for row in rows] == ["not calibrated"] * 3
    found = json.loads(jaxroof("validate --source mt_nlg_a100 --json").out)
    assert found["scores"][0]["rows"] == len(rows)
    assert len(found["worst"]) == 1, "one of each configuration"
    worst = found["worst"][0]
    parts = [value for name, value in worst.items() if name.startswith("time_")]
    assert sum(parts) == pytest.approx(worst["predicted_step_time_s"])


def test_servers_of_which_none_is_known_are_not_answered(jaxroof, tmp_path):
    head = "id,#kind,model,system,software,tp,prompt,output,batch,chunk,#step_s"
    row = "a,batch,llama3-9b,h100-nvs8,vllm,1,512,256,1,512,1"
    (tmp_path / "own.csv").write_text(f"{head}\n{row}\n", encoding="utf-8")
    said = jaxroof("validate serving --source own.csv -o errors.csv")
    assert (said.code, "Not answered: 1 rows." in said.out) == (0, True), said.err
    assert json.loads(jaxroof("validate serving --source own.csv --json").out)["scores"] == []


BAD = [
    ("validate --source mlperf", "--source: mlperf: no such source of measured steps."),
    ("validate -o a.txt", "a.txt: expected a name that ends in .csv, .md, .png, .svg or .pdf"),
    ("validate --source mlperf_training -o a.md", "--source: the page is about all sources"),
    ("validate --memory -o a.png", "a.png: expected a name that ends in .csv or .md"),
    ("validate serving -o a.png", "a.png: expected a name that ends in .csv or .md"),
    ("validate serving --source tpus", "--source: tpus: no such source of measured servers."),
    ("validate -o none/a.png", "none/a.png: no such directory"),
    ("validate --memory --source simumax", "--source: simumax: no such source of measured memory."),
    ("validate --memory -o errors.txt", "errors.txt: expected a name that ends in .csv or .md"),
    ("validate --memory --source torchtitan -o a.md", "--source: the page is about all sources"),
    ("evaluate training none.csv --schema measured", "none.csv: no such file"),
    (
        "evaluate training none.csv --schema measure",
        "--schema: measure: no such schema of rows. Did",
    ),
    ("evaluate unfused none.csv --schema measured", "--schema: measured runs are of training; exp"),
    ("evaluate training none.csv --schema measured --set a=1", "--set: a=1: a measured run is as"),
]


@pytest.mark.parametrize(("line", "said"), BAD)
def test_bad_input_is_one_line(line, said, jaxroof):
    ended = jaxroof(line)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"jaxroof: {said}")


def test_measured_rows_are_answered(jaxroof, measured, tmp_path):
    path = measured("torchtitan")
    said = jaxroof(f"evaluate training {path} --schema measured -o out.csv")
    assert said.code == 0
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == packaged("memory", "torchtitan")["id"].tolist()
    answered = [row for row in rows if not row["reason"]]
    assert 20 < len(answered) < len(rows)
    assert all(row["fits"] == "yes" for row in answered), "they ran"
    words = f"Memory: {len(answered)} of {len(rows)} rows answered: {len(answered)} fit, 0 do not."
    assert words in said.words
    for row in rows:
        assert bool(row["predicted_reserved_bytes"]) != bool(row["reason"])
        assert bool(row["error_percent"]) <= bool(row["#measured_reserved_bytes"])


def test_the_first_rows_are_printed(jaxroof, measured):
    said = jaxroof(f"evaluate training {measured('llm_foundry_mpt')} --schema measured")
    assert said.code == 0
    assert "Memory: 216 of 216 rows answered: 216 fit, 0 do not." in said.words
    assert "Step time: 216 of 216 rows answered. The first 20 are shown;" in said.words
    assert "mpt-000" in said.out


def test_no_answer_at_all_is_one_line(jaxroof, measured):
    path = measured("simumax_b200", lambda text: text.replace("b200-180-sxm", "trainium"))
    said = jaxroof(f"evaluate training {path} --schema measured")
    assert said.code == 2
    assert "no row has an answer; the first: memory: system: trainium: no such" in said.err


def test_a_row_without_memory_has_a_step_time(jaxroof, measured, tmp_path):
    path = measured("simumax_b200", lambda text: text.replace(",max,", ",7,"))
    said = jaxroof(f"evaluate training {path} --schema measured -o out.csv")
    assert said.code == 0, said.err
    assert "Memory: 0 of 23 rows answered" in said.words
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["reason"].startswith("#stage: no such stage, given '7'")
        assert not row["step_reason"]
        low, time, high = (
            float(row[name])
            for name in ("step_time_low", "predicted_step_time_s", "step_time_high")
        )
        assert low < time < high
        parts = [float(row[name]) for name in row if name.startswith("time_")]
        assert len(parts) == 11
        assert sum(parts) == pytest.approx(time)
    assert {row["regime"] for row in rows} == {"dense, 16 bit", "experts"}


def test_a_name_twice_is_named(jaxroof, measured):
    path = measured("simumax_b200", lambda text: text.replace("simumax-b200-02", "simumax-b200-01"))
    said = jaxroof(f"evaluate training {path} --schema measured")
    assert (said.code, said.out) == (2, "")
    assert "line 3: id: 'simumax-b200-01' is line 2 too" in said.err


def test_validate_is_of_servers(jaxroof, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = jaxroof("validate serving --source tpu -o errors.csv")
    assert (said.code, said.err) == (0, "wrote errors.csv\n")
    assert said.words.startswith("Half of 9 predictions lie within ")
    assert "jax-2026 tpu, TPOT 4 " in said.words
    assert max(map(len, said.out.splitlines())) <= 80
    with open(tmp_path / "errors.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["quantity"] for row in rows} == {"tpot", "step"}
    assert all(float(row["low"]) < float(row["predicted"]) < float(row["high"]) for row in rows)
    found = json.loads(jaxroof("validate serving --source tpu --json").out)
    assert sum(one["rows"] for one in found["scores"]) == len(rows)
    plain = gzip.decompress((DATA.parent / "serving" / "tpu.csv.gz").read_bytes())
    (tmp_path / "mine.csv").write_bytes(plain)
    own = jaxroof("validate serving --source mine.csv")
    assert "jax-2026 tpu, TPOT 4 " in own.words
    assert ("were fitted to these rows" in said.words) > ("were fitted to these rows" in own.words)
    wrong = plain.decode().replace("0.03512", "abc").replace("qwen3-32b", "qwen3-32x", 1)
    (tmp_path / "mine.csv").write_text(wrong, encoding="utf-8")
    own = jaxroof("validate serving --source mine.csv")
    assert "#tpot_s: not a number above 0, given 'abc'" in own.words
    assert "qwen3-32x: no such architecture. Did you mean 'qwen3-32b'?" in own.words
    (tmp_path / "mine.csv").write_text(wrong.replace("#kind", "#sort"), encoding="utf-8")
    own = jaxroof("validate serving --source mine.csv")
    assert own.code == 2
    assert "mine.csv: #kind: no such column" in own.err
