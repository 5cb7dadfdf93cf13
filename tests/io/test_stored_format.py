"""A file of the format that jaxroof writes is read; a newer one is refused in a line."""

import json
import pathlib
import re
import tarfile
import zlib

import h5py
import numpy as np
import pytest
import xarray as xr
from places import GOLDEN

import jaxroof as jr
from jaxroof.analyses.rerun import rerun
from jaxroof.errors import InputError
from jaxroof.io import chunk_manifest, formats
from jaxroof.io.stored_format import FORMAT, STAMPS, VERSION, checksums

PACKED = {  # format -> its files
    int(re.findall(r"\d+", path.name)[0]): path
    for path in (GOLDEN / "files").glob("format_*.tar.gz")
}
KINDS = ("nc", "json", "zarr")
RTOL = 1e-12

DATA = xr.Dataset(
    {"time": ("x", [1.0, np.nan]), "plans": ("x", [3, -1]), "fits": ("x", [True, False])},
    {"x": ("x", ["a", "bc"])},
    {"title": "A file", "inputs": '{"gpus": 8.0}', "usable": 0.94},
)


def test_there_is_a_stored_file_of_the_format():
    assert sorted(PACKED) == [VERSION]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folders = {}
    for number, path in PACKED.items():
        folders[number] = tmp_path_factory.mktemp(f"format_{number}")
        with tarfile.open(path) as packed:
            packed.extractall(folders[number], filter="data")
    return folders


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", PACKED)
def test_a_stored_file_is_read_and_its_question_answered_as_then(number, kind, stored):
    found = rerun(jr.read(stored[number] / f"search.{kind}"))
    assert found.compared > 20
    assert found.not_again == ()
    assert [one for one in found.differences if one.largest > RTOL] == []


@pytest.mark.parametrize("number", [number for number in PACKED if number])
def test_a_stored_table_has_the_values_of_the_other_files(number, stored):
    table, data = (formats.read(stored[number] / f"search.{kind}") for kind in ("csv", "json"))
    np.testing.assert_array_equal(
        table.step_time, data.step_time.transpose(*data.dims).values.ravel()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_says_its_format_and_the_dataset_does_not(kind, tmp_path):
    path = tmp_path / f"a.{kind}"
    jr.write(DATA, path)
    data, stamps = formats.read_stamped(path)
    assert stamps[FORMAT] == VERSION
    assert not {*data.attrs} & {*STAMPS}
    assert data.attrs == DATA.attrs
    known = {} if kind == "zarr" else checksums(DATA)  # its manifest has a sum of every chunk
    assert {name: stamps[name] for name in known} == known


@pytest.mark.parametrize("kind", KINDS)
def test_checksums_are_those_of_the_dataset_whatever_the_file(kind, tmp_path):
    jr.write(DATA, tmp_path / f"a.{kind}")
    assert checksums(jr.read(tmp_path / f"a.{kind}")) == checksums(DATA)


CHANGED = [  # what is changed, and which checksum says so
    (DATA.assign(time=DATA.time * (1.0 + 1e-15)), "results_sha256"),
    (DATA.rename(time="seconds"), "results_sha256"),
    (DATA.assign_coords(x=["a", "bd"]), "question_sha256"),
    (DATA.assign_attrs(inputs='{"gpus": 9.0}'), "question_sha256"),
]


@pytest.mark.parametrize(("data", "name"), CHANGED)
def test_a_change_shows_in_its_checksum_alone(data, name):
    before, after = checksums(DATA), checksums(data)
    assert [key for key in before if before[key] != after[key]] == [name]


def test_a_title_is_no_part_of_the_question():
    assert checksums(DATA.assign_attrs(title="Another", picture="map")) == checksums(DATA)


# ---- Newer, wrong, changed ----------------------------------------------------------------------


def with_version(path: pathlib.Path, version) -> None:
    """Let a file say that it is of another format."""
    if path.suffix == ".nc":
        with h5py.File(path, "a") as file:
            file.attrs[FORMAT] = version
    elif path.suffix == ".json":
        whole = json.loads(path.read_text())
        whole["attrs"][FORMAT] = version
        path.write_text(json.dumps(whole))
    else:
        whole = json.loads((path / "zarr.json").read_text())
        whole["attributes"][FORMAT] = version
        (path / "zarr.json").write_text(json.dumps(whole))
        line = {"chunk": "end", "sums": {}}
        line["files"] = chunk_manifest.checksums(path, ["zarr.json"])
        chunk_manifest.append(path, line)


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_format_is_refused_in_a_line(kind, tmp_path):
    path = tmp_path / f"a.{kind}"
    jr.write(DATA, path)
    with_version(path, VERSION + 1)
    said = rf"a\.{kind}: written in format {VERSION + 1}, and this jaxroof reads up to {VERSION}"
    with pytest.raises(InputError, match=said):
        jr.read(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["two", 1.5])
def test_a_format_that_is_no_number_is_refused(kind, version, tmp_path):
    path = tmp_path / f"a.{kind}"
    jr.write(DATA, path)
    with_version(path, version)
    with pytest.raises(InputError, match=rf"a\.{kind}: damaged: format_version is"):
        jr.read(path)


def test_a_store_laid_out_by_a_newer_jaxroof_is_refused(tmp_path):
    jr.write(DATA, tmp_path / "a.zarr")
    plan = tmp_path / "a.zarr" / chunk_manifest.HOME / chunk_manifest.PLAN
    found = json.loads(plan.read_text())
    found.pop("crc32")
    found["format"] = chunk_manifest.FORMAT + 1
    found["crc32"] = zlib.crc32(json.dumps(found).encode())
    plan.write_text(json.dumps(found))
    with pytest.raises(InputError, match=r"a\.zarr: laid out by a newer jaxroof"):
        jr.read(tmp_path / "a.zarr")


def test_a_digit_that_was_changed_in_json_is_found(tmp_path):
    path = tmp_path / "a.json"
    jr.write(DATA, path)
    path.write_text(path.read_text().replace("1.0", "1.5"))
    with pytest.raises(InputError, match=r"a\.json: damaged: its results are not as they were"):
        jr.read(path)


def test_stamps_of_a_file_do_not_go_into_the_next(tmp_path):
    """A Dataset that another program read has them as attributes; writing makes them anew."""
    old = DATA.assign_attrs({FORMAT: 0, "results_sha256": "old"})
    jr.write(old, tmp_path / "a.json")
    xr.testing.assert_identical(jr.read(tmp_path / "a.json"), DATA)
