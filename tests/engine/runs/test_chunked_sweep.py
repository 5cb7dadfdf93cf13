"""A long sweep outlives whatever ends it: what is finished is kept, what is wrong is not."""

import errno
import itertools
import json
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref

import numpy as np
import pytest
import xarray as xr
import zarr
from command_line import last_words
from daily import daily
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import files_of_at_most
from places import ROOT
from ring import RING, SWEEP

import jaxroof as jr
from jaxroof.engine.runs import chunked_sweep as sweep
from jaxroof.errors import InputError
from jaxroof.io import chunk_manifest as ledger
from jaxroof.io import zarr_store
from jaxroof.io.stored_array import ArrayFile

KILLS = 3
posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of a process")

MINE = f"""
import jaxroof as jr
from jaxroof.formulas.arithmetic import where

{RING}
def all_reduce(inputs, recipe):
    hops = 2.0 * (inputs.ranks - 1.0)
    nothing = where(inputs.message > 5e6, float("nan"), hops)  # chunks of the fill value alone
    time = hops * 5e-6 + hops / inputs.ranks * inputs.message / 4e11
    return {{"time": time, "hops": hops, "large": inputs.message > 1e7, "nothing": nothing}}

estimator = jr.Estimator(step=all_reduce, inputs=Ring, name="ring")
"""
CHUNK, CHUNKS = 8, 24  # 12 x 10 points in parts of 1 x 6, and 1 x 4 at the end
FINE, MANY = 3, 60  # in parts of 1 x 2
PIECE = 2  # points of a piece


def folder_of(home: pathlib.Path, text: str = SWEEP) -> pathlib.Path:
    (home / "mine.py").write_text(MINE)
    (home / "sweep.toml").write_text(text)
    return home


