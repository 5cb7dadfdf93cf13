"""Sweep files: each one of the tree runs, each mistake is named, and a user's own run the same."""

import importlib
import itertools
import pathlib
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from refusals import refused

import jaxroof as jr
from jaxroof import cli
from jaxroof.config.sweep_file import read_sweep
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError

SWEEPS = sorted((ROOT / "sweeps").glob("*.toml"))
NUMBERS = itertools.count()  # of modules that tests write
RTOL = 1e-12  # the same numbers by another way

HUGE = "9" * 400  # more than a float holds
GOOD = {
    "estimator": '"published"',
    "model": '"gpt3-1t"',
    "system": '"b200-nvs8"',
    "plan": "{ gpus = 512, global_batch = 4096 }",
}


def toml(**changes: str) -> str:
    """Return a sound sweep file with some keys changed, tables last; an empty text drops a key."""
    keys = {key: text for key, text in {**GOOD, **changes}.items() if text and key != "axes"}
    lines = [f"{key} = {text}" for key, text in keys.items()]
    return "\n".join([*lines, "[axes]", changes["axes"]] if "axes" in changes else lines)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a file into a folder of the test's own, in which it then runs."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "sweep.toml") -> pathlib.Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


# ---- The sweeps of the tree ---------------------------------------------------------------------


def test_every_sweep_says_what_it_asks():
    assert SWEEPS
    for path in SWEEPS:
        assert read_sweep(path).title != path.stem, path


# those of published studies are held to golden rows where each is computed; one is long
STUDY = re.compile(r"gpt_oss|p\d|mlp_(dhp_physical|isolated|memory|styles|stages)|training_limits")
RUN = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if STUDY.match(path.stem) else [])
    for path in SWEEPS
]


@pytest.mark.parametrize("path", RUN)
def test_every_sweep_runs_on_a_thinned_grid(path):
    sweep = read_sweep(path)
    if sweep.answer == "layers":
        assert jr.run(path).sizes["operation"] > 10
        return
    thinned = [axis.at(np.unique([0, len(axis) - 1])) for axis in sweep.question.axes]
    act = search if sweep.searched else tabulate
    question = sweep.question._replace(axes=thinned)
    data = act(question.estimator, question, **sweep.options)
    points = {dim: size for dim, size in data.sizes.items() if dim != "rank"}
    assert len(points) == len(thinned)
    assert set(points.values()) <= {1, 2}
    assert all(data[name].attrs["units"] for name in data.variables if name not in points)
    assert data.feasible.any(), "a sweep asks where something fits"
    time = data["step_time" if "step_time" in data else "train_time"]
    times = np.broadcast_arrays(time.values, data.feasible.values)[0]
    assert np.all(times[data.feasible.values] > 0)


# ---- What is said of a mistake ------------------------------------------------------------------

CAPACITY = '"system.hbm_capacity"'
SPACED = 'from = "80 GB", to = "192 GB", count = 3'

