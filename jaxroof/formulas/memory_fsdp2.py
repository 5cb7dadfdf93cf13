"""Memory of a rank under FSDP2: every parameter is sharded, and each stream has its own pool."""

from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


def model_parameters(layers: Number, hidden: Number, block: Number, end: Number) -> Number:
    """Return the parameters of a model with a head of its own, N = L n + 2 o + h.

    Assumes: o = V h, not padded; one final norm without a bias.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 10.4.

    >>> model_parameters(2.0, 3.0, 10.0, 6.0)
    35.0
    """
    return layers * block + 2.0 * end + hidden


def sharded_numbers(parameters: Number, width: Number, group: Number, tensor: Number) -> Number:
    """Return the bytes of a number kept for every parameter, M = w N / (G t).

    Assumes: fp32 shards; w = 4 for weights and for the pool of gradients, 8 for both moments.
    Units: parameters, group, tensor [1], width [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.4.

    >>> sharded_numbers(8.0, 4.0, 2.0, 2.0)
    8.0
    """
    return width * parameters / (group * tensor)


def gathered_numbers(ends: Number, block: Number, blocks: Number, tensor: Number) -> Number:
    """Return the bytes of the gathered weights of the root group and of some blocks.

    M = 2 (ends + blocks n) / t, 1 block between forward and backward, 2 in the pool of gathers

    Assumes: bf16; ends = 2 o if embedding and head are one group, o if the head is its own.
    Units: all [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.4.

    >>> gathered_numbers(6.0, 10.0, 2.0, 2.0)
    26.0
    """
    return 2.0 * (ends + blocks * block) / tensor


def operator_activations(
    tokens: Number,
    state: Number,
    feedforward: Number,
    heads: Number,
    kv_heads: Number,
    head_size: Number,
    tensor: Number,
    compiled: Number,
) -> Number:
    """Return what a layer keeps if every second matrix product is made again.

    M = x / t + 2 T (a d + kappa d + f) / t + [not compiled] x + 2 T a d / t + 4 T a / t
    + [t > 1] 2 x / t

    Assumes: "selective op": query, value and two products of the MLP are kept, and the attention's
    output; compiled blocks (1, else 0) drop the output of the last product, which backward never
    reads; with tensor ranks both reduce-scattered outputs are kept.
    Units: tokens [token], state (x) [B], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.4.

    >>> float(operator_activations(1.0, 8.0, 4.0, 2.0, 1.0, 2.0, 1.0, 0.0))
    52.0
    """
    products = 2.0 * tokens * ((heads + kv_heads) * head_size + feedforward) / tensor
    attention = (2.0 * head_size + 4.0) * tokens * heads / tensor
    scattered = where(tensor > 1.0, 2.0 * state / tensor, 0.0)
    return state / tensor + products + (1.0 - compiled) * state + attention + scattered


def logit_memory(tokens: Number, vocabulary: Number, tensor: Number, logit_bytes: Number) -> Number:
    """Return the bytes of logits, or of the holes that they leave, M = Lambda T V / t.

    Assumes: 12 bytes a logit for an eager loss, 16 for a sharded one, 8 compiled, 5 in 8 chunks;
    an eager loss leaves holes of 2, too small for the next tensor.
    Units: tokens [token], vocabulary, tensor [1], logit_bytes [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 10.4.

    >>> logit_memory(2.0, 10.0, 2.0, 12.0)
    120.0
    """
    return logit_bytes * tokens * vocabulary / tensor
