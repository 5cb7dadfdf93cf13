"""Parameters of a model as it is today: matrices, normalisations, experts, embeddings."""

from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


def matrix_parameters(inputs: Number, outputs: Number) -> Number:
    """Return the parameters of a matrix, which are also the multiply-adds of one token.

    P = n m

    Assumes: no bias; every token meets the whole matrix.
    Units: inputs, outputs [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.1.

    >>> float(matrix_parameters(4.0, 16.0))
    64.0
    """
    return inputs * outputs


def query_inputs(hidden: Number, q_rank: Number) -> Number:
    """Return the width from which latent attention makes its queries.

    q, or h where queries have no latent (q = 0)

    Assumes: q counts as absent at 0.
    Units: hidden, q_rank [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.1.

    >>> float(query_inputs(8.0, 0.0)), float(query_inputs(8.0, 2.0))
    (8.0, 2.0)
    """
    return where(q_rank > 0.0, q_rank, hidden)


def expert_parameters(hidden: Number, expert_feedforward: Number, matrices: Number) -> Number:
    """Return the parameters of one routed expert.

    P = (g + 1) h f_e

    Assumes: no biases; three matrices with a gate (g = 2), two without (g = 1).
    Units: hidden, expert_feedforward, matrices [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.1.

    >>> float(expert_parameters(8.0, 4.0, 3.0))
    96.0
    """
    return matrices * hidden * expert_feedforward


def norm_gains(hidden: Number, norms: Number, vectors: Number) -> Number:
    """Return the parameters of normalisations.

    P = norms h vectors

    Assumes: a gain (RMSNorm, 1 vector), or a gain and a shift (LayerNorm, 2).
    Units: hidden, norms, vectors [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.1.

    >>> float(norm_gains(8.0, 2.0, 1.0))
    16.0
    """
    return norms * hidden * vectors


def routing_layers(layers: Number, experts: Number, first_dense_layers: Number) -> Number:
    """Return the layers that route tokens to experts.

    L - L_d, or none where there are no experts

    Assumes: the leading layers are dense, all others route.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, sections 1 and 2.2.

    >>> float(routing_layers(61.0, 256.0, 3.0)), float(routing_layers(32.0, 0.0, 0.0))
    (58.0, 0.0)
    """
    return where(experts > 0.0, layers - first_dense_layers, 0.0 * layers)


def active_parameters(
    parameters: Number,
    experts: Number,
    active_experts: Number,
    expert: Number,
    routing: Number,
) -> Number:
    """Return the parameters that one token meets, of those of the whole model.

    active = total - (L - L_d) (E - k) (g + 1) h f_e

    Assumes: both embedding matrices count; shared experts and the router are met by every token.
    Units: all [1], ``expert`` of one expert, ``routing`` layers that route -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.2.

    >>> float(active_parameters(1000.0, 8.0, 2.0, 10.0, 3.0))
    820.0
    """
    return parameters - routing * (experts - active_experts) * expert


def class_head(hidden: Number, classes: Number) -> Number:
    """Return the parameters of the head of a model that sorts pictures into classes.

    P = classes (h + 1)

    Assumes: one matrix with its bias.
    Units: hidden, classes [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.2.

    >>> float(class_head(8.0, 10.0))
    90.0
    """
    return classes * (hidden + 1.0)


def prediction_parameters(hidden: Number, layer: Number, vectors: Number) -> Number:
    """Return the parameters of one module of multi-token prediction, which totals leave out.

    P = one more layer + 2 h^2 + three norms

    Assumes: embedding and head are those of the main model; 2 h^2 joins hidden state and embedding.
    Units: hidden, layer, vectors (of a norm) [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 2.2.

    >>> float(prediction_parameters(4.0, 100.0, 1.0))
    144.0
    """
    joins = matrix_parameters(2.0 * hidden, hidden)
    return layer + joins + norm_gains(hidden, 3.0, vectors)
