"""What people type of a server: names, formats, lists, refusals in one line; pairs of pools."""

import dataclasses
import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jaxroof as jr
from jaxroof.analyses.rerun import rerun
from jaxroof.catalog import lookup as named
from jaxroof.catalog.serving_software import serving_software
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.estimators.serving.inputs import FORMATS, LARGEST
from jaxroof.estimators.serving.named_settings import formats
from jaxroof.estimators.serving.plans import BATCHES, close

ASKED: dict[str, Any] = {
    "model": "llama3-70b", "system": "h100-nvs8", "gpus": 16, "prompt": 4096, "output": 1024,
    "ttft": 2.0, "tpot": 0.05,
}  # fmt: skip
OTHERS = {"serving": (), "serving_prefill": ("output", "tpot"), "serving_decode": ("ttft",)}


def ask(name: str = "serving", axes: Any = None, where: str = "", **changed: Any) -> Any:
    settings = {key: value for key, value in ASKED.items() if key not in OTHERS[name]} | changed
    return jr.search(name, axes=axes, where=where, **settings)


def test_pairs_of_pools_are_the_best_of_all_pairs():
    """Each pool is searched by itself: P + D plans have the best of P x D pairs."""
    cost, best = [], 0.0
    for name in ("serving_prefill", "serving_decode"):
        settings = {key: value for key, value in ASKED.items() if key not in OTHERS[name]}
        every = jr.survey(name, **settings)
        cost.append(every.accelerator_time.values[every.feasible.values])
        best += float(ask(name).accelerator_time)
    assert best == min(p + d for p, d in itertools.product(*cost))


def test_ladder_of_batches():
    assert (len(BATCHES), BATCHES[0], BATCHES[-1]) == (48, 1, LARGEST)
    without = ask(tpot=None, ttft=None, model="gpt-oss-20b", prompt=16, output=16, gpus=1)
    assert int(without.batch) == LARGEST
    assert float(without.last_batch) == 1.0
    assert float(ask().last_batch) == 0.0


FORMS = {  # precision, system, model: formats of attention and of MLPs
    (None, "h100-nvs8", "llama3-70b"): ("fp8", "fp8"),
    (None, "a100-80-sxm", "llama3-70b"): ("bf16", "bf16"),
    (None, "h200-141-sxm", "gpt-oss-120b"): ("bf16", "mxfp4-16"),
    (None, "gb200-nvl72", "gpt-oss-120b"): ("bf16", "mxfp4-8"),
    ("fp4", "gb200-nvl72", "deepseek-v3"): ("fp8", "fp4"),
    ("fp4", "gb200-nvl72", "llama3-70b"): ("fp4", "fp4"),
    ("mxfp4", "mi300x", "llama3-70b"): ("bf16", "mxfp4-16"),
    ("bf16:fp8", "mi300x", "llama3-70b"): ("bf16", "fp8"),
}


@pytest.mark.parametrize("asked", FORMS, ids=str)
def test_formats(asked: tuple[str, str, str]):
    found = formats(*asked)
    assert tuple(FORMATS[int(place)] for place in found.values()) == FORMS[asked]


def test_systems_read_their_rates():
    torus = named.serving_system("tpu-v6e")
    assert (float(torus.fast_domain), float(torus.fast_bandwidth)) == (256.0, 4e11)
    assert named.serving_system("mi300x").fp4_flops is None
    assert float(named.serving_system("b200-180-sxm").fp4_flops) == 9e15


def test_names_along_axes_are_searches_one_by_one():
    points = {"system": ["h100-nvs8", "b200-180-sxm", "tpu-v6e"], "precision": ["fp8", "fp4", None]}
    points["precision"][2] = "bf16"
    found = ask(axes={"m": points}, system=None)
    for place, (system, precision) in enumerate(zip(*points.values(), strict=True)):
        one = ask(system=system, precision=precision)
        for name in ("batch", "chunk", "accelerator_time", "tpot_high"):
            assert float(found[name][place]) == pytest.approx(float(one[name]), rel=1e-12)
    assert rerun(found).identical
    stacks = ask(axes={"software": ["vllm-2026", "start"]})
    assert rerun(stacks).identical
    assert [*stacks.engine.values] == ["vllm-2026", "start"]
    own = ask(software=serving_software("start"))
    assert float(stacks.tpot[1]) == float(own.tpot)
    caches = ask(axes={"cache": ["bf16", "fp8"]})
    assert float(caches.tpot[1]) == float(ask(cache="fp8").tpot)


def test_rows_have_names_too():
    """Names in the cells of a table stand for numbers, on systems that are records by then."""
    plan = {"tp": 4, "batch": 64, "chunk": 512}
    asked = {key: value for key, value in ASKED.items() if key not in ("ttft", "tpot")} | plan
    rows = [
        {"precision": "fp8", "software": "vllm-2026", "cache": "fp8", "system": "h100-nvs8"},
        {"precision": "fp4", "software": "start", "cache": "bf16", "system": "b200-180-sxm"},
    ]
    found = jr.evaluate_rows("serving", pd.DataFrame([{**asked, **row} for row in rows]))
    for place, row in enumerate(rows):
        one = jr.evaluate("serving", **{**asked, **row})
        assert float(found["tpot"][place]) == pytest.approx(float(one.tpot), rel=1e-12)


