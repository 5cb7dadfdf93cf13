"""Whatever is read ends with a result or one clear line and exit 2, in bounded time and memory.

JAXROOF_FUZZ=10000 pytest -n 0 -s tests/fuzz: that many cases in all, drawn anew, counts printed.
"""

import contextlib
import gzip
import io
import json
import os
import pathlib
import resource
import shlex
import shutil
import signal
import time
from collections import Counter

import hypothesis
import numpy as np
import pytest
from daily import daily
from hostile import damaged_bytes, damaged_line, damaged_text
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

import jaxroof as jr
from jaxroof import cli
from jaxroof.cli import process
from jaxroof.io import chunk_manifest, stored_format, zarr_store
from jaxroof.limits import MEMORY
from jaxroof.validation import sources

CASES = int(os.environ.get("JAXROOF_FUZZ", "0"))
DAILY = 100  # cases in all
SECONDS = 60  # of one case
BYTES = 2 << 30  # that cases take, beside what the imports took


class TooLong(BaseException):
    """A case took more than its time."""


@contextlib.contextmanager
def at_most(seconds: int):
    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(words: list[str]) -> str:
    """Return how a command line ended, after checking that it said so in one line."""
    out, err = io.StringIO(), io.StringIO()
    start = time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), at_most(SECONDS):
        try:
            cli.main(words)
        except SystemExit as ended:
            code = ended.code
    assert time.monotonic() - start < SECONDS
    said = err.getvalue()
    if code == 2:
        lines = [line for line in said.splitlines() if line.startswith("jaxroof: ")]
        assert len(lines) == 1, said
        assert said.endswith(lines[0] + "\n"), said
        assert lines[0].isprintable()
        assert len(lines[0]) < 2000, lines[0]
        return "refused"
    assert code in (0, 1), (code, said)
    assert "Traceback" not in said
    return "answered" if code == 0 else "no plan fits"


# ---- What is sound ------------------------------------------------------------------------------