MISTAKES = [  # what is wrong, the file, parts of the one line
    ("unknown key", toml(sistem='"x"'), ["sistem: no such key", "Did you mean 'system'?"]),
    ("no system", toml(system=""), ["system: missing; expected a name of the catalogue"]),
    ("bare system", toml(system='"b200"'), ["b200: no such system; expected one of b200-nvs4"]),
    ("set no table", toml(set="3"), ["set: expected a table, given 3"]),
    ("axes no table", "axes = [1]\n" + toml(), ["axes: expected a table, given [1]"]),
    ("inputs", toml(inputs="{ x = 1 }"), ["inputs: not of published; use [set]"]),
    ("unknown field", toml(plan="{ gpu = 8 }"), ["gpu: no such field", "Did you mean 'gpus'?"]),
    ("misspelt path", toml(set='{ "system.hbm_bandwith" = 1 }'),
     ["system.hbm_bandwith: no such field of System. Did you mean 'system.hbm_bandwidth'?"]),
    ("wrong unit", toml(set='{ "system.hbm_bandwidth" = "2 GB" }'),
     ["system.hbm_bandwidth: 'GB' is not a bandwidth, given '2 GB'; expected B/s"]),
    ("a record", toml(set="{ system = 1 }"), ["system: a record, not a number, given 1"]),
    ("below a number", toml(set='{ "gpus.x" = 1 }'), ["gpus.x"]),
    ("huge value", toml(axes=f"gpus = [{HUGE}]"), ["gpus: not a finite number, given 999"]),
    ("huge count", toml(axes=f"gpus = {{ from = 1, to = 8, count = {HUGE} }}"), ["to 10,000,000"]),
    ("larger than Python reads", toml(title=HUGE * 11), ["more than 4,300 digits"]),
    ("search no table", toml(search='"x"'), ["search: expected a table, given 'x'"]),
    ("search key", toml(search="{ tpo = 1 }"), ["search.tpo: no such key", "mean 'top'?"]),
    ("where a list", toml(search='{ where = ["x"] }'), ["search.where: expected a text"]),
    ("placements", toml(search="{ placements = 1 }"), ["search.placements: expected true or"]),
    ("objective", toml(search='{ objective = "sped" }'), ["objective: sped: no such result"]),
    ("plan and search", toml(plan="{ tensor = 2 }", search="{ top = 1 }"),
     ["search: nothing to search: a plan of your own is given"]),
    ("empty axis", toml(axes=f"{CAPACITY} = []"), ["system.hbm_capacity: an empty axis"]),
    ("no list", toml(axes="gpus = 512"), ["axes.gpus: expected a list or a table with from, to"]),
    ("wrong unit", toml(axes=f'{CAPACITY} = ["8 s"]'), ["system.hbm_capacity: 's' is not an"]),
    ("unknown axis", toml(axes='"system.nisc" = [1]'), ["system.nisc", "mean 'system.nics'?"]),
    ("plan in a search", toml(axes='"plan.tensor" = [1, 2]'), ["plan"]),
    ("no count", toml(axes=f"{CAPACITY} = {{ from = 1, to = 2 }}"), ["count is missing"]),
    ("empty table", toml(axes=f"{CAPACITY} = {{}}"), ["from is missing; expected from, to and"]),
    ("spaced key", toml(axes=f"{CAPACITY} = {{ {SPACED}, step = 1 }}"),
     ["axes.system.hbm_capacity.step: no such key", "from, to, count, spacing"]),
    ("spacing", toml(axes=f'{CAPACITY} = {{ {SPACED}, spacing = "lgo" }}'),
     ["axes.system.hbm_capacity.spacing: lgo: no such spacing. Did you mean 'log'?"]),
    ("from a list", toml(axes=f"{CAPACITY} = {{ from = [1], to = 2, count = 3 }}"),
     ["axes.system.hbm_capacity.from: expected a number or a text with a unit"]),
    ("count of none", toml(axes=f"{CAPACITY} = {{ from = 1, to = 2, count = 0 }}"),
     ["system.hbm_capacity: an empty axis, given count 0"]),
    ("log from zero",
     toml(axes='"system.launch_latency" = { from = 0, to = 1, count = 2, spacing = "log" }'),
     ["log spacing from or to 0; expected values above 0"]),
    ("uneven zip", toml(axes=f'[axes.both]\n{CAPACITY} = [1e9]\n"system.nics" = [1, 2]'),
     ["both: values that move together differ in number", "has 1", "has 2"]),
    ("uneven names", toml(axes='[axes.case]\nmodel = ["gpt3", "vit-era5"]\nsystem = ["b200-nvs8"]'),
     ["case: values that move together differ in number: model has 2, system has 1"]),
    ("input among degrees", toml(axes='"plan.global_batch" = [8, 16]'),
     ["plan.global_batch: no such field of Inputs. Did you mean 'global_batch'?"]),
    ("choice among degrees", toml(axes='"plan.split" = ["1d"]'),
     ["plan.split: no such field of Inputs. Did you mean 'split'?"]),
    ("repeated path", toml(axes=f"{CAPACITY} = [1e9]\n[axes.both]\n{CAPACITY} = [1e9]"),
     ["system.hbm_capacity: on two axes; expected each path once"]),
    ("name of a result", toml(axes=f"[axes.step_time]\n{CAPACITY} = [1e9]"),
     ["step_time: the name of a result or of another axis"]),
    ("estimator", toml(estimator='"trainin"'), ["trainin: no such estimator. Did you mean"]),
    ("no module", toml(estimator='"nowhere:it"'), ["nowhere cannot be imported", "no such file"]),
    ("no name", toml(estimator='"json:it"'), ["json:it is no such name there; expected a"]),
    ("no estimator", toml(estimator='"json:dumps"'), ["json:dumps is a function; expected a"]),
    ("twice", toml(axes="gpus = [1]\ngpus = [2]"), ["not valid TOML"]),
    ("deep", "title = " + "[" * 5000, ["sweep.toml: "]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fragments"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
def test_a_mistake_is_one_line_led_by_the_file(text, fragments, written):
    path = written(text)
    with pytest.raises(InputError) as told:
        jr.run(path)
    line = str(told.value)
    assert line.startswith(f"{path}: ")
    assert not line.startswith(f"{path}: {path}")
    assert "\n" not in line
    for fragment in fragments:
        assert fragment in line


UNREADABLE = [  # bytes, what is said
    (b"\xff\xfe\x00", "not valid TOML"),
    (b"\x00" * 64, "not valid TOML"),
    (b"", "model: missing"),
]


@pytest.mark.parametrize(("content", "fragment"), UNREADABLE)
def test_a_damaged_file_is_one_line(content, fragment, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=fragment):
        jr.run(path)


def test_a_missing_file_or_a_folder_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"none.toml: no such file"):
        jr.run(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        jr.run(tmp_path)


# ---- Names that move together -------------------------------------------------------------------

CASES = {
    "model": ["gpt3", "vit-era5", "gpt3"],
    "system": ["a100-nvs4", "b200-nvs8", "b200-nvs8"],
    "split": ["1d", "context", "1d"],
    "gpus": [64, 512, 128],
}
ROOM = {"system.hbm_capacity": ["80 GB", "192 GB"]}
TOGETHER = "[axes.case]\n" + "\n".join(f"{key} = {values}" for key, values in CASES.items())
ZIPPED = (
    "estimator = 'published'\n[plan]\nglobal_batch = 256\n"
    f"[axes]\n{CAPACITY} = ['80 GB', '192 GB']\n{TOGETHER}\n"
)


def each_case(act, cases, **more):
    """Yield each case of the above, under one of the capacities, asked for alone."""
    for i, j in ((0, 1), (1, 1), (2, 0)):
        one = {key: values[i] for key, values in cases.items()}
        capacity = ROOM["system.hbm_capacity"][j]
        inputs = jr.Inputs(
            model=jr.model(one["model"]),
            system=jr.system(one["system"], hbm_capacity=capacity),
            gpus=one.get("gpus"),
            global_batch=256.0,
            **more,
        )
        yield {"case": i, "hbm_capacity": j}, act(jr.published, inputs, split=one["split"])


def assert_cases(data, act, cases=CASES, **more):
    assert data.sizes == {**data.sizes, "hbm_capacity": 2, "case": 3}
    assert data.case.values.tolist() == [0, 1, 2]
    for name, values in cases.items():
        assert data[name].dims == ("case",)
        assert data[name].values.tolist() == values
        assert data[name].attrs["path"] == name
    for at, alone in each_case(act, cases, **more):
        for name, values in alone.drop_vars("plans_alike", errors="ignore").data_vars.items():
            found = data[name].isel({dim: i for dim, i in at.items() if dim in data[name].dims})
            equal = np.testing.assert_allclose if values.dtype.kind == "f" else np.array_equal
            same = {"rtol": RTOL} if values.dtype.kind == "f" else {}
            assert equal(found.values, values.values, **same) is not False, name


def test_names_of_a_search_move_together(written):
    written(ZIPPED)
    data = jr.run("sweep.toml")
    assert_cases(data, jr.search)
    asked = jr.Inputs(model=jr.model("gpt3"), system=jr.system("a100-nvs4"), global_batch=256)
    same = jr.search(jr.published, asked, axes={**ROOM, "case": CASES})
    np.testing.assert_array_equal(same.step_time, data.step_time)
    assert int(data.attrs["combinations"]) == int(data.plans_legal.sum())


def test_names_of_a_table_move_together(written):
    cases = {key: values for key, values in CASES.items() if key != "gpus"}  # the plan says it
    table = ZIPPED.replace(f"gpus = {CASES['gpus']}\n", "")
    written(table.replace("256\n", "256\ntensor = 4\npipeline = 8\n", 1))
    plan = jr.Plan(data=1.0, tensor=4.0, pipeline=8.0, microbatch=1.0)
    assert_cases(jr.run("sweep.toml"), jr.tabulate, cases, plan=plan)


def test_names_of_a_long_sweep_move_together(written):
    zarr = pytest.importorskip("zarr")
    written(ZIPPED)
    data, once = jr.run("sweep.toml", output="map.zarr", chunk=3), jr.run("sweep.toml")
    dims = data.step_time.dims
    chunk = dict(zip(dims, zarr.open("map.zarr")["step_time"].chunks, strict=True))
    assert chunk["case"] == 3, "each chunk has every choice"
    assert chunk["hbm_capacity"] == 1
    assert data.attrs == once.attrs
    for name in once.variables:
        np.testing.assert_array_equal(data[name].values, once[name].values)
    written(ZIPPED.replace("vit-era5", "gpt3-1t"))
    with pytest.raises(InputError, match=r"axes.model: vit-era5 there, gpt3-1t here"):
        jr.run("sweep.toml", output="map.zarr", chunk=3)
    plain = "\n".join(line for line in ZIPPED.splitlines() if "split" not in line)
    written(plain)
    data = jr.run("sweep.toml", output="plain.zarr", chunk=2)
    case = data.step_time.dims.index("case")
    assert zarr.open("plain.zarr")["step_time"].chunks[case] < data.sizes["case"]
    np.testing.assert_array_equal(data.step_time, jr.run("sweep.toml").step_time)


def test_names_of_every_plan_move_together(written):
    text = "\n".join(line for line in ZIPPED.splitlines() if "split" not in line)
    written("answer = 'plans'\n" + text)
    data = jr.run("sweep.toml", output="plans.csv")
    meanings = {name: data[name].attrs["flag_meanings"].split() for name in ("model", "system")}
    assert meanings == {"model": ["gpt3", "vit-era5"], "system": ["a100-nvs4", "b200-nvs8"]}
    whole = jr.run("sweep.toml")
    names = [np.array(meanings[name])[whole[name].values].tolist() for name in ("model", "system")]
    seen = dict.fromkeys(zip(*names, whole.gpus.values.tolist(), strict=True))
    assert list(seen) == list(zip(CASES["model"], CASES["system"], CASES["gpus"], strict=True))
    assert data.sizes == whole.sizes
    lines = pathlib.Path("plans.csv").read_text().splitlines()
    assert len(lines) == 1 + whole.sizes["configuration"]


def test_an_axis_of_names_alone_needs_no_record_beside_it(written):
    """A file of one's own is read from beside the sweep; a field may have values of its own."""
    written('base = "a100-nvs4"\nhbm_capacity = "96 GB"\n', "mine.toml")
    head = 'estimator = "published"\n'
    head += '[plan]\nglobal_batch = 64\n[axes.case]\nmodel = ["gpt3", "gpt3"]\n'
    written(
        head + 'system = ["mine.toml", "b200-nvs8"]\ngpus = [64, 64]\n"model.layers" = [96, 48]'
    )
    data = jr.run("sweep.toml")
    assert data.layers.values.tolist() == [96, 48]
    for i, name in enumerate(("mine.toml", "b200-nvs8")):
        model = jr.model("gpt3", layers=[96, 48][i])
        asked = jr.Inputs(model=model, system=jr.system(name), gpus=64, global_batch=64)
        best = jr.search(jr.published, asked)
        assert float(data.step_time[i]) == pytest.approx(float(best.step_time), rel=RTOL)


def test_cases_are_told_by_all_that_moves(written, capsys):
    written(ZIPPED)
    with pytest.raises(SystemExit):
        cli.main(["run", "sweep.toml"])
    said = capsys.readouterr().out
    assert "gpt3 / b200-nvs8 / 1d / 128" in said
    table = jr.evaluate(
        "matmul",
        {"hidden": 64, "feedforward": 64},
        axes={"case": {"system": ["tpu-v5e-book", "h100-sxm"], "batch": [8, 16]}},
    )
    assert table.system.values.tolist() == ["tpu-v5e-book", "h100-sxm"]


# ---- Spacing ------------------------------------------------------------------------------------

BANDWIDTHS = st.floats(1e3, 1e18)


@settings(max_examples=60, deadline=None)
@given(
    start=BANDWIDTHS,
    stop=BANDWIDTHS,
    count=st.integers(1, 200),
    spacing=st.sampled_from(["linear", "log", ""]),
)
def test_spacing_is_that_of_numpy(start, stop, count, spacing, tmp_path_factory):
    how = f', spacing = "{spacing}"' if spacing else ""
    table = f"{{ from = {start!r}, to = {stop!r}, count = {count}{how} }}"
    path = tmp_path_factory.getbasetemp() / "spaced.toml"
    path.write_text(toml(axes=f'"system.hbm_bandwidth" = {table}'), encoding="utf-8")
    (axis,) = read_sweep(path).question.axes
    space = np.geomspace if spacing == "log" else np.linspace
    np.testing.assert_array_equal(axis.columns["system.hbm_bandwidth"], space(start, stop, count))


# ---- A plan of one's own ------------------------------------------------------------------------


# ---- An estimator of one's own ------------------------------------------------------------------

OWN = '''
"""The time that a message takes."""

import jaxroof as jr
from jaxroof.records import Number


@jr.record
class Message:
    """A message and its link."""

    size: Number = jr.quantity("B", "Bytes of the message.")
    bandwidth: Number = jr.quantity("B/s", "Bandwidth of the link.", default=1e9)
    hops: Number = jr.quantity("1", "Links on the way.", whole=True, default=1.0)


@jr.record
class Trip:
    """What a message takes."""

    time: Number = jr.quantity("s", "Time on the way.")
    quick: Number = jr.quantity("1", "Under a second.")


def trip(inputs, recipe):
    """Return the time of store and forward."""
    time = inputs.hops * inputs.size / inputs.bandwidth
    return Trip(time=time, quick=time < 1.0)


NAME = jr.Estimator(step=trip, inputs=Message, name="trip")
'''

OWN_SWEEP = """
title = "A message"
estimator = "MODULE:NAME"
inputs = { size = "2 GB" }
[axes]
bandwidth = { from = "1 GB/s", to = "100 GB/s", count = 3, spacing = "log" }
hops = [1, 2]
"""


@pytest.fixture
def own(written):
    """Write an estimator beside its sweep file, under a module name that no other test has."""
    module = f"own_{next(NUMBERS)}"
    written(OWN, f"{module}.py")
    yield lambda text: written(text.replace("MODULE", module))
    sys.modules.pop(module, None)


def test_an_estimator_of_one_function_runs_through_the_same_engine(own):
    data = jr.run(own(OWN_SWEEP), trust=True)
    assert data.sizes == {"bandwidth": 3, "hops": 2}
    expected = np.array([1, 2]) * 2e9 / np.array([1e9, 1e10, 1e11])[:, None]
    np.testing.assert_allclose(data.time.values, expected, rtol=RTOL)
    np.testing.assert_array_equal(data.quick.values, expected < 1)
    assert data.attrs["title"] == "A message"
    assert data.attrs["estimator"] == "trip"
    assert data.time.attrs == {"units": "s", "long_name": "Time on the way"}
    assert data.bandwidth.attrs["units"] == "B/s"
    assert data.hops.dtype == np.int64


OWN_MISTAKES = [  # the file less its axes, what is said
    ("inputs = { sise = 1 }", "inputs.sise: no such field of Message. Did you mean 'size'?"),
    ("", "inputs.size: missing; expected a value: Bytes of the message [B]"),
    ('inputs = { size = "1 s" }', "inputs.size: 's' is not an amount of memory, given '1 s'"),
    ('inputs = { size = 1 }\nmodel = "gpt3"', "model: not of this estimator; expected its fields"),
    ("inputs = { size = 1 }\nsearch = { top = 1 }", "search: "),
    ('inputs = { size = 1 }\nset = { split = "1d" }', "split: no such field of Message"),
    ("inputs = { size = 1 }\nplan = { tensor = 1 }", "tensor"),
    ("inputs = 3", "inputs: expected a table, given 3"),
    ("[axes]\nsiz = [1, 2]", "siz: no such field of Message. Did you mean 'size'?"),
]


@pytest.mark.parametrize(("text", "fragment"), OWN_MISTAKES)
def test_a_mistake_with_ones_own_estimator_is_one_line(text, fragment, own):
    path = own(f'estimator = "MODULE:NAME"\n{text}')
    line = refused(jr.run, path, trust=True)
    assert line.startswith(f"{path}: ")
    assert fragment in line


BROKEN = [  # a module, what is said of it
    ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("def (", "SyntaxError"),
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("NAME = 3", "is a int; expected a jaxroof.Estimator"),
    ("OTHER = 3", "is no such name there; expected a jaxroof.Estimator"),
    ("raise SystemExit(7)", "cannot be imported: SystemExit"),
]


@pytest.mark.parametrize(("text", "fragment"), BROKEN)
def test_a_broken_module_is_one_line(text, fragment, written):
    module = f"broken_{next(NUMBERS)}"
    written(text, f"{module}.py")
    path = written(f'estimator = "{module}:NAME"')
    with pytest.raises(InputError) as told:
        jr.run(path, trust=True)
    sys.modules.pop(module, None)
    assert f"{path}: estimator: {module}" in str(told.value)
    assert fragment in str(told.value)


def test_a_module_that_is_not_there_is_told_where_it_was_sought(written, tmp_path, jaxroof):
    written("import jaxroof", "my_model.py")
    path = written('estimator = "my_modle:estimator"')
    with pytest.raises(InputError) as told:
        jr.run(path, trust=True)
    said = f"my_modle cannot be imported: no such file in {tmp_path}, and no such module is "
    assert said + "installed. Did you mean 'my_model'?" in str(told.value)
    shown = jaxroof("show nowhere:estimator")
    assert shown.code == 2
    assert "installed; expected nowhere.py there" in shown.err


def test_an_estimator_of_ones_own_is_shown_by_its_module(jaxroof, monkeypatch):
    monkeypatch.chdir(ROOT / "docs" / "examples")
    shown = jaxroof("show two_level:estimator")
    assert shown.code == 0, shown.err
    assert "two_level:estimator: How should an all-reduce climb" in shown.words
    assert "network.staging" in shown.words
    assert "jaxroof evaluate two_level:estimator ROWS.csv, jr.evaluate(estimator, {...})" in (
        shown.words
    )
    wrong = jaxroof("show two_level:estimatr")
    assert wrong.code == 2
    assert "two_level:estimatr is no such name there. Did you mean 'estimator'?" in wrong.err


def test_each_folder_has_its_own_module(tmp_path):
    """Two sweep files with a module of one name each run their own."""
    found = []
    for factor in (1, 3):
        folder = tmp_path / f"folder{factor}"
        folder.mkdir()
        code = OWN.replace("inputs.hops *", f"{factor} * inputs.hops *")
        (folder / "own_twin.py").write_text(code, encoding="utf-8")
        (folder / "sweep.toml").write_text(OWN_SWEEP.replace("MODULE", "own_twin"))
        importlib.invalidate_caches()
        found.append(float(jr.run(folder / "sweep.toml", trust=True).time[0, 0]))
    sys.modules.pop("own_twin", None)
    assert found == pytest.approx([2.0, 6.0], rel=RTOL)


# ---- A model and a system of one's own ----------------------------------------------------------


def test_a_model_and_a_system_may_be_files_beside_the_sweep(written):
    written('base = "gpt3-1t"\nlayers = 64\n', "mine.toml")
    written('base = "b200-nvs8"\nhbm_capacity = "180 GB"\n', "machine.toml")
    data = jr.run(written(toml(model='"mine.toml"', system='"machine.toml"')))
    inputs = jr.Inputs(
        model=jr.model("gpt3-1t", layers=64),
        system=jr.system("b200-nvs8", hbm_capacity="180 GB"),
        gpus=512,
        global_batch=4096,
    )
    expected = jr.search(jr.published, inputs)
    assert float(data.step_time) == pytest.approx(float(expected.step_time), rel=RTOL)
    assert data.attrs["inputs"] == expected.attrs["inputs"]


def test_files_are_sought_beside_the_sweep_not_where_one_stands(written, tmp_path, monkeypatch):
    written('base = "gpt3-1t"\nlayers = 64\n', "mine.toml")
    path = written(toml(model='"mine.toml"'))
    monkeypatch.chdir(tmp_path.parent)
    assert float(read_sweep(path).question.inputs.model.layers) == 64


FILES = [  # the file of a model, what is said
    ("layer = 3\nbase = 'gpt3'", "layer: no such field of Model. Did you mean 'layers'?"),
    ("base = 'gpt9'", "base: gpt9: no such model. Did you mean 'gpt3'?"),
    ("base = 3", "base: not the name of an entry"),
    ("base = 'gpt3'\nlayers = 0", "layers: expected a whole number above 0"),
]


@pytest.mark.parametrize(("text", "fragment"), FILES)
def test_a_mistake_in_a_model_file_names_both_files(text, fragment, written):
    written(text, "mine.toml")
    path = written(toml(model='"mine.toml"'))
    line = refused(jr.run, path)
    assert line.startswith(f"{path}: ")
    assert "mine.toml" in line
    assert fragment in line


# ---- Other estimators ---------------------------------------------------------------------------

MATMUL = """estimator = "matmul"
system = "tpu-v5e-book"
[inputs]
hidden = 4096
feedforward = 16384
batch = 16
"""
BLOCK = """estimator = "unfused"
model = "gpt3"
system = "a100-unfused"
plan = { tensor = 4 }
"""
CLASHES = [
    (f'format = "int8"\n{MATMUL}[axes]\nsystem = ["tpu-v5e-book", "tpu-v5p-book"]',
     "format: not of the systems of an axis; expected one system, or none"),
    (f"{MATMUL}[set]\nbatch = 5", "set.batch: given in inputs too; expected it once"),
    (f'answer = "layers"\n{MATMUL}', "answer: layers: no such answer of matmul; expected one of"),
    (f"{BLOCK}[set]\n'plan.tensor' = 2", "set.plan.tensor: given in plan too; expected it once"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fragment"), CLASHES)
def test_what_is_given_twice_or_for_nothing_is_one_line(text, fragment, written):
    line = refused(jr.run, written(text))
    assert line.startswith(f"{written(text)}: ")
    assert fragment in line


def test_a_plan_among_the_inputs_is_given_as_a_plan(written):
    found = jr.run(written(BLOCK))
    expected = jr.evaluate("unfused", model="gpt3", system="a100-unfused", **{"plan.tensor": 4})
    np.testing.assert_allclose(found.step_time, expected.step_time, rtol=RTOL)
    layers = jr.run(written(f'answer = "layers"\n{BLOCK}'))
    assert "fc1" in layers.operation.values


def test_a_run_prints_what_tells_most(written, jaxroof):
    """One point: every result; a grid: the least time; the blocks: their tables."""
    point = jaxroof(f"run {written(MATMUL)}").words
    assert "Memory bound: memory traffic takes" in point
    assert "1 point." in point
    grid = jaxroof(f"run {written(MATMUL + '[axes]' + chr(10) + 'batch = [1, 256, 512]')}")
    assert grid.code == 0
    assert "Least time: everything overlaps [s]" in grid.words
    limits = 'estimator = "limits"\nsystem = "h100-sxm5"\ninputs = { training_flops = 1e26 }'
    assert "relative_utilisation" in jaxroof(f"run {written(limits)}").words
    ring = (
        'estimator = "torus"\nsystem = "tpu-v5e-book"\ninputs = { rows = 64 }\n[axes]\nx = [2, 4]'
    )
    assert "x time" in jaxroof(f"run {written(ring)}").words
    blocks = jaxroof(f"run {written(chr(10).join(['answer = ' + repr('layers'), BLOCK]))}").words
    assert "The largest operation is fc2" in blocks


def test_a_roofline_of_a_file_is_drawn_and_a_table_of_rows_is_not(written, jaxroof, tmp_path):
    pytest.importorskip("matplotlib")
    path = written(f'{MATMUL}[axes]\nbatch = [1, 256, 512]\nsystem = ["tpu-v5e-book", "h100-sxm"]')
    assert jaxroof(f"run {path} -o roofs.nc").code == 0
    assert jaxroof("plot roofs.nc -o roofs.svg").code == 0
    assert "h100-sxm" in (tmp_path / "roofs.svg").read_text()
    assert jaxroof(f"run {path} -o roofs.csv").code == 0
    said = jaxroof("plot roofs.csv")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "a CSV is rows of a table, whose axes are lost; expected the results in" in said.err
