"""Whether a training step fits under named software: golden peaks, laws, what is refused."""

import json
from typing import Any

import numpy as np
import pytest
import training_memory as golden
import xarray as xr
from refusals import refused

import jaxroof as jr
from jaxroof import catalog
from tools.rows.common import read
from tools.rows.convert import RAW

FSDP2 = {row["row_id"]: row for row in golden.rows("memory_fsdp2")}
RUNS = {row.cells["row_id"]: row.cells for row in read(RAW / "memory" / "torchtitan_logs.csv.gz")}
NAMED = {"Llama3 8B": "llama3-8b", "Qwen3 32B": "qwen3-32b"}


def small(**changed: Any) -> xr.Dataset:
    """Return Llama 3 8B on 8 H100 under FSDP2."""
    asked = {
        "model": "llama3-8b", "system": "h100-nvs8", "plan": {"dp": 8}, "global_batch": 32,
        "software": "fsdp2",
    }  # fmt: skip
    return jr.fit(**{**asked, **changed})


@pytest.mark.parametrize("name", FSDP2)
def test_fsdp2_is_the_golden_rows_by_the_public_road(name: str) -> None:
    run, row = RUNS[name], FSDP2[name]
    options = dict(part.split("=", 1) for part in run["settings"].split("; "))
    short = ("dp", "tp", "cp")
    data = jr.fit(
        model=NAMED[run["model"]],
        plan={**{one: int(run[one]) for one in short}, "microbatch": int(run["mbs"])},
        system="h100-nvs8",
        global_batch=int(run["gbs"]),
        sequence=int(run["seq"]),
        software="fsdp2",
        settings={
            **{key: options[key] for key in ("recompute", "loss", "ends")},
            "compile": "no" if options["compile"] == "no" else "yes",
        },
    )
    assert float(data.allocated[0]) == float(row["active"])
    assert float(data.reserved[0]) == float(row["reserved"])
    for term in ("gradient_pool", "gather_pool", "holes"):
        assert float(data[term][0]) == float(row[term])
    parts = sum(float(data[name][0]) for name in ("static", "activations", "transient"))
    assert parts == float(data.allocated[0])
    kept = [str(one) for one in data.data_vars if str(one).startswith("activations_")]
    assert sum(float(data[one][0]) for one in kept) == float(data.activations[0])


def test_replicas_change_nothing_but_the_accelerators() -> None:
    one, four = small(), small(plan={"dp": 8, "replicas": 4}, global_batch=128)
    assert float(one.device[0]) == float(four.device[0])
    assert json.loads(four.attrs["inputs"])["gpus"] == 4 * json.loads(one.attrs["inputs"])["gpus"]
    assert "replicas" in four.reserved.attrs["bound"]
    assert one.reserved.attrs["bound"] == "± 10 %"


def test_what_is_left_open_is_said() -> None:
    data = small()
    assert set(json.loads(data.attrs["assumed"])) == {
        "recompute", "cross_entropy", "ends", "compiled",
    }  # fmt: skip
    assert data.attrs["software"] == "fsdp2"
    assert json.loads(small(recompute="op", loss="eager").attrs["assumed"]).keys() == {
        "ends", "compiled",
    }  # fmt: skip
    turned = json.loads(small(global_batch=8, plan={"dp": 8}, loss="eager").attrs["hangs_on"])
    assert {one["choice"] for one in turned} <= {"recompute"}


def test_the_software_of_today_changes_nothing() -> None:
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "plan": {"dp": 8}, "global_batch": 8}
    named = jr.fit(**asked, software="megatron")
    for term, values in jr.fit(**asked).data_vars.items():
        np.testing.assert_array_equal(values, named[term])


