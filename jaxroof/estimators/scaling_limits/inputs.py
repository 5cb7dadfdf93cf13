"""Inputs that the studies of data movement share: the scaling of runs and the device rates."""

from typing import Any

from jaxroof.catalog.lookup import system as system_named
from jaxroof.catalog.system import System
from jaxroof.estimators.scaling_limits.data_movement import Rates
from jaxroof.estimators.scaling_limits.training_scale import Sizes, latency_wall, run_sizes
from jaxroof.records import Number, quantity, record

LARGEST_RUN = 1e45  # FLOP; larger values are assumed to be typing errors
STEEPEST = 2.0  # larger exponents are assumed to be typing errors, too
SEASON = 7776000.0  # 90 days in s
EXAMPLE_DEVICE = "h100-sxm5"


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


def sizes_of(training_flops: Number, scaling: Scaling) -> Sizes:
    """Return the sizes of a run under a scaling."""
    return run_sizes(
        training_flops,
        scaling.tokens_per_parameter,
        scaling.reference_flops,
        scaling.reference_batch,
        scaling.reference_layers,
        scaling.batch_exponent,
        scaling.depth_exponent,
        scaling.hidden_factor,
    )


def device_rates(pod_size: Number, rate_width: Number, system: System) -> Rates:
    """Return the sustained rates of a device of one or more accelerators, for one-byte numbers.

    The efficiency applies to arithmetic and memory, not to the network. A pod of accelerators has
    the network bandwidth of one.
    """
    return Rates(
        arithmetic=device_arithmetic(pod_size, rate_width, system),
        memory=system.matrix_efficiency * pod_size * system.hbm_bandwidth,
        network=1.0 * system.network_bandwidth,
    )


def device_arithmetic(pod_size: Number, rate_width: Number, system: System) -> Number:
    """Return the sustained arithmetic rate of a device on one-byte numbers."""
    return system.matrix_efficiency * pod_size * (system.matrix_flops * rate_width)


def wall_of(inputs: Any) -> tuple[Number, Number]:
    """Return the latency wall of the inputs, and whether there is one."""
    scaling = inputs.scaling
    return latency_wall(
        inputs.longest_run,
        inputs.step_latency,
        scaling.tokens_per_parameter,
        scaling.reference_flops,
        scaling.reference_batch,
        scaling.reference_layers,
        scaling.batch_exponent,
        scaling.depth_exponent,
    )


def example_system() -> System:
    """Return the accelerator of the published study."""
    return system_named(EXAMPLE_DEVICE)
