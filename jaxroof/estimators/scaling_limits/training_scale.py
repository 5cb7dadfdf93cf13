"""The scaling of a training run with its FLOP, and the limits that latency sets."""

from typing import Any, NamedTuple

from jaxroof.formulas.arithmetic import exp, log, sqrt, where
from jaxroof.records import Number


class Sizes(NamedTuple):
    """The sizes of a training run: parameters, tokens, tokens per batch, blocks, width."""

    parameters: Number
    tokens: Number
    batch: Number
    layers: Number
    hidden: Number


def run_sizes(
    training_flops: Number,
    tokens_per_parameter: Number,
    reference_flops: Number,
    reference_batch: Number,
    reference_layers: Number,
    batch_exponent: Number,
    depth_exponent: Number,
    hidden_factor: Number,
) -> Sizes:
    """Return the sizes of the best model for C FLOP of training, and of its batch.

    N = sqrt(C / (6 rho)), D = rho N, B = B0 (C / C0)^beta, L = L0 (C / C0)^lambda,
    d = sqrt(N / (2 h L))

    Assumes: two h d x d matrices per block hold all parameters; sizes are not rounded.
    Source: docs/models/linear_data_movement.md, part B.

    >>> sizes = run_sizes(4.8e26, 20.0, 4.8e26, 4e6, 100.0, 0.2, 0.2, 5.0)
    >>> float(sizes.parameters), float(sizes.tokens), float(sizes.layers)
    (2000000000000.0, 40000000000000.0, 100.0)
    """
    parameters = sqrt(training_flops / (6.0 * tokens_per_parameter))
    scale = training_flops / reference_flops
    layers = reference_layers * scale**depth_exponent
    return Sizes(
        parameters=parameters,
        tokens=tokens_per_parameter * parameters,
        batch=reference_batch * scale**batch_exponent,
        layers=layers,
        hidden=sqrt(parameters / (2.0 * hidden_factor * layers)),
    )


def latency_floor(layers: Number, latency: Number) -> Number:
    """Return a lower bound on the time of a batch, for any hardware.

    T >= 4 L tau: each block waits for a reduction and a broadcast, forward and backward

    Assumes: tau is the time of one step of communication and cannot be hidden.
    Source: docs/models/linear_data_movement.md, part C.
    """
    return 4.0 * layers * latency


def step_slack(sizes: Sizes, longest_run: Number) -> Number:
    """Return the time available for each communication step of a run.

    t = T_max / (D / B) / (4 L)

    Assumes: batches follow each other, and each has 4 L steps.
    Source: docs/models/linear_data_movement.md, section C1.
    """
    return longest_run * sizes.batch / sizes.tokens / (4.0 * sizes.layers)


def latency_wall(
    longest_run: Number,
    latency: Number,
    tokens_per_parameter: Number,
    reference_flops: Number,
    reference_batch: Number,
    reference_layers: Number,
    batch_exponent: Number,
    depth_exponent: Number,
) -> tuple[Number, Number]:
    """Return the largest run that latency allows, 0 without a limit, and whether there is one.

    C = C0 [T_max B0 / (4 L0 tau sqrt(rho C0 / 6))]^(1 / (1/2 + lambda - beta))

    Assumes: the root of (D / B) 4 L tau = T_max; there is none without latency, where batches grow
    faster than steps, or beyond the range of a float.
    Source: docs/models/linear_data_movement.md, section C4.

    >>> wall, exists = latency_wall(4.0, 1.0, 6.0, 1.0, 8.0, 4.0, 0.0, 0.0)
    >>> float(wall), bool(exists)
    (4.0, True)
    """
    growth = 0.5 + depth_exponent - batch_exponent
    waits = latency > 0.0
    tokens = sqrt(tokens_per_parameter * reference_flops / 6.0)
    steps = 4.0 * reference_layers * where(waits, latency, 1.0) * tokens
    room = log(longest_run * reference_batch / steps)
    exponent: Any = log(reference_flops) + room / where(growth > 0.0, growth, 1.0)
    exists = waits & (growth > 0.0) & (abs(exponent) < 690.0)
    return where(exists, exp(where(exists, exponent, 0.0)), 0.0), exists
