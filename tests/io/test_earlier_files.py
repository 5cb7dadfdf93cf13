"""Files that the version of 2026-11 wrote: they open, print, draw, and runs that it began go on."""

import pathlib
import tarfile

import numpy as np
import pytest
import xarray as xr
from places import GOLDEN

import jaxroof as jr

RTOL = 1e-12


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Unpack a file of each kind, with the questions that they answer."""
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(GOLDEN / "files" / "written_2026_11.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    for path in folder.glob("*.toml"):  # what a file without an estimator is told to add
        text = path.read_text()
        path.write_text(text if "estimator" in text else f'estimator = "published"\n{text}')
    return folder


def test_a_file_without_an_estimator_is_told_which(earlier, tmp_path, jaxroof):
    text = (earlier / "search.toml").read_text().replace('estimator = "published"\n', "")
    (tmp_path / "old.toml").write_text(text)
    said = jaxroof("run old.toml")
    assert said.code == 2
    assert 'in a file: estimator = "published"' in said.err


@pytest.fixture(scope="module")
def found(earlier):
    """Return what the question of the files answers to now."""
    return jr.run(earlier / "search.toml")


def same(data: xr.Dataset, found: xr.Dataset) -> None:
    for name in found.data_vars:
        np.testing.assert_allclose(data[name], found[name], rtol=RTOL, err_msg=str(name))


@pytest.mark.parametrize("ending", ["nc", "json", "zarr"])
def test_results_are_read_and_are_those_of_now(ending, earlier, found):
    same(jr.read(earlier / f"search.{ending}"), found)


def test_elasticities_are_read_and_are_those_of_now(earlier):
    same(jr.read(earlier / "slopes.nc"), jr.run(earlier / "slopes.toml"))


@pytest.mark.parametrize(
    "name", ["search.nc", "search.json", "search.zarr", "plans.nc", "trace.json"]
)
def test_results_are_drawn(name, earlier, jaxroof, tmp_path):
    said = jaxroof(f"plot {earlier / name} -o picture.svg")
    assert (said.code, (tmp_path / "picture.svg").is_file()) == (0, True), said.err


def test_a_stopped_sweep_goes_on(earlier, found, jaxroof):
    store = earlier / "stopped.zarr"
    said = jaxroof(f"run {earlier / 'stopped.toml'} -o {store}")
    assert said.code == 0, said.err
    same(jr.read(store), found)


@pytest.mark.parametrize("output", ["search.zarr", "plans.csv", "plans.zarr"])
def test_a_finished_run_has_nothing_to_add(output, earlier, jaxroof):
    path = earlier / output
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.name[0].isdigit())
    before = {file: file.read_bytes() for file in files}
    question = earlier / pathlib.Path(output).with_suffix(".toml").name
    said = jaxroof(f"run {question} -o {path}")
    assert said.code == 0, said.err
    assert {file: file.read_bytes() for file in files} == before


def test_rows_that_name_the_estimator_training_are_answered_as_before(earlier, jaxroof, tmp_path):
    said = jaxroof(f"evaluate published {earlier / 'rows.csv'} -o answers.csv")
    assert said.code == 0, said.err
    before = (earlier / "rows_answers.csv").read_text().splitlines()
    after = (tmp_path / "answers.csv").read_text().splitlines()
    names, old, new = (
        before[0].split(","),
        before[1].split(","),
        dict(zip(after[0].split(","), after[1].split(","), strict=True)),
    )
    for name, value in zip(names, old, strict=True):
        if name in new and value.replace(".", "").isdigit():
            assert float(new[name]) == pytest.approx(float(value), rel=RTOL), name
