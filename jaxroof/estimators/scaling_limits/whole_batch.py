"""The phases, time and utilisation of one batch of a training run under a given split."""

import functools
import operator
from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.scaling_limits import data_movement as costs
from jaxroof.estimators.scaling_limits.data_movement import Degrees
from jaxroof.estimators.scaling_limits.inputs import (
    LARGEST_RUN,
    RunInputs,
    device_rates,
    example_system,
    sizes_of,
)
from jaxroof.records import Number, quantity, record


@record
class BatchInputs(RunInputs):
    """A training run, its split and the machine; degrees are real numbers."""

    training_flops: Number = quantity(
        "FLOP", "Arithmetic of the whole training run.", most=LARGEST_RUN, symbol="C"
    )
    pipeline: Number = quantity("1", "Pipeline stages.", default=1.0)
    data: Number = quantity("1", "Data-parallel degree.", default=1.0)
    hidden_tensor: Number = quantity("1", "Devices that share the hidden width.", default=1.0)
    residual_tensor: Number = quantity("1", "Devices that share the residual width.", default=1.0)
    microbatches: Number = quantity("1", "Microbatches of a batch.", default=1.0, symbol="M")


@record
class BatchReport:
    """Sizes of the model, busy times of the four phases, and times of the batch and the run."""

    parameters: Number = quantity("1", "Parameters of the model.")
    tokens: Number = quantity("token", "Tokens of the training run.")
    batch: Number = quantity("token", "Tokens of one batch.")
    layers: Number = quantity("1", "Residual blocks.")
    hidden: Number = quantity("1", "Residual width.")
    devices: Number = quantity("1", "Devices in use.")
    boundary_math: Number = quantity("s", "Arithmetic at the boundary of two batches.")
    boundary_memory: Number = quantity("s", "Memory traffic at the boundary of two batches.")
    boundary_network: Number = quantity("s", "Communication at the boundary of two batches.")
    reducing_math: Number = quantity("s", "Arithmetic of the layers that hide gradient sums.")
    reducing_memory: Number = quantity("s", "Memory traffic of the layers that hide gradient sums.")
    reducing_network: Number = quantity(
        "s", "Communication of the layers that hide gradient sums, those included."
    )
    sustained_math: Number = quantity("s", "Arithmetic of the layer that hides none.")
    sustained_memory: Number = quantity("s", "Memory traffic of the layer that hides none.")
    sustained_network: Number = quantity("s", "Communication of the layer that hides none.")
    bubble_math: Number = quantity("s", "Arithmetic that the first stage waits for.")
    bubble_memory: Number = quantity("s", "Memory traffic that the first stage waits for.")
    bubble_network: Number = quantity("s", "Communication that the first stage waits for.")
    batch_time: Number = quantity("s", "Time of one batch.")
    train_time: Number = quantity("s", "Time of the training run.")
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    relative_utilisation: Number = quantity(
        "1", "Share of the sustained rate in use.", better="higher", headline=True
    )
    legal: Any = quantity("1", "No more stages than blocks or microbatches, no degree below 1.")


def step(inputs: BatchInputs, recipe: None) -> BatchReport:
    """Return the phases and times of a batch under a given split."""
    i = inputs
    split = Degrees(i.pipeline, i.data, i.hidden_tensor, i.residual_tensor, i.microbatches)
    sizes = sizes_of(i.training_flops, i.scaling)
    rates = device_rates(i.pod_size, i.rate_width, i.system)
    phases = costs.batch_phases(
        sizes, split, rates, i.width, i.scaling.hidden_factor, i.traffic_coefficient
    )
    batch_time = costs.phases_time(phases)
    train_time = sizes.tokens / sizes.batch * batch_time
    devices = i.pipeline * i.data * i.hidden_tensor * i.residual_tensor
    relative = costs.utilisation(i.training_flops, train_time, devices, rates.arithmetic, i.width)
    whole = functools.reduce(operator.and_, (degree >= 1.0 for degree in split))
    fields = ("boundary", "reducing", "sustained", "bubble")
    resources = ("math", "memory", "network")
    busy = {
        f"{phase}_{resource}": seconds
        for phase, times in zip(fields, phases, strict=True)
        for resource, seconds in zip(resources, times, strict=True)
    }
    return BatchReport(
        **sizes._asdict(),
        **busy,
        devices=devices,
        batch_time=batch_time,
        train_time=train_time,
        utilisation=relative * i.system.matrix_efficiency,
        relative_utilisation=relative,
        legal=whole & (i.pipeline <= sizes.layers) & (i.pipeline <= i.microbatches),
    )


def example() -> BatchInputs:
    """Return a run of 1e27 FLOP on 8,192 devices."""
    return BatchInputs(
        system=example_system(),
        training_flops=1e27,
        pipeline=8.0,
        data=64.0,
        hidden_tensor=8.0,
        residual_tensor=2.0,
        microbatches=64.0,
    )


whole_batch = Estimator(
    step=step,
    inputs=BatchInputs,
    name="whole_batch",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["whole_batch"],
)
