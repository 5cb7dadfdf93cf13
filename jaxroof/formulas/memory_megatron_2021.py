"""Peaks of Megatron-LM and DeepSpeed of 2021-22: FP16, full recomputation, no sequence parallelism.

Parameters are those of the stage on a rank. Momentary bytes are the larger of the head and a
layer's backward pass, the gradient of a layer's largest matrix and, in a pipeline, two hidden
states.
"""

from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.records import Number


def layer_inputs(layers: Number, state: Number, scores: Number) -> Number:
    """Return the bytes of a stage's saved inputs of one microbatch, M = layers x + masks.

    Assumes: Megatron keeps (l + 1) x + b s^2, DeepSpeed l x + 4 b s^2, with b s^2 elements of the
    mask of the attention.
    Units: layers [1], state (x), scores [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.5.

    >>> layer_inputs(2.0, 8.0, 4.0)
    20.0
    """
    return layers * state + scores


def megatron_peak(
    parameters: Number,
    each: Number,
    momentary: Number,
    in_flight: Number,
    microbatches: Number,
) -> Number:
    """Return the peak of a stage with local data parallelism, without contiguous buffers.

    M = max(22 N + max(min(M - 1, p - i), 1) each, 20 N + min(M, p - i) each) + momentary

    Assumes: weights 2, fp16 gradient 2, fp32 gradient 4, master 4 and moments 8 bytes; new fp16
    gradients exist from the second backward pass on, when one microbatch fewer is in flight.
    in_flight is p - i.
    Units: parameters, in_flight, microbatches [1]; each, momentary [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.5.

    >>> float(megatron_peak(1.0, 4.0, 1.0, 2.0, 2.0))
    29.0
    """
    second = 22.0 * parameters + _second_backward(in_flight, microbatches) * each
    first = 20.0 * parameters + smaller(microbatches, in_flight) * each
    return larger(second, first) + momentary


def megatron_first_peak(
    parameters: Number,
    state: Number,
    each: Number,
    momentary: Number,
    in_flight: Number,
    microbatches: Number,
) -> Number:
    """Return the peak of a stage in its first step, before the optimizer has moments.

    M = max(20 N + 2 x, 10 N + max(min(M - 1, p - i), 1) each + momentary)

    Assumes: as megatron_peak; moments are made at the end, when no activation lives.
    Units: parameters, in_flight, microbatches [1]; state (x), each, momentary [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.5.

    >>> float(megatron_first_peak(1.0, 2.0, 4.0, 1.0, 2.0, 2.0))
    24.0
    """
    live = 10.0 * parameters + _second_backward(in_flight, microbatches) * each + momentary
    return larger(20.0 * parameters + 2.0 * state, live)


def _second_backward(in_flight: Number, microbatches: Number) -> Number:
    """Return the microbatches in flight at the second backward pass."""
    return larger(smaller(microbatches - 1.0, in_flight), 1.0)


def megatron_between_steps(parameters: Number, state: Number) -> Number:
    """Return the bytes of a stage between steps, 20 N + 2 x.

    Assumes: as megatron_peak; an attribute keeps the last fp16 gradient.
    Units: parameters [1], state (x) [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.5.

    >>> megatron_between_steps(1.0, 2.0)
    24.0
    """
    return 20.0 * parameters + 2.0 * state


def deepspeed_peak(parameters: Number, saved: Number, momentary: Number) -> Number:
    """Return the peak of a stage of DeepSpeed's pipeline engine without ZeRO.

    M = max(20 N, 16 N + saved + momentary), saved = min(M, p - i) each

    Assumes: the optimizer's step needs 20 N; 14 N stay between steps.
    Units: parameters [1]; saved, momentary [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.5.

    >>> float(deepspeed_peak(1.0, 4.0, 1.0))
    21.0
    """
    return larger(20.0 * parameters, 16.0 * parameters + saved + momentary)


def deepspeed_sharded_peak(
    parameters: Number, saved: Number, momentary: Number, data: Number, width: Number
) -> Number:
    """Return the peak of a stage of DeepSpeed's pipeline engine with ZeRO 1.

    M = w N + 12 N / D + max(saved + momentary, 4 N / D + 1e9 B), saved = min(M, p - i) each

    Assumes: w = 4 in FP16, 6 with its BF16 optimizer; the step gathers in buckets of 1e9 bytes.
    Units: parameters, data [1]; saved, momentary, width [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.5.

    >>> float(deepspeed_sharded_peak(1e9, 2e9, 1e9, 2.0, 4.0))
    13000000000.0
    """
    shard = parameters / data
    step = 4.0 * shard + BUCKET
    return width * parameters + 12.0 * shard + larger(saved + momentary, step)


BUCKET = 1e9  # [B] of a gather of ZeRO 1
