"""A result comes back from its file as it went in, and a file is there whole or not at all."""

import contextlib
import errno
import json
import os
import pathlib

import h5netcdf
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import files_of_at_most

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.io import atomic
from jaxroof.io import formats as store

ENDINGS = (".nc", ".csv", ".json")


def question(**changes):
    given = {"gpus": 2048, "global_batch": 4096, **changes}
    return jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("h200-nvs4"), **given)


def own(inputs, recipe):
    """Return results without units: a mapping, as a user's own function may."""
    return {"double": 2.0 * inputs.layers, "many": inputs.layers > 2.0}


def results() -> dict[str, xr.Dataset]:
    """Return a result of every kind; nothing fits on 8 accelerators, no plan is legal on 7."""
    plan = jr.Plan(data=16.0, tensor=4.0, pipeline=32.0, microbatch=1.0, fast_tensor=4.0)
    one = question(plan=plan, gpus=None)
    together = {"system.hbm_capacity": ["80 GB", "141 GB"], "system.nics": [1, 2]}
    return {
        "search": jr.search(jr.published, question(), axes={"gpus": [7, 8, 2048]}, top=2),
        "together": jr.search(jr.published, question(), axes={"machine": together}),
        "alone": jr.search(jr.published, question()),
        "survey": jr.survey(jr.published, question(gpus=8)),
        "no plan": jr.survey(jr.published, question(gpus=7)),
        "table": jr.tabulate(
            jr.published, one, axes={"plan.tensor": [4, 7], "system.nics": [1, 2]}
        ),
        "layers": jr.layers(one),
        "own": jr.tabulate(
            jr.Estimator(step=own, inputs=jr.Model), jr.model("gpt3"), axes={"layers": [1, 2, 3]}
        ),
    }


NAMES = ["search", "together", "alone", "survey", "no plan", "table", "layers", "own"]


@pytest.fixture(scope="module")
def known():
    found = results()
    assert list(found) == NAMES
    return found


# ---- There and back -----------------------------------------------------------------------------


def one_of_each(data: xr.Dataset) -> xr.Dataset:
    """Return a result with one variable of each kind: others of the kind are written alike."""
    kinds = {(v.dims, v.dtype, *v.attrs, *v.encoding): name for name, v in data.data_vars.items()}
    return data[sorted(kinds.values())]


def every(data: xr.Dataset) -> xr.Dataset:
    return data


PARTS = [  # JSON is quick
    (".json", every),
    *((ending, one_of_each) for ending in (".nc", ".zarr")),
    *(pytest.param(ending, every, marks=pytest.mark.slow) for ending in (".nc", ".zarr")),
]


@pytest.mark.parametrize(("ending", "part"), PARTS)
@pytest.mark.parametrize("name", NAMES)
def test_what_comes_back_is_what_went_in(name, ending, part, known, tmp_path):
    data = part(known[name])
    jr.write(data, tmp_path / f"result{ending}")
    back = jr.read(tmp_path / f"result{ending}")
    xr.testing.assert_identical(back, data)
    assert list(back.data_vars) == list(data.data_vars)
    for variable in data.variables:
        assert back[variable].dtype.kind == data[variable].dtype.kind, variable
        assert back[variable].dims == data[variable].dims
        if data[variable].dtype.kind in "if":
            assert back[variable].dtype == data[variable].dtype
    assert back.attrs == data.attrs


