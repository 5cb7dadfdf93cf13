"""Many grids of every plan share a CSV file: it grows, loses nothing and computes nothing twice."""

import csv
import errno
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

import jaxroof as jr
from jaxroof.engine.runs import chunked_sweep as sweep
from jaxroof.engine.runs import plan_columns as row_columns
from jaxroof.engine.runs import plan_table as appended
from jaxroof.errors import InputError
from jaxroof.io import atomic

posix = pytest.mark.skipif(os.name != "posix", reason="signals of a process")

MINE = """
import dataclasses
import enum
import numpy as np
import jaxroof as jr

class Order(enum.Enum):
    TURNS, ROWS = "turns", "rows"

@dataclasses.dataclass(frozen=True)
class Recipe:
    order: Order = Order.TURNS
    packing: Order | None = None

@jr.record
class Field:
    rows: float = jr.quantity("1", "Rows to plough.", whole=True)
    length: float = jr.quantity("m", "Length of a row.")
    stones: float | None = jr.quantity("1", "Stones.", default=None)

@jr.record
class Plan:
    teams: float = jr.quantity("1", "Teams.", whole=True)
    turns: float = jr.quantity("1", "Turns of a team.", whole=True)

@jr.record
class Inputs:
    model: Field
    oxen: float | None = jr.quantity("1", "Oxen.", whole=True, default=None)
    speed: float = jr.quantity("m/s", "Speed of an ox.", default=0.5)
    plan: Plan | None = None

def step(inputs, recipe):
    plan, field = inputs.plan, inputs.model
    divides = field.rows % plan.teams == 0
    time = field.rows * field.length / inputs.speed / plan.teams + plan.turns / 4.0
    fits = plan.teams * plan.turns <= 12.0
    return {
        "time": time if recipe.order is Order.TURNS else 2.0 * time,
        "memory": plan.teams * plan.turns,
        "teams_divide_rows": divides,
        "memory_fits": fits,
        "feasible": divides & fits,
    }

def tried(inputs, recipe):
    teams, turns = np.meshgrid(np.arange(1, int(inputs.oxen) + 1), [1, 3])
    return {"teams": teams.T.ravel(), "turns": turns.T.ravel()}

FIELDS = {"north": Field(rows=6, length=100.0), "south": Field(rows=8, length=0.1 + 0.2)}
estimator = jr.Estimator(
    step=step, inputs=Inputs, plan=Plan, recipe=Recipe(), tried=tried, need="memory",
    candidates=lambda inputs, recipe: jr.estimator.Candidates(tried(inputs, recipe), {}),
    structural=("oxen", "model"), objective="time", names={"model": FIELDS.__getitem__},
    limit=lambda inputs: 12.0, name="ploughing",
)
"""
SWEEP = """
title = "A field"
estimator = "mine:estimator"
answer = "plans"
model = "north"
[axes]
oxen = [4]
"""


@pytest.fixture
def field(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text: str = SWEEP, **more) -> xr.Dataset:
    pathlib.Path("sweep.toml").write_text(text)
    return jr.run("sweep.toml", output="rows.csv", **more, trust=True)


def content() -> bytes:
    return pathlib.Path("rows.csv").read_bytes()


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> tuple[bytes, xr.Dataset]:
    """Return a finished file, and its configurations."""
    home = tmp_path_factory.mktemp("known")
    (home / "mine.py").write_text(MINE)
    (home / "sweep.toml").write_text(SWEEP)
    data = jr.run(home / "sweep.toml", output=home / "rows.csv", trust=True)
    return (home / "rows.csv").read_bytes(), data


def refused(action=run, *arguments, **more) -> str:
    with pytest.raises(InputError) as told:
        action(*arguments, **more)
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.fixture
def counted(monkeypatch):
    """Tell how many configurations each call evaluates."""
    calls: list[int] = []

    def evaluated(asked, progress):
        calls.append(asked.points)
        return sweep.evaluate_sweep(asked, progress)

    monkeypatch.setattr(appended, "evaluate_sweep", evaluated)
    return calls


# ---- What is written ----------------------------------------------------------------------------


