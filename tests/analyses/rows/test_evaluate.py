"""Rows of a table: each is answered as by itself, and what is wrong is named by line and column."""

import contextlib
import csv
import io
import os
import resource
import shlex
import signal
import subprocess
import sys
import time

import golden_rows as golden
import numpy as np
import pandas as pd
import pytest
from command_line import last_words
from daily import daily
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

import jaxroof as jr
from jaxroof import estimators
from jaxroof.analyses.rows.columns import (
    Faults,
    RowProblem,
    check_complete,
    read_columns,
)
from jaxroof.analyses.rows.evaluate import evaluate_rows
from jaxroof.cli import process
from jaxroof.engine.grid import executor as executors
from jaxroof.engine.grid.executor import EXECUTORS, JAX
from jaxroof.engine.grid.question import resolve
from jaxroof.engine.runs import row_stream as rows
from jaxroof.errors import InputError
from jaxroof.io import csv_blocks as row_files
from jaxroof.io.atomic import partial_file
from jaxroof.records import get_at, leaves
from jaxroof.structure import results

RING = (ROOT / "docs" / "examples" / "ring.py").read_text(encoding="utf-8")
posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of a process")


def read(path) -> dict[str, np.ndarray]:
    """Return the columns of a file of answers: numbers where all cells are, else texts."""
    with open(path, newline="", encoding="utf-8") as stream:
        head, *lines = csv.reader(stream, strict=True)
    return {
        key: golden._column(cells)
        for key, cells in zip(head, zip(*lines, strict=True), strict=True)
    }


def write(path, columns) -> None:
    """Write columns as a CSV file, numbers to their last digit."""
    texts = [[v if isinstance(v, str) else repr(v) for v in list(c)] for c in columns.values()]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([list(columns), *zip(*texts, strict=True)])


@pytest.fixture(autouse=True)
def _started(monkeypatch):
    """Run commands in this process, which is set up."""
    monkeypatch.setattr(process, "start", lambda: None)


