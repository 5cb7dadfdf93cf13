"""How far a training step spreads before its links bind: in a pod, in stages, over pods.

A layer is an MLP of two matrices, D x F and F x D. All bounds follow from one ratio, communication
time over arithmetic time, with the balance alpha = C / W of the FLOP rate and the link rate. Here
alpha is for elements of 2 bytes. For s bytes it is s / 2 times that, so a format with half the
bytes and twice the rate has the same bounds.

Source: docs/models/op_rooflines.md, sections 4, 5 and 9.
"""

from collections.abc import Callable
from typing import Any

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers, higher, optional
from jaxroof.estimators.book.common import both_ways, machine, value_or
from jaxroof.formulas.arithmetic import sqrt
from jaxroof.formulas.network import others
from jaxroof.records import Absent, Number, quantity, record


@record
class BoundsInputs:
    """A layer, a batch and a number of accelerators, with the links of one collective.

    ``balance`` or ``bandwidth`` stand for what follows from the machine where they are given: say
    for links between nodes, or for another format.
    """

    system: System | None = None
    balance: Number = quantity(
        "FLOP/B", "Peak rate over link bandwidth; the machine's if not given.", default=None
    )
    bandwidth: Number = quantity(
        "B/s",
        "Bandwidth of a collective on one axis, both ways; the machine's if not given.",
        default=None,
    )
    feedforward: Number = quantity(
        "1",
        "Width inside the MLP, or one expert; expansion times hidden if not given.",
        default=None,
        symbol="F",
    )
    hidden: Number = optional("1", "Width of the residual stream, where feedforward is not given.")
    expansion: Number = quantity("1", "Width inside the MLP over hidden.", default=4.0)
    tokens: Number = quantity(
        "token",
        "Tokens of one batch; sequences times sequence if not given.",
        default=None,
        symbol="B",
    )
    sequences: Number = optional("sequence", "Sequences of one batch, where tokens are not given.")
    sequence: Number = quantity("token", "Tokens of one sequence.", default=4096.0, symbol="T")
    chips: Number = quantity("1", "Accelerators of one pod.", symbol="N")
    pods: Number = quantity("1", "Pods, the batch split over them.", default=1.0)
    data_axes: Number = quantity("1", "Axes that gather weights.", default=1.0)
    tensor_axes: Number = quantity("1", "Axes that gather activations.", default=1.0)
    data: Number = quantity(
        "1",
        "Data degree; chips over the tensor degree, or the best, if not given.",
        default=None,
        symbol="X",
    )
    tensor: Number = quantity(
        "1", "Tensor degree; chips over the data degree if not given.", default=None, symbol="Y"
    )
    ranks: Number = optional("1", "Nodes that exchange gradients; as if very many if not given.")
    stages: Number = quantity("1", "Pipeline stages.", default=1.0)
    experts: Number = quantity("1", "Expert MLPs of a layer.", default=1.0, symbol="E")
    active_experts: Number = quantity("1", "Experts that a token meets.", default=1.0, symbol="k")
    width: Number = quantity("B", "Bytes of one element sent.", default=2.0)
    node: Number = quantity("1", "Accelerators of one node.", default=8.0)


