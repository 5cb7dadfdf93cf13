"""Memory of the fullest accelerator of a server, and the largest batch that it holds.

Source: docs/models/serving.md, sections 5 and 7; letters as there.
"""

from typing import Any

from jaxroof.estimators.serving.inputs import ServingInputs, Split
from jaxroof.estimators.serving.legality import memory_limit
from jaxroof.estimators.serving.model_numbers import Numbers, held, numbers
from jaxroof.estimators.serving.step import machine
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where
from jaxroof.records import Number

LOGITS = 8.0  # [B] of a logit, twice in 32 bits


def _weights(inputs: ServingInputs, model: Numbers, split: Split) -> Number:
    """Return the bytes of weights.

    ceil(L / p) / L (L P_a s_a / t + (L_d P_m + L_e P_s) s_m / t + L_e E P_e s_m / (t D))
    + 2 V h / t times the matrices of head and embedding on a stage
    """
    chip, tensor = machine(inputs), split.tensor
    shared = (model.dense * model.mlp + model.routed * model.shared) / tensor
    routed = model.routed * model.experts * model.expert / (tensor * split.data)
    layers = model.layers * model.attention / tensor * chip.attention_width
    share = ceiling(model.layers, split.pipeline) / model.layers
    ends = where(split.pipeline > 1.0, 1.0, 1.0 + model.own_head)
    head = 2.0 * model.vocabulary * model.hidden / tensor * ends
    return share * (layers + (shared + routed) * chip.mlp_width) + head


def cache_bytes(
    inputs: ServingInputs, model: Numbers, split: Split, tokens: Number, layers: Number
) -> Number:
    """Return the bytes of a sequence's cache: layers held(x) w cache_width / min(t, kappa')."""
    shards = smaller(split.tensor, model.cache_shards)
    return layers * held(model, tokens) * model.cached * inputs.precision.cache_width / shards


def _sizes(inputs: ServingInputs, recipe: Recipe, tokens: Number) -> tuple[Number, Number, Number]:
    """Return the bytes of an accelerator's weights, of a rank's sequence, and of workspaces.

    working = reserve + 2 c / (D p) (6 h + G max(f, k f_e + f_s) / t)
    """
    plan: Any = inputs.plan
    model = numbers(inputs.model, recipe)
    logits = LOGITS * model.vocabulary / plan.tensor
    cache = cache_bytes(inputs, model, plan, tokens, ceiling(model.layers, plan.pipeline))
    routed = model.active * model.expert_feedforward + model.shared_feedforward
    inner = model.matrices * larger(model.feedforward, routed) / plan.tensor
    kept = 2.0 * plan.chunk / (plan.data * plan.pipeline) * (6.0 * model.hidden + inner)
    return _weights(inputs, model, plan), cache + logits, inputs.software.reserve + kept


def _memory(weights: Number, sequences: Number, working: Number) -> dict[str, Number]:
    return {
        "memory": weights + sequences + working,
        "memory_weights": weights,
        "memory_sequences": sequences,
        "memory_working": working,
    }


def server_memory(inputs: ServingInputs, recipe: Recipe) -> dict[str, Number]:
    """Return the bytes of a server: weights + b / D sequences of I + held_output O tokens.

    largest_batch = max(limit - weights - working, 0) D / sequence
    """
    plan: Any = inputs.plan
    work = inputs.workload
    tokens = work.prompt + inputs.software.held_output * work.output
    weights, sequence, working = _sizes(inputs, recipe, tokens)
    free = larger(memory_limit(inputs) - weights - working, 0.0)
    held = _memory(weights, plan.batch / plan.data * sequence, working)
    return {**held, "largest_batch": free * plan.data / sequence}


def prefill_memory(inputs: ServingInputs, recipe: Recipe) -> dict[str, Number]:
    """Return the bytes of a prefill pool: one set of sequences computed, one handed over.

    2 max(c / (nu D), 1) sequences of I tokens
    """
    plan: Any = inputs.plan
    weights, sequence, working = _sizes(inputs, recipe, inputs.workload.prompt)
    many = larger(plan.chunk / (inputs.workload.new * plan.data), 1.0)
    return _memory(weights, 2.0 * many * sequence, working)