SWEEPS = [
    """title = "Fast"
model = "llama3-8b"
system = "h100-nvs8"
plan = { global_batch = 8 }
search = { top = 2, where = "tp<=2,pp=1,rc=0,off=0,cp=1" }
[axes]
gpus = [2, 4]
"system.hbm_bandwidth" = { from = "2 TB/s", to = "4 TB/s", count = 3, spacing = "log" }
""",
    """estimator = "published"
model = "gpt3-1t"
system = "h200-nvs4"
plan = { data = 2, tensor = 8, pipeline = 64, microbatch = 1, global_batch = 64, split = "1d" }
set = { "system.hbm_usable" = "90 %" }
[axes]
"system.nics" = [1, 2]
"system.hbm_capacity" = ["80 GB", "141 GB"]
""",
    """estimator = "matmul"
picture = "roofline"
inputs = { system = { matrix_flops = "900 TFLOP/s", hbm_bandwidth = "3 TB/s" }, hidden = 64 }
set = { feedforward = 128 }
[axes]
batch = [1, 8, 64]
""",
    """answer = "elasticities"
estimator = "published"
model = "gpt3"
system = "b200-nvs8"
plan = { gpus = 64, global_batch = 8 }
elasticities = { parameters = ["system.hbm_bandwidth"], of = "step_time" }
""",
    """answer = "plans"
estimator = "published"
model = "gpt3"
system = "h200-nvs4"
plan = { gpus = 64, global_batch = 4 }
search = { where = "tensor=8" }
""",
    """answer = "stages"
estimator = "training"
model = "llama3-8b"
system = "h100-nvs8"
plan = { dp = 1, tp = 2, pp = 2, global_batch = 8 }
""",
    """answer = "stages"
estimator = "training"
model = "llama3-8b"
system = "h100-nvs8"
plan = { tp = 2, global_batch = 8 }
[axes]
pp = { from = 1, to = 2, count = 2 }
recompute = ["none", "full"]
"model.layers" = [16, 32]
""",
    """answer = "layers"
estimator = "training"
model = "llama3-8b"
system = "h100-nvs8"
plan = { data = 1, tensor = 2, global_batch = 8 }
""",
    """estimator = "training"
model = "llama3-8b"
system = "h100-nvs8"
plan = { data = 1, tensor = 8, gpus = 8, global_batch = 16 }
set = { "model.layers" = 16, precision = "fp8" }
[axes]
machine = { "system.nics" = [1, 2], "system.hbm_capacity" = ["80 GB", "141 GB"] }
"model.sequence" = [2048, 4096]
""",
]
DESIGN = """estimator = "published"
model = "gpt3"
system = "b200-nvs8"
plan = { gpus = 64, global_batch = 8, split = "1d" }
minimise = "training_days"
fixed = 100
[price]
"system.matrix_flops" = { price = 12_000, per = "2.5 PFLOP/s", power = 1.2 }
"system.hbm_bandwidth" = { price = 0.6, per = "1 GB/s", with = ["system.hbm_capacity"] }
[bounds]
"system.matrix_flops" = ["1 PFLOP/s", "4 PFLOP/s"]
"system.hbm_bandwidth" = ["4 TB/s", "16 TB/s"]
"""
UNCERTAIN = """title = "Before anything is measured"
samples = 8
seed = 0
[distributions]
"system.matrix_efficiency" = { from = "60 %", to = "90 %", shape = "triangular", peak = "80 %" }
"system.fast_efficiency" = ["60 %", "90 %"]
"system.slow_latency" = { from = "2 us", to = "15 us", shape = "loguniform" }
"system.launch_latency" = { around = "50 %" }
"system.hbm_usable" = { values = ["90 %", "100 %"], weights = [1, 2] }
"""
MODEL = """layers = 4
hidden = 1024
heads = 16
sequence = 2048
feedforward = 4096
"""
SYSTEM = """base = "h200-nvs4"
hbm_capacity = "100 GB"
hbm_bandwidth = "5 TB/s"
nics = 2
"""
ROWS = """id,model,system,gpus,global_batch,dp,tp,pp,mb,system.hbm_bandwidth [GB/s]
a,gpt3-1t,h200-nvs4,1024,64,2,8,64,1,3000
b,gpt3,b200-nvs8,64,8,1,8,8,1,8000
c,gpt3,"h200-nvs4",64,8,2,8,4,1,4 TB/s
"""
TRAINING_ROWS = """model,system,gpus,global_batch,dp,tp,pp,zero,model.layers,system.hbm_usable
llama3-8b,h100-nvs8,8,64,2,2,2,1,32,90 %
gpt3-175b,h100-nvs8,64,64,1,8,8,0,96,0.8
"""
BIGSCIENCE = pathlib.Path(sources.__file__).parent / "data" / "steps" / "bigscience_a100.csv.gz"
MEASURED = "\n".join(gzip.decompress(BIGSCIENCE.read_bytes()).decode().splitlines()[:30:8]) + "\n"
LINES = [
    "search --model llama3-8b --system h100-nvs8 --gpus 8 --batch 8 --top 2 --where off=0",
    "search --estimator published --model gpt3 --system b200-nvs8 --gpus 64 --batch 8 --split 1d",
    "compare --estimator published --model gpt3 --system h200-nvs4,b200-nvs8 --gpus 64 --batch 8",
    "fit --model llama3-8b --system h100-nvs8 --plan dp=2,tp=2,pp=2 --batch 8",
    "layers --model llama3-8b --system h100-nvs8 --plan dp=1,tp=2",
    "schedule --model llama3-8b --system h100-nvs8 --plan dp=1,tp=2,pp=4 --batch 8",
    "roofline --op matmul --system tpu-v5e --shape B=256,D=4096,F=16384",
    "pareto --estimator published --model gpt3 --system b200-nvs8 --gpus 64 --batch 8",
    "show h100-nvs8",
    "show training",
    "list systems",
    "search --model deepseek-v3 --system h100-nvs8 --gpus 64 --batch 64 --mine ep=8 --top 1",
    "compare --model llama3-8b --system h100-nvs8,h200-141-sxm --gpus 8,16 --batch 16 --where tp=8",
    "compare --model llama3-8b --system h100-nvs8 --gpus 8 --batch 8 --set model.layers=16",
    "explain --model gpt2-124m --system h100-nvs8 --gpus 1 --batch 8 --where off=0 --span 2",
    "explain --estimator published --model gpt3 --system b200-nvs8 --gpus 64 --batch 8 --span 2",
    "pareto --model llama3-8b --system h100-nvs8 --gpus 8 --batch 8 --where off=0,rc=0",
    "fit --model llama3-8b --system h100-nvs8 --batch 8 --gpus 8 --where off=0",
    "fit --model llama3-8b --system h100-nvs8 --plan tp=8 --batch 8 --set layer_split=even --json",
    "layers --estimator unfused --model gpt3 --system a100-unfused --plan tp=4 -o a.csv",
    "layers --estimator published --model gpt3 --system h200-nvs4 --plan dp=1,tp=4,pp=8,mb=1",
    "schedule --estimator published --model gpt3 --system h200-nvs4 --batch 16 "
    "--plan dp=1,tp=8,pp=4,mb=1 --schedule 1f1b,zb-h1 --first 0.1 --sends blocking --trace a.json",
    "roofline --op matmul --system tpu-v5e --shape D=4096,F=16384 --sweep B=1:64 --dtypes int8",
    "list estimators",
    "show llama3-8b",
    "report sound.json -o a.html",
    "rerun fit.json",
    "plot fit.json -o a.svg",
    "rerun sound.json",
    "plot sound.json -o a.svg",
    "trace --model mlp-xs --system distir-a --plan pp=2,m=4 --profile distir-a -o t.json",
]
CONFIGS = sorted((ROOT / "tests" / "catalog" / "huggingface").glob("*.json"))
STORED = ("nc", "json", "csv", "zarr")
SEARCH = "search --estimator published --model gpt3 --system b200-nvs8 --gpus 64 --batch 8"
DRAWN = f"{SEARCH} --uncertain {{}}"


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Work in a folder of our own, with a sound file of each kind, and with little memory."""
    home, before = tmp_path_factory.mktemp("fuzz"), pathlib.Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MEMORY, "1 GB")
        patch.setattr(process, "start", lambda: None)
        os.chdir(home)
        pathlib.Path("config").mkdir()
        inputs = jr.Inputs(
            model=jr.model("gpt3"), system=jr.system("h200-nvs4"), gpus=8.0, global_batch=16.0
        )
        data = jr.search(jr.published, inputs, axes={"gpus": [4, 8]}, top=2)
        patch.setattr(zarr_store, "PIECE", 2)  # so that shards have several
        for kind in STORED:
            jr.write(data.assign_attrs(title="Sound"), f"sound.{kind}")
        for name, line in WRITERS.items():
            assert outcome(shlex.split(f"{line} -o {name}")) != "refused"
        yield home
        os.chdir(before)


# ---- What is done to it: kind -> a strategy of cases, and the command line of a case ------------


def written(name: str, content: bytes) -> str:
    pathlib.Path(name).write_bytes(content)
    return name


def of_file(name: str):
    """Return the command line of a case: what a file holds, and a line with its place."""

    def command(case: tuple[bytes, str]) -> list[str]:
        content, line = case
        return shlex.split(line.format(written(name, content)))

    return command


def cases_of(text: str, *lines: str):
    """Return cases of a damaged text, each with one of some lines."""
    return st.tuples(damaged_text(text), st.sampled_from(lines))


ROADS = ["run {}"] * 6 + ["run {} --dry-run"] * 2 + ["show {}", "plot {} -o a.png"]


TABLES = {
    "evaluate published {}": ROWS,
    "evaluate training {}": TRAINING_ROWS,
    "evaluate training {} --schema measured": MEASURED,
    "calibrate {} --system a100-80-sxm": MEASURED,
}


WRITERS = {  # files of commands, of which attributes are damaged
    "fit.json": "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 8",
    "layers.json": "layers --model llama3-8b --system h100-nvs8 --plan dp=1,tp=2",
    "fastest.json": "search --model llama3-8b --system h100-nvs8 --gpus 8 --batch 8 --top 2",
    "schedule.json": "schedule --model llama3-8b --system h100-nvs8 --plan tp=2,pp=4 --batch 8",
    "roof.json": "roofline --op matmul --system tpu-v5e --shape B=256,D=4096,F=16384",
}
READERS = ["rerun {}", "plot {} -o a.svg", "report {} -o a.html"]


@st.composite
def told_otherwise(draw) -> tuple[bytes, str]:
    """Return a file whose attributes say something else, its checksums gone, and a command."""
    name = draw(st.sampled_from(["sound.json", *WRITERS]))
    whole = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
    for stamp in (stored_format.QUESTION, stored_format.RESULTS):
        whole["attrs"].pop(stamp, None)
    for _ in range(draw(st.integers(1, 2))):
        key = draw(st.sampled_from(sorted(whole["attrs"])))
        text = draw(damaged_text(str(whole["attrs"][key]))).decode("utf-8", "replace")
        how = draw(st.sampled_from(["text", "text", "text", "value", "gone"]))
        if how == "gone":
            del whole["attrs"][key]
        else:
            other = draw(st.sampled_from([None, 3, True, [], {}, [1, "a"], -1.5]))
            whole["attrs"][key] = text if how == "text" else other
    return json.dumps(whole).encode("utf-8", "surrogatepass"), draw(st.sampled_from(READERS))


def of_stored(case: tuple[str, bytes]) -> list[str]:
    kind, content = case
    return ["rerun" if kind != "csv" else "plot", written(f"a.{kind}", content)]


@st.composite
def stored_files(draw) -> tuple[str, bytes]:
    kind = draw(st.sampled_from(STORED[:3]))
    sound = pathlib.Path(f"sound.{kind}").read_bytes()
    texts = damaged_text(sound.decode()) if kind != "nc" else st.nothing()
    return kind, draw(damaged_bytes(sound) | texts)


@st.composite
def stores(draw) -> tuple[str, bytes]:
    """Return a file of a store, and what it holds instead."""
    names = sorted(p.as_posix() for p in pathlib.Path("sound.zarr").rglob("*") if p.is_file())
    home = f"sound.zarr/{chunk_manifest.HOME}"
    name = draw(st.sampled_from([*names, *(n for n in names if n.startswith(home))]))
    sound = pathlib.Path(name).read_bytes()
    return name, draw(damaged_bytes(sound))


def of_store(case: tuple[str, bytes]) -> list[str]:
    name, content = case
    shutil.rmtree("a.zarr", ignore_errors=True)
    shutil.copytree("sound.zarr", "a.zarr")
    written(name.replace("sound.zarr", "a.zarr"), content)
    return ["rerun", "a.zarr"]


KINDS = {
    "sweep files": (
        st.sampled_from(SWEEPS).flatmap(lambda text: cases_of(text, *ROADS)),
        of_file("a.toml"),
    ),
    "design files": (cases_of(DESIGN, "design {}"), of_file("a.toml")),
    "uncertainty files": (cases_of(UNCERTAIN, DRAWN), of_file("a.toml")),
    "catalogue files": (
        cases_of(MODEL, f"{SEARCH} --model {{}}") | cases_of(SYSTEM, f"{SEARCH} --system {{}}"),
        of_file("./a.toml"),
    ),
    "tables of rows": (
        st.sampled_from(sorted(TABLES)).flatmap(lambda line: cases_of(TABLES[line], line)),
        of_file("a.csv"),
    ),
    "command lines": (
        st.sampled_from(LINES).map(shlex.split).flatmap(damaged_line),
        lambda words: words,
    ),
    "config.json of models": (
        st.sampled_from(CONFIGS).flatmap(lambda file: cases_of(file.read_text(), "show {}")),
        of_file("config/config.json"),
    ),
    "stored results": (stored_files(), of_stored),
    "attributes of files": (told_otherwise(), of_file("told.json")),
    "stores": (stores(), of_store),
}
EACH = -(-(CASES or DAILY) // len(KINDS))


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_ends_with_a_result_or_one_line(kind):
    cases, command = KINDS[kind]
    ended: Counter[str] = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        derandomize=not CASES,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, *[hypothesis.Phase.shrink] * bool(CASES)],
    )
    @given(case=cases)
    def check(case):
        ended[outcome(command(case))] += 1

    with np.errstate(all="warn", under="ignore"):  # the power of a small share is 0
        check()
    assert set(ended) & {"refused", "answered"}
    taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert taken < BYTES
    print(f"\n{kind}: {dict(ended)}, {taken / 1e6:.0f} MB more")


SOUND = [  # file, what it holds, line
    *(("a.toml", text, ROADS[0]) for text in SWEEPS),
    ("a.toml", DESIGN, "design {}"),
    ("a.toml", UNCERTAIN, DRAWN),
    ("./a.toml", MODEL, f"{SEARCH} --model {{}}"),
    ("./a.toml", SYSTEM, f"{SEARCH} --system {{}}"),
    *(("a.csv", text, line) for line, text in TABLES.items()),
    ("config/config.json", CONFIGS[0].read_text(), "show {}"),
    *(("a.toml", "", line) for line in LINES),
]


@pytest.mark.parametrize("number", daily(range(len(SOUND)), *range(len(SOUND) - len(LINES))))
def test_what_is_damaged_was_sound(number):
    """Else every case would be refused for one reason."""
    name, text, line = SOUND[number]
    assert outcome(of_file(name)((text.encode(), line))) == "answered"
