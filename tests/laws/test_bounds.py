"""One table of bounds: every road refuses in a line what is beyond it, before anything is made."""

import pathlib

import pytest

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.limits import BOUNDS, check_bound
from jaxroof.settings import paths_of

WIDE = ("hidden", "feedforward", "heads", "kv_heads", "expert_feedforward", "experts")
KINDS = dict.fromkeys(("layers", "pipeline", "interleave"), "layers") | dict.fromkeys(WIDE, "width")
OURS = ("training", "published", "unfused", "pipeline")  # estimators that go over layers one by one


@pytest.mark.parametrize("name", OURS)
def test_a_field_of_that_name_has_the_bound_of_the_table(name):
    fields = dict(paths_of(estimator(name).inputs))
    found = {
        path: field.metadata["most"]
        for path, field in fields.items()
        if path.partition(".")[0] in ("model", "plan") and path.rpartition(".")[2] in KINDS
    }
    assert found
    assert found == {path: BOUNDS[KINDS[path.rpartition(".")[2]]] for path in found}


OF = "--model llama3-8b --system h100-nvs8"
ON = f"{OF} --gpus 8 --batch 8"
STUDY = "--estimator published --model gpt3 --system b200-nvs8"
SIZES = ",".join(str(n) for n in range(1, 20_001))
LAYERS = "expected a whole number above 0 and at most 4096"
WIDTH = "expected a whole number above 0 and at most 16777216"
SWEEP = 'model = "llama3-8b"\nsystem = "h100-nvs8"\nplan = { global_batch = 8, gpus = 8 }\n'
FILES = {
    "a.toml": f'{SWEEP}[axes]\n"model.layers" = [32, 1e9]\n',
    "b.toml": f'{SWEEP}set = {{ "model.hidden" = 1e9 }}\n[axes]\ngpus = [8]\n',
    "c.toml": f"{SWEEP}".replace(", gpus = 8", "")
    + "[axes]\ngpus = {from = 1, to = 9, count = 1e9}\n",
    "d.toml": 'estimator = "training"\nanswer = "stages"\n'
    + f'{SWEEP}[axes]\n"model.layers" = [32, 1e9]\n',
    "u.toml": 'samples = 1_048_576\n[distributions]\n"system.fast_efficiency" = ["60 %", "90 %"]\n',
    "model.toml": 'base = "llama3-8b"\nlayers = 1_000_000_000\n',
    "rows.csv": "model,system,gpus,global_batch,dp,model.layers\nllama3-8b,h100-nvs8,8,8,8,1e9\n",
}
BEYOND = [  # what is asked, what is said
    (f"search {ON} --set model.layers=1e9", LAYERS),
    (f"search {ON} --set model.hidden=1e9", WIDTH),
    (f"search {ON} --top 1000000000", "top: expected a whole number from 1 to 1,000,000"),
    (f"search {OF} --gpus {SIZES} --batch 8",
     "--gpus: how many: expected a whole number from 1 to"),
    (f"search {ON} --mine pp=5000", "expected whole numbers from 1 to 4096"),
    (f"compare {ON} --set model.layers=1e9", LAYERS),
    (f"compare {OF} --gpus {SIZES} --batch 8", "--gpus: how many"),
    (f"pareto {ON} --set model.layers=1e9", LAYERS),
    (f"explain {ON} --set model.layers=1e9", LAYERS),
    (f"fit {OF} --plan dp=8 --batch 8 --set model.layers=1e9", LAYERS),
    (f"fit {OF} --plan pp=64,vp=128 --batch 64",
     "plan: pp x vp: expected a whole number from 1 to 4,096"),
    (f"layers {OF} --plan dp=8 --set model.layers=1e9", LAYERS),
    (f"schedule {OF} --plan pp=4 --batch 8 --set model.layers=1e9", LAYERS),
    (f"schedule {OF} --plan dp=1,tp=2,pp=4,vp=1,mb=1 --batch 640000",
     "7,680,000 visits of stages, and at most"),
    (f"search {STUDY} --gpus 64 --batch 8 --set model.layers=1e9", LAYERS),
    (f"search {STUDY} --gpus 64 --batch 8 --uncertain u.toml",
     "samples: expected a power of two from 4"),
    (f"search {OF.replace('llama3-8b', 'model.toml')} --gpus 8 --batch 8", LAYERS),
    ("run a.toml", LAYERS), ("run b.toml", WIDTH),
    ("run c.toml", "count: expected"), ("run d.toml", LAYERS),
    ("run d.toml --dry-run", LAYERS),
    ("evaluate training rows.csv", LAYERS),
    ("run b.toml -o b.zarr --workers 1000000000",
     "workers: expected a whole number from 1 to 1,024"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), BEYOND, ids=[f"{n}" for n in range(len(BEYOND))])
def test_every_command_refuses_what_is_beyond(line, said, jaxroof):
    for name, text in FILES.items():
        pathlib.Path(name).write_text(text, encoding="utf-8")
    ended = jaxroof(line)
    assert (ended.code, ended.out) == (2, ""), ended
    assert said in ended.err
    assert len(ended.err) < 500
    assert ended.err.count("\n") == 1


ASKED = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 8}
PYTHON = {
    "search": lambda: jr.search("training", gpus=8, **{**ASKED, "model.layers": 1e9}),
    "fastest_plans": lambda: jr.fastest_plans(gpus=8, settings={"model.layers": 1e9}, **ASKED),
    "least_memory": lambda: jr.least_memory(gpus=8, settings={"model.layers": 1e9}, **ASKED),
    "evaluate": lambda: jr.evaluate("training", tensor=8, **{**ASKED, "model.layers": 1e9}),
    "fit": lambda: jr.fit(plan={"dp": 8}, settings={"model.layers": 1e9}, **ASKED),
}


@pytest.mark.parametrize("road", PYTHON)
def test_python_refuses_what_is_beyond(road):
    with pytest.raises(InputError, match=LAYERS):
        PYTHON[road]()


@pytest.mark.parametrize("value", [0, 1.5, True, "4", None, float("nan"), float("inf"), 10**9])
def test_a_count_is_a_whole_number_within_its_bound(value):
    check_bound("--workers", "workers", 8)
    with pytest.raises(
        InputError, match=r"^--workers: expected a whole number from 1 to 1,024, given"
    ):
        check_bound("--workers", "workers", value)
