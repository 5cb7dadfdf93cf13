"""What a transformer counts to: parameters, arithmetic of a token, caches."""

from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.defaults import value_or
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import counting
from jaxroof.records import Number, quantity, record


@record
class Transformer:
    """The sizes of a transformer, and of the sequences that it reads."""

    layers: Number = quantity("1", "Transformer layers.", whole=True, symbol="L")
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    feedforward: Number = quantity("1", "Width inside the MLP, or one expert.", symbol="F")
    heads: Number = quantity("1", "Query heads.", whole=True, symbol="N")
    kv_heads: Number = quantity(
        "1",
        "Heads of keys and values; as many as query heads if not given.",
        default=None,
        whole=True,
        symbol="K",
    )
    head_size: Number = quantity(
        "1", "Width of one head; hidden over heads if not given.", default=None, symbol="H"
    )
    vocabulary: Number = quantity(
        "1", "Entries of the vocabulary; 0 counts layers alone.", default=0.0, zero=True, symbol="V"
    )
    tables: Number = quantity(
        "1", "Tables of the vocabulary: 2, or 1 that input and output share.", default=2.0
    )
    matrices: Number = quantity("1", "Matrices of an MLP: 3 with a gate, or 2.", default=3.0)
    norms: Number = quantity(
        "1", "Normalisations of a layer that count as parameters.", default=0.0, zero=True
    )
    experts: Number = quantity("1", "Expert MLPs of a layer.", default=1.0, whole=True, symbol="E")
    active_experts: Number = quantity(
        "1", "Experts that a token meets.", default=1.0, whole=True, symbol="k"
    )
    sequence: Number = quantity("token", "Tokens of one sequence.", default=4096.0, symbol="T")
    sequences: Number = quantity("sequence", "Sequences.", default=1.0, symbol="B")
    cache_width: Number = quantity("B", "Bytes of one element of the cache.", default=2.0)


@record
class Counts:
    """Parameters by place, arithmetic, and where scores overtake the matrices."""

    mlp_parameters: Number = quantity("1", "Parameters of the MLPs.")
    attention_parameters: Number = quantity("1", "Parameters of the attention projections.")
    vocabulary_parameters: Number = quantity("1", "Parameters of embedding and output.")
    norm_parameters: Number = quantity("1", "Parameters of the normalisations.")
    parameters: Number = quantity("1", "Parameters.")
    active_parameters: Number = quantity("1", "Parameters that a token meets.")
    forward_flops: Number = quantity("FLOP", "Arithmetic of one token, forward, less scores.")
    training_flops: Number = quantity("FLOP", "Arithmetic of training on one token, less scores.")
    score_flops: Number = quantity("FLOP", "Arithmetic of all scores and averages, forward.")
    score_training_flops: Number = quantity("FLOP", "The same of training.")
    recompute_flops: Number = quantity(
        "FLOP", "Arithmetic to repeat where matrix products alone are kept."
    )
    projection_context: Number = quantity(
        "token", "Length at which scores cost as much as the projections."
    )
    projection_context_simple: Number = quantity(
        "token", "The same where every query head has keys of its own: 2 D."
    )
    matrix_context: Number = quantity(
        "token", "Length at which scores cost as much as all matrices of a layer."
    )
    matrix_context_simple: Number = quantity(
        "token", "The same for F = 4 D, three matrices and keys for every head: 8 D."
    )
    cache_per_token: Number = quantity("B", "Bytes of keys and values of one token.")
    cache_per_sequence: Number = quantity("B", "Bytes of keys and values of one sequence.")


def count(inputs: Transformer, recipe: None) -> Counts:
    """Return what a transformer counts to."""
    i = inputs
    kv_heads = value_or(i.kv_heads, lambda: i.heads)
    head_size = value_or(i.head_size, lambda: i.hidden / i.heads)
    mlp = counting.mlp_parameters(i.layers, i.hidden, i.feedforward, i.matrices, i.experts)
    attention = counting.attention_parameters(i.layers, i.hidden, i.heads, kv_heads, head_size)
    vocabulary = counting.vocabulary_parameters(i.hidden, i.vocabulary, i.tables)
    norms = counting.norm_parameters(i.layers, i.hidden, i.norms)
    others = attention + vocabulary + norms
    active = others + mlp * (i.active_experts / i.experts)
    scores = counting.score_flops(i.layers, i.heads, i.sequence, head_size, i.sequences)
    cached = counting.cache_per_token(i.layers, kv_heads, head_size, i.cache_width)
    return Counts(
        mlp_parameters=mlp,
        attention_parameters=attention,
        vocabulary_parameters=vocabulary,
        norm_parameters=norms,
        parameters=others + mlp,
        active_parameters=active,
        forward_flops=counting.forward_flops(active),
        training_flops=counting.training_flops(active),
        score_flops=scores,
        score_training_flops=3.0 * scores,
        recompute_flops=scores,
        projection_context=counting.projection_context(i.hidden, i.heads, kv_heads),
        projection_context_simple=2.0 * i.hidden,
        matrix_context=counting.matrix_context(
            i.hidden, i.feedforward, i.heads, kv_heads, head_size, i.matrices, i.active_experts
        ),
        matrix_context_simple=8.0 * i.hidden,
        cache_per_token=cached,
        cache_per_sequence=cached * i.sequence,
    )


@record
class CacheInputs:
    """What a cache of keys and values holds."""

    layers: Number = quantity("1", "Transformer layers.", whole=True, symbol="L")
    kv_heads: Number = quantity("1", "Heads of keys and values.", whole=True, symbol="K")
    head_size: Number = quantity("1", "Width of one head.", symbol="H")
    cache_width: Number = quantity("B", "Bytes of one element.", default=2.0)
    sequence: Number = quantity("token", "Tokens of one sequence.", default=4096.0, symbol="S")
    sequences: Number = quantity("sequence", "Sequences.", default=1.0, symbol="B")


@record
class Cache:
    """Bytes of keys and values."""

    per_token: Number = quantity("B", "Bytes of one token.")
    per_sequence: Number = quantity("B", "Bytes of one sequence.")
    total: Number = quantity("B", "Bytes of all sequences.")


def cache(inputs: CacheInputs, recipe: None) -> Cache:
    """Return the bytes of a cache."""
    i = inputs
    token = counting.cache_per_token(i.layers, i.kv_heads, i.head_size, i.cache_width)
    return Cache(
        per_token=token, per_sequence=token * i.sequence, total=token * i.sequence * i.sequences
    )


transformer = Estimator(
    step=count,
    inputs=Transformer,
    name="transformer",
    example=lambda: Transformer(
        layers=80.0,
        hidden=8192.0,
        feedforward=28672.0,
        heads=64.0,
        kv_heads=8.0,
        head_size=128.0,
        vocabulary=128256.0,
    ),
    about=QUESTIONS["transformer"],
)
kv_cache = Estimator(
    step=cache,
    inputs=CacheInputs,
    name="kv_cache",
    example=lambda: CacheInputs(layers=80.0, kv_heads=8.0, head_size=128.0, sequences=32.0),
    about=QUESTIONS["kv_cache"],
)
