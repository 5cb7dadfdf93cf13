"""The record of a model as it is today: every number that decides its parameters and FLOP."""

from jaxroof.catalog.models import count
from jaxroof.records import Number, quantity, record


def _none(doc: str, most: str = "whole", needs: str = "") -> Number:
    """Declare a number of whole things that most models have none of."""
    return count(doc, most, zero=True, default=0.0, needs=needs)


@record
class Architecture:
    """A transformer with its embedding and its head, attention and experts as they are.

    A part that a model does not have is 0. Which kind of attention, MLP, normalisation, bias and
    embedding it has are choices of the recipe; an entry of the catalogue states them.
    """

    layers: Number = count("Transformer layers.", "layers")
    hidden: Number = count("Width of the residual stream.")
    feedforward: Number = count("Width inside a dense MLP.")
    heads: Number = count("Query heads.")
    kv_heads: Number = count("Heads of keys and values.")
    head_size: Number = count("Width of one head.")
    vocabulary: Number = quantity("1", "Entries of the vocabulary.", whole=True, zero=True)
    sequence: Number = quantity(
        "token", "Tokens of one sequence in training.", whole=True, default=None
    )
    training_tokens: Number = quantity(
        "token", "Tokens of its training; a trillion where they are not known.", default=1e12
    )
    norms_per_layer: Number = quantity("1", "Normalisations of a layer.", whole=True, default=2.0)
    head_norms: Number = _none("Normalisations of a layer over one head: query and key are 2.")
    positions: Number = _none("Positions with a learned embedding; rotary ones have none.")
    classes: Number = _none("Classes of the head of a model of pictures.")
    experts: Number = _none("Routed experts of a layer.", "width")
    active_experts: Number = _none("Routed experts that a token uses.", "width")
    expert_feedforward: Number = _none("Width inside one routed expert.", "width")
    shared_feedforward: Number = _none("Width inside the shared experts, summed.", "width")
    first_dense_layers: Number = _none("Leading layers that do not route.", "layers")
    q_rank: Number = _none("Latent attention: width of the latent of queries.", "width")
    kv_rank: Number = _none("Latent attention: width of the latent of keys and values.", "width")
    nope_size: Number = _none("Latent attention: width of a head without rotation.", "width")
    rope_size: Number = _none("Latent attention: width of a head with rotation.", "width")
    value_size: Number = _none("Latent attention: width of a head's values.", "width")
    mtp_layers: Number = _none("Modules of multi-token prediction, beside the model.", "layers")
    window: Number = quantity(
        "token",
        "Tokens that a window of attention spans.",
        whole=True,
        zero=True,
        default=0.0,
        needs="windowed_layers",
    )
    windowed_layers: Number = _none(
        "Layers whose attention has that window.", "layers", needs="window"
    )
    extra_parameters: Number = quantity(
        "1",
        "Parameters beside all these, such as a router's biases or a patch embedding.",
        zero=True,
        default=0.0,
    )