@record
class Bounds:
    """What each way to split needs, so that communication hides behind arithmetic."""

    link_balance: Number = quantity("FLOP/B", "Peak rate over link bandwidth.")
    batch: Number = quantity("token", "Tokens of one batch.")
    tokens_per_chip: Number = quantity("token", "Tokens of one accelerator.")
    data_tokens: Number = quantity(
        "token", "Tokens an accelerator needs, data parallel or with sharded weights."
    )
    data_tokens_few: Number = quantity("token", "The same where few nodes exchange gradients.")
    data_batch: Number = quantity("token", "Tokens that the accelerators of a pod need for that.")
    data_chips: Number = quantity("1", "Accelerators that the batch feeds so.", better="higher")
    tensor_limit: Number = quantity("1", "Tensor degree that does not bind yet.", better="higher")
    feedforward_needed: Number = quantity("1", "Width that the tensor degree needs.")
    two_node_limit: Number = higher("1", "Tensor degree of a fast node and links to a second.")
    expert_feedforward: Number = quantity(
        "1", "Width of an expert from which experts spread over nodes."
    )
    mixed_data: Number = quantity("1", "Data degree of the best mixed split.")
    mixed_tensor: Number = quantity("1", "Tensor degree of the best mixed split.")
    mixed_tokens: Number = quantity("token", "Tokens an accelerator needs at the best mixed split.")
    mixed_batch: Number = quantity("token", "Tokens that the accelerators of a pod need for that.")
    mixed_ratio: Number = higher("1", "Arithmetic over communication at the best mixed split.")
    share: Number = quantity("1", "Communication over arithmetic at the split given.")
    data_hides: Any = quantity("1", "The batch is large enough for data parallelism.")
    tensor_hides: Any = quantity("1", "The tensor degree does not bind.")
    mixed_hides: Any = quantity("1", "The batch is large enough for the best mixed split.")


@answers("tpu-v5p-book", feedforward=28672.0, tokens=4e6, chips=8960.0, data_axes=2.0)
def training_bounds(inputs: BoundsInputs, recipe: None) -> Bounds:
    """Return the bounds of every way to split.

    Weights are gathered over X (4 D F / Y bytes forward), activations over Y (4 B D / X); both hide
    behind 4 B D F / (X Y) FLOP, so that
    share r = alpha (X / (M_X B) + Y / (M_Y F)); data parallelism needs alpha E / (k M_X p) tokens a
    chip, tensor parallelism hides up to M_Y F / alpha; r is least at X = sqrt((B / F) (M_X / M_Y)
    N), where it is 2 alpha sqrt(N / (B F M_X M_Y)) and 4 alpha^2 / (M_X M_Y F) tokens a chip are
    enough
    """
    i = inputs
    balance = value_or(
        i.balance,
        lambda: machine(i.system).matrix_flops / value_or(i.bandwidth, lambda: both_ways(i.system)),
    )
    alpha = balance * (i.width / 2.0)  # as bytes of a 2-byte element
    feedforward = value_or(i.feedforward, lambda: i.expansion * i.hidden)
    batch = value_or(i.tokens, lambda: i.sequences * i.sequence)
    of_pod = batch / i.pods
    each, axes = of_pod / i.chips, i.data_axes * i.tensor_axes
    needed = alpha * i.experts / (i.active_experts * i.data_axes * i.stages)
    few = 1.0 if isinstance(i.ranks, Absent) else others(i.ranks)  # they keep their own parts
    best = sqrt(of_pod / feedforward * (i.data_axes / i.tensor_axes) * i.chips)
    data = value_or(i.data, lambda: i.chips / value_or(i.tensor, lambda: i.chips / best))
    tensor = value_or(i.tensor, lambda: i.chips / data)
    limit = i.tensor_axes * feedforward / alpha
    mixed = 4.0 * alpha * alpha / (axes * feedforward)
    return Bounds(
        link_balance=balance,
        batch=batch,
        tokens_per_chip=each,
        data_tokens=needed,
        data_tokens_few=needed * few,
        data_batch=needed * i.chips,
        data_chips=batch / needed,
        tensor_limit=limit,
        feedforward_needed=alpha * tensor / i.tensor_axes,
        two_node_limit=i.node + feedforward / alpha,
        expert_feedforward=i.node * alpha,
        mixed_data=best,
        mixed_tensor=i.chips / best,
        mixed_tokens=mixed,
        mixed_batch=mixed * i.chips,
        mixed_ratio=sqrt(of_pod * feedforward * axes / i.chips) / (2.0 * alpha),
        share=alpha * (data / (i.data_axes * of_pod) + tensor / (i.tensor_axes * feedforward)),
        data_hides=each >= needed * few,
        tensor_hides=tensor <= limit,
        mixed_hides=each >= mixed,
    )


