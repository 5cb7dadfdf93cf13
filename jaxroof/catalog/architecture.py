"""The record of a model as it is today: every number that decides its parameters and FLOP."""

from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record


def _count(doc: str, most: str = "whole", needs: str = "") -> Number:
    """Declare a number of whole things that most models have none of."""
    return quantity("1", doc, whole=True, zero=True, default=0.0, most=BOUNDS[most], needs=needs)


@record
class Architecture:
    """A transformer with its embedding and its head, attention and experts as they are.

    A part that a model does not have is 0. Which kind of attention, MLP, normalisation, bias and
    embedding it has are choices of the recipe; an entry of the catalogue states them.
    """

    layers: Number = quantity("1", "Transformer layers.", whole=True, most=BOUNDS["layers"])
    hidden: Number = quantity(
        "1", "Width of the residual stream.", whole=True, most=BOUNDS["width"]
    )
    feedforward: Number = quantity(
        "1", "Width inside a dense MLP.", whole=True, most=BOUNDS["width"]
    )
    heads: Number = quantity("1", "Query heads.", whole=True, most=BOUNDS["width"])
    kv_heads: Number = quantity("1", "Heads of keys and values.", whole=True, most=BOUNDS["width"])
    head_size: Number = quantity("1", "Width of one head.", whole=True, most=BOUNDS["width"])
    vocabulary: Number = quantity("1", "Entries of the vocabulary.", whole=True, zero=True)
    sequence: Number = quantity(
        "token", "Tokens of one sequence in training.", whole=True, default=None
    )
    training_tokens: Number = quantity(
        "token", "Tokens of its training; a trillion where they are not known.", default=1e12
    )
    norms_per_layer: Number = quantity("1", "Normalisations of a layer.", whole=True, default=2.0)
    head_norms: Number = _count("Normalisations of a layer over one head: query and key are 2.")
    positions: Number = _count("Positions with a learned embedding; rotary ones have none.")
    classes: Number = _count("Classes of the head of a model of pictures.")
    experts: Number = _count("Routed experts of a layer.", "width")
    active_experts: Number = _count("Routed experts that a token uses.", "width")
    expert_feedforward: Number = _count("Width inside one routed expert.", "width")
    shared_feedforward: Number = _count("Width inside the shared experts, summed.", "width")
    first_dense_layers: Number = _count("Leading layers that do not route.", "layers")
    q_rank: Number = _count("Latent attention: width of the latent of queries.", "width")
    kv_rank: Number = _count("Latent attention: width of the latent of keys and values.", "width")
    nope_size: Number = _count("Latent attention: width of a head without rotation.", "width")
    rope_size: Number = _count("Latent attention: width of a head with rotation.", "width")
    value_size: Number = _count("Latent attention: width of a head's values.", "width")
    mtp_layers: Number = _count("Modules of multi-token prediction, beside the model.", "layers")
    window: Number = quantity(
        "token",
        "Tokens that a window of attention spans.",
        whole=True,
        zero=True,
        default=0.0,
        needs="windowed_layers",
    )
    windowed_layers: Number = _count(
        "Layers whose attention has that window.", "layers", needs="window"
    )
    extra_parameters: Number = quantity(
        "1",
        "Parameters beside all these, such as a router's biases or a patch embedding.",
        zero=True,
        default=0.0,
    )