@pytest.fixture
def ring(jaxroof, tmp_path):
    """Evaluate rows with an estimator of one's own, that compiles in no time."""
    (tmp_path / "ring.py").write_text(RING)

    def run(text, options="", name="rows.csv"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return jaxroof(f"evaluate ring:estimator {name} {options}")

    return run


@pytest.fixture(scope="module")
def scope():
    """Return an estimator of one's own that is never called."""
    return jr.Estimator(step=print, inputs=_ring_inputs(), name="ring")


def taken(message, ranks, bandwidth, latency=5e-6):
    """Return the time of an all-reduce, as its own file says it."""
    hops = 2.0 * (ranks - 1.0)
    return hops * latency + hops / ranks * message / bandwidth


# ---- Answers ------------------------------------------------------------------------------------

LISTS = [  # golden file, split, system: a slice of each
    ("candidates_1d_gpt3_B200_nvs4_n1024", "1d", "b200-nvs4"),
    ("candidates_1d_gpt3_H200_nvs4_n2048", "1d", "h200-nvs4"),
    ("candidates_2d_gpt3_B200_nvs8_n256", "summa", "b200-nvs8"),
    ("candidates_2d_seqp_gpt3_B200_nvs8_n1024", "context", "b200-nvs8"),
]
SHORT = ["dp", "tp", "cp", "pp", "mb", "panels", "fast_tp", "plan.fast_context", "fast_dp"]


def golden_table():
    """Return golden plans of several systems and splits, mixed row by row, and what they take."""
    parts, names, splits = [], [], []
    for file, split, system in LISTS:
        rows = golden.read(file)
        rows = golden.where(rows, np.arange(0, golden.size(rows), 7)[:400])
        parts.append(rows)
        names += [system] * golden.size(rows)
        splits += [split] * golden.size(rows)
    order = np.random.default_rng(3).permutation(len(names))
    rows = golden.where(golden.joined(*parts), order)
    table = {"id": [f"row {n}, of {len(order)}" for n in order], "system": np.array(names)[order]}
    table |= {"split": np.array(splits)[order]}
    table |= dict(zip([*SHORT, "fast_pp"], golden.plans(rows).T, strict=True))
    return {key: np.asarray(column).tolist() for key, column in table.items()}, rows


@pytest.fixture(params=EXECUTORS)
def executor(request, monkeypatch):
    """Evaluate rows by NumPy, or by compiled programs however few they are."""
    if request.param == JAX:
        monkeypatch.setattr(executors, "SMALL", -1)


@pytest.mark.usefixtures("executor")
def test_golden_plans_mixed_row_by_row(jaxroof, tmp_path, monkeypatch):
    """Systems by name, splits by name, quoted notes, over the borders of chunks and pieces."""
    monkeypatch.setattr(rows, "FIRST", 1000)
    monkeypatch.setattr(rows, "LAST", 1000)
    table, expected = golden_table()
    write(tmp_path / "rows.csv", table)
    said = jaxroof("evaluate published rows.csv -o out.csv --set model=gpt3-1t")
    assert said.code == 0, said.err
    found = read(tmp_path / "out.csv")
    golden.check_values(found, expected)
    for key, column in table.items():
        np.testing.assert_array_equal(found[key], column)
    assert set(found["feasible"]) == {"true", "false"}
    assert list(found)[len(table)] == "step_time"
    assert not (tmp_path / "out.partial.csv").exists()


def test_a_row_is_what_evaluate_says(tmp_path):
    """Units in headings and cells, a name beside a field that differs, a choice, short names."""
    frame = pd.DataFrame(
        {
            "system": ["h200-nvs4", "b200-nvs8", "h200-nvs4"],
            "system.hbm_bandwidth [GB/s]": ["4800", "8 TB/s", "2039.5"],
            "hbm_usable [%]": [90, 100, 80.5],
            "model": ["gpt3-1t", "gpt3-1t", "gpt3"],
            "dp": [64, 64, 16],
            "tensor": [4, 8, 4],
            "plan.pipeline": ["8", " 8 ", "8.0"],
            "mb": [1, 1, 1],
            "split": ["1d", " 1d", "1d"],
            "#note": ["a", None, "c"],
        },
        index=[7, 8, 9],
    )
    found = evaluate_rows("published", frame, {"model.sequence": 2048}, global_batch=1024)
    assert list(found.columns[: len(frame.columns)]) == list(frame.columns)
    assert list(found.index) == [7, 8, 9]
    rates, usable = [4.8e12, 8e12, 2039.5e9], [0.9, 1.0, 0.805]
    for n, row in enumerate(frame.itertuples(index=False)):
        inputs, recipe = resolve(
            jr.published,
            {
                "system": row[0],
                "system.hbm_bandwidth": rates[n],
                "system.hbm_usable": usable[n],
                "model": row[3],
                "model.sequence": 2048.0,
                "global_batch": 1024,
                "plan.data": row[4],
                "plan.tensor": row[5],
                "plan.pipeline": 8.0,
                "plan.microbatch": 1,
                "split": row[8].strip(),
            },
        )[:2]
        alone = jr.published.evaluate(inputs, recipe)
        for name in ("step_time", "memory", "mfu", "feasible", "memory_fits"):
            expected = float(getattr(alone, name))
            np.testing.assert_allclose(float(found[name].iloc[n]), expected, rtol=1e-12, atol=0)


REFUSED = """\
system,system.hbm_capacity [GB],tp,mb
h200-nvs8,141,8,1
h200-nvs8,20,8,1
h200-nvs8,20,7,1
h200-nvs8,20,8,3
tpu-v5e,20,8,1
"""


def test_rows_say_how_many_are_feasible_and_what_refused_the_others(jaxroof, tmp_path):
    """Of those that have an answer: the verdict that refuses most comes first."""
    (tmp_path / "rows.csv").write_text(REFUSED)
    shared = {"model": "gpt3", "global_batch": 1024, "dp": 8, "pp": 8}
    sets = " ".join(f"--set {name}={value}" for name, value in shared.items())
    said = jaxroof(f"evaluate published rows.csv {sets} --keep-going")
    assert (said.code, said.err) == (0, "")
    assert ". 1 of 4 rows is feasible: memory_fits fails at 3, " in said.words
    assert said.words.endswith(" fails at 1.")
    found = evaluate_rows("published", pd.read_csv(tmp_path / "rows.csv"), shared, keep_going=True)
    good = found[found.error == ""]
    flags = [name for name in good if good[name].map(type).eq(bool).all()]
    refused = {name: int((~good[name].astype(bool)).sum()) for name in flags if name != "feasible"}
    assert (found.attrs["answered"], found.attrs["feasible"]) == (4, int(good.feasible.sum()))
    assert found.attrs["refused"] == {name: count for name, count in refused.items() if count}


@pytest.mark.parametrize("name", ["cluster", "serving_roofline", "training_memory"])
def test_results_that_are_whole_numbers_are_columns_of_a_frame(name):
    estimator = estimators.estimator(name)
    known = {path: float(value) for path, _, value in leaves(estimator.example())}
    frame = pd.DataFrame([known, known])
    alone = results(estimator.evaluate(estimator.example()))
    counts = [key for key, value in alone.items() if np.asarray(value).dtype.kind == "i"]
    found = evaluate_rows(estimator, frame)
    assert counts
    for key in counts:
        assert found[key].tolist() == [int(alone[key])] * 2
    frame[frame.columns[0]] = [1.0, -1.0]
    found = evaluate_rows(estimator, frame, keep_going=True)
    assert found[counts[0]].iloc[1] is None


@pytest.mark.parametrize("name", estimators.names())
def test_every_estimator_can_be_asked_by_rows(name):
    """What a table asks of it is its example, whatever records that has."""
    estimator = estimators.estimator(name)
    if estimator.example is None:
        pytest.skip("no example")
    known = {path: float(value) for path, _, value in leaves(estimator.example())}
    columns = read_columns(estimator, list(known))
    asked, faults = RowProblem(estimator, columns, {}), Faults()
    chunk = asked.chunk([[repr(v)] * 2 for v in known.values()], 2, faults)
    assert not faults
    assert len(chunk.groups) == 1
    assert {path for path, _, _ in leaves(chunk.groups[0].inputs)} >= set(known)
    for path, value in known.items():
        np.testing.assert_array_equal(get_at(chunk.groups[0].inputs, path), [value] * 2)


@pytest.mark.usefixtures("executor")
def test_answers_are_the_same_however_rows_are_cut(ring, tmp_path, monkeypatch):
    chance = np.random.default_rng(1)
    size = 1000
    message, ranks = chance.uniform(1e3, 1e9, size), chance.integers(2, 99, size).astype(float)
    table = {
        "message": message.tolist(),
        "ranks": ranks.tolist(),
        "bandwidth [GB/s]": ["50"] * size,
    }
    write(tmp_path / "rows.csv", table)
    text, answers = (tmp_path / "rows.csv").read_text(), []
    for first, last in ((16, 4096), (7, 7), (999, 999)):
        monkeypatch.setattr(rows, "FIRST", first)
        monkeypatch.setattr(rows, "LAST", last)
        assert ring(text, "-o out.csv").code == 0
        answers.append((tmp_path / "out.csv").read_text())
    assert answers[1:] == answers[:1] * 2
    found = read(tmp_path / "out.csv")
    np.testing.assert_array_equal(found["message"], message)
    np.testing.assert_allclose(found["time"], taken(message, ranks, 50e9), rtol=1e-12, atol=0)


def _ring_inputs():
    scope: dict = {"__name__": "ring"}
    exec(compile(RING, "ring.py", "exec", dont_inherit=True), scope)
    return scope["Ring"]


def test_what_is_typed_is_kept(ring, tmp_path):
    """Every cell of the table stays as it is; it has quotes where it needs them."""
    text = (
        '\ufeff"message [MB]", ranks,bandwidth,#why,id\r\n'
        '"1",8 , 1e11,"a ""b"",\nc",1\r\n'
        "\r\n"
        '2.50,4,50 GB/s,,"2"\r\n'
    )
    said = ring(text, "-o out.csv")
    assert said.code == 0, said.err
    lines = (tmp_path / "out.csv").read_text().split("\n")
    assert lines[0] == "message [MB],ranks,bandwidth,#why,id,time,bus_bandwidth"
    assert lines[1] == '1,8 , 1e11,"a ""b"",'
    assert lines[3].startswith("2.50,4,50 GB/s,,2,")
    found = read(tmp_path / "out.csv")
    expected = taken(np.array([1e6, 2.5e6]), np.array([8.0, 4.0]), np.array([1e11, 5e10]))
    np.testing.assert_allclose(found["time"], expected, rtol=1e-12, atol=0)
    assert list(found["#why"]) == ['a "b",\nc', ""]


def test_numbers_are_those_of_the_text_to_the_last_bit(ring, tmp_path):
    cells = ["2.039", "0.1", "3e-1", "1_0.5", "7"]
    cells += ["2.039 GB", "2039 MB", "1 GiB", "1e9 B", "0.30GB"]
    expected = [2.039e9, 1e8, 3e8, 10.5e9, 7e9, 2.039e9, 2.039e9, 2.0**30, 1e9, 3e8]
    frame = pd.DataFrame({"message [GB]": cells})
    asked = RowProblem(
        jr.Estimator(step=lambda i, r: {"m": i.message}, inputs=_ring_inputs()),
        read_columns(jr.Estimator(step=print, inputs=_ring_inputs()), ["message [GB]"]),
        {"ranks": 2.0, "bandwidth": 1.0},
    )
    faults = Faults()
    chunk = asked.chunk([frame["message [GB]"].tolist()], len(cells), faults)
    assert not faults
    assert chunk.groups[0].inputs.message.tolist() == expected


def test_a_table_is_printed_where_nothing_is_written(ring):
    said = ring("id,message,ranks,bandwidth\n" + "a,1e9,8,1e11\n" * 30)
    assert said.code == 0
    assert "17.57 ms" in said.out
    assert said.out.count("17.57 ms") == 12
    assert "30 rows in" in said.words
    assert "the first 12 are shown, -o FILE.csv writes them all." in said.words


def test_a_result_has_another_name_where_an_input_has_its_own(ring, tmp_path):
    said = ring("#time,id,message,ranks,bandwidth\n1,2,1e9,8,1e11\n", "-o out.csv")
    assert said.code == 0
    frame = pd.DataFrame({"id": [1], "message": [1.0], "ranks": [2], "bandwidth": [1.0]})
    estimator = jr.Estimator(
        step=lambda i, r: {"id": i.message, "t": i.ranks}, inputs=_ring_inputs()
    )
    found = evaluate_rows(estimator, frame)
    assert list(found.columns) == ["id", "message", "ranks", "bandwidth", "result.id", "t"]


def test_rows_with_nothing_of_their_own_share_all(ring):
    said = ring("id\n1\n2\n", "--set message=1GB --set ranks=8 --set bandwidth='100 GB/s'")
    assert said.code == 0
    assert said.out.count("17.57 ms") == 2


# ---- Refusals -----------------------------------------------------------------------------------

HEAD = "message,ranks,bandwidth\n"
GOOD = "1e9,8,1e11\n"
WRONG = [  # file, options, what is said after its name
    ("", "", "no header; expected a CSV file, UTF-8"),
    ("\n" + GOOD, "", "no header"),
    (HEAD, "", "no rows; expected a line for each configuration after line 1"),
    (HEAD + "\n\n", "", "no rows"),
    (HEAD.replace("ranks", "rank") + GOOD, "", "line 1: rank: no such input of ring. Did you mean"),
    ("message,ranks\n1,2\n", "", "bandwidth: missing; expected a value: Bandwidth of one link"),
    ("message,ranks,ranks,bandwidth\n1,2,2,1\n", "", "line 1: ranks: column 3 gives again what"),
    ("message,ranks,,bandwidth\n1,2,2,1\n", "", "line 1: column 3 has no name"),
    ("message [s],ranks,bandwidth\n1,2,1\n", "", "line 1: message [s]: 's' is not an amount of"),
    (HEAD.replace(",", ";") + GOOD.replace(",", ";"), "", "line 1: no comma in 'message;ranks;"),
    (HEAD + GOOD + "1e9,\r8,1\n", "", "line 3: a carriage return inside; expected lines that end"),
    (HEAD.replace("\n", "\r") + GOOD, "", "line 1: a carriage return inside; expected lines"),
    (HEAD + GOOD + "1e9,8\n", "", "line 3: bandwidth: no cell, the row has 2 cells; expected"),
    (HEAD + GOOD + "1e9,8,1,1\n", "", "line 3: the row has 4 cells; expected the 3 of line 1"),
    (HEAD + GOOD + '1e9,"8,1\n', "", "line 3: a quote is never closed"),
    (HEAD + GOOD + '1e9,"8"8,1\n', "", "line 3: ',' expected after '\"'"),
    (HEAD + GOOD * 2 + "1e9,x,1\n", "", "line 4: ranks: not a finite number, given 'x'; expected"),
    (HEAD + GOOD + "1e9,,1\n", "", "line 3: ranks: an empty cell; expected a value: Accelerators"),
    (HEAD + "1e9,8,1 GB\n", "", "line 2: bandwidth: 'GB' is not a bandwidth, given '1 GB'; expect"),
    (HEAD + "1e9,8,-1 GB/s\n", "", "line 2: bandwidth: expected a finite number above 0 [B/s]"),
    (HEAD + "1e9,8.5,1\n", "", "line 2: ranks: expected a whole number above 0 and at most 1000"),
    (HEAD + "nan,8,1\n", "", "line 2: message: expected a finite number above 0 [B], given 'nan'"),
    (HEAD + "inf,8,1\n", "", "line 2: message: expected a finite number above 0 [B], given 'inf'"),
    (HEAD + "true,8,1\n", "", "line 2: message: not a finite number, given 'true'"),
    (HEAD + "1e9,8,1" + "0" * 100_000 + "\n", "", "line 2: bandwidth: expected a finite number"),
    (HEAD + "x" * 6_000_000, "", "line 2: a cell of more than 131,072 characters"),
    (HEAD.encode() + b"1e9,8,\xff\n", "", "line 2: not UTF-8 text; expected a CSV file"),
    (HEAD.encode("utf-16"), "", "line 1: not UTF-8 text"),
    (HEAD + "1e9,8,\0\n", "", "line 2: bandwidth: not a finite number, given"),
]
SETS = [  # options, what is said
    ("--set ranks=2", "--set: ranks: the column 'ranks' gives it too; expected it once"),
    ("--set latency", "--set: expected PATH=VALUE, given 'latency'"),
    ("--set latency=1 --set latency=2", "--set: latency: given twice; expected it once"),
    ("--set latencies=1", "--set: latencies: no such input of ring. Did you mean 'latency'?"),
    ("--set latency='1 GB'", "latency: 'GB' is not a time, given '1 GB'"),
    ("-o out.nc", "out.nc: rows are written as CSV; expected a name that ends in .csv"),
    ("-o none/out.csv", "none/out.csv: no such directory, given 'none'"),
    ("-o rows.csv", "rows.csv: the file of the rows itself; expected another name"),
]


def one_line(said) -> str:
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("jaxroof: ")
    assert said.err.count("\n") == 1
    assert len(said.err) < 400
    return said.err.removeprefix("jaxroof: ").rstrip()


@pytest.mark.parametrize(("text", "options", "fragment"), WRONG, ids=range(len(WRONG)))
def test_a_bad_table_is_one_line(text, options, fragment, ring, tmp_path):
    assert one_line(ring(text, f"-o out.csv {options}")).startswith(f"rows.csv: {fragment}")
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert left == ["ring.py", "rows.csv"]


@pytest.mark.parametrize(("options", "fragment"), SETS)
def test_a_bad_option_is_one_line(options, fragment, ring):
    assert fragment in one_line(ring(HEAD + GOOD, options))


def test_what_is_not_there_is_named(ring, jaxroof):
    assert one_line(jaxroof("evaluate trainin rows.csv")).startswith("trainin: no such estimator.")
    assert one_line(jaxroof("evaluate published rows.csv")) == "rows.csv: no such file"
    assert "is a directory" in one_line(jaxroof("evaluate published .")).casefold()


TRAINING = [  # headings, a row, options, what is said
    ("tp", "1", "", "system: missing; expected a name of the catalogue or its fields, system.FI"),
    ("dp,tp,pp", "1,1,1", "--set system=h200-nvs4", "plan.microbatch: missing; expected"),
    ("global_batch", "1", "--set system=h200-nvs4", "plan: missing; expected the columns plan.d"),
    ("system,dp,tp,pp,mb", "h201,1,1,1,1", "", "line 2: system: h201: no such system"),
    ("system,dp,tp,pp,mb", ",1,1,1,1", "", "line 2: system: an empty cell; expected a name"),
    ("system,dp,tp,pp,mb,split", "h200-nvs4,1,1,1,1,3d", "", "line 2: split: 3d: no such Split;"),
    ("system,dp,tp,pp,mb", "own.toml,1,1,1,1", "", "line 2: system: own.toml: no such file"),
    ("system [GB],dp,tp,pp,mb", "1,1,1,1,1", "", "line 1: system [GB]: a name has no unit"),
    ("plan,dp", "1,1", "", "line 1: plan: a record, not a number; expected its fields, plan.FIELD"),
    ("precision.weights,dp", "1,1", "", "line 1: precision.weights: no such input of published."),
    ("system,dp,tp,pp,mb", "tpu-v5e,1,1,1,1", "", "line 2: system.vector_flops, system.fast"),
]


@pytest.mark.parametrize(("head", "row", "options", "fragment"), TRAINING, ids=range(len(TRAINING)))
def test_a_bad_row_of_a_training_step_is_one_line(head, row, options, fragment, jaxroof, tmp_path):
    (tmp_path / "rows.csv").write_text(f"{head}\n{row}\n")
    said = one_line(jaxroof(f"evaluate published rows.csv --set model=gpt3-1t {options}"))
    assert said.startswith(f"rows.csv: {fragment}"), said


def test_a_system_of_ones_own_lies_beside_the_table(jaxroof, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "own.toml").write_text('base = "h200-nvs4"\nhbm_bandwidth = "4.8 TB/s"\n')
    rows = "system,dp,tp,pp,mb\nown.toml,64,4,8,1\nh200-nvs4,64,4,8,1\n"
    (tmp_path / "in" / "rows.csv").write_text(rows)
    said = jaxroof("evaluate published in/rows.csv --set model=gpt3-1t -o out.csv")
    assert said.code == 0, said.err
    found = read(tmp_path / "out.csv")
    assert found["step_time"][0] == found["step_time"][1]


SOUND = b'message [GB],ranks,bandwidth,#n\n1,8,1 GB/s,"a ""q"", b"\n2e-3,4,5e10,x\r\n\n3,2,9,\n'
PATCHES = [b'"', b",", b"\n", b"\r", b"\xff", b"\0", b"nan", b"-", b" ", b"[", b"GB", b"_"]


@settings(max_examples=300, deadline=None)
@given(
    place=st.floats(0, 1),
    cut=st.integers(0, 3),
    patch=st.sampled_from(PATCHES) | st.binary(max_size=6),
    size=st.sampled_from([1, 2, 100]),
)
def test_a_patched_table_is_read_or_refused(place, cut, patch, size, scope):
    """Whatever a file holds, its rows are read back as they were typed, or there is one line."""
    data = bytearray(SOUND)
    start = int(place * len(data))
    data[start : start + cut] = patch
    with contextlib.suppress(InputError):
        file = row_files.RowFile(io.BytesIO(bytes(data)), "rows.csv")
        columns = read_columns(scope, file.headings)
        check_complete(scope, columns, {})
        asked = RowProblem(scope, columns, {})
        while (block := file.take(size)) is not None:
            faults = Faults({row: (-1, why) for row, why in block.ragged.items()})
            asked.chunk(block.cells, len(block.lines), faults)
            written = map(row_files.csv_line, zip(*block.cells, strict=True))
            again = csv.reader(io.StringIO("\n".join(written), newline=""), strict=True)
            assert [*zip(*again, strict=True)] == [*map(tuple, block.cells)]


# ---- Keep going ---------------------------------------------------------------------------------

MIXED = [GOOD, "1e9,x,1\n", GOOD, "1e9,8\n", "1e9,8,1e11,7\n", '"1e9",8,"1e11"\n', "-1,y,1\n", GOOD]


def test_bad_rows_are_marked_and_passed_over(ring, tmp_path):
    said = ring(HEAD + "".join(MIXED), "--keep-going -o out.csv")
    assert said.code == 0
    assert "8 rows in" in said.words
    assert "4 passed over, the first of them rows.csv: line 3: ranks: not a finite" in said.words
    found = read(tmp_path / "out.csv")
    assert list(found) == ["message", "ranks", "bandwidth", "time", "bus_bandwidth", "error"]
    wrong = [1, 3, 4, 6]
    right = [0, 2, 5, 7]
    assert all(found["error"][n].startswith(f"rows.csv: line {n + 2}: ") for n in wrong)
    assert "message: expected a finite number" in found["error"][6], (
        "the first column that is wrong"
    )
    assert not any(found["error"][n] for n in right)
    times = found["time"].astype(str)
    assert not any(times[n] not in ("", "nan") for n in wrong)
    np.testing.assert_allclose(times[right].astype(float), taken(1e9, 8, 1e11), rtol=1e-12)


def test_no_answer_at_all_is_an_error(ring, tmp_path):
    said = ring(HEAD + "x,1,1\n1,1\n", "--keep-going -o out.csv")
    assert said.code == 2
    assert "no row has an answer; the first: rows.csv: line 2: message: not a finite" in said.err
    assert list(read(tmp_path / "out.csv")) == ["message", "ranks", "bandwidth", "error"]


def test_rows_that_wait_for_the_first_answer_are_written(ring, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "FIRST", 2)
    monkeypatch.setattr(rows, "LAST", 2)
    assert ring(HEAD + "x,1,1\n" * 5 + GOOD * 2, "--keep-going -o out.csv").code == 0
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert [line.count("rows.csv: line ") for line in lines] == [0, 1, 1, 1, 1, 1, 0, 0]


def test_a_system_that_lacks_a_number_is_passed_over(jaxroof, tmp_path):
    rows = "system,dp,tp,pp,mb\nh200-nvs4,64,4,8,1\ntpu-v5e,64,4,8,1\nb200-nvs8,64,4,8,1\n"
    (tmp_path / "rows.csv").write_text(rows)
    said = jaxroof("evaluate published rows.csv --set model=gpt3-1t -o out.csv --keep-going")
    assert said.code == 0, said.err
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert '"rows.csv: line 3: system.vector_flops, system.fast_bandwidth, ' in lines[2]
    assert "and system.fast_domain: not given, and published needs them" in lines[2]
    assert lines[1].endswith(",")
    assert lines[3].endswith(",")


def test_a_frame_is_refused_by_row():
    with pytest.raises(InputError, match=r"^rows: expected a table \(pandas\), given a dict$"):
        jr.evaluate_rows("matmul", {"B": [1]}, system="tpu-v5e")
    frame = pd.DataFrame({"dp": [1, 2], "tp": ["4", "x"], "pp": [1, 1], "mb": [1, 1]})
    with pytest.raises(InputError, match="row 1: tp: not a finite number, given 'x'"):
        evaluate_rows("published", frame, model="gpt3-1t", system="h200-nvs4")
    found = evaluate_rows("published", frame, model="gpt3-1t", system="h200-nvs4", keep_going=True)
    assert found["error"].tolist()[0] == ""
    assert "row 1: tp" in found["error"].tolist()[1]
    assert np.isnan(found["step_time"][1])
    assert found["feasible"].tolist()[1] is None


# ---- Nothing that was computed is lost ----------------------------------------------------------


@pytest.fixture
def slow(monkeypatch):
    """Cut files into chunks of ten rows."""
    monkeypatch.setattr(rows, "FIRST", 10)
    monkeypatch.setattr(rows, "LAST", 10)


def kept(tmp_path, count) -> None:
    """Assert that the first rows are beside the output, and the older output is as it was."""
    lines = (tmp_path / "out.partial.csv").read_text().splitlines()
    assert lines[0] == "message,ranks,bandwidth,time,bus_bandwidth"
    assert len(lines) == count + 1
    assert all(line.count(",") == 4 for line in lines)
    np.testing.assert_allclose(float(lines[-1].split(",")[3]), taken(1e9, 8, 1e11), rtol=1e-12)
    assert (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.usefixtures("slow")
def test_a_bad_row_keeps_the_rows_before_it(ring, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    said = ring(HEAD + GOOD * 25 + "x,1,1\n", "-o out.csv")
    assert said.code == 2
    assert "line 27: message: not a finite number" in said.err
    assert said.err.endswith("; answers to the 20 rows before that are in out.partial.csv\n")
    kept(tmp_path, 20)


@posix
@pytest.mark.usefixtures("slow")
def test_a_full_disk_keeps_the_rows_before_it(ring, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    text = HEAD + GOOD * 500
    (tmp_path / "rows.csv").write_text(text)
    ring(text, "")  # compiled: the cache may write what it likes
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, before[1]))
    try:
        said = ring(text, "-o out.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert said.code == 2
    assert said.err.startswith(
        "jaxroof: out.csv: cannot be written: File too large; answers to the "
    )
    count = int(said.err.partition("; answers to the ")[2].partition(" rows")[0])
    assert count % 10 == 0
    assert count > 100
    kept(tmp_path, count)


@pytest.mark.usefixtures("slow")
def test_a_run_that_fails_at_once_leaves_what_another_kept(ring, tmp_path):
    (tmp_path / "out.partial.csv").write_text("kept")
    assert ring(HEAD + "x,1,1\n", "-o out.csv").code == 2
    assert (tmp_path / "out.partial.csv").read_text() == "kept"
    assert ring(HEAD + GOOD, "-o out.csv").code == 0
    assert not (tmp_path / "out.partial.csv").exists()


@posix
@pytest.mark.parametrize(("how", "code"), daily([(signal.SIGINT, 130), (signal.SIGKILL, -9)], 1))
def test_a_run_that_is_killed_keeps_its_rows(how, code, tmp_path):
    (tmp_path / "ring.py").write_text(RING)
    (tmp_path / "out.csv").write_text("old")
    (tmp_path / "rows.csv").write_text(HEAD + GOOD * 2_000_000)
    command = [sys.executable, "-m", "jaxroof", *shlex.split("evaluate ring:estimator rows.csv")]
    run = subprocess.Popen(
        [*command, "-o", "out.csv"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    partial, until = tmp_path / "out.partial.csv", time.monotonic() + 60
    while time.monotonic() < until and not (partial.exists() and partial.stat().st_size > 1e5):
        time.sleep(0.01)
    run.send_signal(how)
    _, said = run.communicate(timeout=60)
    assert run.returncode == code, said
    lines = partial.read_text().splitlines()
    whole = lines if how is signal.SIGINT else lines[:-1]
    assert len(whole) > 1000
    assert all(line.count(",") == 4 for line in whole)
    assert (tmp_path / "out.csv").read_text() == "old"
    if how is signal.SIGINT:
        left = f"answers to the {len(lines) - 1:,} rows before that are in out.partial.csv"
        assert last_words(said) == f"jaxroof: interrupted: {left}"


def test_another_writer_of_the_same_file_is_told(tmp_path):
    def both() -> None:
        with partial_file(tmp_path / "out.csv") as first:
            first("a\n", 1)
            with partial_file(tmp_path / "out.csv") as second:
                second("b\n", 1)

    with pytest.raises(InputError, match="another run writes it too; expected another name"):
        both()
    assert (tmp_path / "out.csv").read_text() == "b\n"


def test_rows_of_which_every_plan_contradicts_its_gpus_are_one_line(jaxroof, tmp_path):
    head = "model,system,gpus,global_batch,dp,tp\n"
    rows = ["llama3-8b,h100-nvs8,64,64,2,2\n", "llama3-8b,h100-nvs8,8,64,2,2\n"]
    for some in (rows[:1], rows):
        (tmp_path / "rows.csv").write_text(head + "".join(some), encoding="utf-8")
        ended = jaxroof("evaluate training rows.csv")
        assert (ended.code, ended.out) == (2, "")
        assert "line 2: gpus: not the product of the plan's degrees, given 64" in ended.err


# ---- Precision ----------------------------------------------------------------------------------


def test_a_table_has_a_precision_that_each_machine_reads_alone():
    """A row whose machine lacks the format is refused; numbers that a column gives go before."""
    systems = ["h100-nvs8", "gb200-nvl72", "a100-80-sxm"]
    asked = {"model": "llama3-8b", "global_batch": 64, "data": 4, "tensor": 2}
    frame = pd.DataFrame({"system": systems, "precision": ["fp8", "nvfp4", "fp8"]})
    found = jr.evaluate_rows("training", frame, asked, keep_going=True)
    alone = [
        float(jr.evaluate("training", asked, system=s, precision=p).step_time)
        for s, p in zip(systems[:2], frame["precision"], strict=False)
    ]
    np.testing.assert_allclose(found["step_time"][:2], alone, rtol=1e-12)
    assert found["error"][2].endswith(
        "precision: fp8: the system has no products at it; expected bf16"
    )
    shared = jr.evaluate_rows("training", frame[["system"]][:1], asked, precision="fp8")
    assert shared["step_time"][0] == found["step_time"][0]
    both = frame[:1].assign(**{"states.weight_bytes": 2.5})
    assert jr.evaluate_rows("training", both, asked)["memory"][0] > found["memory"][0]
