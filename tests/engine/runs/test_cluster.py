"""A cluster of real processes writes what one process writes, whoever dies meanwhile."""

import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr
from command_line import last_words
from places import ROOT
from ring import RING, SWEEP

import jaxroof as jr
from jaxroof.engine.runs import chunked_sweep
from jaxroof.engine.runs import cluster as clusters
from jaxroof.engine.runs.chunked_sweep import chunk_layout
from jaxroof.engine.runs.job import fingerprint, sweep_job
from jaxroof.errors import InputError
from jaxroof.io import chunk_manifest as ledger
from jaxroof.io import zarr_store

posix = pytest.mark.skipif(os.name != "posix", reason="signals of a process")
MINE = f"""
import time

import jaxroof as jr
from jaxroof.formulas.arithmetic import larger

{RING}
def all_reduce(inputs, recipe):
    time.sleep(PAUSE)
    hops = 2.0 * (inputs.ranks - 1.0)
    return {{"time": larger(hops * 5e-6, inputs.message / 4e11), "hops": hops}}

estimator = jr.Estimator(step=all_reduce, inputs=Ring, name="ring")
"""
CHUNK, CHUNKS = 5, 24  # 12 x 10 points in parts of 1 x 5
PAUSE = "0.04"  # seconds of an evaluation: a chunk is on every worker at any time
WORKERS = 2


def folder_of(home: pathlib.Path, pause: str) -> pathlib.Path:
    (home / "mine.py").write_text(MINE.replace("PAUSE", pause))
    (home / "sweep.toml").write_text(SWEEP)
    return home


def run(home: pathlib.Path, **more) -> xr.Dataset:
    return jr.run(
        home / "sweep.toml", output=home / "ring.zarr", trust=True, **{"chunk": CHUNK, **more}
    )


def contents(home: pathlib.Path) -> dict[str, bytes]:
    """Return the values in a store, file by file."""
    root = home / "ring.zarr"
    files = (file for file in root.rglob("*") if ledger.CHUNK.fullmatch(file.name))
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def same(home: pathlib.Path, known) -> None:
    """Check that the values are those of one process to the last bit, and the store is whole."""
    files, data = known
    assert contents(home) == files
    xr.testing.assert_equal(jr.read(home / "ring.zarr"), data)
    assert sorted(ledger.verified(home / "ring.zarr"), key=str) == sorted(
        [*range(CHUNKS), ledger.END], key=str
    )


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    home = folder_of(tmp_path_factory.mktemp("known"), "0")
    data = run(home).load()
    return contents(home), data


def started(home: pathlib.Path, where: str = f"--workers {WORKERS}") -> subprocess.Popen:
    """Start a run on local workers, in a process group of its own as a shell would."""
    asked = f"run sweep.toml --trust --chunk {CHUNK} -o ring.zarr {where}".split()
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "jaxroof", *asked],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(home: pathlib.Path) -> int:
    record = home / "ring.zarr" / ledger.HOME / ledger.RECORD
    return record.read_bytes().count(b"\n") if record.exists() else 0


def until_finished(home: pathlib.Path, count: int, running: subprocess.Popen) -> None:
    limit = time.monotonic() + 60.0
    while finished(home) < count:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)


