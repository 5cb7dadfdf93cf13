"""A server under load, on the same accelerators or in two pools: prefill and decode.

Source: docs/models/serving.md, sections 6 and 7; letters as there.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from jaxroof.estimators.serving.inputs import LARGEST, ServingInputs, Workload
from jaxroof.estimators.serving.interval import first_half_width, regime, token_half_width
from jaxroof.estimators.serving.legality import (
    DECODE_LIMITS,
    DECODE_RULES,
    LIMITS,
    PREFILL_LIMITS,
    PREFILL_RULES,
    RULES,
    judged,
)
from jaxroof.estimators.serving.memory import cache_bytes, prefill_memory, server_memory
from jaxroof.estimators.serving.model_numbers import numbers
from jaxroof.estimators.serving.report import DecodeReport, PrefillReport, ServingReport
from jaxroof.estimators.serving.step import Parts, Step, machine, step
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import ceiling, exp, expm1, larger, log, loop, where
from jaxroof.records import Number, value_or

FREE = 1e-3  # least share of the time that is taken to be without prompts
RATED = 0.75  # mean power over rated power, unless given
HALVINGS = 64  # of the batch of a closed loop
QUEUED = 0.5  # variation of a closed loop: a finite population queues less than arrivals by chance
LEAST = 1e-300  # of a number that is divided by
Found = dict[str, Number]  # results by name


def tokens_a_step(work: Workload) -> Number:
    """Return the tokens that a sequence gets in a step.

    tau = (1 - a^(g + 1)) / (1 - a); g + 1 at a = 1
    """
    most, missed = work.drafts + 1.0, 1.0 - work.acceptance
    sure = most * (1.0 - work.drafts * missed / 2.0)
    got = -expm1(most * log(larger(work.acceptance, LEAST)))
    return where(missed > 0.0, got / where(missed > 0.0, missed, 1.0), sure)


def wait(variation: Number, busy: Number, service: Number) -> Number:
    """Return the mean wait for prompts before: variation rho s / (2 max(1 - rho, 1e-3))."""
    return variation * busy * service / (2.0 * larger(1.0 - busy, FREE))


def wait_quantile(mean: Number, busy: Number, level: Number) -> Number:
    """Return the wait that a share of requests does not exceed.

    max(0, ln(rho / (1 - level))) mean / rho; 0 at rho = 0
    """
    some = where(busy > 0.0, busy, 1.0)
    return where(busy > 0.0, larger(log(some / (1.0 - level)), 0.0) * mean / some, 0.0)


def _service(inputs: ServingInputs, one: Number) -> Number:
    """Return the seconds of a prompt's own steps, on its rank: max(nu D / c, 1) one."""
    plan: Any = inputs.plan
    return larger(inputs.workload.new * plan.data / plan.chunk, 1.0) * one


def _transfer(inputs: ServingInputs, recipe: Recipe) -> Number:
    """Return the seconds of handing a cache over: all of it, or the last layer's.

    hop_far + L held(I) w cache_width / (layerwise ? L : 1) / (min(t, kappa') slow)
    """
    plan: Any = inputs.plan
    model, software = numbers(inputs.model, recipe), inputs.software
    layers = where(software.layerwise > 0.0, 1.0, model.layers)
    moved = cache_bytes(inputs, model, plan, inputs.workload.prompt, layers)
    return software.hop_far + moved / machine(inputs).slow


# ---- Rates and latencies ------------------------------------------------------------------------


