"""The record of a model as it is today: every number that decides its parameters and FLOP."""

from jaxroof.catalog.models import count
from jaxroof.records import Number, quantity, record


def _none(doc: str, most: str = "whole", needs: str = "") -> Number:
    """Declare a number of whole things that most models have none of."""
    return count(doc, most, zero=True, default=0.0, needs=needs)


def _some(doc: str) -> Number:
    """Declare a number of layers that follows from others where it is not given."""
    return count(doc, "layers", zero=True, default=None)


def _shape(doc: str) -> Number:
    """Declare a number of windowed layers that is that of the others where it is not given."""
    return count(f"{doc}; as without one if not given.", default=None)


def _flag(doc: str, default: float = 0.0) -> Number:
    return quantity("1", doc, whole=True, zero=True, most=1.0, default=default)


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
    norms_per_layer: Number = quantity(
        "1", "Normalisations about a mixer and an MLP, together.", whole=True, default=2.0
    )
    head_norms: Number = _none("Normalisations of a layer over one head: query and key are 2.")
    wide_head_norms: Number = _flag("Whether these norms span all heads at once (1 or 0).")
    rotary: Number = _flag("Whether heads are rotated, without learned positions (1 or 0).", 1.0)
    positions: Number = _none("Positions with a learned embedding; rotary ones have none.")
    classes: Number = _none("Classes of the head of a model of pictures.")
    experts: Number = _none("Routed experts of a layer.", "width")
    active_experts: Number = _none("Routed experts that a token uses.", "width")
    expert_feedforward: Number = _none("Width inside one routed expert.", "width")
    shared_feedforward: Number = _none("Width inside the shared experts, summed.", "width")
    first_dense_layers: Number = _none("Leading layers that do not route.", "layers")
    dense_layers: Number = _some("Layers with a dense MLP; those that do not route if not given.")
    routed_layers: Number = _some("Layers with experts; all but the dense ones if not given.")
    expert_latent: Number = _none("Width in which routed experts work; 0: the hidden one.", "width")
    shared_gate: Number = _flag("Whether shared experts have a gate (1 or 0).")
    router_correction: Number = _flag("Whether a router corrects its choices (1 or 0).")
    q_rank: Number = _none("Latent attention: width of the latent of queries.", "width")
    kv_rank: Number = _none("Latent attention: width of the latent of keys and values.", "width")
    nope_size: Number = _none("Latent attention: width of a head without rotation.", "width")
    rope_size: Number = _none("Latent attention: width of a head with rotation.", "width")
    value_size: Number = _none("Width of a head's values; 0: that of its keys.", "width")
    mtp_layers: Number = _none("Modules of multi-token prediction, beside the model.", "layers")
    mtp_blocks: Number = _some("Layers of those modules; one a module if not given.")
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
    chunked: Number = _flag(
        "Whether windows are chunks of a sequence, which do not slide (1 or 0)."
    )
    window_heads: Number = _shape("Query heads of layers with a window")
    window_kv_heads: Number = _shape("Heads of keys and values of layers with a window")
    window_head_size: Number = _shape("Width of a head of layers with a window")
    full_layers: Number = _some(
        "Layers whose attention sees the whole sequence; all that have no other mixer if not given."
    )
    attention_gate: Number = _flag("Whether attention has an output gate (1 or 0).")
    shared_kv: Number = _flag("Whether values of layers without a window are the keys (1 or 0).")
    sink_layers: Number = _none("Layers whose attention has a sink a head.", "layers")
    index_layers: Number = _none("Sparse attention: layers that own an indexer.", "layers")
    index_heads: Number = _none("Sparse attention: heads of an indexer.", "width")
    index_size: Number = _none("Sparse attention: width of one of them.", "width")
    index_topk: Number = _none("Sparse attention: keys that an indexer keeps.", "width")
    mamba_layers: Number = _none("Mamba-2 layers.", "layers")
    mamba_heads: Number = _none("Mamba-2: heads.", "width")
    mamba_head_size: Number = _none("Mamba-2: width of one head.", "width")
    mamba_groups: Number = _none(
        "Mamba-2: groups of heads that share their state's inputs.", "width"
    )
    mamba_state: Number = _none("Mamba-2: width of the state of a head.", "width")
    delta_layers: Number = _none("Gated DeltaNet layers.", "layers")
    delta_key_heads: Number = _none("Gated DeltaNet: heads of queries and keys.", "width")
    delta_value_heads: Number = _none("Gated DeltaNet: heads of values.", "width")
    delta_key_size: Number = _none("Gated DeltaNet: width of a head's keys.", "width")
    delta_value_size: Number = _none("Gated DeltaNet: width of a head's values.", "width")
    kda_layers: Number = _none("Kimi Delta Attention layers.", "layers")
    kda_heads: Number = _none("Kimi Delta Attention: heads.", "width")
    kda_head_size: Number = _none("Kimi Delta Attention: width of one head.", "width")
    convolution: Number = count("Tokens of the convolution of a recurrent layer.", default=4.0)
    extra_parameters: Number = quantity(
        "1",
        "Parameters beside all these, such as a router's biases or a patch embedding.",
        zero=True,
        default=0.0,
    )