def workers_of(running: subprocess.Popen) -> list:
    psutil = pytest.importorskip("psutil")
    children = psutil.Process(running.pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.slow
@posix
def test_a_worker_that_is_killed_costs_a_chunk_and_no_more(tmp_path, known):
    pytest.importorskip("distributed")
    home = folder_of(tmp_path, PAUSE)
    with started(home) as running:
        try:
            until_finished(home, 4, running)
            before = workers_of(running)
            assert len(before) == WORKERS
            before[0].kill()
            assert finished(home) < CHUNKS
            out, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0, err
    assert "120 points" in out
    lines = last_words(err).splitlines()
    assert lines[0].startswith("tcp://127.0.0.1:")
    assert f"{WORKERS} workers; dashboard http://127.0.0.1:" in lines[0]
    assert lines[1:] == [lines[-1]]  # nothing of dask's own beside it
    assert lines[-1].endswith("wrote ring.zarr")
    same(home, known)


ELSEWHERE = """
import time
from distributed import LocalCluster

if __name__ == "__main__":
    where = {"dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    print(LocalCluster(n_workers=1, processes=True, **where).scheduler_address, flush=True)
    time.sleep(300)
"""


@posix
@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_one_line(tmp_path):
    """Dask and asyncio say nothing of it beside, and what is finished stays."""
    pytest.importorskip("distributed")
    home = folder_of(tmp_path, PAUSE)
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE, encoding="utf-8")
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    piped["env"] = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, tmp_path / "elsewhere.py"], **piped) as scheduler:
        try:
            address = scheduler.stdout.readline().strip()
            with started(home, f"--scheduler {address}") as running:
                try:
                    until_finished(home, 3, running)
                    scheduler.kill()
                    out, err = running.communicate(timeout=60)
                finally:
                    running.kill()
        finally:
            scheduler.kill()
    assert (running.returncode, out) == (2, "")
    lines = last_words(err).splitlines()
    assert lines[0].startswith(f"{address}: 1 worker; dashboard")
    assert lines[1:] == ["jaxroof: ring.zarr: the scheduler is lost; run again to continue"]
    assert 3 <= finished(home) < CHUNKS


@posix
@pytest.mark.slow
def test_ctrl_c_keeps_what_the_workers_finished(tmp_path, known):
    pytest.importorskip("distributed")
    home = folder_of(tmp_path, PAUSE)
    with started(home) as running:
        try:
            until_finished(home, 4, running)
            workers = workers_of(running)
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does: workers get it too
            out, err = running.communicate(timeout=60)
        finally:
            running.kill()
    kept = finished(home)
    assert (running.returncode, out) == (130, "")
    said = "jaxroof: interrupted: {} of 24 chunks are finished; run again to continue"
    assert last_words(err).split("\n", 1)[1].strip() in (said.format(kept), said.format(kept - 1))
    assert 4 <= kept < CHUNKS
    assert not any(worker.is_running() for worker in workers)
    run(home)
    same(home, known)


# ---- A chunk on a worker, without a cluster ------------------------------------------------------


def begun(home: pathlib.Path, monkeypatch) -> tuple:
    """Return what a worker is given, of a store that has its first chunk."""
    left = [1]
    put = zarr_store.write_region

    def until(*arguments):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return put(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(zarr_store, "write_region", until)
        with pytest.raises(KeyboardInterrupt):
            run(home)
    path = str(home / "ring.zarr")
    from jaxroof.config.sweep_file import job_of_file

    return (job_of_file, (str(home / "sweep.toml"), True)), clusters._plan(path)[1], path


def test_a_worker_writes_its_region_and_no_manifest(tmp_path, known, monkeypatch):
    home = folder_of(tmp_path, "0")
    asked = begun(home, monkeypatch)
    number, files, sums = clusters.chunk_of(*asked, 7)
    assert (number, sums) == (7, {})
    assert set(ledger.record(home / "ring.zarr")) == {0}
    for name in files:
        assert contents(home)[name] == known[0][name]
    zarr_store.record_chunk(home / "ring.zarr", number, files, sums)
    assert set(ledger.verified(home / "ring.zarr")) == {0, 7}
    run(home)
    same(home, known)


CHANGES = [  # what a worker sees otherwise, what it says
    ("sweep.toml", 'to = "10 MB"', 'to = "11 MB"', "axes.message: 1.81818 MB there, 1.90909 MB"),
    ("mine.py", "4e11", "5e11", "the code of the estimator ring has changed"),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), CHANGES)
def test_a_worker_that_sees_another_question_refuses(name, old, new, said, tmp_path, monkeypatch):
    home = folder_of(tmp_path, "0")
    asked = begun(home, monkeypatch)
    file = home / name
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(InputError, match=said):
        clusters.chunk_of(*asked, 7)
    assert set(ledger.record(home / "ring.zarr")) == {0}


