"""An estimator of two pools with a plan, limits and reasons of its own, for tests of the seam."""

from typing import Any

import numpy as np

import jaxroof as jr


@jr.record
class Pools:
    """The machine of both pools."""

    rate: float = jr.quantity("token/s", "Tokens a second of one accelerator.")
    latency: float = jr.quantity("s", "Of one step, for each rank.")
    memory: float = jr.quantity("B", "Of one accelerator.", resource="capacity")


@jr.record
class Bounds:
    """What may not be exceeded."""

    first: float | None = jr.quantity("s", "Time to the first token.", default=None)
    each: float | None = jr.quantity("s", "Time of each further token.", default=None)


@jr.record
class Plan:
    """The width of each pool, and the sequences of the second."""

    prefill: float = jr.quantity("1", "Ranks of the first pool.", whole=True, symbol="p")
    decode: float = jr.quantity("1", "Ranks of the second pool.", whole=True, symbol="d")
    batch: float = jr.quantity("1", "Sequences of the second pool.", whole=True, symbol="b")


@jr.record
class Inputs:
    """A prompt and its answer."""

    prompt: float = jr.quantity("token", "Tokens of the prompt.")
    widest: float = jr.quantity("1", "Most ranks of a pool.", whole=True)
    system: Pools
    limits: Bounds = Bounds()
    plan: Plan | None = None


@jr.record
class Report:
    """What a request takes."""

    cost: float = jr.quantity("s", "Accelerator time of a request.", headline=True)
    prefill_cost: float = jr.quantity("s", "Of the first pool.", part_of="cost", words="prefill")
    decode_cost: float = jr.quantity("s", "Of the second pool.", part_of="cost", words="decode")
    first: float = jr.quantity("s", "Time to the first token.")
    each: float = jr.quantity("s", "Time of each further token.")
    throughput: float = jr.quantity("1/s", "Tokens a second.", better="higher", headline=True)
    cache: float = jr.quantity("B", "Cache of one rank.", resource="capacity")


def filling(inputs: Inputs, recipe: Any, *, prefill: Any) -> Any:
    """Return the time of the prompt."""
    return inputs.prompt / (prefill * inputs.system.rate) + prefill * inputs.system.latency


def telling(inputs: Inputs, recipe: Any, *, decode: Any, batch: Any) -> Any:
    """Return the time of a token of every sequence."""
    return (8.0 + batch) / (decode * inputs.system.rate) + decode * inputs.system.latency


def step(inputs: Inputs, recipe: Any, *, filling: Any, telling: Any) -> Report:
    """Return what both pools take."""
    plan = inputs.plan
    assert plan is not None
    begin, go_on = plan.prefill * filling, 64.0 * plan.decode * telling / plan.batch
    return Report(
        cost=begin + go_on,
        prefill_cost=begin,
        decode_cost=go_on,
        first=filling,
        each=telling,
        throughput=plan.batch / telling,
        cache=1e9 * plan.batch / plan.decode,
    )


def candidates(inputs: Inputs, recipe: Any) -> jr.Candidates:
    """Return every pair of pools whose second has a sequence on each rank."""
    ranks = 2 ** np.arange(int(inputs.widest).bit_length())
    columns = np.meshgrid(ranks, ranks, 2 ** np.arange(9), indexing="ij")
    prefill, decode, batch = (column.ravel() for column in columns)
    legal = batch >= decode
    plans = {"prefill": prefill[legal], "decode": decode[legal], "batch": batch[legal]}
    return jr.Candidates(plans, {"batch_fills_pool": int((~legal).sum())})


def example() -> Inputs:
    """Return a prompt on pools of up to 16 ranks."""
    system = Pools(rate=1e3, latency=1e-4, memory=16e9)
    plan = Plan(prefill=2.0, decode=2.0, batch=8.0)
    return Inputs(prompt=1024.0, widest=16.0, system=system, plan=plan)


estimator = jr.Estimator(
    name="pools",
    about="Which two pools answer a prompt at the least cost?",
    inputs=Inputs,
    plan=Plan,
    parts={"filling": filling, "telling": telling},
    step=step,
    candidates=candidates,
    structural=("widest",),
    objective="cost",
    limits=(
        jr.Limit("cache", "system.memory"),
        jr.Limit("first", "limits.first"),
        jr.Limit("each", "limits.each"),
    ),
    reasons=lambda recipe: {"batch_fills_pool": "pools with idle ranks"},
    example=example,
)
