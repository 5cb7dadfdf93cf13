"""A server under load that decodes and takes prompts on the same accelerators.

Source: docs/models/serving.md, section 6; letters as there.
"""

import dataclasses
from typing import Any, NamedTuple

from jaxroof.estimators.serving import step as steps
from jaxroof.estimators.serving.inputs import LARGEST, ServingInputs, Workload
from jaxroof.estimators.serving.interval import first_half_width, regime, token_half_width
from jaxroof.estimators.serving.legality import LIMITS, RULES, judged
from jaxroof.estimators.serving.memory import (
    Memory,
    largest_batch,
    server_memory,
)
from jaxroof.estimators.serving.report import ServingReport
from jaxroof.estimators.serving.step import Degrees, Parts, Step, degrees
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import ceiling, exp, expm1, larger, log, loop, where
from jaxroof.records import Number, value_or

FREE = 1e-3  # least share of the time that is taken to be without prompts
RATED = 0.75  # mean power over rated power, unless given
HALVINGS = 64  # of the batch of a closed loop
QUEUED = 0.5  # variation of a closed loop: a finite population queues less than arrivals by chance


class Served(NamedTuple):
    """A server at the load that its plan carries."""

    tokens: Number  # tau, of a sequence and decode step
    chunks: Number  # phi
    tpot: Number
    rate: Number
    busy: Number  # rho
    service: Number
    wait: Number
    start: Number
    new: Number  # nu, prompt tokens that the prefix cache lacks

    @property
    def ttft(self) -> Number:
        """Return the time to the first token [s]."""
        return self.start + self.service + self.wait


def new_tokens(work: Workload) -> Number:
    """Return the tokens of a prompt that the prefix cache lacks, nu = (1 - h) I."""
    return (1.0 - work.hit) * work.prompt


def tokens_a_step(work: Workload) -> Number:
    """Return the tokens that a sequence gets in a step.

    tau = (1 - a^(g + 1)) / (1 - a); g + 1 at a = 1
    """
    most, missed = work.drafts + 1.0, 1.0 - work.acceptance
    sure = most * (1.0 - work.drafts * missed / 2.0)
    got = -expm1(most * log(larger(work.acceptance, 1e-300)))
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


def _mix(mixed: Number, riding: Number, alone: Number) -> Number:
    """Return what prompts take that ride in decode steps, or that have steps of their own."""
    return mixed * riding + (1.0 - mixed) * alone


def served(inputs: ServingInputs, plain: Number, riding: Number, alone: Number) -> Served:
    """Return a server from the seconds of its steps: without prompts, with, and prompts alone.

    tpot = (plain (1 + g draft_share) + phi extra) / tau, phi = b nu tau / ((O - 1) c),
    rate = b / ((O - 1) tpot), service = max(nu D / c, 1) lasts, rho = rate nu / c lasts
    """
    work, software = inputs.workload, inputs.software
    plan: Any = inputs.plan
    tokens, new, later = tokens_a_step(work), new_tokens(work), work.output - 1.0
    chunks = plan.batch * new * tokens / (later * plan.chunk)
    extra = _mix(software.mixed, riding - plain, alone)
    lasts = _mix(software.mixed, riding, alone)
    tpot = (plain * drafted(work) + chunks * extra) / tokens
    rate = plan.batch / (later * tpot)
    busy = rate * new / plan.chunk * lasts
    service = larger(new * plan.data / plan.chunk, 1.0) * lasts
    start = software.first + software.first_steps * tpot * tokens
    waiting = wait(work.variation, busy, service)
    return Served(tokens, chunks, tpot, rate, busy, service, waiting, start, new)


def drafted(work: Workload) -> Number:
    """Return the time of a decode step with its drafts over one without, 1 + g draft_share."""
    return 1.0 + work.drafts * work.draft_share


def costs(
    inputs: ServingInputs, split: Degrees, time: Number, rate: Number, memory: Memory
) -> dict[str, Number]:
    """Return what every kind of server reports: accelerator-seconds, rate, memory, load."""
    count, load = split.accelerators, value_or(inputs.limits.load, 0.0)
    watts = value_or(inputs.watts, RATED * value_or(inputs.system.chip_watts, 0.0))
    return {
        "accelerator_time": time,
        "rate": rate,
        "memory": memory.need,
        "memory_weights": memory.weights,
        "memory_sequences": memory.sequences,
        "memory_working": memory.working,
        "load_gpus": where(load > 0.0, ceiling(load, rate) * count, 0.0),
        "request_energy": watts * time,
        "request_cost": value_or(inputs.rent, 0.0) * time,
    }


def between(name: str, value: Number, half: Number) -> dict[str, Number]:
    """Return a value and the ends of its interval, value exp(-h) and value exp(h)."""
    return {name: value, f"{name}_low": value * exp(-half), f"{name}_high": value * exp(half)}


