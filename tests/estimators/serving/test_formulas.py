"""Formulas of a server: golden rows, check values, traps."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from serving_rows import Rows, by_recipe, column, inputs, rows

from jaxroof.estimators import estimator
from jaxroof.estimators.serving import memory, server
from jaxroof.estimators.serving import step as steps
from jaxroof.estimators.serving.inputs import (
    DecodePlan,
    PrefillPlan,
    ServingLimits,
    ServingPlan,
)
from jaxroof.estimators.serving.serving import serving


def check(report: Any, some: Rows, rtol: float = 1e-12) -> None:
    for name in [name for name in some[0] if name.startswith("out_")]:
        expected = column(some, name)
        found = np.broadcast_to(getattr(report, name.removeprefix("out_")), expected.shape)
        assert np.isfinite(expected).all(), name
        np.testing.assert_allclose(found, expected, rtol=rtol, err_msg=name)


def test_golden_steps():
    for recipe, some in by_recipe(rows("steps")):
        asked = inputs(some, ServingPlan)
        plan, output = asked.plan, asked.workload.output
        found = steps.step(asked, recipe, plan, plan.chunk, plan.batch, output)
        total = column(some, "out_step")
        np.testing.assert_allclose(found.total, total, rtol=1e-12)
        for name, value in found.parts._asdict().items():
            off = np.abs(value - column(some, f"out_{name}"))
            assert (off <= 1e-12 * total).all(), name


def test_golden_memory():
    for recipe, some in by_recipe(rows("memory")):
        asked = inputs(some, ServingPlan)
        found = memory.server_memory(asked, recipe)
        named = {name.removeprefix("memory_"): value for name, value in found.items()}
        named |= {"need": found["memory"], "limit": memory.memory_limit(asked)}
        named["sequence"] = found["memory_sequences"] * asked.plan.data / asked.plan.batch
        for name in ("weights", "sequence", "working", "need", "limit", "largest_batch"):
            expected = column(some, f"out_{name}")
            np.testing.assert_allclose(named[name], expected, rtol=1e-12, err_msg=name)


def test_golden_servers():
    for recipe, some in by_recipe(rows("servers")):
        check(serving.evaluate(inputs(some, ServingPlan), recipe), some)


@pytest.mark.parametrize("pool", ["serving_prefill", "serving_decode"])
def test_golden_pools(pool: str):
    plan = {"serving_prefill": PrefillPlan, "serving_decode": DecodePlan}[pool]
    kind = pool.removeprefix("serving_")
    rename = {"out_step": f"out_step_{'prompt' if kind == 'prefill' else 'decode'}"}
    for recipe, every in by_recipe(rows("pools")):
        chosen = [row for row in every if row["pool"] == kind]
        some = [{rename.get(k, k): v for k, v in row.items() if v} for row in chosen]
        check(estimator(pool).evaluate(inputs(some, plan), recipe), some)


def test_golden_closed_loops():
    for recipe, every in by_recipe(rows("closed")):
        some = [{**row, "batch": "1"} for row in every]
        users = column(some, "loop_users")
        looped = server.closed_loop(inputs(some, ServingPlan), recipe, users)
        np.testing.assert_allclose(looped.plan.batch, column(some, "out_batch"), rtol=1e-11)
        kept = [{k: v for k, v in row.items() if k != "out_batch"} for row in some]
        report = serving.evaluate(looped, recipe)
        check(report, kept, 1e-11)
        np.testing.assert_allclose(report.users, users, rtol=1e-12)


def test_golden_shares():
    for recipe, every in by_recipe(rows("shares")):
        some = [{**row, "share": row["out_share"] or "0.5"} for row in every]
        limits = ServingLimits(ttft=column(some, "ttft_limit"))
        asked = dataclasses.replace(inputs(some, PrefillPlan), limits=limits)
        prompt = steps.step(asked, recipe, asked.plan, asked.plan.chunk)
        share = server.best_share(asked, recipe, prompt=prompt)
        any_share = column(some, "any") == 1.0
        np.testing.assert_array_equal(share > 0.0, any_share)
        np.testing.assert_allclose(
            share[any_share], column(some, "out_share")[any_share], rtol=1e-12
        )
        report = estimator("serving_prefill").evaluate(asked, recipe)
        for name in ("service", "transfer"):
            np.testing.assert_allclose(
                getattr(report, name), column(some, f"out_{name}"), rtol=1e-12
            )
        for name in ("ttft", "rate", "accelerator_time", "memory"):
            found = getattr(report, name)[any_share]
            np.testing.assert_allclose(found, column(some, f"out_{name}")[any_share], rtol=1e-12)
