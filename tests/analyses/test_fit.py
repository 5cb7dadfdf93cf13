"""Whether a training step fits, by the public road: golden stages, published runs, wrong input."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import training_memory as golden
import xarray as xr
from refusals import refused

import jaxroof as jr
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.errors import InputError
from jaxroof.estimators.training.details import ALLOCATED as NAMES
from jaxroof.views.text.fit import groups

ROAD = [  # golden case, its name in the catalogue, what the case leaves to a default
    ("base", "llama3-70b", {}),
    ("zb_h1", "llama3-70b", {}),
    ("interleave_5", "llama3-70b", {}),
    ("remainder", "llama3-70b", {"layer_split": "even"}),
    ("gpt3_dropout", "gpt3-175b", {"attention_kernel": "unfused"}),
    ("tied_two_stages", "gemma2-27b", {}),
    ("mixtral_ep8", "mixtral-8x7b", {}),
    ("mixtral_etp2", "mixtral-8x7b", {}),
    ("qwen3_moe_act", "qwen3-235b-a22b", {"layer_split": "even"}),
    ("deepseek_v3_1f1b", "deepseek-v3", {"layer_split": "even"}),
    ("deepseek_v3_dualpipe", "deepseek-v3", {"layer_split": "even"}),
]
CASES = {row["case"]: row for row in golden.rows("memory_cases")}


@pytest.mark.parametrize(("case", "model", "more"), ROAD)
def test_every_term_of_a_golden_case(case: str, model: str, more: dict[str, Any]) -> None:
    plan, chosen = (json.loads(CASES[case][name]) for name in ("plan", "recipe"))
    sequence, microbatches = plan.pop("sequence"), plan.pop("microbatches")
    settings = {name: value for name, value in chosen.items() if name != "flash"} | more
    batch = plan["data"] * plan["microbatch"] * microbatches
    asked = {"model": model, "plan": plan, "system": "h100-nvs8", "sequence": sequence}
    data = jr.fit(**asked, global_batch=batch, settings=settings)
    rows = [row for row in golden.rows("memory_rows") if row["case"] == case]
    for term in rows[0].keys() - {"case", "stage"}:
        expected = [float(row[term]) for row in rows]
        found = data[NAMES.get(term, term)]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0.0, err_msg=term)


def llama3_8b(**changed: Any) -> xr.Dataset:
    """Return Llama 3 8B on 8 H100."""
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "plan": {"dp": 8}, "global_batch": 128}
    return jr.fit(**{**asked, "recompute": "full", **changed})


def llama3_405b(**changed: Any) -> xr.Dataset:
    """Return Llama 3 405B on 16,384 H100 under its published plan: end stages have a layer less."""
    plan = {"tensor": 8, "context": 1, "pipeline": 16, "data": 128}
    asked = {"plan": plan, "global_batch": 2048, "gpus": 16384, "layer_split": "7,14x8,7"}
    return jr.fit(model="llama3.1-405b", system="h100-nvs8", **{**asked, **changed})


def deepseek_v3(**changed: Any) -> xr.Dataset:
    """Return DeepSeek-V3 on 2,048 H800 under its published plan and widths."""
    settings = {
        "schedule": "dualpipe", "layer_split": "even", "weight_bytes": 1, "moment_bytes": 4,
        "linear_input_bytes": 1, "nonlinearity_bytes": 1, "modules": "layernorm,mla_up_proj",
        "routed_copies": 2,
    }  # fmt: skip
    plan = {"pp": 16, "dp": 128, "ep": 64}
    asked = {"model": "deepseek-v3", "system": "h800-nvs8", "plan": plan, "global_batch": 15360}
    return jr.fit(**asked, settings={**settings, **changed})


def test_llama_3_8b_fits_only_with_recomputation() -> None:
    full, none = llama3_8b(), llama3_8b(recompute="none")
    assert bool(full.fits)
    assert not bool(none.fits)
    assert float(full.missing) == 0.0
    assert float(none.missing) == float(none.device.max() - none.capacity) > 0.0
    turns = [one["choice"] for one in json.loads(llama3_8b(recompute=None).attrs["hangs_on"])]
    assert "recompute" in turns


def test_llama_3_405b_is_fullest_where_most_microbatches_meet_most_layers() -> None:
    """Stage 0 has most in flight, stage 1 a layer more; Llama 3 ran without recomputation."""
    data = llama3_405b()
    assert data.sizes["stage"] == 16
    assert data.layers.values.tolist() == [7.0] + 14 * [8.0] + [7.0]
    assert int(data.fullest_stage) == 1
    assert str(data.largest_term.values) == "activations_mlp"
    assert float(data.gradients_dense[1]) == 2.0 * float(data.weights_dense[1])
    assert bool(llama3_405b(gradient_bytes=2, modules="mlp").fits)


def test_deepseek_v3_fits_as_it_did() -> None:
    """Section 9 of the sheet: 77 GB of 80 GB."""
    data = deepseek_v3()
    assert bool(data.fits)
    assert float(data.device.max()) == pytest.approx(77.5e9, rel=0.01)
    assert 0 < int(data.fullest_stage) < 15
    assert data.allocated.attrs["bound"] == "-6 to +9 %"


def test_attributes_say_units_meaning_and_bounds() -> None:
    data = llama3_8b()
    for name in data.data_vars:
        assert data[name].attrs["long_name"], name
        assert "units" in data[name].attrs or name in ("fits", "fullest_stage", "largest_term")
    assert [data[name].attrs["bound"] for name in ("allocated", "reserved", "device")] == [
        "± 1 % + 15 MiB", "± 10 %", "± 15 %",
    ]  # fmt: skip
    assert "condition" in data.allocated.attrs
    assert "condition" not in llama3_8b(attention_kernel="cudnn").allocated.attrs
    assert json.loads(data.attrs["assumed"])["attention_kernel"] == "cudnn"
    assert "recompute" not in json.loads(data.attrs["assumed"])


def test_the_groups_of_a_bar_are_all_there_is() -> None:
    for data in (llama3_8b(), llama3_405b(), deepseek_v3()):
        np.testing.assert_allclose(sum(groups(data).values()), data.device, rtol=1e-14)
        np.testing.assert_allclose(data.static + data.activations + data.transient, data.allocated)


@pytest.mark.parametrize("kind", [".nc", ".json", ".csv"])
def test_files_come_back(kind: str, tmp_path: pathlib.Path) -> None:
    data, path = llama3_405b(), tmp_path / f"stages{kind}"
    jr.write(data, path)
    again = jr.read(path)
    np.testing.assert_array_equal(again.device.values, data.device.values)
    assert np.all(again.fits.values == data.fits.values)
    if kind != ".csv":
        xr.testing.assert_identical(again, data)


def test_records_files_and_numbers_are_taken_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "llama3-8b"\nlayers = 16\n')
    half = llama3_8b(model=tmp_path / "mine.toml")
    set_so = llama3_8b(settings={"model.layers": 16, "states.zero_stage": 1})
    np.testing.assert_array_equal(half.device.values, set_so.device.values)
    model, _ = architecture_with_choices("llama3-8b")
    system = jr.system("h100-nvs8", hbm_capacity="60 GB")
    other = llama3_8b(model=model, system=system)
    np.testing.assert_array_equal(other.device.values, llama3_8b().device.values)
    assert float(other.capacity) == 60e9
    assert not bool(other.fits)
    usable = llama3_8b(settings={"system.hbm_usable": 0.5})
    assert float(usable.capacity) == 0.5 * float(jr.system("h100-nvs8").hbm_reported)
    label = llama3_8b(settings={"system.hbm_capacity": "80 GB"})
    assert float(label.capacity) == 80e9
    assert "reported" not in label.capacity.attrs
    told = llama3_8b(settings={"system.hbm_capacity": "80 GB", "system.hbm_reported": "82 GB"})
    assert float(told.capacity) == 82e9


def test_zero_in_a_pipeline_is_a_warning() -> None:
    data = llama3_8b(plan={"pp": 2, "dp": 4, "zero": 2})
    assert json.loads(data.attrs["warnings"]) == ["ZeRO 2 or 3 in a pipeline"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"plan": {"tp": 3}}, "plan: tp=3: not legal (tensor degrees that do not divide the heads); "
        "the model has 32 heads; expected tp=2 or tp=4"),
    ({"plan": {"pp": 20}}, "plan: pp=20: not legal (pipelines whose chunks are unequal, also where "
        "the first and the last have fewer layers); the model has 32 layers; expected pp=18 or "
        "pp=32 or layer_division=even"),
    ({"plan": {"dp": 3}}, "plan: dp=3: not legal (data degrees and microbatches that do not "
        "divide the batch); the batch is 128 sequences; expected dp=2 or dp=4"),
    ({"plan": {"ep": 2}}, "plan: ep=2: not legal (expert degrees other than 1 of a model without "
        "experts); the model has 0 experts; expected ep=1"),
    ({"gpus": 64}, "plan: dp=8: not legal (splits that do not use every accelerator once); it "
        "uses 8 of 64 accelerators; expected dp=64 or tp=8 or cp=8 or pp=8"),
    ({"layer_split": "2,3"}, "plan: pp=1, vp=1: not legal (pipelines other than that of "
        "the split of layers); the model has 32 layers, the split 5 on 2 stages; expected "
        "layer_split=even"),
    ({"plan": {"pp": 10**6}, "layer_split": "even"}, "plan.pipeline: expected a whole number "
        "above 0 and at most 4096, given 1000000"),
    ({"plan": {"pp": 1000}, "layer_split": "even"}, "plan: pp=1000: not legal (more chunks than"
        " layers); the model has 32 layers; expected pp=32"),
    ({"plan": {"microbatch": 1e9}, "global_batch": 10**8}, "plan: mb=1000000000: not legal "
        "(data degrees and microbatches that do not divide the batch); the batch is 100,000,000 "
        "sequences; expected mb=62500"),
    ({"plan": {"xp": 3}}, "plan: xp: no such plan field; expected one of dp, tp, cp, cx, pp, "),
    ({"plan": {"tp": 2, "tensor": 2}}, "plan: tensor: given twice; expected each field once"),
    ({"plan": {"microbatches": 2}}, "plan: microbatches: follow from the batch, data and "),
    ({"plan": {"tp": 0}}, "plan.tensor: expected a whole number above 0"),
    ({"recompute": "ful"}, "recompute: ful: no such Recompute. Did you mean 'full'?"),
    ({"recompute": "selective"}, "recompute: selective says which modules are computed again; "),
    ({"modules": "mlp"}, "modules: go with recompute=selective, given recompute=full"),
    ({"recompute": None, "modules": "core"}, "modules: core: no such module of a layer. Did you"),
    ({"layer_split": "1.5,2"}, "layer_split: expected whole numbers of layers, such as 7,14x8,7"),
    ({"settings": {"model.layer": 3}}, "model.layer: no such field of Architecture. Did you mean"),
    ({"settings": {"system.hbm_capacity": "80 GB/s"}}, "system.hbm_capacity: '"),
    ({"fragmentatio": 3}, "fragmentatio: no such field"),
    ({"global_batch": 0}, "global_batch: expected a whole number above 0"),
    ({"model": "llama3-9b"}, "llama3-9b: no such architecture. Did you mean 'llama3-8b'?"),
    ({"model": "vit-h-14"}, "model: a model of pictures, without a vocabulary; expected a"),
    ({"model": "vit-22b"}, "model: a model of pictures, without a vocabulary; expected a"),
    ({"settings": {"zero_stage": 1}, "plan": {"zero": 2}}, "plan: zero: given twice; expected"),
    ({"settings": {"states.zero_stage": 1, "zero_stage": 2}}, "zero_stage: given twice, as"),
    ({"settings": {"weight_bytes": 1}, "states.weight_bytes": 2}, "states.weight_bytes: given "),
    ({"settings": {"tp": 2}}, "plan: tensor: expected it in the plan, as tp=2"),
    ({"settings": {"model.layers": 1e13}}, "model.layers: expected"),
    ({"sequence": 8192 * 10**13}, "model.sequence: expected"),
    ({"plan": {"dp": 8 * 10**13}}, "plan.data: expected"),
    ({"model": 3}, "model: a record, not a number, given 3; expected a name"),
    ({"system": 3}, "system: a record, not a number, given 3; expected a name"),
    ({"system": "h100-nvs9"}, "h100-nvs9: no such system; expected one of h100-nvs8, h100-"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), WRONG)
def test_wrong_input_is_one_line(changed: dict[str, Any], said: str) -> None:
    assert refused(llama3_8b, **changed).startswith(said)


def test_short_names_of_a_table_may_be_typed_and_accelerators_fill_the_data_degree():
    named = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}
    typed = jr.fit(**named, plan={"tp": 2, "mb": 2, "off": 1}, gpus=8)
    spelled = jr.fit(
        **named, plan={"dp": 4, "tp": 2, "microbatch": 2}, **{"states.offload_optimizer": 1}
    )
    assert float(typed.device[0]) == float(spelled.device[0])
    with pytest.raises(InputError, match=r"^plan: expected degrees by name, as {'tp': 8}"):
        jr.fit(**named, plan="dp=8")
    with pytest.raises(InputError, match=r"^model: missing; expected a name of the catalogue"):
        jr.search("training", None)


@pytest.mark.parametrize("model", ["llama3-70b", "deepseek-v3"])
def test_what_leaves_the_accelerator_lies_in_the_memory_of_its_host(model: str) -> None:
    asked: dict[str, Any] = {"model": model, "system": "h100-nvs8", "global_batch": 64}
    plan = {"dp": 4, "pp": 2}
    here = jr.fit(plan=plan, **asked)
    there = jr.fit(plan={**plan, "off": 1}, **asked, offload_activations=0.5)
    kept = here.optimizer_dense + here.optimizer_expert + here.activations - there.activations
    np.testing.assert_allclose(there.host.values, kept.values, rtol=1e-12)
    assert "host" not in here
    report = jr.evaluate("training", {**asked, **plan, "off": 1})
    fullest = jr.fit(plan={**plan, "off": 1}, **asked)
    assert float(report.host) == float(fullest.host[int(fullest.fullest_stage)])


def test_a_host_that_is_too_small_does_not_fit() -> None:
    asked: dict[str, Any] = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 64}
    data = jr.fit(plan={"tp": 8, "off": 1}, **asked)
    assert bool(data.fits)
    assert float(data.host.max()) < float(data.host_capacity) == 250e9
    less = {"system.host_capacity": "100 GB", "system.hbm_capacity": "140 GB"}
    found = jr.fit(plan={"tp": 8, "off": 1}, **asked, settings=less, changes=5)
    assert not bool(found.fits)
    assert float(found.device.max()) <= float(found.capacity)
    for change in json.loads(found.attrs["changes"]):
        assert change["fits"]
        assert change["set"].get("off", 1.0) < 1.0
