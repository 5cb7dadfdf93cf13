"""Laws of servers on the golden rows, their check values, and mistakes that are easily made."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
import pytest
from serving_rows import by_recipe, inputs, rows

from jaxroof.catalog import lookup as named
from jaxroof.dual import Dual, slope_of
from jaxroof.estimators import estimator
from jaxroof.estimators.serving import memory, server
from jaxroof.estimators.serving import step as steps
from jaxroof.estimators.serving.inputs import (
    DecodePlan,
    Precision,
    PrefillPlan,
    ServingInputs,
    ServingPlan,
    Workload,
)
from jaxroof.estimators.serving.model_numbers import Numbers, keys, numbers
from jaxroof.estimators.serving.serving import serving
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.records import checked, get_at, leaves, replace_at

SHARES = [f"software.{n}" for n in ("matrix", "attend", "hbm", "cache", "link", "far", "exchange")]
RATES = [
    f"system.{name}_{kind}"
    for kind, names in {
        "flops": ("matrix", "fp8", "fp4"), "bandwidth": ("hbm", "fast", "slow")
    }.items()
    for name in names
]  # fmt: skip
LATENCIES = [
    f"software.{name}"
    for name in (
        *("layer", "latent_layer", "expert_layer", "host_layer", "host_step", "request", "hop"),
        *("hop_far", "exchange_latency", "exchange_latency_far", "first"),
    )
]
BETTER = {**dict.fromkeys(RATES, 1.7), **dict.fromkeys(SHARES, 1.05)} | dict.fromkeys(
    LATENCIES, 0.6
)
TIMES = ("accelerator_time", "tpot", "ttft", "step_decode", "step_prompt", "step_mixed", "wait")


@functools.cache
def cases(name: str) -> list[tuple[Any, ServingInputs]]:
    """Return the recipes and the inputs of golden rows, columns of plans."""
    if name == "serving":
        return [(recipe, inputs(some, ServingPlan)) for recipe, some in by_recipe(rows("servers"))]
    plan = PrefillPlan if name == "serving_prefill" else DecodePlan
    every = [row for row in rows("pools") if name.endswith(row["pool"])]
    return [(recipe, inputs(some, plan)) for recipe, some in by_recipe(every)]


def changed(asked: Any, paths: dict[str, float]) -> Any:
    for path, factor in paths.items():
        asked = replace_at(asked, path, get_at(asked, path) * factor)
    return asked


@pytest.mark.parametrize("name", ["serving", "serving_prefill", "serving_decode"])
def test_parts_sum_to_the_whole(name: str):
    for recipe, asked in cases(name):
        report = estimator(name).evaluate(asked, recipe)
        sums: dict[str, Any] = {}
        for field in dataclasses.fields(report):
            if whole := field.metadata["part_of"]:
                sums[whole] = sums.get(whole, 0.0) + getattr(report, field.name)
        assert {"accelerator_time", "memory"} <= {*sums}
        for whole, total in sums.items():
            np.testing.assert_allclose(total, getattr(report, whole), rtol=1e-12)


@pytest.mark.parametrize("name", ["serving", "serving_prefill", "serving_decode"])
def test_faster_parts_never_slow(name: str):
    for recipe, asked in cases(name):
        # where arrivals come by chance, the same batch at a faster rate may wait longer in a server
        held = replace_at(asked, "workload.variation", 0.0) if name == "serving" else asked
        before = estimator(name).evaluate(held, recipe)
        behind = getattr(before, "chunks", 0.0) > 1.0
        for path, factor in BETTER.items():
            after = estimator(name).evaluate(changed(held, {path: factor}), recipe)
            for field in TIMES:
                if hasattr(before, field):
                    slower = getattr(after, field) > getattr(before, field) * (1.0 + 1e-12)
                    assert not np.any(slower & ~behind), (path, field)


@pytest.mark.parametrize("name", ["serving", "serving_prefill", "serving_decode"])
def test_times_are_homogeneous(name: str):
    scale = dict.fromkeys(RATES, 3.0) | dict.fromkeys(LATENCIES, 1.0 / 3.0)
    for recipe, asked in cases(name):
        before = estimator(name).evaluate(asked, recipe)
        after = estimator(name).evaluate(changed(asked, scale), recipe)
        for field in TIMES:
            if hasattr(before, field):
                found = 3.0 * getattr(after, field)
                np.testing.assert_allclose(found, getattr(before, field), rtol=1e-11)


def ladder(name: str) -> list[tuple[Any, Any]]:
    """Return inputs and reports of every golden plan at rising batches, a row each batch."""
    found = []
    batches = 2.0 ** np.arange(14)[:, None]
    for recipe, asked in cases(name):
        plan = dataclasses.replace(asked.plan, batch=batches)
        rising = dataclasses.replace(asked, plan=plan)
        found.append((rising, estimator(name).evaluate(rising, recipe)))
    return found


def test_batches_raise_users_and_the_time_of_a_token():
    for asked, report in ladder("serving"):
        rising = (np.diff(report.users, axis=0) > 0.0) & (np.diff(report.memory, axis=0) > 0.0)
        assert rising.all()
        later = report.chunks[1:] <= 1.0
        assert (np.diff(report.tpot, axis=0)[later] > 0.0).all()
        more = serving.evaluate(changed(asked, {"plan.chunk": 2.0}))
        assert (more.memory >= report.memory).all()
    for asked, report in ladder("serving_decode"):
        assert (np.diff(report.tpot, axis=0) > 0.0).all()
        dense = np.broadcast_to(asked.model.experts == 0.0, report.tpot[1:].shape)
        assert (np.diff(report.accelerator_time, axis=0)[dense] < 0.0).all()


def test_one_accelerator_has_no_messages():
    for recipe, asked in cases("serving"):
        one = dict.fromkeys(("tensor", "data", "pipeline"), 1.0)
        alone = dataclasses.replace(asked, plan=dataclasses.replace(asked.plan, **one))
        report = serving.evaluate(alone, recipe)
        for part in ("all_reduce", "exchange", "pipeline"):
            assert np.all(getattr(report, f"part_{part}") == 0.0)


def test_drafts_give_from_one_token_to_all():
    drafts, taken = np.meshgrid(np.arange(9.0), [0.0, 1e-9, 0.3, 0.9, 1.0 - 1e-9, 1.0])
    work = Workload(prompt=1.0, output=2.0, drafts=drafts, acceptance=taken)
    found = server.tokens_a_step(work)
    expected = sum(np.where(n <= drafts, taken**n, 0.0) for n in range(9))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert (found >= 1.0 - 1e-15).all()
    assert (found <= drafts + 1.0 + 1e-15).all()


def test_the_program_of_a_closed_loop_and_of_a_share():
    recipe, asked = cases("serving")[0]
    users = 4.0 * asked.plan.batch
    found = server.closed_loop(asked, recipe, users)
    report = serving.evaluate(found, recipe)
    np.testing.assert_allclose(report.users, users, rtol=1e-12)
    compiled = jax.jit(lambda given: server.closed_loop(given, recipe, users).plan.batch)(asked)
    np.testing.assert_allclose(compiled, found.plan.batch, rtol=1e-12)


def test_every_slope_is_finite():
    for recipe, asked in cases("serving"):
        paths = [path for path, field, _ in leaves(asked) if not field.metadata["whole"]]
        moved = asked
        for along, path in zip(np.eye(len(paths)), paths, strict=True):
            value = np.broadcast_to(get_at(asked, path), asked.plan.batch.shape)
            slope = np.outer(along, np.ones(len(value)))
            moved = replace_at(moved, path, Dual(value, slope))
        report = serving.evaluate_checked(moved, recipe)
        for field, value in vars(report).items():
            assert np.isfinite(slope_of(value)).all(), field


def test_waits_by_share_of_requests():
    assert float(server.wait_quantile(0.5, 0.0, 0.9)) == 0.0
    assert float(server.wait_quantile(0.5, 0.05, 0.9)) == 0.0
    found = server.wait_quantile(0.5, np.array([0.5, 0.9]), 0.9)
    np.testing.assert_allclose(found, [np.log(5.0), 0.5 * np.log(9.0) / 0.9])


# ---- Check values -------------------------------------------------------------------------------


def asked_of(model: str, **given: Any) -> tuple[ServingInputs, Any]:
    """Return a server of a model on 8 H100 or on a rack of GB200."""
    found = named.architecture(model)
    where = "h100-nvs8" if model.startswith("llama") else "gb200-nvl72"
    row = next(row for row in rows("systems") if row["system"] == where)
    rates = {key: float(value) for key, value in row.items() if key != "system"}
    system = dataclasses.replace(named.system("h100-nvs8"), **rates)
    plan = ServingPlan(**{"batch": 64.0, "chunk": 1024.0, **given})
    fp8 = Precision(attention_format=1.0, mlp_format=1.0)
    work = Workload(prompt=1024.0, output=1024.0)
    base = ServingInputs(model=found, system=system, precision=fp8, workload=work, plan=plan)
    return checked(base), Recipe()


def test_check_values_of_models():
    llama = numbers(asked_of("llama3-70b")[0].model, Recipe())
    assert float(keys(llama, 1024.0, 2048.0)) == 1536.0
    gemma = numbers(named.architecture("gemma3-27b"), Recipe())
    assert float(keys(gemma, 0.0, 8192.0)) == pytest.approx(1465.8064516129032, rel=1e-15)
    deepseek = numbers(named.architecture("deepseek-v3"), Recipe())
    found = [deepseek.attention, deepseek.cached, deepseek.decode_flops, deepseek.prompt_flops]
    assert [float(one) for one in found] == [187105280.0, 576.0, 278528.0, 81920.0]


def test_check_values_of_servers():
    names = ("step_decode", "tpot", "ttft", "accelerator_time", "memory")
    asked, recipe = asked_of("llama3-70b", tensor=4.0)
    report = serving.evaluate(asked, recipe)
    expected = (
        *(0.019530890574883785, 0.022473650921095076, 0.1715610479307578, 1.4369090557675164),
        33061971968.0,
    )
    found = [float(getattr(report, name)) for name in names]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(report.largest_batch, 325.3051480737764, rtol=1e-12)
    asked, recipe = asked_of("deepseek-v3", data=16.0, whole=1.0, batch=1024.0, chunk=16384.0)
    for path, value in {
        "precision.mlp_format": 2.0, "precision.cache_width": 1.0, "workload.prompt": 4096.0
    }.items():  # fmt: skip
        asked = replace_at(asked, path, np.float64(value))
    report = serving.evaluate(asked, recipe)
    expected = (
        *(0.019601111616826216, 0.030971118386046364, 0.5271095752331602, 0.4950539704519598),
        55995672576.0,
    )
    found = [float(getattr(report, name)) for name in names]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_check_values_of_a_closed_loop():
    asked, recipe = asked_of("llama3-70b", tensor=4.0)
    asked = replace_at(asked, "workload.variation", np.float64(server.QUEUED))
    looped = server.closed_loop(asked, recipe, 64.0)
    report = serving.evaluate(looped, recipe)
    found = [float(looped.plan.batch), float(report.tpot), float(report.ttft)]
    expected = [63.53571263886502, 0.02240369224141797, 0.16748047649030665]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


# ---- Mistakes that are easily made --------------------------------------------------------------


def report_of(model: str, **given: Any) -> Any:
    asked, recipe = asked_of(model, **given)
    return serving.evaluate(asked, recipe)


def cache_of(model: str, tensor: float) -> float:
    """Return the bytes of a sequence's cache on a rank, without its logits."""
    asked, recipe = asked_of(model, tensor=tensor)
    sequence = memory.server_memory(asked, recipe)["memory_sequences"] / asked.plan.batch
    return float(sequence - memory.LOGITS * asked.model.vocabulary / tensor)