def test_rows_say_what_a_reader_needs_first(field):
    data = run()
    head, *rows = list(csv.reader(content().decode().splitlines()))
    assert head == [
        *("model", "oxen", "speed", "teams", "turns", "recipe.order", "memory", "time"),
        *("legal", "reason", "model.rows", "model.length", "model.stones", "recipe.packing"),
        *("feasible", "memory_fits", "teams_divide_rows", "made_by"),
    ]
    by_name = [dict(zip(head, row, strict=True)) for row in rows]
    assert len(rows) == data.sizes["configuration"] == 8
    assert by_name[1]["time"] == "1200.75"
    assert by_name[1]["model.stones"] == by_name[1]["recipe.packing"] == ""
    assert by_name[1]["made_by"].startswith("ploughing ")
    assert by_name[1]["made_by"].endswith(f"(jaxroof {jr.__version__})")
    refusals = [
        (row["reason"], row["legal"], row["time"]) for row in by_name if row["teams"] == "4"
    ]
    assert refusals == [("teams_divide_rows", "False", "")] * 2
    table = pd.read_csv("rows.csv")
    assert table.model.tolist() == ["north"] * 8
    np.testing.assert_array_equal(table.time, data.time)
    assert jr.read("rows.csv").legal.values.tolist() == data.legal.values.tolist()


def test_what_is_read_back_is_what_was_computed(field, counted):
    once = jr.run("sweep.toml", trust=True)
    assert_same = xr.testing.assert_identical
    assert_same(run(), once)
    before = content()
    assert_same(run(), once)
    assert counted == [8]
    assert content() == before
    assert [path.name for path in field.glob("*rows*")] == ["rows.csv"]


@given(st.floats(allow_nan=True))
def test_a_number_is_read_as_it_was(value):
    spell, parse, *_ = row_columns.KINDS["f"]
    found = parse(spell(value))
    assert found == value or (math.isnan(found) and math.isnan(value))
    assert math.copysign(1.0, found) == math.copysign(1.0, value) or math.isnan(value)


# ---- Many grids, one file -----------------------------------------------------------------------


def test_grids_share_a_file_and_each_gets_its_own(field, counted):
    north = SWEEP.replace("[4]", "[4, 2]")
    both = north.replace('model = "north"\n', "") + 'model = ["south", "north"]\n'
    fast = SWEEP + 'speed = ["0.5 m/s", "1.1 m/s"]\n'
    rows = SWEEP.replace("[axes]", '[set]\norder = "rows"\n[axes]')
    added = [(SWEEP, 8), (north, 4), (both, 12), (fast, 8), (rows, 8), (both, 0), (SWEEP, 0)]
    total = 0
    for text, new in added:
        before = content() if total else b""
        counted.clear()
        found = run(text)
        assert sum(counted) == new
        total += new
        assert content().startswith(before)
        assert content().count(b"\n") == total + 1
        if text is both:  # in their own order, what is there and what is new
            xr.testing.assert_allclose(found, jr.run("sweep.toml", trust=True), rtol=1e-14)
    assert pd.read_csv("rows.csv").groupby("model").size().to_dict() == {"north": 28, "south": 12}


def test_a_point_that_is_there_twice_is_computed_once(field, counted):
    twice = SWEEP.replace("[4]", "[3, 3]")
    xr.testing.assert_identical(run(twice), jr.run("sweep.toml", trust=True))
    assert counted == [6]


def test_code_that_changed_makes_its_own_rows(field, counted):
    run()
    (field / "mine.py").write_text(MINE.replace("/ 4.0", "/ 2.0"))
    xr.testing.assert_identical(run(), jr.run("sweep.toml", trust=True))
    assert counted == [8, 8]


def test_columns_may_be_moved_and_lines_end_otherwise(field, counted):
    data = run()
    head, *rows = list(csv.reader(content().decode().splitlines()))
    turned = [row[::-1] for row in (head, *rows[::-1])]
    with open("rows.csv", "w", encoding="utf-8-sig", newline="") as stream:
        csv.writer(stream).writerows(turned)
    xr.testing.assert_identical(run(), data)
    assert counted == [8]
    more = SWEEP.replace("[4]", "[5]")
    xr.testing.assert_identical(run(more), jr.run("sweep.toml", trust=True))
    assert content().endswith(b",north\n")