def test_stages_of_2021_are_the_golden_peaks() -> None:
    """The 16 stages of one log, by the public road; reserved is 22 % more."""
    row = next(
        row.cells
        for row in read(RAW / "memory" / "bigscience_2021_logs.csv.gz")
        if "base_n16" in row.cells["row_id"]
    )
    group = {
        one["row_id"].rpartition("stage")[2]: float(one["predicted"])
        for one in golden.rows("memory_2021")
        if one["row_id"].startswith(row["row_id"].rpartition("-stage")[0] + "-stage")
    }
    fields = {"layers": "layers", "hidden": "hidden", "feedforward": "ffn", "heads": "heads"}
    shape = {f"model.{name}": int(row[column]) for name, column in fields.items()}
    shape |= {"model.kv_heads": int(row["heads"]), "model.positions": int(row["seq"])}
    shape |= {"model.head_size": int(row["hidden"]) // int(row["heads"])}
    data = jr.fit(
        model="gpt2-1.5b",
        plan={"tp": int(row["tp"]), "pp": int(row["pp"]), "microbatch": int(row["mbs"])},
        system="h100-nvs8",
        global_batch=int(row["gbs"]),
        sequence=int(row["seq"]),
        software="megatron-2021",
        settings=shape,
    )
    assert len(group) == data.sizes["stage"] == 16
    assert data.allocated.values.tolist() == [group[str(stage)] for stage in range(16)]
    np.testing.assert_allclose(data.reserved, 1.22 * data.allocated, rtol=1e-12)
    np.testing.assert_array_equal(data.static + data.activations + data.transient, data.allocated)


def gpt3(**changed: Any) -> xr.Dataset:
    asked = {
        "model": "gpt3-175b", "system": "h100-nvs8", "plan": {"tp": 8, "pp": 12, "dp": 4},
        "global_batch": 256, "software": "deepspeed-2021",
    }  # fmt: skip
    return jr.fit(**{**asked, **changed})


def test_zero_1_of_2021_shards_the_optimizer() -> None:
    one = gpt3()
    none = gpt3(plan={"tp": 8, "pp": 12, "dp": 4, "zero": 0})
    np.testing.assert_allclose(one.optimizer_dense, none.optimizer_dense / 4, rtol=1e-12)
    assert np.all(one.allocated < none.allocated)
    assert np.all(one.transient >= 0.0)


def test_deepspeed_of_today_counts_states_as_its_papers_do() -> None:
    """Section 4.4: 16, 4 + 12 / G, 2 + 14 / G and 16 / G bytes a parameter."""
    expected = {0: 16.0, 1: 4.0 + 12.0 / 8.0, 2: 2.0 + 14.0 / 8.0, 3: 16.0 / 8.0}
    for stage, width in expected.items():
        data = small(software="deepspeed", plan={"dp": 8, "zero": stage})
        states = data.weights_dense + data.gradients_dense + data.optimizer_dense
        np.testing.assert_allclose(states / data.parameters_dense, width, rtol=1e-12)
        assert data.allocated.attrs["bound"] == "no bound: not measured"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"plan": {"dp": 4, "pp": 2}}, "pp: 2: not under fsdp2; expected 1"),
    ({"plan": {"dp": 8, "zero": 1}}, "zero: 1: not under fsdp2; expected 3"),
    ({"zero_stage": 2}, "zero: 2: not under fsdp2; expected 3"),
    ({"weight_bytes": 2}, "weight_bytes: 2: not under fsdp2; expected 4"),
    ({"model": "mixtral-8x7b"}, "model.experts: 8: not under fsdp2; expected 0"),
    ({"model": "gpt2-1.5b", "plan": {"dp": 8}}, "embeddings: tied: not under fsdp2; expected sep"),
    ({"modules": "mlp"}, "modules: no choice under fsdp2; leave it out"),
    ({"attention_kernel": "flash"}, "attention_kernel: no choice under fsdp2; leave it out"),
    ({"recompute": "selective"}, "recompute: selective: no such Fsdp2Recompute; expected one of"),
    ({"loss": "eager", "cross_entropy": "eager"}, "cross_entropy: given twice, as"),
    ({"compiled": "maybe"}, "compiled: maybe: no such answer; expected one of yes, no"),
    ({"plan": {"dp": 8, "replicas": 1.5}}, "plan: replicas: expected a whole number above 0"),
    ({"plan": {"dp": 8, "replicas": "x"}}, "plan: replicas: not a finite number, given 'x'"),
    ({"software": "megatron", "plan": {"dp": 8, "replicas": 2}}, "plan: replicas: no such plan"),
    ({"software": "deepspeed", "plan": {"dp": 8, "replicas": 2}}, "plan: replicas: not under deep"),
    ({"software": "deepspeed", "plan": {"dp": 4, "pp": 2, "zero": 3}}, "zero: 3: DeepSpeed"),
    ({"software": "megatron-2021"}, "mlp: gated: not under megatron-2021; expected plain"),
    ({"software": "megatron-2021", "model": "gpt3-175b", "plan": {"tp": 8, "sp": 1}},
        "sp: 1: not under megatron-2021; expected 0"),
    ({"software": "deepspeed-2021", "model": "gpt3-175b", "plan": {"tp": 8, "zero": 2}},
        "zero: 2: not under deepspeed-2021; expected 0 or 1"),
    ({"software": "megatron-2021", "model": "gpt3-175b", "plan": {"pp": 5},
        "layer_split": "even"}, "layer_split: not under megatron-2021; expected pp that divides"),
    ({"software": "fdsp2"}, "fdsp2: no such software. Did you mean 'fsdp2'?"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), REFUSED)
def test_what_a_software_cannot_do_is_one_line(changed: dict[str, Any], said: str) -> None:
    assert refused(small, **changed).startswith(said)


@pytest.mark.parametrize("name", catalog.names("software"))
def test_every_software_answers(name: str) -> None:
    data = gpt3() if "2021" in name else small(software=name)
    assert float(data.device.max()) > float(data.reserved.max()) >= float(data.allocated.max()) > 0
    assert bool(data.fits) == (float(data.device.max()) <= float(data.capacity))
