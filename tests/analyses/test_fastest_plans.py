"""The fastest plans of today's training: all plans that fit, timed, and what is said of them."""

import dataclasses
import json

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.analyses.training_plans import plans_asked, plans_on
from jaxroof.catalog.lookup import chip_of
from jaxroof.engine.search.candidates import with_plans
from jaxroof.errors import InputError
from jaxroof.estimators.training.step import training

ASKED = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}


def test_the_fastest_is_the_fastest_of_all_that_fit():
    data = jr.fastest_plans(**ASKED, gpus=16, top=5)
    asked = plans_asked(training, ASKED)
    machine = plans_on(asked, 16)
    need, plans = machine.need, machine.plans.whole()
    times = np.asarray(
        training.evaluate(
            with_plans(training, machine.question.inputs, plans), asked.recipe
        ).step_time
    )
    fits = need <= machine.limit
    np.testing.assert_allclose(data.step_time, np.sort(times[fits])[:5], rtol=1e-12)
    assert int(data.plans_feasible) == int(fits.sum())
    assert int(data.plans_legal) == len(times)
    assert np.all(data.memory <= data.capacity)
    alike = int(np.sum(times[fits] <= times[fits].min() * np.exp(0.085)))
    assert int(data.plans_alike) == alike > 1


def test_tokens_mfu_and_interval_are_those_of_the_time():
    data = jr.fastest_plans(**ASKED, gpus=8).isel(plan=0)
    tokens = 64 * 8192 / (float(data.step_time) * 8)
    assert float(data.tokens_per_second) == pytest.approx(tokens, rel=1e-12)
    found = jr.evaluate("mfu", {"model": "llama3-8b", "system": "h100-nvs8", "token_rate": tokens})
    assert float(data.mfu) == pytest.approx(float(found.mfu_megatron_causal), rel=1e-12)
    ratio = float(data.step_time_high) / float(data.step_time)
    assert ratio == pytest.approx(np.exp(0.116), rel=1e-12)
    assert float(data.step_time) / float(data.step_time_low) == pytest.approx(ratio, rel=1e-12)


def test_experts_and_few_bits_have_intervals_of_their_own():
    data = jr.fastest_plans(**(ASKED | {"model": "mixtral-8x7b"}), gpus=32)
    assert data.attrs["regime"] == "experts"
    data = jr.fastest_plans(**ASKED, gpus=8, **{"software.fp8": 1})
    assert data.attrs["regime"] == "dense, 8 or 4 bit"


def test_a_plan_of_ones_own_has_a_place():
    data = jr.fastest_plans(**ASKED, gpus=8, own="tp=2,pp=1,rc=1", top=1000)
    own = json.loads(str(data.own_plan.values))
    assert (own["tensor"], own["pipeline"], own["recompute"]) == (2, 1, 1)
    assert int(data.own_place) == 1 + int((data.step_time < float(data.own)).sum())
    tight = jr.fastest_plans(**ASKED, gpus=8, own="tp=1,pp=1,zero=0,rc=0,mb=1,off=0")
    assert float(tight.own_device) > float(tight.capacity)
    assert float(tight.own) > 0.0


def test_a_faster_machine_and_constants_change_the_time():
    base = float(jr.fastest_plans(**ASKED, gpus=8).step_time[0])
    for name, value in {
        "chip.matmul": 0.9,
        "system.hbm_bandwidth": "10 TB/s",
        "shared.launch": "1 us",
        "software.host": 0,
    }.items():
        assert float(jr.fastest_plans(**ASKED, gpus=8, **{name: value}).step_time[0]) <= base
    mine = dataclasses.replace(chip_of("h100-nvs8"), matmul=0.5)
    assert float(jr.fastest_plans(**ASKED, gpus=8, chip=mine).step_time[0]) > base


def test_a_precision_stands_for_bytes_and_rates():
    asked = {**ASKED, "system": "b200-180-sxm", "gpus": 8}
    named = jr.fastest_plans(**asked, precision="mxfp8")
    bytes_of = {"states.weight_bytes": 2.0625, "activations.linear_input_bytes": 1.03125}
    flags = {"software.fp8": 1, "software.micro_scaled": 1}
    spelled = jr.fastest_plans(**asked, settings={**bytes_of, **flags})
    assert float(named.step_time[0]) == float(spelled.step_time[0])
    assert float(named.memory[0]) == float(spelled.memory[0])
    assert float(named.step_time[0]) < float(jr.fastest_plans(**asked).step_time[0])
    plan = {"model": "llama3-8b", "plan": {"dp": 8}, "global_batch": 64}
    for system, weight in (("h100-nvs8", 2.0), ("b200-180-sxm", 1.0)):
        named = jr.fit(**plan, system=system, precision="fp8")
        spelled = jr.fit(**plan, system=system, weight_bytes=weight, linear_input_bytes=1)
        assert float(named.device[0]) == float(spelled.device[0])


def test_a_calibrated_chip_is_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "hopper"\nmatmul = 0.6\nown_dense_16_bit = 0.09\n')
    data = jr.fastest_plans(**ASKED, gpus=8, chip=str(path))
    same = jr.fastest_plans(**ASKED, gpus=8, **{"chip.matmul": 0.6})
    assert float(data.step_time[0]) == float(same.step_time[0])
    assert data.attrs["regime"] == "dense, 16 bit, own runs"
    assert float(data.step_time_high[0]) < float(same.step_time_high[0])


WRONG = [
    ({"chip": "hoppper"}, r"^hoppper: no such chip. Did you mean 'hopper'"),
    ({"precision": "fp9"}, r"^precision: fp9: no such number format"),
    ({"precision": "fp8", "system": "a100-80-sxm"},
     r"^precision: fp8: a100-80-sxm has no products at it; expected bf16"),
    ({"precision": "mxfp8"},
     r"^precision: mxfp8: h100-nvs8 has no products at it; expected bf16, fp8"),
    ({"system": "rtx-4090"}, "system.hbm_capacity"),
    ({"gpus": 1, "model": "llama3-70b"}, r"^plan: none of .* fits on 1 accelerators"),
    ({"gpus": 13}, r"^plan: none is legal on 13 accelerators"),
    ({"chip.matmull": 0.5}, r"^system.chip.matmull: .*Did you mean 'system.chip.matmul'"),
    ({"software.zero": 3}, r"^software.zero: "),
    ({"shared.launch": "-1 us"}, r"^shared.launch"),
    ({"chip.matmul": 2}, r"^system.chip.matmul"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_bad_input_is_one_line(changes, said):
    with pytest.raises(InputError, match=said):
        jr.fastest_plans(**{**ASKED, "gpus": 8, **changes})


def test_the_lean_plan_is_the_leanest_of_those_not_much_slower():
    data = jr.fastest_plans(**ASKED, gpus=16)
    asked = plans_asked(training, ASKED)
    machine = plans_on(asked, 16)
    plans = machine.at(machine.fitting)
    times = np.asarray(
        training.evaluate(
            with_plans(training, machine.question.inputs, plans), asked.recipe
        ).step_time
    )
    near = (times <= times.min() * 1.1) & (plans["offload_optimizer"] == 0)
    assert float(data.lean_memory) == machine.need[machine.fitting][near].min()