# ---- Begun again --------------------------------------------------------------------------------


def stopped(monkeypatch, after: int, error) -> None:
    left = [after]

    def until(asked, progress):
        left[0] -= 1
        if left[0] < 0:
            raise error
        return sweep.evaluate_sweep(asked, progress)

    monkeypatch.setattr(appended, "evaluate_sweep", until)


@pytest.mark.parametrize("after", [0, 2])
def test_what_was_stopped_goes_on(after, field, known, monkeypatch):
    told: list[tuple[int, int]] = []
    with monkeypatch.context() as patch:
        stopped(patch, after, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt) as said:
            run(chunk=3)
    assert str(said.value) == f"{3 * after} of 8 configurations are finished; run again to continue"
    assert not after or content() == b"".join(known[0].splitlines(True)[: 1 + 3 * after])
    assert after or not pathlib.Path("rows.csv").exists()
    xr.testing.assert_identical(run(progress=lambda *done: told.append(done)), known[1])
    assert content() == known[0]
    assert told[0] == (3 * after, 8)
    assert told[-1] == (8, 8)


def test_ctrl_c_is_one_line(field, jaxroof, monkeypatch):
    monkeypatch.chdir(field)
    stopped(monkeypatch, 1, KeyboardInterrupt)
    code, out, err = jaxroof("run sweep.toml --trust -o rows.csv --chunk 5")
    said = "jaxroof: interrupted: 5 of 8 configurations are finished; run again to continue\n"
    assert (code, out, err.lstrip()) == (130, "", said)


def test_a_last_line_that_was_cut_short_is_dropped(field, counted, known):
    lines = known[0].splitlines(keepends=True)
    for whole, rest in [(0, 1), (0, 40), (0, len(lines[0]) - 1), (1, 5), (3, -1), (8, 0), (8, 90)]:
        pathlib.Path("rows.csv").write_bytes(b"".join(lines[:whole]) + lines[whole][:rest])
        counted.clear()
        xr.testing.assert_identical(run(), known[1])
        assert content() == known[0]
        assert sum(counted) == 9 - max(whole, 1)


@pytest.mark.parametrize("after", [0, 1])
def test_a_disk_that_fills_keeps_what_was_written(after, field, known, monkeypatch, jaxroof):
    monkeypatch.chdir(field)
    left = [after]

    def full(_):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", full)
        code, out, err = jaxroof("run sweep.toml --trust -o rows.csv --chunk 3")
    reason = os.strerror(errno.ENOSPC)
    count = f"{3 * after} of 8 configurations are finished; run again to continue"
    assert (code, out) == (2, "")
    assert err.lstrip() == f"jaxroof: rows.csv: cannot be written: {reason}; {count}\n"
    assert not after or content().count(b"\n") == 4
    xr.testing.assert_identical(run(), known[1])
    assert content() == known[0]


# ---- What is not ours ---------------------------------------------------------------------------

WRONG = [  # what is made of the file, what is said
    (lambda text: "name,age\nAda,36\n", "line 1: 'name' is no column of this sweep's rows; expec"),
    (lambda text: "years of work", "line 1: not the names of columns; expected rows of this sw"),
    (lambda text: text.replace("model.rows,", "", 1), "line 1: no column 'model.rows'; expec"),
    (lambda text: text.replace("turns,", "teams,", 1), "line 1: 'teams' is there twice; expected"),
    (lambda text: text.replace("1200.75", "12oo.75"), "line 3: time: '12oo.75'; expected a number"),
    (
        lambda text: text.replace("True", "Yes", 1),
        "line 2: legal: 'Yes'; expected True or False; me",
    ),
    (lambda text: text.replace("fits,6", "6", 1), "line 2: 17 cells; expected the 18 of line 1; m"),
    (lambda text: text.replace("fits,6", '"fits,6', 1), "unexpected end of data; mend the line"),
    (lambda text: text.replace("fits,6", "\ud800fits,6", 1), "line 2: not UTF-8 text; expected a"),
]