# ---- Stages and pods ----------------------------------------------------------------------------


@record
class PipelineInputs:
    """A batch that passes through pipeline stages in microbatches."""

    system: System | None = None
    bandwidth: Number = quantity(
        "B/s", "Bandwidth of a hop; that of a torus axis or fast domain if not given.", default=None
    )
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    tokens: Number = quantity("token", "Tokens of one batch.", symbol="B")
    stages: Number = quantity("1", "Pipeline stages, two at least.", whole=True, symbol="p")
    microbatches: Number = quantity("1", "Microbatches.", whole=True, symbol="M")
    activation_width: Number = quantity("B", "Bytes of one activation.", default=2.0)


@record
class Hops:
    """The messages between stages."""

    message: Number = quantity("B", "Bytes of one hop.")
    hop_time: Number = quantity("s", "Time of one hop.")
    hops: Number = quantity("1", "Hops that follow each other in one pass.")
    time: Number = quantity("s", "Time of those hops.", headline=True)


@answers("tpu-v5p-book", hidden=8192.0, tokens=65536.0, stages=8.0, microbatches=16.0)
def pipeline_hop(inputs: PipelineInputs, recipe: None) -> Hops:
    """Return the messages between stages: s B D / M bytes a hop, M + p - 2 hops one by one."""
    i = inputs
    bandwidth = value_or(i.bandwidth, lambda: both_ways(i.system))
    message = i.activation_width * i.tokens * i.hidden / i.microbatches
    time, count = message / bandwidth, i.microbatches + i.stages - 2.0
    return Hops(message=message, hop_time=time, hops=count, time=time * count)


@record
class PodsInputs:
    """A batch split over pods, each as one large accelerator; what is given holds as given."""

    system: System | None = None
    chips: Number = quantity(
        "1", "Accelerators of one pod; the machine's if not given.", default=None, symbol="N"
    )
    pods: Number = quantity("1", "Pods.", whole=True, symbol="X")
    tokens: Number = quantity("token", "Tokens of one batch.", symbol="B")
    pod_flops: Number = quantity(
        "FLOP/s", "Peak rate of a pod; that of its accelerators if not given.", default=None
    )
    pod_bandwidth: Number = quantity(
        "B/s", "Bandwidth out of a pod; that of its interfaces if not given.", default=None
    )


@record
class Pods:
    """What a pod needs, so that the sum of gradients over pods hides."""

    rate: Number = quantity("FLOP/s", "Peak rate of a pod.")
    bandwidth: Number = quantity("B/s", "Bandwidth out of a pod.")
    tokens_per_pod: Number = quantity("token", "Tokens of one pod.")
    pod_tokens: Number = quantity("token", "Tokens that a pod needs, of very many pods.")
    pod_tokens_few: Number = quantity("token", "The same of as many pods as there are.")
    hides: Any = quantity("1", "The batch is large enough.")


@answers("tpu-v5p-book", pods=10.0, tokens=4e6, pod_bandwidth=5e13)
def pods(inputs: PodsInputs, recipe: None) -> Pods:
    """Return what pods need to train together: C / W tokens each, less where pods are few."""
    i = inputs

    def pod(amount: Callable[[System], Number]) -> Number:
        return value_or(i.chips, lambda: machine(i.system).pod * 1.0) * amount(machine(i.system))

    flops = value_or(i.pod_flops, lambda: pod(lambda system: system.matrix_flops))
    bandwidth = value_or(
        i.pod_bandwidth, lambda: pod(lambda system: system.nics * system.slow_bandwidth)
    )
    needed = flops / bandwidth
    few = needed * others(i.pods)
    return Pods(
        rate=flops,
        bandwidth=bandwidth,
        tokens_per_pod=i.tokens / i.pods,
        pod_tokens=needed,
        pod_tokens_few=few,
        hides=i.tokens / i.pods >= few,
    )
