"""One linear layer and one microbatch: its time, and the resource that limits it."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.scaling_limits import data_movement as costs
from jaxroof.estimators.scaling_limits.inputs import DeviceInputs, device_rates, example_system
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number, quantity, record


@record
class LayerInputs(DeviceInputs):
    """The widths of a layer, its split and the number of tokens.

    Degrees are real numbers and need not divide the widths.
    """

    inputs: Number = quantity("1", "Width that enters the layer.", symbol="I")
    outputs: Number = quantity("1", "Width that leaves the layer.", symbol="O")
    tokens: Number = quantity("token", "Tokens of one microbatch, all replicas.", symbol="b")
    input_ranks: Number = quantity("1", "Devices that share the entering width.", default=1.0)
    output_ranks: Number = quantity("1", "Devices that share the leaving width.", default=1.0)
    data: Number = quantity("1", "Data-parallel degree.", default=1.0)
    traffic_coefficient: Number = quantity(
        "1", "Words sent and received for each word that ranks add up.", default=3.0, symbol="kappa"
    )


@record
class LayerReport:
    """Work, times and bounds of one layer, forward and backward, on one device."""

    flops: Number = quantity("FLOP", "Arithmetic of one device.")
    memory_words: Number = quantity("1", "Numbers through memory.")
    network_words: Number = quantity("1", "Numbers through the network.")
    intensity: Number = quantity("FLOP/B", "Arithmetic per byte of memory traffic.")
    network_intensity: Number = quantity(
        "FLOP/B", "Arithmetic per byte on the network; 0 where nothing is sent."
    )
    math_time: Number = quantity("s", "Time of the arithmetic.")
    memory_time: Number = quantity("s", "Time of the memory traffic.")
    network_time: Number = quantity("s", "Time of the communication.")
    layer_time: Number = quantity("s", "Time of the layer: everything overlaps.")
    gradient_words: Number = quantity("1", "Numbers of the sum of gradients at a batch's end.")
    end_time: Number = quantity("s", "Time of the sum of gradients at the end of a batch.")
    compute_bound: Any = quantity("1", "Arithmetic takes the longest.")
    memory_bound: Any = quantity("1", "Memory traffic takes the longest.")
    network_bound: Any = quantity("1", "Communication takes the longest.")


def step(inputs: LayerInputs, recipe: None) -> LayerReport:
    """Return the work and the times of one layer."""
    i = inputs
    rates = device_rates(i.pod_size, i.rate_width, i.system)
    amounts = costs.layer_amounts(
        i.inputs,
        i.outputs,
        i.tokens / i.data,
        i.input_ranks,
        i.output_ranks,
        i.traffic_coefficient,
    )
    times = costs.busy(amounts, rates, i.width)
    time = costs.longest(times)
    weights = (i.inputs / i.input_ranks) * (i.outputs / i.output_ranks)
    words = costs.allreduce_words(weights, i.data, i.traffic_coefficient)
    gradient = costs.busy(costs.Amounts(0.0, words, words), rates, i.width)
    flops, bytes_sent = amounts.flops, amounts.network * i.width
    return LayerReport(
        flops=flops,
        memory_words=amounts.memory,
        network_words=amounts.network,
        intensity=flops / (amounts.memory * i.width),
        network_intensity=costs.intensity(flops, bytes_sent),
        math_time=times.flops,
        memory_time=times.memory,
        network_time=times.network,
        layer_time=time,
        gradient_words=words,
        end_time=larger(gradient.memory, gradient.network),
        compute_bound=times.flops >= time,
        memory_bound=times.memory >= time,
        network_bound=times.network >= time,
    )


def example() -> LayerInputs:
    """Return the layer of the published study."""
    return LayerInputs(
        system=example_system(),
        inputs=16384.0,
        outputs=81920.0,
        tokens=32768.0,
        input_ranks=8.0,
        output_ranks=40.0,
        data=32.0,
    )


linear_layer = Estimator(
    step=step,
    inputs=LayerInputs,
    name="linear_layer",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["linear_layer"],
)
