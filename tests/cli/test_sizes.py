"""Questions that are too large end in one line, before memory is taken; --dry-run prints sizes."""

import re
import tracemalloc

import pytest

import jaxroof as jr
from jaxroof.engine.runs import dry_run
from jaxroof.estimators.mlp_pipeline import details
from jaxroof.limits import DISK, MEMORY

SWEEP = """
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { gpus = 8192, global_batch = 4096, split = "1d" PLAN }
MORE
[axes]
"system.hbm_bandwidth" = { from = "500 GB/s", to = "16 TB/s", count = COUNT }
"system.hbm_capacity" = { from = "80 GB", to = "1000 GB", count = COUNT }
"""
GPUS = """
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { global_batch = 4096, split = "1d" }
MORE
[axes]
gpus = { from = 1, to = COUNT, count = COUNT }
"""
HEADS = """
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { gpus = 720720, global_batch = 720720, split = "summa" }
[set]
"model.heads" = 720720
"model.hidden" = 720720
"model.layers" = 2520
"model.sequence" = 720720
"""
OWN = ", tensor = 8, pipeline = 16, data = 64, microbatch = 1"


def sweep(text: str = SWEEP, count: int = 100_000, plan: str = "", more: str = "") -> str:
    return text.replace("COUNT", str(count)).replace("PLAN", plan).replace("MORE", more)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(MEMORY, raising=False)
    monkeypatch.delenv(DISK, raising=False)
    return tmp_path / "sweep.toml"


LARGE = [  # a sweep file, options, what takes too much
    (sweep(), "", "1e10 points of 33 results take"),
    (sweep(), "-o a.nc", "1e10 points of 33 results take"),
    (sweep(more="[search]\ntop = 1000\n", count=1000), "", "with the best 1,000 plans"),
    (sweep(plan=OWN), "", "1e10 points of"),
    (sweep(more='answer = "elasticities"'), "", "1e10 points of 33 results take"),
    (sweep(count=10_000_000), "-o a.zarr", "1e14 points of 33 results, compressed, take"),
    (sweep(more="[search]\ntop = 1000\n"), "-o a.zarr", "a.zarr: pieces of 50,000 points of"),
    (sweep(GPUS, 10_000_000), "", "the plans of 10,000,000 points take"),
    (sweep(GPUS, 7_000_000, more='answer = "plans"'), "-o a.csv", "the plans of 7,000,000 points"),
]


@pytest.mark.parametrize(("text", "options", "said"), LARGE)
def test_a_sweep_that_is_too_large_is_one_line(text, options, said, file, jaxroof):
    file.write_text(text)
    ended = jaxroof(f"run sweep.toml {options}")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert said in ended.err
    assert re.search(rf"the limit is .* \(set ({MEMORY}|{DISK}) for another\); expected", ended.err)
    assert [path.name for path in file.parent.iterdir()] == ["sweep.toml"]


def test_plans_are_counted_before_they_are_listed(file, monkeypatch, jaxroof):
    monkeypatch.setenv(MEMORY, "1 GB")
    file.write_text(HEADS)
    tracemalloc.start()
    try:
        ended = jaxroof("run sweep.toml")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ended.code == 2
    assert "plans to try take" in ended.err
    assert peak < 0.5e9


COMMANDS = [
    (
        "schedule --estimator published --model gpt3-1t --system h200-nvs4 --batch 1000000 "
        "--plan dp=1,tp=1,pp=64,microbatch=1",
        "1f1b: 192,000,000 visits of stages, and at most 1,000,000",
    ),
    (
        "trace --model mlp-small --system h200-nvs8 --batch 1000000 "
        "--plan pp=8,m=1000000 -o t.json",
        "events take",
    ),
]


@pytest.mark.parametrize(("line", "said"), COMMANDS)
def test_events_are_counted_before_they_are_made(line, said, file, jaxroof):
    ended = jaxroof(line)
    assert ended.code == 2
    assert said in ended.err
    assert "expected fewer microbatches" in ended.err


def test_the_events_that_are_counted_are_those_that_are_made(monkeypatch):
    counted = []
    monkeypatch.setattr(details, "check_memory", lambda what, size, remedy: counted.append(size))
    asked = {"model.layers": 4, "model.hidden": 512, "system": "distir-a", "plan.data": 1}
    asked |= {"plan.tensor": 1, "plan.pipeline": 2, "plan.microbatches": 2}
    data = jr.trace("pipeline", asked, profile="distir-a")
    assert counted == [details.EVENT * data.sizes["event"]]


def test_a_limit_that_is_set_is_the_limit(file, monkeypatch, jaxroof):
    file.write_text(sweep(count=3))
    assert jaxroof("run sweep.toml -o a.nc").code == 0
    monkeypatch.setenv(MEMORY, "5 kB")
    assert "9 points of 33 results take 5.94 kB" in jaxroof("run sweep.toml -o a.nc").err
    monkeypatch.delenv(MEMORY)
    monkeypatch.setenv(DISK, "2 kB")
    assert "of disk (set JAXROOF_DISK for another)" in jaxroof("run sweep.toml -o a.nc").err