def decoding(inputs: ServingInputs, split: Degrees, tpot: Number, rate: Number) -> dict[str, Any]:
    """Return what every server that decodes reports of its tokens."""
    plan: Any = inputs.plan
    return {
        "interactivity": 1.0 / tpot,
        "output_rate": rate * inputs.workload.output / split.accelerators,
        "last_batch": where(plan.batch < LARGEST, 0.0, 1.0),
    }


def serve(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> ServingReport:
    """Return a server that decodes and takes prompts; its parts sum to its accelerator-seconds.

    accelerator_time = n / rate, users = b + rate ttft, latency = ttft + (O - 1) tpot
    """
    work, software = inputs.workload, inputs.software
    plan: Any = inputs.plan
    split = degrees(plan)
    plain, riding, alone = decode.total, both.total, prompt.total
    found = served(inputs, plain, riding, alone)
    memory = server_memory(inputs, recipe, split, plan.batch, plan.chunk)
    count = split.accelerators
    each = count * (work.output - 1.0) / (plan.batch * found.tokens)
    ride = each * found.chunks * software.mixed
    own, stay = each * found.chunks - ride, each * drafted(work) - ride
    parts = {
        f"part_{name}": stay * p + ride * b + own * a
        for name, p, b, a in zip(Parts._fields, decode.parts, both.parts, prompt.parts, strict=True)
    }
    results: dict[str, Any] = {
        **costs(inputs, split, count / found.rate, found.rate, memory),
        **parts,
        **decoding(inputs, split, found.tpot, found.rate),
        **between("tpot", found.tpot, token_half_width(inputs)),
        **between("ttft", found.ttft, first_half_width(inputs, found.busy)),
        "part_idle": 0.0 * found.rate,
        "regime": regime(inputs),
        "step_decode": plain,
        "step_mixed": riding,
        "step_prompt": alone,
        "largest_batch": largest_batch(inputs, split, memory),
        "start": found.start,
        "service": found.service,
        "wait": found.wait,
        "wait_p90": wait_quantile(found.wait, found.busy, 0.9),
        "latency": found.ttft + (work.output - 1.0) * found.tpot,
        "busy": found.busy,
        "chunks": found.chunks,
        "users": plan.batch + found.rate * found.ttft,
        "total_rate": found.rate * (work.prompt + work.output) / count,
    }
    return ServingReport(**results, **judged(RULES, LIMITS, inputs, results))


# ---- One number alone ---------------------------------------------------------------------------


def _served(inputs: ServingInputs, decode: Step, prompt: Step, both: Step) -> Served:
    return served(inputs, decode.total, both.total, prompt.total)


def time_alone(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> Number:
    """Return the accelerator-seconds of a request alone, those of the report."""
    return degrees(inputs.plan).accelerators / _served(inputs, decode, prompt, both).rate


def ttft_alone(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> Number:
    """Return the time to the first token alone, that of the report [s]."""
    return _served(inputs, decode, prompt, both).ttft


def tpot_alone(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> Number:
    """Return the time of an output token alone, that of the report [s]."""
    return _served(inputs, decode, prompt, both).tpot


def busy_alone(
    inputs: ServingInputs, recipe: Recipe, *, decode: Step, prompt: Step, both: Step
) -> Number:
    """Return the share of the time with prompts alone, that of the report."""
    return _served(inputs, decode, prompt, both).busy


def memory_alone(inputs: ServingInputs, recipe: Recipe) -> Number:
    """Return the memory of an accelerator alone, that of the report [B]."""
    plan: Any = inputs.plan
    return server_memory(inputs, recipe, degrees(plan), plan.batch, plan.chunk).need


# ---- A closed loop ------------------------------------------------------------------------------


def closed_loop(inputs: ServingInputs, recipe: Recipe, users: Number) -> ServingInputs:
    """Return inputs whose batch is that of a fixed number of users, found by halving 0 .. N.

    users(b) = N; it rises with b and is never below it. Memory does not cap the batch.
    """
    plan: Any = inputs.plan
    split = degrees(plan)
    alone = steps.prompt(inputs, recipe, **split._asdict(), chunk=plan.chunk).total

    def at(batch: Number) -> ServingInputs:
        return dataclasses.replace(inputs, plan=dataclasses.replace(plan, batch=batch))

    def halve(_: Any, batches: tuple[Number, Number]) -> tuple[Number, Number]:
        low, high = batches
        batch = 0.5 * (low + high)
        asked = at(batch)
        plain = steps.decode(inputs, recipe, **split._asdict(), batch=batch).total
        riding = steps.both(inputs, recipe, **split._asdict(), batch=batch, chunk=plan.chunk).total
        found = served(asked, plain, riding, alone)
        many = batch + found.rate * found.ttft > users
        return where(many, low, batch), where(many, batch, high)

    low, high = loop(HALVINGS, halve, (0.0 * (users * alone), users + 0.0 * alone))
    return at(0.5 * (low + high))