@pytest.mark.parametrize("name", NAMES)
def test_a_csv_file_has_a_row_a_point_and_bare_names(name, known, tmp_path):
    data = known[name]
    jr.write(data, tmp_path / "result.csv")
    header = (tmp_path / "result.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join([*map(str, data.coords), *map(str, data.data_vars)])
    back = jr.read(tmp_path / "result.csv")
    grid = xr.DataArray(np.zeros(tuple(data.sizes.values())), dims=list(data.sizes))
    assert back.sizes.get("row", 0) == grid.size
    for variable in [*data.coords, *data.data_vars]:
        values = data[variable].broadcast_like(grid).transpose(*grid.dims).values.reshape(-1)
        if values.dtype.kind == "i":
            values = np.where(values == -1, np.nan, values)
        if "flag_meanings" in data[variable].attrs:  # a table says what a number stands for
            values = np.array(data[variable].attrs["flag_meanings"].split())[values.astype(int)]
        if grid.size:
            np.testing.assert_array_equal(back[variable].values, values, err_msg=str(variable))


FLOATS = st.floats(allow_nan=True, allow_infinity=False, width=64)
WHOLES = st.integers(-1, 2**53)


@settings(max_examples=25, deadline=None)
@given(values=st.lists(st.tuples(FLOATS, WHOLES, st.booleans()), min_size=1, max_size=8))
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_number_keeps_its_last_bit(ending, values, tmp_path_factory):
    floats, wholes, flags = (np.array(column) for column in zip(*values, strict=True))
    count = xr.Variable("row", wholes, {"units": "1"}, {"_FillValue": -1})
    data = xr.Dataset({"time": ("row", floats), "plans": count, "fits": ("row", flags)})
    path = tmp_path_factory.getbasetemp() / f"bits{ending}"
    jr.write(data, path)
    back = jr.read(path)
    np.testing.assert_array_equal(back.time.values, floats)
    missing = np.where(wholes == -1, np.nan, wholes) if ending == ".csv" else wholes
    np.testing.assert_array_equal(back.plans.values, missing)
    np.testing.assert_array_equal(back.fits.values, flags)


# ---- What is missing ----------------------------------------------------------------------------


def test_what_is_missing_is_empty_in_csv(known, tmp_path):
    jr.write(known["search"], tmp_path / "result.csv")
    table = pd.read_csv(tmp_path / "result.csv", dtype=str, keep_default_na=False)
    nothing = table[table.gpus.isin(["7", "8"])]
    for column in ("data", "tensor", "step_time", "memory"):
        assert set(nothing[column]) == {""}
    assert set(nothing.feasible) == {"False"}
    assert set(nothing.plans_feasible) == {"0"}
    assert "nan" not in (tmp_path / "result.csv").read_text().lower()
    assert set(table[table.gpus == "2048"].tensor) == {"4"}


def test_what_is_missing_is_null_in_json(known, tmp_path):
    jr.write(known["search"], tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text()
    assert "NaN" not in text
    written = json.loads(text)["data_vars"]
    for name in ("tensor", "step_time"):
        assert written[name]["data"][:2] == [[None, None], [None, None]]
    assert written["tensor"]["data"][2] == [4, 4]
    assert written["feasible"]["data"] == [[False] * 2, [False] * 2, [True] * 2]


def test_what_is_missing_is_the_fill_value_in_netcdf(known, tmp_path):
    jr.write(known["search"], tmp_path / "result.nc")
    with h5netcdf.File(tmp_path / "result.nc") as file:
        tensor = file.variables["tensor"]
        assert tensor.attrs["_FillValue"] == -1
        assert tensor.dtype == np.int64
        assert tensor[:2].tolist() == [[-1, -1], [-1, -1]]
        assert tensor.attrs["units"] == "1"
        assert np.isnan(file.variables["step_time"][:2]).all()
    masked = xr.load_dataset(tmp_path / "result.nc", engine="h5netcdf")
    assert np.isnan(masked.tensor.values[:2]).all(), "other readers see what is missing"


def refusal_of(data, path: pathlib.Path) -> str:
    """Return why a result is not written, in one line and without a trace, or nothing."""
    try:
        jr.write(data, path)
    except InputError as error:
        said = str(error)
    else:
        return ""
    assert "\n" not in said
    assert not path.exists()
    assert list(path.parent.glob(f".*{path.name}*")) == []
    return said


@pytest.mark.parametrize(("name", "value"), [("ratio", np.inf), ("bytes/s", 1.0)])
def test_what_a_file_cannot_hold_is_refused_or_kept(name, value, tmp_path):
    """An infinite result of one's own function, and a name of its own, are no traceback."""
    data = xr.Dataset({name: ("row", np.array([1.0, value]))})
    for ending in ENDINGS:
        path = tmp_path / f"result{ending}"
        if said := refusal_of(data, path):
            assert name in said
        else:
            np.testing.assert_array_equal(jr.read(path)[name].values, data[name].values)


# ---- The run again ------------------------------------------------------------------------------


# ---- What cannot be written ---------------------------------------------------------------------

SMALL = xr.Dataset({"time": ("row", np.arange(3.0))})


def refused(action, *arguments) -> str:
    with pytest.raises(InputError) as told:
        action(*arguments)
    assert "\n" not in str(told.value)
    return str(told.value)


ELSEWHERE = [  # name, what is said
    ("result", "cannot tell the kind of file from ''; expected a name that ends in .nc, .csv"),
    ("result.xlsx", "cannot tell the kind of file from '.xlsx'"),
    ("result.csv.gz", "cannot tell the kind of file from '.gz'"),
    ("none/result.csv", "No such file or directory"),
    ("folder.csv", "s a directory"),
]


@pytest.mark.parametrize(("name", "fragment"), ELSEWHERE)
def test_a_place_that_cannot_be_written_is_one_line_before_any_work(name, fragment, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for act in (lambda path: jr.write(SMALL, path), store.check_writable):
        said = refused(act, tmp_path / name)
        assert said.startswith(str(tmp_path / name))
        assert fragment.casefold().replace("file or ", "") in said.casefold().replace(
            "file or ", ""
        )
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def test_a_folder_without_leave_is_refused(tmp_path, monkeypatch):
    """As root every folder may be written, so what the system answers is played here."""

    def denied(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "Permission denied" in refused(store.check_writable, tmp_path / "result.csv")
    monkeypatch.setattr(atomic.tempfile, "mkstemp", denied)
    assert "cannot be written: Permission denied" in refused(
        jr.write, SMALL, tmp_path / "result.csv"
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_new_file_may_be_read_as_any_other(ending, tmp_path):
    """The temporary file is private; what takes its place is not."""
    mask = os.umask(0o022)
    try:
        jr.write(SMALL, tmp_path / f"result{ending}")
    finally:
        os.umask(mask)
    assert (tmp_path / f"result{ending}").stat().st_mode & 0o777 == 0o644


FAILURES = [  # what a writer meets, what the caller sees
    (OSError(errno.ENOSPC, "No space left on device"), InputError),
    (OSError("no reason given"), InputError),
    (KeyboardInterrupt(), KeyboardInterrupt),
    (MemoryError(), MemoryError),
]


@pytest.mark.parametrize(("failure", "seen"), FAILURES, ids=lambda v: getattr(v, "__name__", None))
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_older_file_outlives_a_writer_that_fails(ending, failure, seen, tmp_path, monkeypatch):
    path = tmp_path / f"result{ending}"
    jr.write(SMALL, path)
    before = path.read_bytes()

    def half(data, name):
        with open(name, "wb") as stream:
            stream.write(b"half of it")
        raise failure

    monkeypatch.setitem(store.WRITERS, ending, half)
    with pytest.raises(seen) as told:
        jr.write(SMALL, path)
    if seen is InputError:
        assert str(told.value).startswith(f"{path}: cannot be written: ")
        assert str(failure.strerror or failure) in str(told.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fills_leaves_the_older_file_and_no_other(tmp_path):
    data = xr.Dataset({"time": ("row", np.random.default_rng(1).random(100_000))})
    paths = [tmp_path / f"result{ending}" for ending in ENDINGS]
    for path in paths:
        path.write_text("old")
        with files_of_at_most(20_000):
            assert refused(jr.write, data, path).startswith(f"{path}: cannot be written: ")
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert {path.read_text() for path in paths} == {"old"}


# ---- What cannot be read ------------------------------------------------------------------------

# a file that h5netcdf cannot open is an object that it cannot close: not ours to mend
unopened = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def whole(known, tmp_path_factory):
    """Return the path of a sound file of each kind."""
    paths = {e: tmp_path_factory.mktemp("whole") / f"result{e}" for e in ENDINGS}
    for path in paths.values():
        jr.write(known["search"], path)
    return paths


RANDOM = np.random.default_rng(7).integers(0, 256, 4096, dtype=np.uint8).tobytes()

DAMAGED = [  # what is left of a file
    ("nothing", lambda sound: b""),
    ("random bytes", lambda sound: RANDOM),
    ("zeros", lambda sound: bytes(len(sound))),
    ("its first byte", lambda sound: sound[:1]),
    ("its first half", lambda sound: sound[: len(sound) // 2]),
    ("all but its end", lambda sound: sound[:-20]),
    ("another kind", lambda sound: b"\x89PNG\r\n\x1a\n" + RANDOM),
]
# any text is a table of some kind
SOUND_CSV = ("zeros", "its first byte", "its first half", "all but its end")


@unopened
@pytest.mark.parametrize(("what", "damage"), DAMAGED, ids=[row[0] for row in DAMAGED])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_damaged_file_is_one_line(ending, what, damage, whole, tmp_path):
    if ending == ".csv" and what in SOUND_CSV:
        pytest.skip("nothing in a table says how long it was")
    path = tmp_path / f"result{ending}"
    path.write_bytes(damage(whole[ending].read_bytes()))
    assert refused(jr.read, path).startswith(str(path))


ONE = '{"attrs": {}, "coords": {}, "data_vars": %s}'
X = ONE % '{"x": {"dims": %s, "dtype": "%s", "attrs": {}, "data": [%s]}}'
WRONG_JSON = [
    *("[]", "3", '"text"', "{}", "[" * 100_000, ONE % "[]", ONE % '{"x": {}}'),
    *(X % ('["r"]', "float99", 1), X % ('["r", "s"]', "float64", 1)),
    *(X % ('["r"]', "int64", "1e400"), X % ('["r"]', "int64", "9" * 20)),
]


@pytest.mark.parametrize("text", WRONG_JSON, ids=range(len(WRONG_JSON)))
def test_json_that_is_no_result_is_one_line(text, tmp_path):
    (tmp_path / "result.json").write_text(text)
    assert "not a .json file that jaxroof wrote" in refused(jr.read, tmp_path / "result.json")


@unopened
@settings(max_examples=20, deadline=None)
@given(place=st.floats(0, 1), patch=st.binary(min_size=1, max_size=40))
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_patched_file_is_read_or_refused(ending, place, patch, whole, tmp_path_factory):
    sound = bytearray(whole[ending].read_bytes())
    start = int(place * (len(sound) - 1))
    sound[start : start + len(patch)] = patch
    path = tmp_path_factory.getbasetemp() / f"patched{ending}"
    path.write_bytes(bytes(sound))
    with contextlib.suppress(InputError):
        jr.read(path)


MISSING = [  # name, what is said
    ("none.nc", "none.nc: no such file"),
    ("none.csv", "none.csv: no such file"),
    ("none.txt", "cannot tell the kind of file from '.txt'"),
    ("folder.json", "folder.json: cannot be read: Is a directory"),
    ("folder.csv", "folder.csv: cannot be read: Is a directory"),
    ("folder.nc", "folder.nc: "),
]


@unopened
@pytest.mark.parametrize(("name", "fragment"), MISSING)
def test_a_file_that_is_not_there_is_one_line(name, fragment, tmp_path):
    for ending in ENDINGS:
        (tmp_path / f"folder{ending}").mkdir()
    assert fragment in refused(jr.read, tmp_path / name)