def test_a_tensor_degree_above_the_heads_copies_the_cache():
    assert cache_of("llama3-70b", 8.0) == pytest.approx(cache_of("llama3-70b", 1.0) / 8.0)
    assert cache_of("llama3-70b", 16.0) == pytest.approx(cache_of("llama3-70b", 8.0))
    assert cache_of("deepseek-v3", 8.0) == pytest.approx(cache_of("deepseek-v3", 1.0))


def test_where_experts_lie_changes_no_bytes():
    sliced, whole = (report_of("deepseek-v3", data=16.0, whole=one) for one in (0.0, 1.0))
    assert float(sliced.memory) == float(whole.memory)
    assert float(sliced.tpot) == float(whole.tpot)


def test_touched_experts_decide_the_bytes():
    model = numbers(named.architecture("deepseek-v3"), Recipe())
    few: Numbers = model._replace(experts=128.0, active=1.0)
    assert float(steps.touched(few, 1.0, 1.0)) == pytest.approx(1.0)
    assert float(steps.touched(few, 32.0, 1.0)) < 32.0
    even = 128.0 * (1.0 - (1.0 - 1.0 / 128.0) ** 32)
    assert float(steps.touched(few, 32.0, 1e-9)) == pytest.approx(even, rel=1e-6)


def test_a_batch_is_of_the_replica():
    one, two = (report_of("llama3-70b", pipeline=stages) for stages in (1.0, 2.0))
    assert float(two.part_cache) == pytest.approx(float(one.part_cache))
    assert float(two.rate * two.tpot) == pytest.approx(float(one.rate * one.tpot))


