"""An older model: closed-form parallel degrees for any number of devices."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.scaling_limits.inputs import (
    LARGEST_RUN,
    DeviceInputs,
    Scaling,
    device_arithmetic,
    example_system,
    sizes_of,
)
from jaxroof.estimators.scaling_limits.older_models import crowd
from jaxroof.formulas.arithmetic import smaller, where
from jaxroof.records import Number, quantity, record


@record
class ClosedFormInputs(DeviceInputs):
    """A training run, its number of devices, and the machine; the reference batch is 4e6 tokens."""

    training_flops: Number = quantity(
        "FLOP", "Arithmetic of the whole training run.", most=LARGEST_RUN, symbol="C"
    )
    devices: Number = quantity("1", "Devices, at least as many as blocks.", symbol="n")
    scaling: Scaling = Scaling(reference_batch=4e6)


@record
class ClosedFormReport:
    """The degrees, the communication and FLOP per token and block, and the utilisation."""

    pipeline: Number = quantity("1", "Pipeline stages: one a block.")
    residual_tensor: Number = quantity("1", "Devices that share the residual width.")
    hidden_tensor: Number = quantity("1", "Devices that share the hidden width.")
    data: Number = quantity("1", "Data-parallel degree.")
    traffic: Number = quantity("B", "Bytes on the network, a token and block.")
    math_time: Number = quantity("s", "Time of the arithmetic of a token in a block.")
    network_time: Number = quantity("s", "Time of its bytes on the network.")
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    stage: Number = quantity(
        "1", "What gives way: 1 nothing yet, 2 the data degree grows, 3 all three cost the same."
    )
    covered: Any = quantity("1", "There are at least as many devices as blocks.")


def step(inputs: ClosedFormInputs, recipe: None) -> ClosedFormReport:
    """Return the degrees for a number of devices, and the utilisation.

    The sheet is a summary. We allow any number of devices instead of a grid of 0.001 decades. So
    tensor degrees stop growing exactly where communication is no longer hidden, not at the last
    grid point before. If it is never hidden, they stay at their values for one device per block.
    """
    i = inputs
    sizes, factor = sizes_of(i.training_flops, i.scaling), i.scaling.hidden_factor
    arithmetic = device_arithmetic(i.pod_size, i.rate_width, i.system)
    network = 1.0 * i.system.network_bandwidth
    work = 6.0 * sizes.parameters / sizes.layers
    math_time = i.width * work / arithmetic
    hides = math_time * network / i.width
    found = crowd(
        sizes.layers, sizes.hidden, sizes.parameters, sizes.batch, i.devices, factor, hides
    )
    share = smaller(1.0, hides / where(found.traffic > 0.0, found.traffic, hides))
    network_time = i.width * found.traffic / network
    return ClosedFormReport(
        pipeline=sizes.layers,
        residual_tensor=found.tensor,
        hidden_tensor=found.hidden_tensor,
        data=found.data,
        traffic=i.width * found.traffic,
        math_time=math_time,
        network_time=network_time,
        utilisation=i.system.matrix_efficiency * where(found.stage > 1.0, share, 1.0),
        stage=found.stage,
        covered=i.devices >= sizes.layers,
    )


def example() -> ClosedFormInputs:
    """Return a run of 1e25 FLOP on 20,000 devices."""
    return ClosedFormInputs(system=example_system(), training_flops=1e25, devices=20000.0)


closed_form = Estimator(
    step=step,
    inputs=ClosedFormInputs,
    name="closed_form",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["closed_form"],
)