@pytest.fixture(scope="module", autouse=True)
def in_pieces():
    """Let chunks have several pieces, as those of long sweeps have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "TABULATED", PIECE)
        patch.setattr(sweep, "SEARCHED", PIECE)
        yield


@pytest.fixture
def ring(tmp_path, monkeypatch):
    monkeypatch.chdir(folder_of(tmp_path))
    monkeypatch.setattr(sweep, "_evaluated", computed_once)
    return tmp_path


EVALUATED, KNOWN = sweep._evaluated, {}


def computed_once(asked, part, progress):
    """Evaluate a chunk of a question once for all tests here: what is tested is what is kept."""
    key = pathlib.Path("sweep.toml").read_text(), pathlib.Path("mine.py").read_text(), str(part)
    if progress is not None or key not in KNOWN:
        KNOWN[key] = EVALUATED(asked, part, progress)
    data, sums = KNOWN[key]
    return data.copy(), sums


def run(name="ring.zarr", **more) -> xr.Dataset:
    return jr.run("sweep.toml", output=name, **{"chunk": CHUNK, **more}, trust=True)


def contents(path: pathlib.Path) -> dict[str, bytes]:
    """Return every file of a store but the ledger, whose lines stand in the order of the runs."""
    files = (f for f in pathlib.Path(path).rglob("*") if f.is_file() and ledger.HOME not in f.parts)
    return {f.relative_to(path).as_posix(): f.read_bytes() for f in files}


def unstopped(home: pathlib.Path, chunk: int):
    """Return the files of a run that nothing stopped, and its results."""
    data = jr.run(
        folder_of(home) / "sweep.toml", output=home / "ring.zarr", chunk=chunk, trust=True
    )
    return contents(home / "ring.zarr"), data.load()


@pytest.fixture(scope="module")
def whole_home(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(whole_home):
    return unstopped(whole_home, CHUNK)


@pytest.fixture(scope="module")
def fine(tmp_path_factory):
    return unstopped(tmp_path_factory.mktemp("fine"), FINE)


def same_as(path: pathlib.Path | str, known) -> None:
    """Check that a store is that of a run never stopped, to the last bit of every file."""
    files, data = known
    found = contents(path)
    assert sorted(found) == sorted(files)
    assert [name for name in files if found[name] != files[name]] == []
    xr.testing.assert_identical(jr.read(path), data)


def written(path: str, name: str) -> zarr.Array:
    """Return an array of a store as it lies there."""
    return zarr.open_array(f"{path}/{name}", mode="r")


def refused(action, *arguments, **more) -> str:
    with pytest.raises(InputError) as told:
        action(*arguments, **more)
    assert "\n" not in str(told.value)
    return str(told.value)


def finished(path: pathlib.Path | str) -> set[int]:
    return set(ledger.record(path)) - {ledger.END}


# ---- What is written ----------------------------------------------------------------------------


def test_a_sweep_in_chunks_is_the_sweep_at_once(ring, whole):
    data, once = whole[1], jr.run("sweep.toml", trust=True)
    xr.testing.assert_allclose(data, once, rtol=1e-12)
    assert list(data.variables) == list(once.variables)
    assert data.attrs == once.attrs
    assert data.hops.dims == ("ranks",)
    for name in once.variables:
        assert data[name].dtype == once[name].dtype
        assert data[name].attrs == once[name].attrs


SEARCH = """
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { global_batch = 4096 }
[search]
top = 2
[axes]
"system.hbm_capacity" = ["1 GB", "80 GB", "192 GB"]
split = ["1d", "summa"]
gpus = [7, 8]
"system.hbm_bandwidth" = ["2 TB/s", "8 TB/s", "16 TB/s"]
"""


@pytest.mark.slow
def test_a_search_in_chunks_is_the_search_at_once(ring):
    """Labels, choices, whole numbers of which some are missing, flags, and the counts of all."""
    (ring / "sweep.toml").write_text(SEARCH)
    data, once = run("search.zarr", chunk=6), jr.run("sweep.toml", trust=True)
    assert data.split.values.tolist() == ["1d", "summa"]
    cut = dict(zip(data.step_time.dims, written("search.zarr", "step_time").shards, strict=True))
    assert cut["split"] == 2
    assert written("search.zarr", "step_time").chunks != tuple(cut.values())
    assert any(cut[dim] < size for dim, size in data.step_time.sizes.items())
    xr.testing.assert_allclose(data, once, rtol=1e-12)
    assert data.attrs == once.attrs
    for name in once.variables:
        assert data[name].dtype == once[name].dtype, name
        assert data[name].attrs == once[name].attrs, name
        if once[name].dtype.kind in "ibU":
            np.testing.assert_array_equal(data[name].values, once[name].values)
    assert (data.tensor.values == -1).any()
    assert data.tensor.encoding["_FillValue"] == -1


def test_one_point_is_a_sweep(ring):
    (ring / "sweep.toml").write_text(SWEEP.split("[axes]")[0] + "ranks = 8\n")
    xr.testing.assert_identical(run("one.zarr").load(), jr.run("sweep.toml", trust=True))


def test_a_store_opens_lazily_and_without_a_warning_elsewhere(ring, whole):
    data = run()
    assert (written("ring.zarr", "time").shards, written("ring.zarr", "time").chunks) == (
        (1, 6),
        (1, PIECE),
    )
    with xr.open_zarr("ring.zarr") as elsewhere:
        xr.testing.assert_equal(elsewhere, whole[1])
    for file in pathlib.Path("ring.zarr", "time").glob("3.*"):
        file.unlink()  # what is lost after the store was opened is missing: nothing was read yet
    assert data.time.isel(message=3).isnull().all()
    xr.testing.assert_identical(data.time.isel(message=4).load(), whole[1].time.isel(message=4))


def test_arrays_of_dask_are_written_where_it_is_installed(ring, whole):
    pytest.importorskip("dask.array")
    jr.write(run().chunk({"ranks": 4, "message": 5}).isel(ranks=slice(1, None)), "part.zarr")
    xr.testing.assert_identical(jr.read("part.zarr").load(), whole[1].isel(ranks=slice(1, None)))


def test_a_lazy_result_is_written_as_any_other(ring, whole):
    data = run()
    for name in ("part.zarr", "part.nc", "part.zarr"):
        jr.write(data.isel(ranks=slice(3, None)), name)
        xr.testing.assert_identical(jr.read(name).load(), whole[1].isel(ranks=slice(3, None)))
    jr.write(data, "ring.zarr")  # over what it is read from
    xr.testing.assert_identical(jr.read("ring.zarr").load(), whole[1])
    assert "a result written whole" in refused(run)
    names = {"mine.py", "sweep.toml", "ring.zarr", "part.zarr", "part.nc", "__pycache__"}
    assert {path.name for path in ring.iterdir()} <= names


def test_results_that_are_written_are_forgotten(ring, monkeypatch):
    """Memory holds a piece or two, however many a chunk has."""
    monkeypatch.setattr(sweep, "_evaluated", EVALUATED)  # which keeps none of them
    kept = []
    put = zarr_store.write_region

    def watched(pieces):
        for piece, data in pieces:
            kept.append(weakref.ref(data))
            assert sum(one() is not None for one in kept) <= 2
            yield piece, data
            del data

    def counted(*arguments):
        *others, pieces = arguments
        return put(*others, watched(pieces))

    monkeypatch.setattr(zarr_store, "write_region", counted)
    run()
    assert len(kept) == 120 // PIECE


# ---- Begun again --------------------------------------------------------------------------------


def stopped(monkeypatch, after: int, error=KeyboardInterrupt, name="ring.zarr", **more) -> None:
    """Run until some chunks are written, then raise an error."""
    left = [after]
    put = zarr_store.write_region

    def until(*arguments):
        if not left[0]:
            raise error
        left[0] -= 1
        return put(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(zarr_store, "write_region", until)
        with pytest.raises(error):
            run(name, **more)


def test_a_second_run_does_nothing(ring, monkeypatch):
    run()
    before = {f: (f.stat().st_mtime_ns, f.stat().st_ino) for f in ring.rglob("*.zarr/**/*")}
    monkeypatch.setattr(sweep, "_evaluated", None)
    told = []
    jr.run("sweep.toml", lambda *done: told.append(done), output="ring.zarr", trust=True)
    assert {f: (f.stat().st_mtime_ns, f.stat().st_ino) for f in ring.rglob("*.zarr/**/*")} == before
    assert told == []


def test_progress_is_told_in_points(ring, monkeypatch):
    stopped(monkeypatch, 10)
    told = []
    jr.run("sweep.toml", lambda *done: told.append(done), output="ring.zarr", trust=True)
    assert told[0] == (50, 120)
    assert told[-1] == (120, 120)
    assert told == sorted(told)


CHANGES = [  # what is changed, what is said
    ('to = "10 MB"', 'to = "11 MB"', "axes.message: 1.81818 MB there, 1.90909 MB here"),
    ("count = 10", "count = 19", "axes.ranks: 10 values there, 19 here"),
    ("message = {", "ranks = [2]\n#", "axes: message, ranks there, ranks here"),
]


def test_a_changed_file_is_refused_with_the_difference(ring, monkeypatch, whole):
    stopped(monkeypatch, 10)
    for old, new, said in CHANGES:
        text = SWEEP.replace(old, new)
        (ring / "sweep.toml").write_text(
            text.replace("ranks = { from", "#") if "ranks = [2]" in new else text
        )
        told = refused(run)
        assert told.startswith("ring.zarr: holds another sweep: ")
        assert said in told
        assert told.endswith("; use --overwrite to start anew")
        assert len(finished("ring.zarr")) == 10
    other = run(overwrite=True)
    xr.testing.assert_allclose(other, jr.run("sweep.toml", trust=True), rtol=1e-12)
    (ring / "sweep.toml").write_text(SWEEP)
    run(overwrite=True)
    same_as("ring.zarr", whole)


def test_how_a_result_is_shown_is_not_what_was_asked(ring, monkeypatch, whole):
    """A title or a picture that is edited, added or taken away goes on; the store has the new."""
    shown = ('title = "A ring"', 'title = "Another"\npicture = "machine_map"')
    stopped(monkeypatch, 10)
    (ring / "sweep.toml").write_text(SWEEP.replace(*shown))
    data = run()
    assert data.attrs == {**whole[1].attrs, "title": "Another", "picture": "machine_map"}
    monkeypatch.setattr(sweep, "_evaluated", None)  # nothing is computed for it
    (ring / "sweep.toml").write_text(SWEEP)
    run()
    same_as("ring.zarr", whole)


def test_a_changed_machine_is_told_with_its_unit(ring, monkeypatch):
    small = SEARCH.split('"system.hbm_bandwidth"')[0].replace('["1d", "summa"]', '["1d"]')
    (ring / "sweep.toml").write_text(small)
    stopped(monkeypatch, 1, chunk=1)
    (ring / "sweep.toml").write_text(small.replace("top = 2", 'top = 2\nwhere = "tensor<=8"'))
    assert "search.where: nothing there, tensor<=8 here" in refused(run, chunk=None)
    (ring / "sweep.toml").write_text(small.replace('"192 GB"', '"196 GB"'))
    assert "system.hbm_capacity: 192 GB there, 196 GB here; use" in refused(run, chunk=None)
    (ring / "sweep.toml").write_text(
        small.replace("[search]", '[set]\n"system.nics" = 3\n[search]')
    )
    assert "system.nics: 1 there, 3 here; use" in refused(run, chunk=None)


def test_code_of_one_s_own_that_changed_is_refused(ring, monkeypatch):
    stopped(monkeypatch, 3)
    (ring / "mine.py").write_text(MINE.replace("5e-6", "6e-6"))
    assert "the code of the estimator ring has changed" in refused(run)


def test_chunks_keep_the_size_they_have(ring, monkeypatch, whole):
    stopped(monkeypatch, 3)
    assert "chunk: 6 points there, 100 here" in refused(run, chunk=100)
    run(chunk=None)
    same_as("ring.zarr", whole)
    assert "at least 1, given 0" in refused(run, chunk=0)
    assert "of a .zarr file alone" in refused(run, "ring.nc")
    assert "of a .zarr file alone" in refused(jr.run, "sweep.toml", overwrite=True, trust=True)


def test_what_jaxroof_did_not_write_is_left_alone(ring):
    (ring / "mine.zarr").mkdir()
    (ring / "mine.zarr" / "thesis.tex").write_text("years")
    (ring / "file.zarr").write_text("years")
    for more in ({}, {"overwrite": True}):
        assert "that jaxroof did not write" in refused(run, "mine.zarr", **more)
        assert "a file, not a Zarr store" in refused(run, "file.zarr", **more)
    for name in ("mine.zarr", "file.zarr"):
        refused(jr.write, xr.Dataset(), name)
        assert "not a .zarr file that jaxroof wrote" in refused(jr.read, name)
    assert [path.name for path in (ring / "mine.zarr").iterdir()] == ["thesis.tex"]
    assert "no such directory" in refused(run, "nowhere/ring.zarr")
    assert "no such file" in refused(jr.read, "none.zarr")


def test_a_store_that_is_not_finished_is_not_read(ring, monkeypatch):
    stopped(monkeypatch, 7)
    assert refused(jr.read, "ring.zarr") == (
        "ring.zarr: 7 of 24 chunks are finished; run the sweep again to continue"
    )


STEPS = ["_lay_out", "write_plan", "append", "finalise", "checksums"]


@pytest.mark.parametrize("step", daily(STEPS, 1, 3))
def test_a_store_half_laid_out_is_begun_again(step, ring, monkeypatch, whole):
    def killed(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(zarr_store, step, killed)
        said = r"^ring.zarr: out of memory; \d+ of 24 chunks are finished; run again to continue$"
        with pytest.raises(jr.InputError, match=said):
            run()
    run()
    same_as("ring.zarr", whole)


# ---- Damage -------------------------------------------------------------------------------------


def truncated(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def emptied(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def flipped(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


DAMAGE = [truncated, emptied, flipped, pathlib.Path.unlink]


def test_a_large_store_is_proven_as_it_is_read(ring, monkeypatch, jaxroof):
    monkeypatch.chdir(ring)
    run()
    monkeypatch.setattr(zarr_store, "PROVEN", 0)
    flipped(ring / "ring.zarr" / "time" / "3.1")
    data = jr.read("ring.zarr")
    data.hops.load()
    said = refused(data.time.load)  # no wrong number is read
    assert said.startswith("ring.zarr: damaged: time: ")
    assert said.endswith("; run the sweep again to mend it")
    code, out, err = jaxroof("plot ring.zarr --kind machine_map")
    assert (code, out) == (2, "")
    assert err.startswith("jaxroof: ring.zarr: damaged: ")
    assert err.endswith("run the sweep again to mend it\n")
    emptied(ring / "ring.zarr" / "time" / "3.1")
    assert "damaged: time/3.1" in refused(jr.read, "ring.zarr")


def test_a_damaged_frame_is_refused_until_it_is_begun_anew(ring, monkeypatch, whole):
    stopped(monkeypatch, 2)
    flipped(ring / "ring.zarr" / "ranks" / "0")  # what the ledger holds no copy of
    assert "damaged: ranks/0 is not as it was written; use --overwrite" in refused(run)
    run(overwrite=True)
    same_as("ring.zarr", whole)


@pytest.mark.parametrize("cut", daily([1, 2, 30], 1))
def test_a_line_that_was_torn_counts_for_nothing(cut, ring, monkeypatch, whole):
    stopped(monkeypatch, 9)
    record = ring / "ring.zarr" / ledger.HOME / ledger.RECORD
    record.write_bytes(record.read_bytes()[:-cut])
    assert len(finished("ring.zarr")) == (9 if cut == 1 else 8)
    run()
    same_as("ring.zarr", whole)


def small(home: pathlib.Path, name: str, monkeypatch=None) -> None:
    """Write a small store, stopped after two of four chunks where there is a way to stop it."""
    (home / "sweep.toml").write_text(SMALL)
    if monkeypatch is None:
        run(name, chunk=SMALL_CHUNK)
    else:
        stopped(monkeypatch, 2, name=name, chunk=SMALL_CHUNK)


SMALL = SWEEP.replace("count = 12", "count = 4").replace("count = 10", "count = 3")
SMALL_CHUNK = 4  # 4 x 3 points in parts of 1 x 3, of two pieces


def garbage(path: pathlib.Path) -> None:
    path.write_bytes(b'\x00\xff{"dtype": "|O", "filters": [[')


def replaced(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "thesis.tex").write_text("years")


def unreadable(path: pathlib.Path) -> None:
    """Let the system refuse to open a file, even to root."""
    path.unlink()
    path.symlink_to(path.name)


def first_digit(path: pathlib.Path) -> None:
    """Change a number into another, so that JSON stays JSON."""
    content = bytearray(path.read_bytes())
    at = next((i for i, one in enumerate(content) if chr(one).isdigit()), 0)
    content[at] ^= 1
    path.write_bytes(content)


EVERY = [*DAMAGE, first_digit, garbage, replaced, unreadable]


def everything(path: pathlib.Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "lock")
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def smalls(tmp_path_factory):
    """Return the folder of a finished and of an unfinished store."""
    home = folder_of(tmp_path_factory.mktemp("smalls"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        small(home, "finished.zarr")
        small(home, "unfinished.zarr", patch)
    return home


# every file that a store may have; those that its kind lacks are passed over
FILES = [
    *("zarr.json", ".jaxroof/plan.json", ".jaxroof/finished.jsonl"),
    *("time/zarr.json", "time/1.0", "hops/0", "ranks/0"),
]


def test_every_kind_of_file_is_damaged(smalls):
    there = {re.sub(r"\d", "0", name) for name in everything(smalls / "finished.zarr")}
    kinds = {name.rpartition("/")[2] for name in there}
    assert kinds == {re.sub(r"\d", "0", name).rpartition("/")[2] for name in FILES}


def outcome(action, *arguments, **more) -> str:
    """Return what was refused, in one line, or nothing."""
    try:
        action(*arguments, **more)
    except InputError as error:
        return str(error)
    return ""


def read_as(path: str, known) -> None:
    xr.testing.assert_identical(jr.read(path), known[1])


@pytest.mark.parametrize("which", ["finished", "unfinished"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_mended_or_named(name, which, smalls, ring, whole_small):
    """No damage to one file gives a wrong number or a traceback, or is taken for right."""
    (ring / "sweep.toml").write_text(SMALL)
    for damage in EVERY if (smalls / f"{which}.zarr" / name).exists() else ():
        shutil.rmtree("ring.zarr", ignore_errors=True)
        shutil.copytree(smalls / f"{which}.zarr", "ring.zarr")
        damage(ring / "ring.zarr" / name)
        before = everything(ring / "ring.zarr")
        said = outcome(read_as, "ring.zarr", whole_small)
        assert said.startswith("ring.zarr") or which == "finished"
        said = outcome(run, chunk=SMALL_CHUNK)
        if not said:
            same_as("ring.zarr", whole_small)
            continue
        assert name.rpartition("/")[2] in said, damage
        assert "\n" not in said
        after = everything(ring / "ring.zarr")  # the metadata may say that it is unfinished
        assert all(after[n] == before[n] for n in before if n != "zarr.json"), damage


@pytest.fixture(scope="module")
def whole_small(smalls):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(smalls)
        return contents("finished.zarr"), jr.read("finished.zarr").load()


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_byte_of_any_file_may_flip(data, smalls, whole_small):
    which = data.draw(st.sampled_from(["finished.zarr", "unfinished.zarr"]))
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        patch.chdir(folder_of(pathlib.Path(home), SMALL))
        shutil.copytree(smalls / which, "ring.zarr")
        files = sorted(file for file in everything(pathlib.Path("ring.zarr")))
        path = pathlib.Path("ring.zarr", data.draw(st.sampled_from(files)))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        if said := outcome(run, chunk=SMALL_CHUNK):
            assert said.startswith("ring.zarr: damaged: ")
        else:
            same_as("ring.zarr", whole_small)


def test_a_folder_of_a_variable_that_is_lost_is_written_anew(ring, whole):
    run()
    shutil.rmtree(ring / "ring.zarr" / "time")
    assert "damaged" in refused(jr.read, "ring.zarr")
    run()
    same_as("ring.zarr", whole)


def test_a_lost_plan_beside_finished_chunks_is_refused(ring, monkeypatch, whole):
    """Days of work are not thrown away without a word."""
    stopped(monkeypatch, 2)
    plan = ring / "ring.zarr" / ledger.HOME / ledger.PLAN
    known = plan.read_bytes()
    said = "ring.zarr: damaged: .jaxroof/plan.json is not as it was written, though chunks are fin"
    for content in (None, b"", b"{}", b"[1]", b"\xff\xfe", b'{"format": 0}'):
        if content is None:
            plan.unlink()
        else:
            plan.write_bytes(content)
        before = everything(ring / "ring.zarr")
        for told in (refused(run), refused(jr.read, "ring.zarr")):
            assert told.startswith(said)
            assert told.endswith("use --overwrite to start anew")
        assert everything(ring / "ring.zarr") == before
    plan.write_bytes(known)
    run()
    same_as("ring.zarr", whole)
    plan.unlink()
    run(overwrite=True)
    same_as("ring.zarr", whole)


def test_a_store_without_its_ledger_is_refused(ring, monkeypatch):
    stopped(monkeypatch, 2)
    for file in (ring / "ring.zarr" / ledger.HOME).iterdir():
        file.unlink()
    before = everything(ring / "ring.zarr")
    assert "damaged: .jaxroof/finished.jsonl" in refused(run)
    assert everything(ring / "ring.zarr") == before


# ---- A store that is not finished, to others ----------------------------------------------------


def test_an_unfinished_store_shows_itself_to_others(jaxroof, monkeypatch):
    """Plain xarray reads what is missing as missing, and an attribute says that it is."""
    pathlib.Path("sweep.toml").write_text(SEARCH.replace('["1d", "summa"]', '["1d"]'))
    stopped(monkeypatch, 1, name="map.zarr", chunk=4)
    with xr.open_zarr("map.zarr") as elsewhere:
        assert "run the sweep again" in elsewhere.attrs["unfinished"]
        missing = elsewhere.isel(hbm_capacity=-1).load()
    assert not missing.feasible.any()
    for name in ("step_time", "tensor", "plans_legal", "plans_feasible"):
        assert missing[name].isnull().all(), name
    assert (missing.reason == -1).all()
    data = run("map.zarr", chunk=4)
    assert "unfinished" not in data.attrs
    assert data.attrs == jr.run("sweep.toml", trust=True).attrs
    with xr.open_zarr("map.zarr") as elsewhere:
        assert "unfinished" not in elsewhere.attrs
        assert elsewhere.reason.dtype == np.int8


def test_a_finished_store_with_a_lost_chunk_shows_itself_until_it_is_mended(ring, monkeypatch):
    run()
    (ring / "ring.zarr" / "time" / "3.1").unlink()
    stopped(monkeypatch, 0)
    with xr.open_zarr("ring.zarr") as elsewhere:
        assert "unfinished" in elsewhere.attrs
        assert elsewhere.time.isnull().sum() == 4


# ---- A store from elsewhere ---------------------------------------------------------------------


class Harm:
    """What runs code where it is unpickled."""

    def __reduce__(self):
        return (pathlib.Path("harm").write_text, ("done",))


def tampered(root: pathlib.Path, name: str, about: dict) -> None:
    """Replace the metadata of an array so that all of a store agrees with it, sums and all."""
    kind = whole = "zarr.json"
    (root / name / "0").write_bytes(pickle.dumps(Harm()))
    (root / name / kind).write_text(json.dumps(about))
    every = json.loads((root / whole).read_text())
    every["consolidated_metadata"]["metadata"][name] = about
    (root / whole).write_text(json.dumps(every))
    plan = json.loads((root / ledger.HOME / ledger.PLAN).read_text())
    plan.pop("crc32", None)
    plan.get("metadata", {})[f"{name}/{kind}"] = about
    plan["files"] = ledger.checksums(root, plan["files"])
    (root / ledger.HOME / ledger.PLAN).write_text(json.dumps(ledger._summed(plan)))
    files = [*ledger.record(root)[ledger.END]["files"]]
    ledger.append(root, {"chunk": "end", "files": ledger.checksums(root, files), "sums": {}})


def codecs(*names: str) -> list[dict]:
    return [{"name": name} for name in names]


def sharded(inner=("bytes", "zstd", "crc32c"), index=("bytes", "crc32c"), **more) -> dict:
    about = {"chunk_shape": [1], "codecs": codecs(*inner), "index_codecs": codecs(*index), **more}
    return {"codecs": [{"name": "sharding_indexed", "configuration": about}]}


PICKLE = "numcodecs.pickle"
NO_ARRAY, WHOLE_NUMBERS = "damaged: not the array", "shape and chunk_shape: expected whole numbers"
HARMFUL = [  # what an array says instead, what is said of it
    ({"data_type": "object"}, "data_type 'object' is not accepted"),
    ({"data_type": {"name": "structured"}}, "data_type {'name': 'structured'} is not accepted"),
    ({"data_type": "fixed_length_utf32"}, "data_type 'fixed_length_utf32' is not accepted"),
    ({"data_type": "string"}, "codecs ('bytes', 'zstd', 'crc32c') are not accepted"),
    ({"codecs": codecs(PICKLE, "zstd", "crc32c")}, f"codecs ('{PICKLE}', 'zstd', 'crc32c') are"),
    ({"codecs": codecs("bytes", "zstd")}, "codecs ('bytes', 'zstd') are not accepted"),
    ({"codecs": codecs("bytes", "crc32c", "zstd")}, "codecs ('bytes', 'crc32c', 'zstd') are not"),
    ({"codecs": []}, "codecs () are not accepted; expected bytes, zstd, crc32c"),
    (sharded(inner=["bytes", PICKLE]), f"codecs (('sharding_indexed', ('bytes', '{PICKLE}')"),
    (sharded(index=["bytes", PICKLE]), "codecs (('sharding_indexed', ('bytes', 'zstd', 'crc"),
    (sharded(index_location="start"), "codecs () are not accepted"),
    (sharded(chunk_shape=[3]), "chunk_shape: expected pieces that divide a chunk"),
    (sharded(chunk_shape=[0]), WHOLE_NUMBERS),
    ({"shape": [-1]}, WHOLE_NUMBERS), ({"shape": [4, 4]}, NO_ARRAY),
    ({"codecs": "bytes"}, NO_ARRAY),
    (sharded(inner=["sharding_indexed"]), NO_ARRAY),
    ({"storage_transformers": [{"name": "x"}]}, "chunk_key_encoding: expected names of files"),
    ({"chunk_key_encoding": {"name": "default"}}, "chunk_key_encoding: expected names of files"),
    ({"chunk_grid": {"name": "rectilinear"}}, "chunk_grid: expected a regular one"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**15]}}},
     "its chunks take 8 PB; the limit is"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), HARMFUL)
def test_an_array_that_jaxroof_does_not_write_is_not_opened(
    changes, said, ring, jaxroof, whole_home, whole
):
    shutil.copytree(whole_home / "ring.zarr", "ring.zarr")
    about = json.loads((ring / "ring.zarr" / "ranks" / "zarr.json").read_text())
    tampered(ring / "ring.zarr", "ranks", {**about, **changes})
    line = f"ring.zarr: ranks/zarr.json: {said}"
    assert outcome(lambda: jr.read("ring.zarr").load()).startswith(line)
    assert outcome(run).startswith(line)
    if changes == HARMFUL[0][0]:
        for command in ("plot ring.zarr", f"run sweep.toml --trust -o ring.zarr --chunk {CHUNK}"):
            code, out, err = jaxroof(command)
            assert (code, out) == (2, "")
            assert last_words(err).startswith(f"jaxroof: {line}")


def test_a_store_of_another_format_beside_ours_is_not_opened(ring):
    """What zarr finds first is not what was checked."""
    run()
    known = jr.read("ring.zarr").load()
    pathlib.Path("ring.zarr", ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    xr.testing.assert_identical(jr.read("ring.zarr"), known)


def test_a_store_names_no_file_outside_itself(ring, monkeypatch):
    """A ledger from elsewhere is not what is written or removed by."""
    stopped(monkeypatch, 2)
    (ring / "0").write_text("years")
    for name in ("../0", str(ring / "0"), "time/../../0"):
        line = {"chunk": 1, "files": {name: [0, 0]}, "sums": {}}
        ledger.append("ring.zarr", line)
        assert len(finished("ring.zarr")) == 2
    run()
    assert (ring / "0").read_text() == "years"


# ---- The disk is full ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "after"), daily(itertools.product(["append", "finish"], [0, 1, 13]), 2, 4)
)
def test_a_disk_that_fills_keeps_what_is_finished(step, after, ring, monkeypatch, whole):
    home = zarr_store if step == "append" else ArrayFile
    left, real = [after], getattr(home, step)

    def full(*arguments):
        left[0] -= step == "append" or arguments[0].name.startswith("time/")
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(home, step, full)
        said = refused(run)
    assert said == f"ring.zarr: cannot be written: {os.strerror(errno.ENOSPC)}"
    assert len(finished("ring.zarr")) == after
    run()
    same_as("ring.zarr", whole)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"}


COMMAND = f"run sweep.toml --trust --chunk {FINE} -o ring.zarr"


def started(home: pathlib.Path, program: str) -> subprocess.Popen:
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    asked = [sys.executable, "-W", "error", "-c", program]
    return subprocess.Popen(asked, cwd=home, env=environment(), **piped)


@posix
def test_a_file_that_grows_too_large_is_one_line(ring, jaxroof, whole):
    """A limit of the process stands for the disk: the ledger outgrows it in the middle."""
    metadata = len(whole[0]["zarr.json"]) + 500  # and what is only there until it is finished
    with files_of_at_most(metadata):
        code, out, err = jaxroof("run sweep.toml --trust --chunk 1 -o ring.zarr")
    assert (code, out) == (2, "")
    assert err == f"jaxroof: ring.zarr: cannot be written: {os.strerror(errno.EFBIG)}\n"
    assert 10 < len(finished("ring.zarr")) < whole[1].time.size
    xr.testing.assert_identical(run(chunk=1).load(), whole[1])


# ---- Two writers, Ctrl-C ------------------------------------------------------------------------


def until(ready, seconds=60.0) -> None:
    limit = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_second_writer_is_refused(ring, fine):
    with ledger.write_lock("ring.zarr"):
        for more in ({}, {"overwrite": True}):
            assert refused(run, **more) == "ring.zarr: another run is writing it"
        assert "another run is writing it" in refused(jr.write, xr.Dataset(), "ring.zarr")
    run(chunk=FINE)
    same_as("ring.zarr", fine)


SLOW = f"""
import time
from jaxroof import cli
from jaxroof.engine.runs import chunked_sweep as sweep
whole = sweep._evaluated
def slowly(*asked):
    time.sleep(0.05)
    return whole(*asked)
