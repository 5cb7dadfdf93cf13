"""Sizes that a store declares are checked before memory is taken."""

import json

import google_crc32c
import numcodecs
import numpy as np
import pytest
import xarray as xr

from jaxroof.errors import InputError
from jaxroof.io import chunk_manifest as ledger
from jaxroof.io import formats, zarr_store
from jaxroof.io.stored_array import arrays_of
from jaxroof.io.zarr_sizes import HEAD, frame_size
from jaxroof.limits import MEMORY

DATA = xr.Dataset(
    {"time": ("x", np.arange(100.0)), "name": ("x", [f"n{i}" for i in range(100)])},
    {"x": np.arange(100)},
)
PIECE = 10


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, 1 << 20])
def test_the_size_of_a_frame_is_what_it_decodes_to(size):
    frame = bytes(numcodecs.Zstd(level=1).encode(bytes(size)) if size else b"")
    assert frame_size(frame[:HEAD]) == (size or None)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr_store, "PIECE", PIECE)
    formats.write(DATA, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def replace_chunk(path, name: str, content: bytes) -> None:
    """Replace the file of a chunk, its checksums in the manifest with it."""
    (path / name / "0").write_bytes(content)
    plan = json.loads((path / ledger.HOME / ledger.PLAN).read_text())
    plan.pop("crc32", None)
    plan["files"] = ledger.checksums(path, plan["files"])
    (path / ledger.HOME / ledger.PLAN).write_text(json.dumps(ledger._summed(plan)))


def summed(text: bytes) -> bytes:
    return text + google_crc32c.value(text).to_bytes(4, "little")


def compressed(values: bytes) -> bytes:
    return summed(bytes(numcodecs.Zstd(level=1).encode(values)))


def shard(pieces: list[bytes], moved: int = 0) -> bytes:
    """Return a shard of pieces whose index says that the last is elsewhere."""
    ends = np.cumsum([0, *map(len, pieces)])
    index = np.stack([ends[:-1], np.diff(ends)], axis=1).astype("<u8")
    index[-1, 0] += moved
    return b"".join(pieces) + summed(index.tobytes())


LARGE = compressed(bytes(1 << 24))
ROWS = compressed(bytes(8 * PIECE))
MANY = (1 << 31).to_bytes(4, "little") + bytes(400)  # texts, as their first bytes say
SIZE = "is not of the size of its chunk"
WRONG_FILES = [  # an array, its file, what is said of it
    ("x", LARGE, SIZE),
    ("name", LARGE, SIZE),
    ("name", compressed(MANY), SIZE),
    ("name", summed(b"\x28\xb5\x2f\xfd\x20\xff" + bytes(30)), "cannot be decompressed"),
    ("name", b"", SIZE),
    ("time", shard([ROWS] * 9 + [LARGE]), SIZE),
    ("time", shard([ROWS] * 10, moved=1 << 40), "has an index of another file"),
    ("time", shard([ROWS] * 10)[:-1] + b"\0", "has an index that is not as it was written"),
    ("time", b"short", "has an index that is not as it was written"),
]


@pytest.mark.parametrize(("name", "content", "said"), WRONG_FILES, ids=range(len(WRONG_FILES)))
def test_a_file_that_decodes_to_more_is_not_decoded(name, content, said, path):
    replace_chunk(path, name, content)
    with pytest.raises(InputError, match=f"a.zarr: damaged: {name}: 0 {said}; run the sweep"):
        formats.read(path).load()


def test_only_what_is_read_of_a_shard_is_decoded(path):
    """A piece that is damaged spoils no other."""
    replace_chunk(path, "time", shard([ROWS] * 9 + [LARGE]))
    data = formats.read(path)
    assert (data.time[: 9 * PIECE].values == 0.0).all()
    with pytest.raises(InputError, match=SIZE):
        data.time[[0, 95]].load()
    replace_chunk(path, "time", shard([ROWS[:-1] + b"\0", *[ROWS] * 9]))
    with pytest.raises(InputError, match=r"damaged: time: .*checksum.*; run the sweep again"):
        data.time[0].load()


def test_what_is_chosen_of_a_store_must_fit(path, monkeypatch):
    data = formats.read(path)
    monkeypatch.setenv(MEMORY, "100 B")
    assert float(data.time[7]) == 7.0
    with pytest.raises(InputError, match=r"the values of time take 800 B; the limit is 100 B"):
        data.time.load()


WRONG = [  # lengths of an array, of its chunks, what is said of it
    ([10**15], [10**15], "its chunks take 8 PB; the limit is"),
    ([-1], [1], "shape: expected whole numbers"),
    ([4], [0], "expected whole numbers"),
    ([4], [4, 4], "expected whole numbers"),
    ("4", [4], "shape: expected whole numbers"),
]


@pytest.mark.parametrize(("shape", "chunks", "said"), WRONG)
def test_a_shape_that_cannot_be_is_refused(shape, chunks, said, path, monkeypatch):
    monkeypatch.setenv(MEMORY, "1 GB")
    about = json.loads((path / "x" / "zarr.json").read_text())
    about |= {"shape": shape, "data_type": "float64"}
    about["chunk_grid"]["configuration"]["chunk_shape"] = chunks
    with pytest.raises(InputError) as told:
        arrays_of("a.zarr", {"time/zarr.json": about})
    assert str(told.value).startswith("a.zarr: time/zarr.json: ")
    assert said in str(told.value)