def test_memory_is_that_of_the_engine():
    less = ask(**{"software.usable": 0.6})
    assert float(less.memory) < 0.6 * 85.52e9 < float(ask().memory)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "one token": ({"output": 1}, "output: expected a finite number of at least 2"),
    "every hit": ({"hit": 1.0}, "hit: given 1: every token of a prompt is in the cache"),
    "ttft 0": ({"ttft": 0}, "ttft: expected a finite number above 0 [s], given 0"),
    "tpot nan": ({"tpot": float("nan")}, "tpot: expected a finite number above 0 and at most 10"),
    "no prompt": ({"prompt": 0}, "prompt: expected a finite number above 0"),
    "gpus 0": ({"gpus": 0}, "gpus: expected a whole number above 0"),
    "acceptance": ({"workload.acceptance": 1.5}, "acceptance: expected a finite number"),
    "usable": ({"software.usable": 1.2}, "usable: expected a finite number above 0 and at most 1"),
    "tile": ({"software.tile": 0}, "tile: expected a finite number above 0"),
    "experts": ({"model.active_experts": 3}, "active_experts: given 3; expected at most 0"),
    "window": ({"model.windowed_layers": 4}, "without effect while model.window is 0"),
    "format": ({"precision": "fp4"}, "h100-nvs8: fp4: the chip's rate in that format is not known"),
    "its path": ({"precision.mlp_format": "fp4"}, "fp4: the chip's rate in that format is not"),
    "no format": ({"precision": "fp9"}, "precision: fp9: no such number format of a server"),
    "no cache": ({"cache": "int4"}, "cache: int4: no such number format of a cache"),
    "software": ({"software": "vlm"}, "software: vlm: no such software that serves"),
    "layers": ({"model": "nemotron-3-nano-30b-a3b"}, "Mamba-2 layers: no formula of serving"),
    "two": ({"precision": "fp8", "axes": {"precision": ["fp8"]}}, "beside the axes too"),
    "apart": (
        {"axes": {"system": ["h100-nvs8", "gb200-nvl72"], "model": ["gpt-oss-20b"] * 1},
         "system": None, "model": None, "software": "start", "precision": "fp4"}, "fp4: the chip's"
    ),
    "degree": ({"own": "tp=3"}, "tensor=3: not legal (replicas that do not fill the accelerators"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_inputs_in_one_line(name: str):
    changed, words = REFUSED[name]
    with pytest.raises(InputError) as error:
        ask(**changed)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_no_network_between_domains():
    """Plans beyond a fast domain are refused, the others are answered; no cache is handed over."""
    full = named.serving_system("h100-nvs8")
    system = dataclasses.replace(full, slow_bandwidth=None)
    found, full = (ask(system=one, where="pp<=8", software="start") for one in (system, full))
    assert 0 < int(found.plans_legal) < int(full.plans_legal)
    assert float(found.accelerator_time) == float(full.accelerator_time)
    words = "no bandwidth between fast domains is known"
    assert words in estimator("serving").reasons(None)["slow_bandwidth_known"]
    none = ask(system=system, where="tp=8,pp=2")
    assert words in none.attrs["none_legal"]
    with pytest.raises(InputError, match=words):
        ask("serving_prefill", system=system)


def test_chunks_of_a_sequence_count_as_all_of_it():
    given: dict[str, Any] = {"model": "llama-4-scout-text", "prompt": 65536}
    whole = {"model.windowed_layers": 0, "model.window": 0, "model.chunked": 0}
    assert float(ask(**given).ttft) == float(ask(**given, **whole).ttft)


def test_a_load_is_carried_or_says_how_many_could():
    assert bool(ask(load=3.0).feasible)
    found = ask(load=50.0)
    assert not bool(found.feasible)
    assert float(found.load_gpus_missing) > 0.0
    enough = 16 + int(found.load_gpus_missing)
    assert bool(ask(load=50.0, gpus=16 * -(-enough // 16)).feasible)


def test_stages_are_tried_where_a_rule_names_them():
    assert int(ask().pipeline) == 1
    assert int(ask(where="pp<=8").plans_legal) > int(ask().plans_legal)


def test_why_not_and_close():
    why = estimator("serving").why_not
    inputs = dataclasses.replace(estimator("serving").example(), gpus=21.0)
    assert "not legal (tensor degrees that cut a head)" in why(inputs, None, {"tensor": 7})
    assert "a search tries 4871 and 5793" in why(inputs, None, {"batch": 5000})
    assert why(inputs, None, {"tensor": 1, "batch": 64}) == ""
    assert 0.05 < close({"regime": np.float64(0.0)}) < 0.2


def test_jax_is_not_imported():
    said = "import jaxroof as jr, sys; jr.search('serving', **{}); print('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", said.format(ASKED)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_design_keeps_limits_that_hold_on_any_machine():
    field = "system.hbm_bandwidth"
    priced = {"prices": {field: {"price": 0.6, "per": "1 GB/s"}}, "budget": 3000.0}
    asked = {**ASKED, "tpot": 0.2}
    found = jr.design("serving", **priced, bounds={field: ("1 TB/s", "9 TB/s")}, settings=asked)
    best = found.isel(machine=-1)
    assert float(best["chunks"]) <= 1.0
    assert float(best.busy) < 1.0
    moved = ask(tpot=0.2, **{field: float(best["value"].sel(field=field))})
    assert float(best.accelerator_time) == pytest.approx(float(moved.accelerator_time))
