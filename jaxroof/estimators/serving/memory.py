"""Memory of the fullest accelerator of a server, and the largest batch that it holds.

Source: docs/models/serving.md, sections 5 and 7; letters as there.
"""

from typing import NamedTuple

from jaxroof.estimators.serving.inputs import ServingInputs
from jaxroof.estimators.serving.legality import memory_limit
from jaxroof.estimators.serving.model_numbers import Numbers, held, numbers
from jaxroof.estimators.serving.step import Degrees, machine
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where
from jaxroof.records import Number

LOGITS = 8.0  # [B] of a logit, twice in 32 bits


class Memory(NamedTuple):
    """Bytes of the fullest accelerator."""

    weights: Number
    sequence: Number  # of one sequence of an attention rank
    sequences: Number
    working: Number

    @property
    def need(self) -> Number:
        """Return the bytes in all."""
        return self.weights + self.sequences + self.working


def _weights(inputs: ServingInputs, model: Numbers, split: Degrees) -> Number:
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
    inputs: ServingInputs, model: Numbers, split: Degrees, tokens: Number, layers: Number
) -> Number:
    """Return the bytes of a sequence's cache: layers held(x) w cache_width / min(t, kappa')."""
    shards = smaller(split.tensor, model.cache_shards)
    return layers * held(model, tokens) * model.cached * inputs.precision.cache_width / shards


def _memory(
    inputs: ServingInputs, recipe: Recipe, split: Degrees, tokens: Number, chunk: Number
) -> Memory:
    """Return the bytes of an accelerator before any sequence.

    working = reserve + 2 c / (D p) (6 h + G max(f, k f_e + f_s) / t)
    """
    model, stages = numbers(inputs.model, recipe), split.pipeline
    fullest = ceiling(model.layers, stages)
    logits = LOGITS * model.vocabulary / split.tensor
    sequence = cache_bytes(inputs, model, split, tokens, fullest) + logits
    routed = model.active * model.expert_feedforward + model.shared_feedforward
    inner = model.matrices * larger(model.feedforward, routed) / split.tensor
    kept = 2.0 * chunk / (split.data * stages) * (6.0 * model.hidden + inner)
    return Memory(_weights(inputs, model, split), sequence, 0.0, inputs.software.reserve + kept)


def server_memory(
    inputs: ServingInputs, recipe: Recipe, split: Degrees, batch: Number, chunk: Number
) -> Memory:
    """Return the bytes of a server: weights + b / D sequences of I + held_output O tokens."""
    work = inputs.workload
    tokens = work.prompt + inputs.software.held_output * work.output
    found = _memory(inputs, recipe, split, tokens, chunk)
    return found._replace(sequences=batch / split.data * found.sequence)


def prefill_memory(inputs: ServingInputs, recipe: Recipe, split: Degrees, chunk: Number) -> Memory:
    """Return the bytes of a prefill pool: one set of sequences computed, one handed over.

    2 max(c / (nu D), 1) sequences of I tokens
    """
    work = inputs.workload
    found = _memory(inputs, recipe, split, work.prompt, chunk)
    new = (1.0 - work.hit) * work.prompt
    sequences = 2.0 * larger(chunk / (new * split.data), 1.0)
    return found._replace(sequences=sequences * found.sequence)


def largest_batch(inputs: ServingInputs, split: Degrees, memory: Memory) -> Number:
    """Return the sequences that fit: max(limit - weights - working, 0) D / sequence."""
    free = memory_limit(inputs) - memory.weights - memory.working
    return larger(free, 0.0) * split.data / memory.sequence