sweep._evaluated = slowly
cli.main({COMMAND.split()})
"""


@posix
def test_ctrl_c_says_how_far_it_came(ring, fine):
    with started(ring, SLOW) as running:
        try:
            until(lambda: len(finished("ring.zarr")) > 4)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=20)
        finally:
            running.kill()
    kept = len(finished("ring.zarr"))
    assert (running.returncode, out) == (130, "")
    said = "jaxroof: interrupted: {} of 60 chunks are finished; run again to continue"
    assert last_words(err) in (said.format(kept), said.format(kept - 1))  # between line and count
    assert 4 < kept < MANY
    run(chunk=FINE)
    same_as("ring.zarr", fine)


# ---- Kill ---------------------------------------------------------------------------------------

FORKS = """
# Runs a sweep in one child after another and kills each with SIGKILL; tells what was there then.
import json, os, pathlib, random, signal, sys, time, warnings
import filelock, numcodecs, pickle, xarray, zarr, zarr.codecs
import jaxroof as jr
from jaxroof.engine.runs import chunked_sweep as sweep
from jaxroof.io import chunk_manifest as ledger, zarr_store
warnings.simplefilter("ignore")  # of fork
jr.run("sweep.toml", trust=True)  # imports once what all children need

path, chance, kills = sys.argv[1], random.Random(int(sys.argv[2])), int(sys.argv[3])
known = pickle.loads(pathlib.Path("known").read_bytes())
record = pathlib.Path(path, ledger.HOME, ledger.RECORD)

