"""What the unfused blocks result in: a row an operator, and the sums."""

import dataclasses
from typing import Any

from jaxroof.records import Number, quantity, record


def text(doc: str) -> Any:
    """Declare a field that is a name: it takes no part in arithmetic."""
    return dataclasses.field(default="", metadata={"static": True, "doc": doc})


@record
class Operator:
    """One operator of one layer on one accelerator, all its operands in memory.

    ``there_forward`` and ``there_backward`` say whether it communicates, ``fast`` over which links.
    """

    name: str = text("Operator.")
    collective_forward: str = text("Its collective, forward, where there is one.")
    collective_backward: str = text("Its collective, backward, where there is one.")
    flops_forward: Number = quantity("FLOP", "Arithmetic, forward.")
    activation_in: Number = quantity("B", "Activations read, forward.")
    activation_other: Number = quantity("B", "Second operand or mask read, forward.")
    activation_out: Number = quantity("B", "Activations written, forward.")
    kept: Number = quantity("B", "Activations kept for the backward pass.")
    weights: Number = quantity("B", "Weights.")
    traffic_forward: Number = quantity("B", "Bytes moved in HBM, forward.")
    flops_backward: Number = quantity("FLOP", "Arithmetic, backward.")
    activation_gradients: Number = quantity("B", "Gradients of activations moved, backward.")
    weight_gradients: Number = quantity("B", "Gradients of weights written, backward.")
    traffic_backward: Number = quantity("B", "Bytes moved in HBM, backward.")
    message_backward: Number = quantity("B", "Message of its collective, backward.")
    group: Number = quantity("1", "Ranks that its messages go among.")
    message_forward: Number = quantity("B", "Message of its collective, forward.")
    compute_forward: Number = quantity("s", "Time in arithmetic, forward.")
    memory_forward: Number = quantity("s", "Time in HBM, forward.")
    compute_backward: Number = quantity("s", "Time in arithmetic, backward.")
    memory_backward: Number = quantity("s", "Time in HBM, backward.")
    intensity: Number = quantity("1", "Time in arithmetic over time in HBM, forward.")
    work_forward: Number = quantity("s", "The longer of arithmetic and HBM, forward.")
    work_backward: Number = quantity("s", "The longer of arithmetic and HBM, backward.")
    links_forward: Number = quantity("s", "Time in communication, forward.")
    links_backward: Number = quantity("s", "Time in communication, backward.")
    time_forward: Number = quantity("s", "Time forward, with its communication.")
    time_backward: Number = quantity("s", "Time backward, with its communication.")
    links_share_forward: Number = quantity("1", "Share of the time in communication, forward.")
    links_share_backward: Number = quantity("1", "Share of the time in communication, backward.")
    there_forward: Any = quantity("1", "It communicates, forward.")
    there_backward: Any = quantity("1", "It communicates, backward.")
    fast: Any = quantity("1", "Its messages take the fast links.")


SUMMED = (  # of one block, in the order of the sheet
    "kept",
    "weights",
    "weight_gradients",
    "flops_forward",
    "flops_backward",
    "time_forward",
    "time_backward",
    "links_forward",
    "links_backward",
)


@record
class Report:
    """The sums over the operators of each block, of all layers of one accelerator, and of both."""

    mlp_kept: Number = quantity("B", "MLP: activations kept for the backward pass.")
    mlp_weights: Number = quantity("B", "MLP: weights.")
    mlp_weight_gradients: Number = quantity("B", "MLP: weight gradients.")
    mlp_flops_forward: Number = quantity("FLOP", "MLP: arithmetic, forward.")
    mlp_flops_backward: Number = quantity("FLOP", "MLP: arithmetic, backward.")
    mlp_time_forward: Number = quantity("s", "MLP: time forward.")
    mlp_time_backward: Number = quantity("s", "MLP: time backward.")
    mlp_links_forward: Number = quantity("s", "MLP: time in communication, forward.")
    mlp_links_backward: Number = quantity("s", "MLP: time in communication, backward.")
    mlp_links_share: Number = quantity("1", "MLP: share of the forward time in communication.")
    attention_kept: Number = quantity("B", "Attention: activations kept for the backward pass.")
    attention_weights: Number = quantity("B", "Attention: weights.")
    attention_weight_gradients: Number = quantity("B", "Attention: weight gradients.")
    attention_flops_forward: Number = quantity("FLOP", "Attention: arithmetic, forward.")
    attention_flops_backward: Number = quantity("FLOP", "Attention: arithmetic, backward.")
    attention_time_forward: Number = quantity("s", "Attention: time forward.")
    attention_time_backward: Number = quantity("s", "Attention: time backward.")
    attention_links_forward: Number = quantity("s", "Attention: time in communication, forward.")
    attention_links_backward: Number = quantity("s", "Attention: time in communication, backward.")
    attention_links_share: Number = quantity(
        "1", "Attention: share of the forward time in communication."
    )
    step_time: Number = quantity("s", "Time of all layers, forward and backward.", headline=True)
    throughput: Number = quantity("sequence/s", "Sequences done in a second.", better="higher")
    flops: Number = quantity("FLOP", "Arithmetic of one accelerator, forward and backward.")
    memory: Number = quantity("B", "Memory of weights, their gradients and what is kept.")
    links_share: Number = quantity("1", "Share of the time in communication, both directions.")
    utilisation: Number = quantity(
        "1", "Arithmetic over what the matrix peak does in that time.", better="higher"
    )
    degrees_divide: Any = quantity(
        "1", "Each degree divides what it cuts; what is left over is done by nobody."
    )
