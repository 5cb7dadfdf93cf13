"""How far a training step spreads over accelerators before its links bind."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.defaults import both_ways, machine, value_or
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import training_bounds as bounds
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
    hidden: Number = quantity(
        "1", "Width of the residual stream, where feedforward is not given.", default=None
    )
    expansion: Number = quantity("1", "Width inside the MLP over hidden.", default=4.0)
    tokens: Number = quantity(
        "token",
        "Tokens of one batch; sequences times sequence if not given.",
        default=None,
        symbol="B",
    )
    sequences: Number = quantity(
        "sequence", "Sequences of one batch, where tokens are not given.", default=None
    )
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
    ranks: Number = quantity(
        "1", "Nodes that exchange gradients; as if very many if not given.", default=None
    )
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
    two_node_limit: Number = quantity(
        "1", "Tensor degree of a fast node and links to a second.", better="higher"
    )
    expert_feedforward: Number = quantity(
        "1", "Width of an expert from which experts spread over nodes."
    )
    mixed_data: Number = quantity("1", "Data degree of the best mixed split.")
    mixed_tensor: Number = quantity("1", "Tensor degree of the best mixed split.")
    mixed_tokens: Number = quantity("token", "Tokens an accelerator needs at the best mixed split.")
    mixed_batch: Number = quantity("token", "Tokens that the accelerators of a pod need for that.")
    mixed_ratio: Number = quantity(
        "1", "Arithmetic over communication at the best mixed split.", better="higher"
    )
    share: Number = quantity("1", "Communication over arithmetic at the split given.")
    data_hides: Any = quantity("1", "The batch is large enough for data parallelism.")
    tensor_hides: Any = quantity("1", "The tensor degree does not bind.")
    mixed_hides: Any = quantity("1", "The batch is large enough for the best mixed split.")


def bound(inputs: BoundsInputs, recipe: None) -> Bounds:
    """Return the bounds of every way to split."""
    i = inputs
    balance = value_or(
        i.balance,
        lambda: machine(i.system).matrix_flops / value_or(i.bandwidth, lambda: both_ways(i.system)),
    )
    alpha = balance * (i.width / 2.0)  # as bytes of a 2-byte element
    feedforward = value_or(i.feedforward, lambda: i.expansion * i.hidden)
    batch = value_or(i.tokens, lambda: i.sequences * i.sequence)
    of_pod = batch / i.pods
    each = of_pod / i.chips
    axes = (i.data_axes, i.tensor_axes)
    needed = bounds.data_bound(alpha, i.data_axes, i.stages, i.experts, i.active_experts)
    few = 1.0 if isinstance(i.ranks, Absent) else bounds.few_share(i.ranks)
    best = bounds.mixed_data(feedforward, of_pod, i.chips, *axes)
    data = value_or(i.data, lambda: i.chips / value_or(i.tensor, lambda: i.chips / best))
    tensor = value_or(i.tensor, lambda: i.chips / data)
    limit = bounds.tensor_bound(feedforward, alpha, i.tensor_axes)
    mixed = bounds.mixed_bound(feedforward, alpha, *axes)
    return Bounds(
        link_balance=balance,
        batch=batch,
        tokens_per_chip=each,
        data_tokens=needed,
        data_tokens_few=needed * few,
        data_batch=needed * i.chips,
        data_chips=batch / needed,
        tensor_limit=limit,
        feedforward_needed=bounds.tensor_feedforward(tensor, alpha, i.tensor_axes),
        two_node_limit=bounds.two_node_bound(feedforward, alpha, i.node),
        expert_feedforward=bounds.expert_feedforward(alpha, i.node),
        mixed_data=best,
        mixed_tensor=i.chips / best,
        mixed_tokens=mixed,
        mixed_batch=mixed * i.chips,
        mixed_ratio=bounds.mixed_ratio(feedforward, of_pod, i.chips, alpha, *axes),
        share=bounds.communication_share(feedforward, data, tensor, of_pod, alpha, *axes),
        data_hides=each >= needed * few,
        tensor_hides=tensor <= limit,
        mixed_hides=each >= mixed,
    )


training_bounds = Estimator(
    step=bound,
    inputs=BoundsInputs,
    name="training_bounds",
    names={"system": named.labelled_system},
    example=lambda: BoundsInputs(
        system=named.system("tpu-v5p"),
        feedforward=28672.0,
        tokens=4e6,
        chips=8960.0,
        data_axes=2.0,
    ),
    about=QUESTIONS["training_bounds"],
)
