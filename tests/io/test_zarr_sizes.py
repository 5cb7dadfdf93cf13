"""Sizes that a store declares are checked before memory is taken."""

import json

import numcodecs
import numpy as np
import pytest
import xarray as xr

from jaxroof.errors import InputError
from jaxroof.io import chunk_manifest as ledger
from jaxroof.io import formats
from jaxroof.io.zarr_sizes import HEAD, check_declared, frame_size
from jaxroof.limits import MEMORY

DATA = xr.Dataset({"time": ("x", np.arange(100.0))}, {"x": np.arange(100)})


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, 1 << 20])
def test_the_size_of_a_frame_is_what_it_decodes_to(size):
    frame = bytes(numcodecs.Zstd(level=1).encode(bytes(size)) if size else b"")
    assert frame_size(frame[:HEAD]) == (size or None)


@pytest.fixture
def path(tmp_path):
    formats.write(DATA, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def replace_chunk(path, name: str, content: bytes) -> None:
    """Replace the file of a chunk, its checksums in the manifest with it."""
    (path / name / "0").write_bytes(content)
    plan = json.loads((path / ledger.HOME / ledger.PLAN).read_text())
    plan.pop("crc32")
    plan["files"] = ledger.checksums(path, plan["files"])
    (path / ledger.HOME / ledger.PLAN).write_text(json.dumps(plan))


@pytest.mark.parametrize("name", ["time", "x"])
def test_a_chunk_that_decodes_to_more_is_not_decoded(name, path):
    replace_chunk(path, name, bytes(numcodecs.Zstd(level=1).encode(bytes(1 << 24))))
    with pytest.raises(InputError, match=f"damaged: {name}/0 is not of the size of its chunk"):
        formats.read(path).load()


def test_what_is_chosen_of_a_store_must_fit(path, monkeypatch):
    data = formats.read(path)
    monkeypatch.setenv(MEMORY, "100 B")
    assert float(data.time[7]) == 7.0
    with pytest.raises(InputError, match=r"the values of time take 800 B; the limit is 100 B"):
        data.time.load()


WRONG = [  # what an array says, what is said of it
    ({"shape": [10**15], "chunks": [10**15]}, "its chunks take 8 PB; the limit is"),
    ({"shape": [-1], "chunks": [1]}, "shape: expected whole numbers"),
    ({"shape": [4], "chunks": [0]}, "chunks: expected whole numbers"),
    ({"shape": [4], "chunks": [4, 4]}, "chunks: expected whole numbers"),
    ({"shape": "4", "chunks": [4]}, "shape: expected whole numbers"),
]


@pytest.mark.parametrize(("about", "said"), WRONG)
def test_a_shape_that_cannot_be_is_refused(about, said, monkeypatch):
    monkeypatch.setenv(MEMORY, "1 GB")
    with pytest.raises(InputError, match="time"):
        check_declared("time", {"dtype": "<f8", **about})
    with pytest.raises(InputError) as told:
        check_declared("time", {"dtype": "<f8", **about})
    assert said in str(told.value)
