"""What the studies of data movement ask: how runs scale, and what a device does.

Source: docs/models/linear_data_movement.md, parts B and C.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.system import System
from jaxroof.formulas.arithmetic import exp, log, sqrt, where
from jaxroof.records import Number, quantity, record

LARGEST_RUN = 1e45  # FLOP; larger values are assumed to be typing errors
STEEPEST = 2.0  # larger exponents are assumed to be typing errors, too
SEASON = 7776000.0  # 90 days in s
EXAMPLE_DEVICE = "h100-sxm5"  # of the published study
SLOW_DEVICE = "h100-sxm5-10gb"  # the same over a slow network
LARGEST_EXPONENT = 690.0  # of e, within the range of a float


@record
class Scaling:
    """How tokens, batch and depth scale with the FLOP of a training run."""

    tokens_per_parameter: Number = quantity(
        "1", "Training tokens of each parameter.", default=20.0, symbol="rho"
    )
    reference_flops: Number = quantity(
        "FLOP", "Run whose batch and depth are given.", default=1e25, most=1e45, symbol="C0"
    )
    reference_batch: Number = quantity(
        "token", "Tokens of one batch of that run.", default=4194304.0, symbol="B0"
    )
    reference_layers: Number = quantity(
        "1", "Residual blocks of that run.", default=120.0, symbol="L0"
    )
    batch_exponent: Number = quantity(
        "1",
        "Power of the FLOP that batches grow with.",
        default=1.0 / 6.0,
        zero=True,
        most=STEEPEST,
        symbol="beta",
    )
    depth_exponent: Number = quantity(
        "1",
        "Power of the FLOP that depth grows with.",
        default=1.0 / 6.0,
        zero=True,
        most=STEEPEST,
        symbol="lambda",
    )
    hidden_factor: Number = quantity(
        "1", "Hidden width of a block over its residual width.", default=5.0, symbol="h"
    )


@record
class DeviceInputs:
    """The machine and its number format."""

    system: System
    width: Number = quantity("B", "Bytes of one number.", default=2.0, symbol="w")
    rate_width: Number = quantity(
        "B", "Bytes of the numbers that the matrix rate is for.", default=2.0
    )
    pod_size: Number = quantity("1", "Accelerators taken as one device.", default=1.0)


@record
class RunInputs(DeviceInputs):
    """DeviceInputs with the scaling of runs and the cost of a reduction."""

    traffic_coefficient: Number = quantity(
        "1", "Words sent and received for each word that ranks add up.", default=2.0, symbol="kappa"
    )
    scaling: Scaling = Scaling()


@record
class TimedInputs(RunInputs):
    """RunInputs with the longest time of a run."""

    longest_run: Number = quantity("s", "Longest run that is allowed.", default=SEASON, symbol="T")
    step_latency: Number = quantity(
        "s", "Time of one step of communication.", default=0.0, zero=True, symbol="tau"
    )


class Sizes(NamedTuple):
    """The sizes of a training run: parameters, tokens, tokens per batch, blocks, width."""

    parameters: Number
    tokens: Number
    batch: Number
    layers: Number
    hidden: Number


def sizes_of(training_flops: Number, scaling: Scaling) -> Sizes:
    """Return the sizes of the best model for C FLOP of training, and of its batch.

    N = sqrt(C / (6 rho)), D = rho N, B = B0 (C / C0)^beta, L = L0 (C / C0)^lambda,
    d = sqrt(N / (2 h L))

    Assumes: two h d x d matrices per block hold all parameters; sizes are not rounded.
    """
    parameters = sqrt(training_flops / (6.0 * scaling.tokens_per_parameter))
    scale = training_flops / scaling.reference_flops
    layers = scaling.reference_layers * scale**scaling.depth_exponent
    return Sizes(
        parameters=parameters,
        tokens=scaling.tokens_per_parameter * parameters,
        batch=scaling.reference_batch * scale**scaling.batch_exponent,
        layers=layers,
        hidden=sqrt(parameters / (2.0 * scaling.hidden_factor * layers)),
    )


def latency_floor(layers: Number, latency: Number) -> Number:
    """Return a lower bound on the time of a batch on any hardware, 4 L tau.

    Assumes: each block waits for a reduction and a broadcast, forward and backward; tau is the time
    of one step of communication and cannot be hidden.
    """
    return 4.0 * layers * latency


def step_slack(sizes: Sizes, longest_run: Number) -> Number:
    """Return the time available for each communication step of a run, T / (D / B) / (4 L)."""
    return longest_run * sizes.batch / sizes.tokens / (4.0 * sizes.layers)


def latency_wall(inputs: TimedInputs) -> tuple[Number, Number]:
    """Return the largest run that latency allows, 0 without a limit, and whether there is one.

    C = C0 [T_max B0 / (4 L0 tau sqrt(rho C0 / 6))]^(1 / (1/2 + lambda - beta))

    Assumes: the root of (D / B) 4 L tau = T_max; there is none without latency, where batches grow
    faster than steps, or beyond the range of a float.
    """
    scaling, latency = inputs.scaling, inputs.step_latency
    growth = 0.5 + scaling.depth_exponent - scaling.batch_exponent
    waits = latency > 0.0
    tokens = sqrt(scaling.tokens_per_parameter * scaling.reference_flops / 6.0)
    steps = 4.0 * scaling.reference_layers * where(waits, latency, 1.0) * tokens
    room = log(inputs.longest_run * scaling.reference_batch / steps)
    exponent: Any = log(scaling.reference_flops) + room / where(growth > 0.0, growth, 1.0)
    exists = waits & (growth > 0.0) & (abs(exponent) < LARGEST_EXPONENT)
    return where(exists, exp(where(exists, exponent, 0.0)), 0.0), exists


class Rates(NamedTuple):
    """Sustained rates of a device: FLOP/s on one-byte numbers, bytes/s of memory and network."""

    arithmetic: Number
    memory: Number
    network: Number


def device_rates(inputs: DeviceInputs) -> Rates:
    """Return the sustained rates of a device of one or more accelerators, for one-byte numbers.

    The efficiency applies to arithmetic and memory, not to the network. A pod of accelerators has
    the network bandwidth of one.
    """
    system = inputs.system
    each = system.matrix_efficiency * inputs.pod_size
    return Rates(
        arithmetic=each * (system.matrix_flops * inputs.rate_width),
        memory=each * system.hbm_bandwidth,
        network=1.0 * system.network_bandwidth,
    )
