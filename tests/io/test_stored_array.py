"""What a file of a store declares is checked before memory is taken, whatever zarr reads of it."""

import json

import google_crc32c
import numcodecs
import numpy as np
import pytest
import xarray as xr

from jaxroof.errors import InputError
from jaxroof.io import chunk_manifest as ledger
from jaxroof.io import formats, zarr_store
from jaxroof.io.layout import Layout
from jaxroof.io.stored_array import HEAD, frame_size
from jaxroof.limits import MEMORY

VALUES = {
    "time": ("x", np.arange(100.0)),
    "name": ("x", [f"n{i}" for i in range(100)]),
}
DATA = xr.Dataset(VALUES, {"x": np.arange(100)})
PIECE = 10


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, 1 << 20])
def test_the_size_of_a_frame_is_what_it_decodes_to(size):
    frame = bytes(numcodecs.Zstd(level=1).encode(bytes(size)) if size else b"")
    assert frame_size(frame[:HEAD]) == (size or None)


@pytest.fixture
def path(tmp_path):
    """Write a store of one chunk of ten pieces."""
    path, layout = tmp_path / "a.zarr", Layout({"x": 100}, {"x": 100}, {"x": PIECE})
    (path / ledger.HOME).mkdir(parents=True)
    pieces = [(piece, DATA.isel(piece.part)) for piece in layout.pieces(0)]
    zarr_store.create(path, pieces[0][1], DATA[["x"]], layout, None)
    zarr_store.record_chunk(path, 0, zarr_store.write_region(path, 0, layout, pieces), {})
    zarr_store.finalise(path, {})
    xr.testing.assert_identical(formats.read(path).load(), DATA)
    return path


def replace_chunk(path, name: str, content: bytes) -> None:
    """Replace the file of a chunk, its checksums in the manifest with it."""
    (path / name / "0").write_bytes(content)
    plan = json.loads((path / ledger.HOME / ledger.PLAN).read_text())
    plan["files"] = ledger.checksums(path, plan["files"])
    zarr_store.write_plan(path, {k: v for k, v in plan.items() if k not in ("crc32", "format")})
    files = ledger.checksums(path, ledger.record(path)[0]["files"])
    zarr_store.record_chunk(path, 0, files, {})


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
    ("x", summed(b"\x28\xb5\x2f\xfd\x20\xff" + bytes(30)), "decompression"), ("x", b"", SIZE),
    ("name", shard([LARGE] * 10), SIZE),
    ("name", shard([compressed(MANY)] * 10), SIZE), ("name", b"", SIZE),
    ("time", shard([ROWS] * 9 + [LARGE]), SIZE),
    ("time", shard([ROWS] * 10, moved=1 << 40), SIZE),
    ("time", shard([ROWS] * 10)[:-1] + b"\0", "checksum"), ("time", b"short", ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), WRONG_FILES, ids=range(len(WRONG_FILES)))
def test_a_file_that_decodes_to_more_is_not_decoded(name, content, said, path):
    replace_chunk(path, name, content)
    with pytest.raises(InputError, match=f"a.zarr: damaged: {name}: .*{said}.*; run the sweep"):
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


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
@pytest.mark.parametrize("kind", ["float64", "U3"])
def test_arrays_of_one_value_and_of_none_are_kept(shape, kind, tmp_path):
    dims = [f"d{i}" for i in range(len(shape))]
    data = xr.Dataset({"some": (dims, np.full(shape, "7", np.str_).astype(kind))})
    formats.write(data, tmp_path / "a.zarr")
    xr.testing.assert_identical(formats.read(tmp_path / "a.zarr").load(), data)


def test_what_no_store_holds_is_one_line(tmp_path):
    data = xr.Dataset({"when": ("x", np.array(["2026-01-01"], "datetime64[ns]"))})
    with pytest.raises(InputError, match=r"a\.zarr: cannot be written: .*datetime64"):
        formats.write(data, tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())


def test_large_arrays_are_written_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr_store, "PIECE", 6)
    data = xr.Dataset({"time": (("x", "y"), np.arange(35.0).reshape(7, 5)), "n": ("y", range(5))})
    formats.write(data, tmp_path / "a.zarr")
    assert len(list((tmp_path / "a.zarr" / "time").glob("*.0"))) == 7
    xr.testing.assert_identical(formats.read(tmp_path / "a.zarr").load(), data)
