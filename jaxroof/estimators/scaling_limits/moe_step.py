"""An older model: one training step of a transformer with routed experts."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.scaling_limits import older_models as costs
from jaxroof.estimators.scaling_limits.inputs import example_system
from jaxroof.formulas.arithmetic import larger, where, whole
from jaxroof.records import Number, quantity, record


@record
class MoeInputs:
    """A stack of MLPs with experts, its split and the machine (8-bit numbers by default)."""

    system: System
    layers: Number = quantity("1", "Layers.", whole=True, symbol="L")
    hidden: Number = quantity("1", "Width of the residual stream.", whole=True, symbol="D")
    feedforward: Number = quantity("1", "Width inside an expert.", whole=True, symbol="F")
    experts: Number = quantity(
        "1", "Experts, which is the expert-parallel degree too.", whole=True, symbol="E"
    )
    active_experts: Number = quantity("1", "Experts of one token.", whole=True, symbol="k")
    sequence: Number = quantity("token", "Tokens of one sequence.", whole=True, symbol="s")
    global_batch: Number = quantity("sequence", "Sequences of one batch.", whole=True, symbol="b")
    microbatch: Number = quantity("sequence", "Sequences of one microbatch.", whole=True)
    pipeline: Number = quantity("1", "Pipeline stages.", whole=True, default=1.0)
    interleave: Number = quantity("1", "Chunks of layers a stage holds.", whole=True, default=1.0)
    data: Number = quantity("1", "Data-parallel degree.", whole=True, default=1.0)
    feedforward_tensor: Number = quantity(
        "1", "Devices that share the width inside an expert.", whole=True, default=1.0
    )
    residual_tensor: Number = quantity(
        "1", "Devices that share the residual width.", whole=True, default=1.0
    )
    tokens_per_parameter: Number = quantity(
        "1", "Training tokens of each parameter, experts counted.", whole=True, default=20.0
    )
    width: Number = quantity("B", "Bytes of one number.", default=1.0, symbol="w")
    rate_width: Number = quantity(
        "B", "Bytes of the numbers that the matrix rate is for.", default=2.0
    )


@record
class MoeReport:
    """Counts of the model and the parts of a step."""

    devices: Number = quantity("1", "Devices in use.")
    parameters: Number = quantity("1", "Parameters of all experts.")
    active_parameters: Number = quantity("1", "Parameters that one token passes.")
    batches: Number = quantity("1", "Whole batches of the training run.")
    matmul_tokens: Number = quantity("token", "Tokens of one matrix product on one device.")
    matmul_time: Number = quantity("s", "Time of one matrix product on one device.")
    bubble_time: Number = quantity("s", "Time that the pipeline fills and drains.")
    steady_time: Number = quantity("s", "Time of the arithmetic in steady state.")
    gradient_time: Number = quantity("s", "Time of the sum of gradients.")
    batch_time: Number = quantity("s", "Time of one batch.")
    train_time: Number = quantity("s", "Time of the training run.")
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    legal: Any = quantity(
        "1", "No token has more experts than there are, no stage less than a layer a chunk."
    )


def step(inputs: MoeInputs, recipe: None) -> MoeReport:
    """Return the parts of a step.

    The sheet is a summary. We use peak rates (a later version divides them by a base utilisation).
    Memory traffic scales with the bytes of a number (the sheet assumes 8 bits). Each of the
    pipeline - 1 waits crosses one boundary between stages. Parts that round down to 0 count as 1.
    """
    i, system = inputs, inputs.system
    rate, bandwidth = system.matrix_flops * i.rate_width, 1.0 * system.network_bandwidth
    devices = i.pipeline * i.data * i.feedforward_tensor * i.residual_tensor * i.experts
    expert = 2.0 * i.layers * i.hidden * i.feedforward
    parameters, active = expert * i.experts, expert * i.active_experts
    tokens = i.microbatch * i.sequence
    each = whole(tokens * i.active_experts, i.data * i.experts)
    product = costs.expert_matmul_time(
        whole(i.feedforward, i.feedforward_tensor),
        whole(i.hidden, i.residual_tensor),
        each,
        i.width,
        rate,
        system.hbm_bandwidth,
    )
    inner, outer = _sums(inputs)
    hop = costs.transfer_time(tokens * i.hidden, devices / i.pipeline, i.width, bandwidth)
    waits = i.pipeline - 1.0
    layers = waits * i.layers / (i.pipeline * i.interleave)
    bubble = layers * (6.0 * product + 2.0 * inner + 2.0 * outer) + waits * 2.0 * hop
    steady = 3.0 * whole(i.layers, i.pipeline) * 2.0 * product * (i.global_batch / i.microbatch)
    ways = larger(whole(devices, i.data), 1.0)
    gradient = costs.sum_time(parameters, ways, i.data, i.width, bandwidth)
    batch_time = bubble + steady + gradient
    batches = whole(i.tokens_per_parameter * parameters, i.global_batch * i.sequence)
    work = 6.0 * active * i.global_batch * i.sequence * i.width
    runs = batch_time > 0.0
    share = work / (devices * rate * where(runs, batch_time, 1.0))
    return MoeReport(
        devices=devices,
        parameters=parameters,
        active_parameters=active,
        batches=batches,
        matmul_tokens=each,
        matmul_time=product,
        bubble_time=bubble,
        steady_time=steady,
        gradient_time=gradient,
        batch_time=batch_time,
        train_time=batches * batch_time,
        utilisation=where(runs, share, 0.0),
        legal=(i.active_experts <= i.experts) & (i.pipeline * i.interleave <= i.layers),
    )


def _sums(inputs: MoeInputs) -> tuple[Number, Number]:
    """Return the times of the reductions over the two widths of a layer, for one microbatch."""
    i, bandwidth = inputs, inputs.system.network_bandwidth
    tokens = i.microbatch * i.sequence
    inner = costs.sum_time(
        tokens * i.feedforward * i.active_experts,
        i.data * i.feedforward_tensor * i.experts,
        i.residual_tensor,
        i.width,
        bandwidth,
    )
    outer = costs.sum_time(
        tokens * i.hidden,
        larger(whole(i.data * i.residual_tensor * i.experts, i.active_experts), 1.0),
        i.active_experts * i.feedforward_tensor,
        i.width,
        bandwidth,
    )
    return inner, outer


def example() -> MoeInputs:
    """Return a step of eight experts, two of them active, on 1,024 accelerators."""
    return MoeInputs(
        system=example_system(),
        layers=64.0,
        hidden=8192.0,
        feedforward=32768.0,
        experts=8.0,
        active_experts=2.0,
        sequence=4096.0,
        global_batch=1024.0,
        microbatch=16.0,
        pipeline=8.0,
        interleave=2.0,
        data=4.0,
        feedforward_tensor=2.0,
        residual_tensor=2.0,
    )


moe_step = Estimator(
    step=step,
    inputs=MoeInputs,
    name="moe_step",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["moe_step"],
)