@pytest.mark.parametrize("error", [MemoryError("8 TB"), RuntimeError("RESOURCE_EXHAUSTED: 8 TB")])
def test_memory_that_runs_out_is_one_line(error, file, monkeypatch, jaxroof):
    def fails(*_, **__):
        raise error

    from jaxroof.config import sweep_file

    monkeypatch.setattr(sweep_file, "run", fails)
    file.write_text(sweep(count=3))
    ended = jaxroof("run sweep.toml")
    said = "jaxroof: out of memory (8 TB); expected a smaller question, or more memory\n"
    assert (ended.code, ended.err) == (2, said)


# ---- What it would take -------------------------------------------------------------------------


def test_a_dry_run_prints_sizes_and_writes_nothing(file, jaxroof):
    file.write_text(sweep(count=30))
    ended = jaxroof("run sweep.toml --dry-run -o a.nc")
    assert (ended.code, ended.err) == (0, "")
    for words in (
        "axes hbm_bandwidth 30, hbm_capacity 30",
        "points 900",
        "combinations",
        "memory 594 kB; the limit is",
        "disk about 237.6 kB; the limit is",
        "time about",
        "a sample of",
    ):
        assert words in ended.words
    assert [path.name for path in file.parent.iterdir()] == ["sweep.toml"]


def test_a_dry_run_of_what_is_too_large_says_so(file, jaxroof, monkeypatch):
    monkeypatch.setattr(dry_run, "_by_numpy", lambda *_: float("inf"))  # a sample by NumPy
    monkeypatch.setattr(dry_run, "LAST", 8)
    file.write_text(sweep(count=10_000_000))
    ended = jaxroof("run sweep.toml --dry-run -o a.zarr")
    assert ended.code == 2
    assert "points 1e14" in ended.words
    assert "years" in ended.words
    assert "1e14 points of 33 results, compressed, take" in ended.err


ANSWERS = [
    (sweep(more='answer = "elasticities"', count=3), "points 9"),
    (sweep(GPUS, 8, more='answer = "plans"'), "axes configuration"),
    (sweep(plan=OWN, count=3), "points 9"),
]


@pytest.mark.parametrize(("text", "words"), ANSWERS)
def test_every_answer_can_be_run_dry(text, words, file, jaxroof):
    file.write_text(text)
    ended = jaxroof("run sweep.toml --dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert words in ended.words
    assert "time about" in ended.words


DESIGN = """estimator = "published"
model = "gpt3"
system = "b200-nvs8"
plan = { gpus = 64, global_batch = 8, split = "1d" }
starts = 4
[price]
"system.hbm_bandwidth" = { price = 0.6, per = "1 GB/s" }
[bounds]
"system.hbm_bandwidth" = ["4 TB/s", "16 TB/s"]
"""
UNCERTAIN = """samples = 64
[distributions]
"system.matrix_efficiency" = ["60 %", "90 %"]
"system.slow_latency" = ["2 us", "15 us"]
"""
SEARCH = "search --estimator published --model gpt3 --system b200-nvs8 --gpus {} --batch 8"


def test_a_design_is_run_dry(file, jaxroof):
    file.write_text(DESIGN)
    ended = jaxroof("design sweep.toml --dry-run")
    assert (ended.code, ended.err) == (0, "")
    for words in ("axes start 4, field 1", "points 4", "plans about", "memory", "time about"):
        assert words in ended.words
    file.write_text(DESIGN.replace("starts = 4", "starts = 0"))
    assert "starts: expected a whole number" in jaxroof("design sweep.toml --dry-run").err


@pytest.mark.parametrize(
    ("sizes", "axes", "points"), [("64", "draw 64", 129), ("64,128", "gpus 2, draw 64", 258)]
)
def test_a_search_in_draws_is_run_dry(sizes, axes, points, file, jaxroof):
    """Points are the inputs of today, two halves of draws, and their crossings for each input."""
    file.write_text(UNCERTAIN)
    ended = jaxroof(f"{SEARCH.format(sizes)} --uncertain sweep.toml --dry-run")
    assert (ended.code, ended.err) == (0, "")
    for words in (f"axes {axes}", f"points {points}", "memory", "time about", "a sample of"):
        assert words in ended.words
    file.write_text(UNCERTAIN.replace("64", "65"))
    ended = jaxroof(f"{SEARCH.format(sizes)} --uncertain sweep.toml --dry-run")
    assert ended.code == 2
    assert "samples: expected a power of two" in ended.err


def test_a_dry_run_of_a_search_is_of_draws(file, jaxroof):
    ended = jaxroof(f"{SEARCH.format(64)} --dry-run")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "jaxroof: --dry-run: of draws alone; expected --uncertain FILE beside it\n"
    )
