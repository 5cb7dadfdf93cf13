"""Two older models of training at scale: a step with routed experts, and closed-form degrees.

Source: docs/models/linear_data_movement.md, part D.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers
from jaxroof.estimators.scaling_limits.data_movement import (
    EXAMPLE_DEVICE,
    LARGEST_RUN,
    DeviceInputs,
    Scaling,
    Sizes,
    sizes_of,
)
from jaxroof.formulas.arithmetic import larger, smaller, sqrt, where, whole
from jaxroof.records import Number, quantity, record

# ---- A step with routed experts (section D1) ----------------------------------------------------


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


def _transfer(inputs: MoeInputs, size: Number, ways: Number) -> Number:
    """Return the time to send and receive an array sharded over devices, 2 (n / p) w / W."""
    return 2.0 * (size / ways) * inputs.width / inputs.system.network_bandwidth


def _summed(inputs: MoeInputs, size: Number, ways: Number, degree: Number) -> Number:
    """Return the time to reduce an array: one transfer, for any number of ranks above 1."""
    return where(degree > 1.0, _transfer(inputs, size, ways), 0.0)


@answers(
    EXAMPLE_DEVICE,
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
def moe_step(inputs: MoeInputs, recipe: None) -> MoeReport:
    """Return the parts of a step.

    The sheet is a summary. We use peak rates (a later version divides them by a base utilisation).
    Memory traffic scales with the bytes of a number (the sheet assumes 8 bits). Each of the
    pipeline - 1 waits crosses one boundary between stages. Parts that round down to 0 count as 1.
    """
    i, system = inputs, inputs.system
    rate = system.matrix_flops * i.rate_width
    devices = i.pipeline * i.data * i.feedforward_tensor * i.residual_tensor * i.experts
    expert = 2.0 * i.layers * i.hidden * i.feedforward
    parameters, active = expert * i.experts, expert * i.active_experts
    tokens = i.microbatch * i.sequence
    each = whole(tokens * i.active_experts, i.data * i.experts)
    wide, tall = whole(i.feedforward, i.feedforward_tensor), whole(i.hidden, i.residual_tensor)
    # max(2 A C t w / F, w (A C + C t + A t) / H), F the rate on 8-bit numbers
    moved = wide * tall + tall * each + wide * each
    product = larger(
        2.0 * wide * tall * each * i.width / rate, i.width * moved / system.hbm_bandwidth
    )
    inner = _summed(
        i,
        tokens * i.feedforward * i.active_experts,
        i.data * i.feedforward_tensor * i.experts,
        i.residual_tensor,
    )
    outer = _summed(
        i,
        tokens * i.hidden,
        larger(whole(i.data * i.residual_tensor * i.experts, i.active_experts), 1.0),
        i.active_experts * i.feedforward_tensor,
    )
    hop = _transfer(i, tokens * i.hidden, devices / i.pipeline)
    waits = i.pipeline - 1.0
    layers = waits * i.layers / (i.pipeline * i.interleave)
    bubble = layers * (6.0 * product + 2.0 * inner + 2.0 * outer) + waits * 2.0 * hop
    steady = 3.0 * whole(i.layers, i.pipeline) * 2.0 * product * (i.global_batch / i.microbatch)
    gradient = _summed(i, parameters, larger(whole(devices, i.data), 1.0), i.data)
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


# ---- Degrees in closed form (section D2) --------------------------------------------------------


class Crowd(NamedTuple):
    """Degrees of the closed form, words per token and block, and the stage of growth (of three)."""

    tensor: Number
    hidden_tensor: Number
    data: Number
    traffic: Number
    stage: Number


def crowd(sizes: Sizes, devices: Number, hidden_factor: Number, allowed: Number) -> Crowd:
    """Return the degrees that the first optimiser chooses, and the words per token and block.

    words = 4 d (L - 1) / L + 8 d (tp - 1) + 8 h d (tp2 - 1) + (p_d - 1) 4 N / (L B), pp = L,
    tp2 = tp / h: first tp = sqrt(h n / L) and p_d = 1. When this sends more than is allowed, tp
    stays where it reached the bound and p_d grows. When p_d would cost more than tp, all three cost
    the same

    Assumes: degrees are real. tp stays exactly at the bound, not at the last grid point below it,
    or at its value for n = L if even that exceeds the bound. Degrees below 1, near n = L, count
    with negative words, but the sum is at least 0.
    """
    layers, hidden = sizes.layers, sizes.hidden
    tensor_words, hidden_words = 8.0 * hidden, 8.0 * hidden_factor * hidden
    data_words = 4.0 * sizes.parameters / (layers * sizes.batch)
    hops = (layers - 1.0) * 4.0 * hidden / layers
    share = devices / layers
    grown = sqrt(hidden_factor * share)
    fixed = hops - tensor_words - hidden_words
    first = fixed + 2.0 * tensor_words * grown  # tp2 times its words is tp times its own
    hidden_away = first <= allowed

    bound = larger((allowed - fixed) / (2.0 * tensor_words), sqrt(hidden_factor))
    frozen = smaller(bound, grown)
    data = share * hidden_factor / frozen**2.0
    equal = data * data_words > frozen * tensor_words
    cost = (tensor_words * hidden_words * data_words * share) ** (1.0 / 3.0)
    tensor = where(hidden_away, grown, where(equal, cost / tensor_words, frozen))
    replicas = where(hidden_away, 1.0, where(equal, cost / data_words, data))
    return Crowd(
        tensor=tensor,
        hidden_tensor=tensor / hidden_factor,
        data=replicas,
        traffic=larger(fixed + 2.0 * tensor_words * tensor + (replicas - 1.0) * data_words, 0.0),
        stage=where(hidden_away, 1.0, where(equal, 3.0, 2.0)),
    )


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


@answers(EXAMPLE_DEVICE, training_flops=1e25, devices=20000.0)
def closed_form(inputs: ClosedFormInputs, recipe: None) -> ClosedFormReport:
    """Return the degrees for a number of devices, and the utilisation.

    The sheet is a summary. We allow any number of devices instead of a grid of 0.001 decades. So
    tensor degrees stop growing exactly where communication is no longer hidden, not at the last
    grid point before. If it is never hidden, they stay at their values for one device per block.
    """
    i = inputs
    sizes, factor = sizes_of(i.training_flops, i.scaling), i.scaling.hidden_factor
    arithmetic = i.system.matrix_efficiency * i.pod_size * (i.system.matrix_flops * i.rate_width)
    network = 1.0 * i.system.network_bandwidth
    work = 6.0 * sizes.parameters / sizes.layers
    math_time = i.width * work / arithmetic
    hides = math_time * network / i.width
    found = crowd(sizes, i.devices, factor, hides)
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
