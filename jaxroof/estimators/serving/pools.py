"""A pool of replicas that take prompts, and a pool of replicas that decode.

Source: docs/models/serving.md, section 7; letters as there.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.serving.inputs import ServingInputs
from jaxroof.estimators.serving.interval import first_half_width, regime, token_half_width
from jaxroof.estimators.serving.legality import (
    DECODE_LIMITS,
    DECODE_RULES,
    PREFILL_LIMITS,
    PREFILL_RULES,
    judged,
)
from jaxroof.estimators.serving.memory import (
    cache_bytes,
    largest_batch,
    prefill_memory,
    server_memory,
)
from jaxroof.estimators.serving.model_numbers import numbers
from jaxroof.estimators.serving.report import DecodeReport, PrefillReport
from jaxroof.estimators.serving.server import (
    between,
    costs,
    decoding,
    drafted,
    new_tokens,
    tokens_a_step,
    wait,
    wait_quantile,
)
from jaxroof.estimators.serving.step import Degrees, Step, degrees, machine
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number

LEAST = 1e-300  # of a number that is divided by


class Prefilled(NamedTuple):
    """A prefill pool that is busy for a share of the time."""

    rate: Number
    service: Number
    wait: Number
    transfer: Number


def _transfer(inputs: ServingInputs, recipe: Recipe, split: Degrees) -> Number:
    """Return the seconds of handing a cache over: all of it, or the last layer's.

    hop_far + L held(I) w cache_width / (layerwise ? L : 1) / (min(t, kappa') slow)
    """
    model, software = numbers(inputs.model, recipe), inputs.software
    layers = where(software.layerwise > 0.0, 1.0, model.layers)
    moved = cache_bytes(inputs, model, split, inputs.workload.prompt, layers)
    return software.hop_far + moved / machine(inputs).slow


def _service(inputs: ServingInputs, split: Degrees, chunk: Number, one: Number) -> Number:
    """Return the seconds of a prompt's own steps, on its rank: max(nu D / c, 1) one."""
    return larger(new_tokens(inputs.workload) * split.data / chunk, 1.0) * one


def prefilled(inputs: ServingInputs, recipe: Recipe, one: Number) -> Prefilled:
    """Return a prefill pool from the seconds of its step: rate = rho c / (nu one)."""
    plan: Any = inputs.plan
    work = inputs.workload
    split = degrees(plan)
    service = _service(inputs, split, plan.chunk, one)
    return Prefilled(
        rate=plan.share * plan.chunk / (new_tokens(work) * one),
        service=service,
        wait=wait(work.variation, plan.share, service),
        transfer=_transfer(inputs, recipe, split),
    )


def prefill(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> PrefillReport:
    """Return a prefill pool; its parts sum to its accelerator-seconds.

    accelerator_time = n / rate, ttft = first + service + wait + transfer
    """
    plan: Any = inputs.plan
    work, one = inputs.workload, prompt.total
    split, new = degrees(plan), new_tokens(work)
    found = prefilled(inputs, recipe, one)
    memory = prefill_memory(inputs, recipe, split, plan.chunk)
    each = split.accelerators * new / plan.chunk
    first = inputs.software.first
    ttft = first + found.service + found.wait + found.transfer
    results: dict[str, Any] = {
        **costs(inputs, split, split.accelerators / found.rate, found.rate, memory),
        **{f"part_{name}": each * value for name, value in prompt.parts._asdict().items()},
        **between("ttft", ttft, first_half_width(inputs, plan.share, pool=True)),
        "part_idle": each * one * (1.0 / plan.share - 1.0),
        "regime": regime(inputs, pool=True),
        "start": first + 0.0 * ttft,
        "service": found.service,
        "wait": found.wait,
        "wait_p90": wait_quantile(found.wait, plan.share, 0.9),
        "transfer": found.transfer,
        "step_prompt": one,
        "input_rate": found.rate * work.prompt / split.accelerators,
    }
    verdicts = judged(PREFILL_RULES, PREFILL_LIMITS, inputs, results)
    return PrefillReport(**results, **verdicts)


def decode(inputs: ServingInputs, recipe: Recipe, *, decode: Step) -> DecodeReport:
    """Return a decode pool; its parts sum to its accelerator-seconds.

    tpot = step (1 + g draft_share) / tau, rate = b / ((O - 1) tpot), accelerator_time = n / rate
    """
    plan: Any = inputs.plan
    work, one = inputs.workload, decode.total
    split = degrees(plan)
    tpot = one * drafted(work) / tokens_a_step(work)
    rate = plan.batch / ((work.output - 1.0) * tpot)
    memory = server_memory(inputs, recipe, split, plan.batch, 0.0)
    each = split.accelerators / (rate * one)
    results: dict[str, Any] = {
        **costs(inputs, split, split.accelerators / rate, rate, memory),
        **{f"part_{name}": each * value for name, value in decode.parts._asdict().items()},
        **decoding(inputs, split, tpot, rate),
        **between("tpot", tpot, token_half_width(inputs, pool=True)),
        "part_idle": 0.0 * rate,
        "regime": regime(inputs, pool=True),
        "step_decode": one,
        "largest_batch": largest_batch(inputs, split, memory),
    }
    verdicts = judged(DECODE_RULES, DECODE_LIMITS, inputs, results)
    return DecodeReport(**results, **verdicts)


def best_share(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> Number:
    """Return the largest share of the time that a prefill pool may be busy within its limit.

    x / (1 + x), x = 2 (limit - first - service - transfer) / (variation service); 0: no share
    meets the limit
    """
    plan: Any = inputs.plan
    work = inputs.workload
    split = degrees(plan)
    service = _service(inputs, split, plan.chunk, prompt.total)
    fixed = inputs.software.first + service + _transfer(inputs, recipe, split)
    left = larger(2.0 * (inputs.limits.ttft - fixed), 0.0)
    return left / (left + larger(work.variation * service, LEAST))


# ---- One number alone ---------------------------------------------------------------------------


def prefill_time(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> Number:
    """Return the accelerator-seconds of a request alone, those of the report."""
    return degrees(inputs.plan).accelerators / prefilled(inputs, recipe, prompt.total).rate


def prefill_ttft(inputs: ServingInputs, recipe: Recipe, *, prompt: Step) -> Number:
    """Return the time to the first token alone, that of the report [s]."""
    found = prefilled(inputs, recipe, prompt.total)
    return inputs.software.first + found.service + found.wait + found.transfer


def prefill_need(inputs: ServingInputs, recipe: Recipe) -> Number:
    """Return the memory of an accelerator of a prefill pool alone, that of the report [B]."""
    plan: Any = inputs.plan
    return prefill_memory(inputs, recipe, degrees(plan), plan.chunk).need


def decode_tpot(inputs: ServingInputs, recipe: Recipe, *, decode: Step) -> Number:
    """Return the time of an output token alone, that of the report [s]."""
    return decode.total * drafted(inputs.workload) / tokens_a_step(inputs.workload)


def decode_time(inputs: ServingInputs, recipe: Recipe, *, decode: Step) -> Number:
    """Return the accelerator-seconds of a request alone, those of the report."""
    plan: Any = inputs.plan
    each = degrees(plan).accelerators * (inputs.workload.output - 1.0) / plan.batch
    return each * decode_tpot(inputs, recipe, decode=decode)


def decode_need(inputs: ServingInputs, recipe: Recipe) -> Number:
    """Return the memory of an accelerator of a decode pool alone, that of the report [B]."""
    plan: Any = inputs.plan
    return server_memory(inputs, recipe, degrees(plan), plan.batch, 0.0).need