def test_a_file_that_is_not_such_a_file_is_left_as_it_is(field, known):
    for made, said in WRONG:
        text = made(known[0].decode()).encode("utf-8", "surrogatepass")
        assert text != known[0]
        pathlib.Path("rows.csv").write_bytes(text)
        told = refused()
        assert told.startswith("rows.csv: ")
        assert said in told
        assert "--overwrite" in told or "UTF-8" in told
        assert content() == text
    xr.testing.assert_identical(run(overwrite=True), known[1])
    assert content() == known[0]


def test_a_file_may_lack_a_field_that_came_later_and_that_the_sweep_leaves_out(field, known):
    rows = [*csv.reader(known[0].decode().splitlines())]
    place = rows[0].index("model.stones")
    kept = [[cell for at, cell in enumerate(row) if at != place] for row in rows]
    earlier = "".join(",".join(row) + "\n" for row in kept).encode()
    pathlib.Path("rows.csv").write_bytes(earlier)
    xr.testing.assert_identical(run(), known[1])
    assert content() == earlier


def test_chunk_and_overwrite_are_of_files_that_grow(field):
    assert "at least 1, given 0" in refused(chunk=0)
    assert not pathlib.Path("rows.csv").exists()
    best = SWEEP.replace('answer = "plans"\n', "")
    assert "or of a .csv file where answer" in refused(run, best, chunk=3)
    assert "expected one as the output" in refused(run, best, overwrite=True)


def test_a_second_writer_is_refused(field):
    with atomic.locked_append("rows.csv"):
        for more in ({}, {"overwrite": True}):
            assert refused(**more) == "rows.csv: another run is writing it"
    assert not pathlib.Path("rows.csv").exists()
    run()


def test_a_file_that_another_took_the_place_of_is_not_written(field, monkeypatch):
    def replaced(asked, progress):
        pathlib.Path("other.csv").write_text("years")
        pathlib.Path("other.csv").replace("rows.csv")
        return sweep.evaluate_sweep(asked, progress)

    monkeypatch.setattr(appended, "evaluate_sweep", replaced)
    assert "another file took its place" in refused()
    assert content() == b"years"


# ---- Kill ---------------------------------------------------------------------------------------

SLOW = """
import time
import jaxroof as jr
from jaxroof.engine.runs import plan_table
whole = plan_table.evaluate_sweep
plan_table.evaluate_sweep = lambda *asked: time.sleep(0.05) or whole(*asked)
jr.run("sweep.toml", output="rows.csv", chunk=1, trust=True)
"""


@posix
def test_a_run_that_is_killed_goes_on_and_holds_the_file_no_longer(field, known):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    limit = time.monotonic() + 60.0
    with subprocess.Popen([sys.executable, "-c", SLOW], env=environment) as running:
        try:
            while not pathlib.Path("rows.csv").exists() or content().count(b"\n") < 4:
                assert time.monotonic() < limit
                time.sleep(0.002)
            assert refused() == "rows.csv: another run is writing it"
        finally:
            running.kill()
    assert running.returncode == -signal.SIGKILL
    assert known[0].startswith(content())
    assert 3 < content().count(b"\n") < 9
    xr.testing.assert_identical(run(), known[1])
    assert content() == known[0]


# ---- A file and a store -------------------------------------------------------------------------

