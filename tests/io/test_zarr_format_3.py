"""What is written piece by piece is what zarr itself writes and reads."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

import jaxroof as jr
from jaxroof.io import zarr_format_3 as form
from jaxroof.io import zarr_store

KINDS = ["bool", "int8", "int64", "uint16", "float32", "float64", "complex128"]
SHAPE, CHUNK, PIECE = (7, 5), (4, 6), (2, 3)


def values(kind: str) -> np.ndarray:
    return np.arange(35).reshape(SHAPE).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_zarr_reads_and_describes_an_array_as_we_do(kind, tmp_path):
    variable = xr.Variable(("x", "y"), values(kind), {"units": "s"})
    about = form.array_metadata(variable, SHAPE, CHUNK, PIECE)
    ours = tmp_path / "ours" / "time"
    ours.mkdir(parents=True)
    (ours / "zarr.json").write_text(json.dumps(about))
    form.write_whole(tmp_path / "ours", "time", about, variable)
    np.testing.assert_array_equal(zarr.open_array(ours, mode="r")[:], values(kind))
    theirs = zarr.create_array(
        tmp_path / "theirs",
        shape=SHAPE,
        dtype=kind,
        shards=CHUNK,
        chunks=PIECE,
        filters=(),
        compressors=(ZstdCodec(level=form.LEVEL), Crc32cCodec()),
        fill_value=zarr.open_array(ours, mode="r").fill_value,
        chunk_key_encoding={"name": "v2", "separator": "."},
        dimension_names=("x", "y"),
        attributes={"units": "s"},
    )
    known = json.loads((tmp_path / "theirs" / "zarr.json").read_text())
    assert json.loads(json.dumps(theirs.metadata.to_dict(), default=str))["codecs"]
    for name in {*about, *known} - {"storage_transformers", "fill_value"}:
        assert about[name] == known[name], name
    theirs[:] = values(kind)
    files = sorted(file.name for file in ours.iterdir())
    assert files == sorted(file.name for file in (tmp_path / "theirs").iterdir())
    (tmp_path / "theirs" / "zarr.json").write_text(json.dumps(about))
    checked = form.arrays(tmp_path, {"theirs/zarr.json": about})["theirs"]
    from jaxroof.io.zarr_sizes import check_selected

    check_selected(tmp_path, "theirs", checked)  # as zarr writes it, it is sound to us


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
@pytest.mark.parametrize("kind", ["float64", "U3"])
def test_arrays_of_one_value_and_of_none_are_kept(shape, kind, tmp_path):
    dims = [f"d{i}" for i in range(len(shape))]
    data = xr.Dataset({"some": (dims, np.full(shape, "7", np.str_).astype(kind))})
    jr.write(data, tmp_path / "a.zarr")
    xr.testing.assert_identical(jr.read(tmp_path / "a.zarr").load(), data)


def test_what_no_store_holds_is_one_line(tmp_path):
    data = xr.Dataset({"when": ("x", np.array(["2026-01-01"], "datetime64[ns]"))})
    with pytest.raises(jr.InputError, match=r"a\.zarr: cannot be written: .*datetime64"):
        jr.write(data, tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())


def test_dask_and_large_arrays_are_written_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(zarr_store, "PIECE", 6)
    data = xr.Dataset({"time": (("x", "y"), values("float64")), "last": ("y", np.arange(5))})
    jr.write(data, tmp_path / "a.zarr")
    time = zarr.open_array(tmp_path / "a.zarr" / "time", mode="r")
    assert (time.shards, time.chunks) == (SHAPE, (1, 5))
    xr.testing.assert_identical(jr.read(tmp_path / "a.zarr").load(), data)