def test_the_fullest_stage_sets_the_pace():
    asked, recipe = asked_of("deepseek-v3", pipeline=8.0, batch=64.0)
    found = steps.step(asked, recipe, asked.plan, 0.0, asked.plan.batch, asked.workload.output)
    layers = asked.software.layer * 61.0 + asked.software.latent_layer * 61.0
    layers = layers + asked.software.expert_layer * 58.0
    assert float(found.parts.launch) == pytest.approx(float(layers) * 64.0 / 61.0)


def test_eight_bits_hold_twice_the_sequences():
    asked, recipe = asked_of("llama3-70b", tensor=8.0)
    half = replace_at(asked, "precision.cache_width", np.float64(1.0))
    one, two = (serving.evaluate(some, recipe) for some in (asked, half))
    assert 1.9 < float(two.largest_batch / one.largest_batch) < 2.0


def test_a_prompt_stays_on_one_rank():
    spread = {"data": 16.0, "whole": 1.0, "batch": 1024.0}
    one = report_of("deepseek-v3", **spread, chunk=1024.0)  # a rank has 64 of them
    assert float(one.service) == pytest.approx(16.0 * float(one.step_mixed))
    many = report_of("deepseek-v3", **spread, chunk=32768.0)
    assert float(many.service) == float(many.step_mixed)


def test_a_share_without_a_queue():
    recipe, asked = cases("serving_prefill")[0]
    paced = replace_at(asked, "workload.variation", np.zeros_like(asked.workload.variation))
    limits = dataclasses.replace(paced.limits, ttft=np.full_like(paced.plan.chunk, 1e3))
    paced = dataclasses.replace(paced, limits=limits)
    prompt = steps.step(paced, recipe, paced.plan, paced.plan.chunk)
    assert (server.best_share(paced, recipe, prompt=prompt) == 1.0).all()