def lines():
    return record.read_bytes().count(b"\\n") if record.exists() else 0

for number in range(kills):
    child = os.fork()
    if not child:
        warnings.simplefilter("error")
        sweep._evaluated = lambda asked, part, _: time.sleep(0.04) or known[str(part)]
        jr.run("sweep.toml", output=path, chunk=CHUNK, trust=True)
        os._exit(0)
    began = lines()
    if number % 4 == 0:  # anywhere from the start on: while it is laid out, or not begun
        time.sleep(chance.uniform(0.0, 0.9))
    else:
        reach, limit = began + chance.randrange(6), time.monotonic() + 9
        while lines() < reach and time.monotonic() < limit:
            time.sleep(0.0005)
        time.sleep(chance.uniform(0.0, 0.08))
    os.kill(child, signal.SIGKILL)
    how = os.waitpid(child, 0)[1]
    told = [sorted(map(str, found)) for found in (ledger.record(path), ledger.verified(path))]
    print(json.dumps([how, *told]), flush=True)
"""


@posix
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_sweep_that_is_killed_again_and_again_ends_the_same(seed, ring, fine):
    """Every finished chunk is whole and stays, whenever the kill comes."""
    run("known.zarr", chunk=FINE)
    known = {part: KNOWN[key] for key in KNOWN for *asked, part in [key] if asked == [SWEEP, MINE]}
    (ring / "known").write_bytes(pickle.dumps(known))
    program = FORKS.replace("CHUNK", str(FINE))
    asked = [sys.executable, "-c", program, "ring.zarr", str(seed), str(KILLS)]
    done = subprocess.run(
        asked, cwd=ring, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    met = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(met) == KILLS
    before: set[str] = set()
    for how, recorded, sound in met:
        assert os.WTERMSIG(how) == signal.SIGKILL, done.stderr
        assert recorded == sound
        assert before <= set(sound)
        before = set(sound)
    assert 0 < len(before) < MANY
    run(chunk=FINE)
    same_as("ring.zarr", fine)


@posix
@pytest.mark.slow  # kills and writers daily: above
def test_a_command_holds_its_store_until_it_is_killed_and_goes_on(ring, jaxroof, fine):
    with started(ring, SLOW) as running:
        try:
            until(lambda: len(finished("ring.zarr")) > 2)
            assert refused(run) == "ring.zarr: another run is writing it"
        finally:
            running.kill()
        running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert 2 < len(finished("ring.zarr")) < MANY
    code, out, err = jaxroof(COMMAND)
    assert code == 0, err
    assert "120 points." in out
    assert err.endswith("wrote ring.zarr\n")
    same_as("ring.zarr", fine)
    pathlib.Path("ring.zarr", "time", "0.1a2b.partial").write_bytes(b"half")
    run(chunk=FINE)
    same_as("ring.zarr", fine)
