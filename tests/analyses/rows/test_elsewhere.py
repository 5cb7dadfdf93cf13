"""Rows that a cluster evaluates are those that one process evaluates, to the bit."""

import os
import pathlib
import subprocess
import sys

import pytest
from places import ROOT

from jaxroof.analyses.rows import elsewhere
from jaxroof.analyses.rows.elsewhere import question_of, rows_elsewhere, rows_of
from jaxroof.analyses.rows.evaluate import evaluate_file
from jaxroof.engine.runs import cluster as clusters
from jaxroof.errors import InputError
from jaxroof.estimators.published.step import published
from jaxroof.io.csv_blocks import open_rows

HEAD = "id,model,system,gpus,global_batch,dp,tp,pp,mb,system.hbm_bandwidth [GB/s]\n"
COUNT = 500
WRONG = "bad,gpt3,h200-nvs4,64,64,1,8,8,1,fast\n"
ROWS = [f"{n},gpt3,h200-nvs4,64,64,1,8,8,1,{3000 + n / 7}\n" for n in range(COUNT)]
SHARED = {"system.nics": 2}


class Here:
    """A client that evaluates where it is asked: what travels is what a worker would get."""

    def submit(self, function, *arguments, **_):
        return _Done(function, arguments)


class _Done:
    key = "rows"

    def __init__(self, function, arguments):
        self.asked = function, arguments

    def result(self):
        import pickle

        function, arguments = self.asked
        return pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(arguments)))))


@pytest.fixture
def table(tmp_path, monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(elsewhere, "connected", lambda _: nullcontext(Here()))
    monkeypatch.setattr(elsewhere, "ROWS", 64)
    (tmp_path / "rows.csv").write_text(HEAD + "".join(ROWS))
    return tmp_path / "rows.csv"


def by_workers(path: pathlib.Path, output: pathlib.Path, keep_going: bool = False):
    def answers(file, going):
        return rows_elsewhere(None, "published", path.parent, SHARED, file, going)

    return evaluate_file(published, path, output, SHARED, keep_going, elsewhere=answers)


def test_blocks_that_workers_evaluate_are_the_table_of_one_process(table, tmp_path):
    one = evaluate_file(published, table, tmp_path / "one.csv", SHARED)
    many = by_workers(table, tmp_path / "many.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "many.csv").read_bytes()
    assert (one.rows, one.passed, one.units) == (many.rows, many.passed, many.units)
    assert one.verdicts.attrs == many.verdicts.attrs
    assert one.shown == many.shown


def test_bad_rows_are_passed_over_or_named_as_by_one_process(table, tmp_path):
    table.write_text(HEAD + "".join([*ROWS[:100], WRONG, *ROWS[100:]]))
    one = evaluate_file(published, table, tmp_path / "one.csv", SHARED, keep_going=True)
    many = by_workers(table, tmp_path / "many.csv", keep_going=True)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "many.csv").read_bytes()
    assert (one.passed, one.first) == (many.passed, many.first)
    assert one.passed == 1
    with pytest.raises(InputError) as told:
        evaluate_file(published, table, None, SHARED)
    with pytest.raises(InputError) as there:
        by_workers(table, tmp_path / "none.csv")
    assert str(there.value).startswith(str(told.value).rstrip("."))


def test_a_worker_reads_a_question_once(table):
    with open_rows(table) as file:
        question = question_of("published", table.parent, file, SHARED)
        block = file.take(4)
    elsewhere._problem.cache_clear()
    for _ in range(3):
        rows_of(question, block, 0, False)
    assert elsewhere._problem.cache_info().misses == 1


def test_the_command_asks_its_workers(table, tmp_path, jaxroof):
    ended = jaxroof("evaluate published rows.csv -o many.csv --set system.nics=2 --workers 2")
    assert ended.code == 0, ended.err
    evaluate_file(published, table, tmp_path / "one.csv", SHARED)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "many.csv").read_bytes()


def process(arguments: str, folder: pathlib.Path) -> subprocess.CompletedProcess:
    """Run Python with some arguments in a folder."""
    return subprocess.run(
        [sys.executable, *arguments.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


# daily the command asks a client in this process, as above; that workers of a command start, die
# and end is held in engine/runs/test_cluster.py
@pytest.mark.slow
def test_processes_of_a_local_cluster_write_the_same_table(table, tmp_path):
    pytest.importorskip("distributed")
    command = "evaluate published rows.csv -o many.csv --set system.nics=2 --workers 2"
    done = process(f"-W error -m jaxroof {command}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 workers; dashboard" in done.stderr
    evaluate_file(published, table, tmp_path / "one.csv", SHARED)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "many.csv").read_bytes()


KILLED = """
import pathlib, sys
import psutil
from jaxroof.analyses.rows import elsewhere
from jaxroof.analyses.rows.evaluate import evaluate_file
from jaxroof.engine.runs.cluster import Cluster
from jaxroof.estimators.published.step import published


def answers(file, going):
    asked = Cluster(workers=2), "published", pathlib.Path(), {"system.nics": 2}, file, going
    for number, block in enumerate(elsewhere.rows_elsewhere(*asked)):
        if number == 3:
            children = psutil.Process().children(recursive=True)
            workers = [some for some in children if "spawn_main" in " ".join(some.cmdline())]
            print(len(workers))
            workers[0].kill()
        yield block


if __name__ == "__main__":
    elsewhere.ROWS = 16
    evaluate_file(published, "rows.csv", "many.csv", {"system.nics": 2}, elsewhere=answers)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of a process")
def test_a_worker_that_is_killed_costs_no_row(table, tmp_path):
    pytest.importorskip("distributed")
    (tmp_path / "killed.py").write_text(KILLED)
    done = process("killed.py", tmp_path)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    evaluate_file(published, table, tmp_path / "one.csv", SHARED)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "many.csv").read_bytes()


WRONG_OPTIONS = [  # options, what is said
    ("--workers 0", "workers: expected a whole number from 1 to 1,024, given 0"),
    ("--workers 2 --scheduler a:1", "workers and scheduler: expected one of them"),
    ("--workers 2 --schema measured", "workers and scheduler: of rows of an estimator's own"),
]


@pytest.mark.parametrize(("options", "said"), WRONG_OPTIONS)
def test_what_no_cluster_can_do_is_one_line(options, said, table, jaxroof):
    ended = jaxroof(f"evaluate published rows.csv -o out.csv {options}")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"jaxroof: {said}")


def test_without_dask_the_extra_is_named(table, jaxroof, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    ended = jaxroof("evaluate published rows.csv --workers 2")
    assert (ended.code, ended.err) == (2, f"jaxroof: {clusters.MISSING}\n")