STUDY = """
estimator = "pipeline"
answer = "plans"
model = "mlp-study"
system = "distir-a"
set = { profile = "distir-a", "model.layers" = 2 }
search = { where = "pipeline=2" }
axes = { gpus = [2], global_batch = [66] }
"""
GRIDS = [  # the file, its points, what is changed, what is said
    (SWEEP, 8, ('"north"', '"south"'), "model.rows: 6 there, 8 here"),
    pytest.param(
        *(STUDY, 2, ('layers" = 2', 'layers" = 4'), "model.layers: 2 there, 4 here"),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("text", "points", "change", "said"), GRIDS, ids=["field", "study"])
def test_a_grid_goes_on_in_a_csv_file_and_in_a_store(
    text, points, change, said, field, jaxroof, monkeypatch
):
    pathlib.Path("sweep.toml").write_text(text)
    first = jaxroof("run sweep.toml --trust -o rows.csv --chunk 100")
    assert first.code == 0
    assert first.out
    assert content().count(b"\n") == 1 + points
    ran = []

    def once(*asked):
        ran.append(asked)
        if len(ran) > 1:
            raise KeyboardInterrupt
        return whole(*asked)

    whole = sweep._evaluated
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "_evaluated", once)
        stop = jaxroof("run sweep.toml --trust -o rows.zarr --chunk 1")
    assert (stop.code, stop.out) == (130, "")
    assert f"1 of {points} chunks are finished; run again to continue" in stop.err
    assert jaxroof("run sweep.toml --trust -o rows.zarr").out == first.out
    monkeypatch.setattr(sweep, "_evaluated", None)
    assert jaxroof("run sweep.toml --trust -o rows.csv").out == first.out
    xr.testing.assert_identical(jr.read("rows.zarr").load(), run(text))
    pathlib.Path("sweep.toml").write_text(text.replace(*change))
    assert f"holds another sweep: {said}" in jaxroof("run sweep.toml --trust -o rows.zarr").err


@pytest.mark.slow
def test_rows_of_the_study_say_why_a_plan_is_refused(field):
    run(STUDY)
    table = pd.read_csv("rows.csv")
    assert table["system"].tolist() == ["distir-a"] * 2
    assert table["reason"].tolist() == ["fits", "microbatches_divide_batch"]
    assert table["legal"].tolist() == table["step_time"].notna().tolist() == [True, False]


# ---- The same to the last bit -------------------------------------------------------------------

LOOPS = """
estimator = "mine:looping"
answer = "plans"
model = "south"
axes = { oxen = [5] }
"""
LOOPING = """
import jax.numpy as jnp

def looped(inputs, recipe):
    plan, field = inputs.plan, inputs.model
    time = sum(jnp.exp(jnp.sin(turn * plan.turns / plan.teams)) for turn in range(20))
    return {"time": time * field.length, "memory": plan.teams, "feasible": plan.teams <= 4.0}

looping = dataclasses.replace(
    estimator, step=looped, need="", limit=None, name="looping", recipe=None
)
"""
PUBLISHED = """
estimator = "published"
answer = "plans"
model = "gpt3-1t"
system = "h200-nvs4"
plan = { global_batch = 64, gpus = 8 }
"""
TODAY = """
answer = "plans"
model = "llama3-8b"
system = "h100-nvs8"
plan = { global_batch = 8, gpus = 4 }
search = { where = "rc<=1,off=0,zero<=1,microbatch=1" }
"""
EVERY = [
    *((SWEEP, 1), (PUBLISHED, 7), (TODAY, 30), (LOOPS, 3)),
    pytest.param(STUDY.replace("[66]", "[64]").replace("[2]", "[2, 4]"), 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(
    ("text", "chunk"), EVERY, ids=["field", "published", "training", "looping", "study"]
)
def test_a_file_is_the_same_to_the_bit_however_it_is_cut_or_stopped(
    text, chunk, field, monkeypatch
):
    (field / "mine.py").write_text(MINE + LOOPING)
    whole = run(text)
    once = content()
    lines = once.count(b"\n") - 1
    assert lines > 2 * chunk
    run(text, chunk=chunk, overwrite=True)
    assert content() == once
    pathlib.Path("rows.csv").unlink()
    written = appended._write

    def some(*asked):
        if content().count(b"\n") > lines // 2:
            raise KeyboardInterrupt
        written(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(appended, "_write", some)
        with pytest.raises(KeyboardInterrupt, match="run again to continue"):
            run(text, chunk=chunk)
    assert lines // 2 < content().count(b"\n") < lines
    assert once.startswith(content())
    xr.testing.assert_identical(run(text), whole)
    assert content() == once