def test_a_worker_of_an_earlier_run_writes_nothing(tmp_path, monkeypatch):
    home = folder_of(tmp_path, "0")
    asked = begun(home, monkeypatch)
    clusters.chunk_of(*asked, 7)
    (home / "sweep.toml").write_text(SWEEP.replace("count = 12", "count = 6"))
    run(home, overwrite=True)
    before = contents(home)
    with pytest.raises(InputError, match="another run has begun this store anew"):
        clusters.chunk_of(*asked, 5)
    assert contents(home) == before


def test_a_worker_without_the_disk_of_the_client_says_so(tmp_path, monkeypatch):
    home = folder_of(tmp_path, "0")
    question, known, _ = begun(home, monkeypatch)
    with pytest.raises(InputError, match="expected a folder that all share"):
        clusters.chunk_of(question, known, str(tmp_path / "none.zarr"), 1)


def test_another_version_of_a_library_is_refused(tmp_path, monkeypatch):
    home = folder_of(tmp_path, "0")
    asked = begun(home, monkeypatch)

    def older(job):
        return {**fingerprint(job), "versions.numpy": "1.0"}

    monkeypatch.setattr(clusters, "fingerprint", older)
    with pytest.raises(InputError, match=r"versions.numpy: \S+ there, 1.0 here"):
        clusters.chunk_of(*asked, 7)


# ---- What cannot be asked ------------------------------------------------------------------------

WRONG = [  # options, what is said
    ("-o ring.nc --workers 2", "workers and scheduler: of a .zarr file alone; expected one as"),
    ("--workers 2", "workers and scheduler: of a .zarr file alone; expected one as output"),
    ("-o ring.zarr --workers 0", "workers: expected a whole number from 1 to 1,024, given 0"),
    ("-o ring.zarr --workers 2 --scheduler a:1", "workers and scheduler: expected one of them"),
    ("-o ring.zarr --scheduler zebra", "scheduler: zebra: no address; expected that of a running"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_what_no_cluster_can_do_is_one_line(options, said, tmp_path, jaxroof):
    pytest.importorskip("distributed")
    folder_of(tmp_path, "0")
    code, out, err = jaxroof(f"run sweep.toml --trust {options}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"jaxroof: {said}")
    assert not (tmp_path / "ring.zarr").exists()


def test_without_dask_the_extra_is_named(tmp_path, jaxroof, monkeypatch):
    folder_of(tmp_path, "0")
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, out, err = jaxroof("run sweep.toml --trust -o ring.zarr --workers 2")
    assert (code, out) == (2, "")
    assert err == f"jaxroof: {clusters.MISSING}\n"
    assert "jaxroof[cluster]" in err
    code, _, err = jaxroof("run sweep.toml --trust -o ring.zarr")  # one process needs none
    assert code == 0, err


# ---- How a large sweep is cut --------------------------------------------------------------------


AXES = ("system.hbm_bandwidth", "system.slow_bandwidth")


def test_a_larger_sweep_has_larger_chunks_of_pieces_that_fit_in_memory():
    """So that its files grow less than its points, and the memory of a task does not."""

    def cut(points: int):
        plan = jr.Plan(data=32.0, tensor=8.0, pipeline=64.0, microbatch=1.0)
        model, system = jr.model("gpt3-1t"), jr.system("b200-nvs8")
        inputs = jr.Inputs(model=model, plan=plan, system=system, global_batch=4096.0)
        side = round(points**0.5)
        axes = {name: np.linspace(1e12, 2e12, side) for name in AXES}
        asked = sweep_job(jr.published, inputs, axes=axes, searched=False)
        layout = chunk_layout(asked)
        assert math.prod(layout.inner.values()) <= chunked_sweep.TABULATED
        return layout, math.prod(layout.chunk.values())

    usual, size = cut(10**7)
    assert size <= chunked_sweep.TABULATED
    large, larger = cut(4 * 10**9)
    assert larger > 4 * size
    assert usual.count < large.count <= 4 * chunked_sweep.FEW
