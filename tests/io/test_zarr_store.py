"""A store that another program changed is damaged, and one that links elsewhere is not touched."""

import os
import shutil

import pytest

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.io.chunk_manifest import HOME, RECORD

SWEEP = """
estimator = "matmul"
inputs = { system = { matrix_flops = "900 TFLOP/s", hbm_bandwidth = "3 TB/s" }, hidden = 64 }
set = { feedforward = 128 }
[axes]
batch = [1, 8, 64]
"""


@pytest.fixture
def store(tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    jr.run(tmp_path / "sweep.toml", output=tmp_path / "a.zarr", chunk=1)
    return tmp_path / "a.zarr"


def lines_of(store):
    return (store / HOME / RECORD).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_changed_line_of_the_record_counts_for_nothing(place, store):
    lines = lines_of(store)
    assert len(lines) > 2
    lines[place] = lines[place].replace(b'"files"', b'"filez"')
    (store / HOME / RECORD).write_bytes(b"".join(lines))
    with pytest.raises(InputError, match="chunks are finished; run the sweep again to continue"):
        jr.read(store)
    again = jr.run(store.parent / "sweep.toml", output=store, chunk=1)  # mends it
    assert jr.read(store).identical(again.load())


def test_a_line_that_a_kill_cut_off_is_unfinished(store):
    *lines, last = lines_of(store)
    (store / HOME / RECORD).write_bytes(b"".join([*lines, last[:20]]))
    with pytest.raises(InputError, match="chunks are finished; run the sweep again to continue"):
        jr.read(store)


@pytest.mark.parametrize("depth", ["folder", "file", "record"])
def test_a_link_inside_a_store_is_refused_and_left_alone(depth, store, jaxroof):
    files = sorted(path for path in store.rglob("*") if path.is_file() and path.parent != store)
    held = next(path for path in files if HOME not in path.parts and path.name != "zarr.json")
    place = {"folder": store / held.relative_to(store).parts[0], "file": held}
    place = place.get(depth, store / HOME / RECORD)
    elsewhere = store.parent / "elsewhere"
    shutil.move(place, elsewhere)
    os.symlink(elsewhere, place)
    before = sorted(elsewhere.rglob("*")), elsewhere.stat().st_mtime_ns
    said = f"damaged: {place.relative_to(store)} is a link to elsewhere"
    for line in ("rerun a.zarr", "plot a.zarr", "run sweep.toml -o a.zarr --overwrite"):
        ended = jaxroof(line)
        assert ended.code == 2, line
        assert said in ended.err, line
    after = sorted(elsewhere.rglob("*")), elsewhere.stat().st_mtime_ns
    assert after == before