def served(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> Found:
    """Return a server from its steps: without prompts, prompts alone, and with prompts.

    tpot = (decode (1 + g draft_share) + phi extra) / tau, phi = b nu tau / ((O - 1) c),
    rate = b / ((O - 1) tpot), service = max(nu D / c, 1) lasts, rho = rate nu / c lasts;
    prompts ride in decode steps (mixed, extra = both - decode, lasts = both) or have their own
    """
    work, software = inputs.workload, inputs.software
    plan: Any = inputs.plan
    plain, riding, alone = decode.total, both.total, prompt.total
    tokens, later, mixed = tokens_a_step(work), work.output - 1.0, software.mixed
    chunks = plan.batch * work.new * tokens / (later * plan.chunk)
    extra = mixed * (riding - plain) + (1.0 - mixed) * alone
    lasts = mixed * riding + (1.0 - mixed) * alone
    tpot = (plain * work.slowed + chunks * extra) / tokens
    rate = plan.batch / (later * tpot)
    busy = rate * work.new / plan.chunk * lasts
    start, service = software.first + software.first_steps * tpot * tokens, _service(inputs, lasts)
    waits = wait(work.variation, busy, service)
    return {
        "accelerator_time": plan.accelerators / rate,
        "rate": rate,
        "tpot": tpot,
        "ttft": start + service + waits,
        "start": start,
        "service": service,
        "wait": waits,
        "busy": busy,
        "chunks": chunks,
    }


def prefilled(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> Found:
    """Return a prefill pool that is busy for a share of the time, from its step.

    rate = rho c / (nu prompt), ttft = first + service + wait + transfer
    """
    plan: Any = inputs.plan
    work, first, service = inputs.workload, inputs.software.first, _service(inputs, prompt.total)
    rate = plan.share * plan.chunk / (work.new * prompt.total)
    waits, transfer = wait(work.variation, plan.share, service), _transfer(inputs, recipe)
    return {
        "accelerator_time": plan.accelerators / rate,
        "rate": rate,
        "ttft": first + service + waits + transfer,
        "start": first,
        "service": service,
        "wait": waits,
        "transfer": transfer,
    }


def decoded(inputs: ServingInputs, recipe: Recipe, *, decode: Step) -> Found:
    """Return a decode pool: tpot = decode (1 + g draft_share) / tau, rate = b / ((O - 1) tpot)."""
    plan: Any = inputs.plan
    tpot = decode.total * inputs.workload.slowed / tokens_a_step(inputs.workload)
    rate = plan.batch / ((inputs.workload.output - 1.0) * tpot)
    return {"accelerator_time": plan.accelerators / rate, "rate": rate, "tpot": tpot}


def alone(
    rates: Callable[..., Found], memory: Callable[..., Found], *names: str
) -> dict[str, Callable[..., Number]]:
    """Return functions of one result each, the memory among them, that read no more than it."""

    def of(found: Callable[..., Found], name: str) -> Callable[..., Number]:
        @functools.wraps(found)
        def one(inputs: ServingInputs, recipe: Recipe, **parts: Step) -> Number:
            return found(inputs, recipe, **parts)[name]

        return one

    return {"memory": of(memory, "memory"), **{name: of(rates, name) for name in names}}


def best_share(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> Number:
    """Return the largest share of the time that a prefill pool may be busy within its limit.

    x / (1 + x), x = 2 (limit - first - service - transfer) / (variation service); 0: no share
    meets the limit
    """
    service = _service(inputs, prompt.total)
    fixed = inputs.software.first + service + _transfer(inputs, recipe)
    left = larger(2.0 * (inputs.limits.ttft - fixed), 0.0)
    return left / (left + larger(inputs.workload.variation * service, LEAST))


# ---- Reports ------------------------------------------------------------------------------------


def _costs(inputs: ServingInputs, found: Found, pool: bool) -> Found:
    """Return what every kind of server reports beside its rates."""
    plan: Any = inputs.plan
    load, time = value_or(inputs.limits.load, 0.0), found["accelerator_time"]
    watts = value_or(inputs.watts, RATED * value_or(inputs.system.chip_watts, 0.0))
    needed = ceiling(load, found["rate"]) * plan.accelerators
    return {
        **found,
        "regime": regime(inputs, pool),
        "load_gpus": where(load > 0.0, needed, 0.0),
        "request_energy": watts * time,
        "request_cost": value_or(inputs.rent, 0.0) * time,
    }


def _between(name: str, value: Number, half: Number) -> Found:
    """Return a value and the ends of its interval, value exp(-h) and value exp(h)."""
    return {name: value, f"{name}_low": value * exp(-half), f"{name}_high": value * exp(half)}


def _first(inputs: ServingInputs, found: Found, busy: Number, pool: bool) -> Found:
    """Return what every server that takes prompts reports of the first token."""
    half = first_half_width(inputs, busy, pool)
    late = wait_quantile(found["wait"], busy, 0.9)
    return {"wait_p90": late, **_between("ttft", found["ttft"], half)}


def _later(inputs: ServingInputs, found: Found, pool: bool) -> Found:
    """Return what every server that decodes reports of its tokens."""
    plan: Any = inputs.plan
    return {
        "interactivity": 1.0 / found["tpot"],
        "output_rate": found["rate"] * inputs.workload.output / plan.accelerators,
        "last_batch": where(plan.batch < LARGEST, 0.0, 1.0),
        **_between("tpot", found["tpot"], token_half_width(inputs, pool)),
    }


def serve(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> ServingReport:
    """Return a server that decodes and takes prompts; its parts sum to its accelerator-seconds.

    accelerator_time = n / rate, users = b + rate ttft, latency = ttft + (O - 1) tpot
    """
    work, plan = inputs.workload, inputs.plan
    assert plan is not None
    found = served(inputs, recipe, decode=decode, prompt=prompt, both=both)
    each = plan.accelerators * (work.output - 1.0) / (plan.batch * tokens_a_step(work))
    ride = each * found["chunks"] * inputs.software.mixed
    own, stay = each * found["chunks"] - ride, each * work.slowed - ride
    parts = {
        f"part_{name}": stay * p + ride * b + own * a
        for name, p, b, a in zip(Parts._fields, decode.parts, both.parts, prompt.parts, strict=True)
    }
    results: dict[str, Any] = {
        **_costs(inputs, found, pool=False),
        **parts,
        **server_memory(inputs, recipe),
        **_later(inputs, found, pool=False),
        **_first(inputs, found, found["busy"], pool=False),
        "part_idle": 0.0 * found["rate"],
        "step_decode": decode.total,
        "step_mixed": both.total,
        "step_prompt": prompt.total,
        "latency": found["ttft"] + (work.output - 1.0) * found["tpot"],
        "users": plan.batch + found["rate"] * found["ttft"],
        "total_rate": found["rate"] * (work.prompt + work.output) / plan.accelerators,
    }
    return ServingReport(**results, **judged(RULES, LIMITS, inputs, results))


def prefill(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> PrefillReport:
    """Return a prefill pool; its parts sum to its accelerator-seconds, n / rate."""
    plan: Any = inputs.plan
    found, one = prefilled(inputs, recipe, prompt=prompt), prompt.total
    each = plan.accelerators * inputs.workload.new / plan.chunk
    results: dict[str, Any] = {
        **_costs(inputs, found, pool=True),
        **{f"part_{name}": each * value for name, value in prompt.parts._asdict().items()},
        **prefill_memory(inputs, recipe),
        **_first(inputs, found, plan.share, pool=True),
        "part_idle": each * one * (1.0 / plan.share - 1.0),
        "step_prompt": one,
        "input_rate": found["rate"] * inputs.workload.prompt / plan.accelerators,
    }
    return PrefillReport(**results, **judged(PREFILL_RULES, PREFILL_LIMITS, inputs, results))


def decode(inputs: ServingInputs, recipe: Recipe, *, decode: Step) -> DecodeReport:
    """Return a decode pool; its parts sum to its accelerator-seconds, n / rate."""
    found, one = decoded(inputs, recipe, decode=decode), decode.total
    each = found["accelerator_time"] / one
    results: dict[str, Any] = {
        **_costs(inputs, found, pool=True),
        **{f"part_{name}": each * value for name, value in decode.parts._asdict().items()},
        **server_memory(inputs, recipe),
        **_later(inputs, found, pool=True),
        "part_idle": 0.0 * one,
        "step_decode": one,
    }
    return DecodeReport(**results, **judged(DECODE_RULES, DECODE_LIMITS, inputs, results))


# ---- A closed loop ------------------------------------------------------------------------------


def closed_loop(inputs: ServingInputs, recipe: Recipe, users: Number) -> ServingInputs:
    """Return inputs whose batch is that of a fixed number of users, found by halving 0 .. N.

    users(b) = N; it rises with b and is never below it. Memory does not cap the batch.
    """
    plan: Any = inputs.plan
    output = inputs.workload.output
    prompt = step(inputs, recipe, plan, plan.chunk)

    def at(batch: Number) -> ServingInputs:
        return dataclasses.replace(inputs, plan=dataclasses.replace(plan, batch=batch))

    def halve(_: Any, batches: tuple[Number, Number]) -> tuple[Number, Number]:
        low, high = batches
        batch = 0.5 * (low + high)
        decode, both = (
            step(inputs, recipe, plan, chunk, batch, output) for chunk in (0.0, plan.chunk)
        )
        found = served(at(batch), recipe, decode=decode, prompt=prompt, both=both)
        many = batch + found["rate"] * found["ttft"] > users
        return where(many, low, batch), where(many, batch, high)

    low, high = loop(HALVINGS, halve, (0.0 * (users * prompt.total), users + 0.0 * prompt.total))
    return at(0.5 * (low + high))
