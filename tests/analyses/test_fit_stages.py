"""The memory of stages over axes is that of every point alone."""

import itertools
from typing import Any

import numpy as np
import pytest
from places import ROOT
from refusals import refused

import jaxroof as jr
from jaxroof.config.sweep_file import would_take
from jaxroof.config.toml_reader import load
from jaxroof.views import plots

ABOUT: dict[str, Any] = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}
FILES = sorted((ROOT / "sweeps" / "memory").glob("*.toml"))


def test_every_point_is_what_fit_says() -> None:
    axes = {
        "recompute": ["none", "full"], "pp": [1, 3, 4], "sequence": [4096, 8192], "zero": [1, 3],
    }  # fmt: skip
    data = jr.fit_stages(**ABOUT, plan={"dp": 2}, axes=axes, layer_division="equal")
    assert [*data.sizes] == ["recompute", "pipeline", "sequence", "zero_stage", "stage"]
    assert data.sizes["stage"] == 4
    assert not data.legal.sel(pipeline=3).any()
    assert np.isnan(data.device.sel(pipeline=3)).all()
    for recompute, pipeline, sequence, zero in itertools.product(*axes.values()):
        if pipeline == 3:
            continue
        plan = {"dp": 2, "pp": pipeline, "zero": zero}
        alone = jr.fit(**ABOUT, plan=plan, sequence=sequence, recompute=recompute)
        at = {
            "recompute": recompute, "pipeline": pipeline, "sequence": sequence, "zero_stage": zero,
        }  # fmt: skip
        point = data.sel(at)
        for name in ("device", "activations", "static", "transient_head", "optimizer_dense"):
            np.testing.assert_allclose(point[name].values[:pipeline], alone[name], rtol=1e-12)
            assert (point[name].values[pipeline:] == 0.0).all()
        for name in ("fits", "fullest_stage", "missing", "capacity"):
            assert float(point[name]) == pytest.approx(float(alone[name]), rel=1e-12), name


def test_models_systems_and_numbers_of_a_machine_are_axes_too() -> None:
    axes = {"model": ["llama3-8b", "mixtral-8x7b"], "system.hbm_capacity": ["40 GB", "1 TB"]}
    data = jr.fit_stages(
        model="llama3-8b", system="h100-nvs8", global_batch=64, plan={"dp": 8}, axes={"tp": [1, 2]}
    )
    assert data.device.isel(tensor=1, stage=0) < data.device.isel(tensor=0, stage=0)
    data = jr.fit_stages(**{**ABOUT, "model": None}, plan={"dp": 8}, axes=axes)
    assert data.fits.sel(model="llama3-8b").values.tolist() == [False, True]
    assert data.capacity.isel(model=0).values.tolist() == [40e9, 1e12]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"axes": {"tpp": [1]}}, "tpp: no such"),
    ({"axes": {"tp": [1], "tensor": [2]}}, "axes.tensor: given twice, as tensor too"),
    ({"axes": {"tp": [0, 1]}}, "plan.tensor: expected a whole number above 0"),
    ({"axes": {"pp": [1]}, "plan": {"pp": 2}}, "axes.pp: given beside the axes too"),
    ({"axes": {"recompute": ["some"]}}, "recompute: some: no such Recompute"),
    (
        {"axes": {"sequence": list(range(64, 200_000))}, "plan": {"pp": 32}},
        "axes: 6,397,952 points",
    ),
]


@pytest.mark.parametrize(("changed", "said"), WRONG)
def test_wrong_axes_are_one_line(changed: dict[str, Any], said: str) -> None:
    assert refused(jr.fit_stages, **{**ABOUT, **changed}).startswith(said)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_sweep_file_answers_with_stages(path: Any, tmp_path: Any, jaxroof: Any) -> None:
    written = load(path)
    data = jr.run(path, output=tmp_path / "stages.nc")
    assert data.sizes["stage"] > 1
    assert data.legal.any()
    assert data.fits.any()
    assert not data.fits.all()
    assert data.attrs["title"] == written["title"]
    again = jr.read(tmp_path / "stages.nc")
    np.testing.assert_array_equal(again.device.values, data.device.values)
    assert list(map(str, again.sizes))[:-1] == [name.rpartition(".")[2] for name in written["axes"]]
    said = jaxroof(f"run {path}")
    assert said.code == 0
    assert f"{int(data.fits.sum())} of {int(data.legal.sum())} legal plans fit" in said.words
    one = {dim: 0 for dim in data.sizes if dim != "stage"}
    assert plots.draw(data.isel(one)).axes
    assert plots.draw(data).axes


AXES = "model = 'llama3-8b'\nsystem = 'h100-nvs8'\nplan = { global_batch = 8 }\n[axes]\n"
BAD = [
    (f"{AXES}'' = [1, 2]", "'': no such field of TrainingInputs"),
    (f"{AXES}'' = []", "'': an empty axis"),
    (f"{AXES}tp = []", "tp: an empty axis"),
    (f"{AXES}'' = {{ tp = [1, 2] }}", "'': fields that move together"),
    (f"{AXES}recompute = {{ from = 1, to = 2, count = 2 }}", "recompute: taken one by one, not in"),
    ("system = 'h100-nvs8'", "model: missing; expected it or an axis of names"),
    ("model = 'llama3-8b'\nsystem = 'h100-nvs8'", "global_batch: missing; expected it in plan"),
    ("modle = 'llama3-8b'", "modle: no such key of a sweep file. Did you mean 'model'?"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_wrong_file_is_one_line(text: str, said: str, tmp_path: Any) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(f'estimator = "training"\nanswer = "stages"\n{text}\n')
    for road in (jr.run, would_take):
        assert refused(road, path).replace("axes.", "").startswith(f"{path}: {said}")
