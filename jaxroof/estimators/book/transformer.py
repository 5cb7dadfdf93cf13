"""What a transformer counts to, and a whole training: parameters, arithmetic, time, memory.

Source: docs/models/op_rooflines.md, sections 4 and 9.
"""

from typing import Any

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers, optional
from jaxroof.estimators.book.attention import score_flops
from jaxroof.estimators.book.common import DAY, YEAR, rounded_up, value_or
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


def cache_per_token(
    layers: Number, kv_heads: Number, head_size: Number, cache_width: Number
) -> Number:
    """Return 2 L K H s, the keys and values that one token leaves in the cache [B]."""
    return 2.0 * layers * kv_heads * head_size * cache_width


@answers(
    layers=80.0,
    hidden=8192.0,
    feedforward=28672.0,
    heads=64.0,
    kv_heads=8.0,
    head_size=128.0,
    vocabulary=128256.0,
)
def transformer(inputs: Transformer, recipe: None) -> Counts:
    """Return what a transformer counts to.

    MLPs L E m D F, attention 2 L D H (N + K), vocabulary v D V, norms L n D; a parameter is 2 FLOP
    a token forward, 6 in training; scores take as much as the projections at D (1 + K / N) tokens,
    as much as all matrices k m D F / (2 N H) later

    Assumes: no biases, no router, no causal mask.
    """
    i = inputs
    kv_heads = value_or(i.kv_heads, lambda: i.heads)
    head_size = value_or(i.head_size, lambda: i.hidden / i.heads)
    mlp = i.layers * i.experts * i.matrices * i.hidden * i.feedforward
    attention = 2.0 * i.layers * i.hidden * head_size * (i.heads + kv_heads)
    vocabulary = i.tables * i.hidden * i.vocabulary
    norms = i.layers * i.norms * i.hidden
    others = attention + vocabulary + norms
    active = others + mlp * (i.active_experts / i.experts)
    once = score_flops(i.sequences, i.sequence, i.sequence, i.heads, head_size)
    scores = i.layers * once
    cached = cache_per_token(i.layers, kv_heads, head_size, i.cache_width)
    projections = i.hidden * (1.0 + kv_heads / i.heads)
    matrices = i.active_experts * i.matrices * i.hidden * i.feedforward
    return Counts(
        mlp_parameters=mlp,
        attention_parameters=attention,
        vocabulary_parameters=vocabulary,
        norm_parameters=norms,
        parameters=others + mlp,
        active_parameters=active,
        forward_flops=2.0 * active,
        training_flops=6.0 * active,
        score_flops=scores,
        score_training_flops=3.0 * scores,
        recompute_flops=scores,
        projection_context=projections,
        projection_context_simple=2.0 * i.hidden,
        matrix_context=projections + matrices / (2.0 * i.heads * head_size),
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


@answers(layers=80.0, kv_heads=8.0, head_size=128.0, sequences=32.0)
def kv_cache(inputs: CacheInputs, recipe: None) -> Cache:
    """Return the bytes of a cache."""
    i = inputs
    token = cache_per_token(i.layers, i.kv_heads, i.head_size, i.cache_width)
    each = token * i.sequence
    return Cache(per_token=token, per_sequence=each, total=each * i.sequences)


# ---- A whole training ---------------------------------------------------------------------------


@record
class RunInputs:
    """A model, the tokens it is trained on, and the machines; amounts given hold as given."""

    system: System
    chips: Number = quantity("1", "Accelerators.", default=1.0, symbol="n")
    parameters: Number = quantity("1", "Parameters that a token meets.", symbol="P")
    tokens: Number = quantity("token", "Tokens of the whole training.", symbol="T")
    utilised: Number = quantity("1", "Share of the peak rate in use.", default=1.0)
    flops_per_token: Number = quantity(
        "FLOP", "Arithmetic of one token; 6 a parameter if not given.", default=None
    )
    flops: Number = optional("FLOP", "Arithmetic of the whole; that of all tokens if not given.")
    chip_time: Number = quantity(
        "s", "Accelerators times seconds that it took; at the share in use if not given.",
        default=None
    )  # fmt: skip


@record
class Run:
    """Arithmetic and time of a training."""

    forward_flops_per_token: Number = quantity("FLOP", "Arithmetic of one token, forward.")
    training_flops_per_token: Number = quantity("FLOP", "Arithmetic of training on one token.")
    training_flops: Number = quantity("FLOP", "Arithmetic of the whole training.")
    time: Number = quantity("s", "Time of the whole training.", headline=True)
    days: Number = quantity("day", "Days of the whole training.")
    years: Number = quantity("year", "Years of the whole training, of 365 days.")
    total_time: Number = quantity("s", "Accelerators times seconds.")
    utilisation: Number = quantity(
        "1", "Share of the peak rate that the accelerators' time comes to.", better="higher"
    )


@answers("tpu-v5p-book", chips=8960.0, parameters=70e9, tokens=15e12, utilised=0.4)
def training_run(inputs: RunInputs, recipe: None) -> Run:
    """Return the arithmetic and the time of a training: 6 P FLOP a token, F / (n u C) seconds."""
    i = inputs
    per_token = value_or(i.flops_per_token, lambda: 6.0 * i.parameters)
    flops = value_or(i.flops, lambda: per_token * i.tokens)
    at_share = flops / (i.chips * i.utilised * i.system.matrix_flops)
    chip_time = value_or(i.chip_time, lambda: i.chips * at_share)
    time = chip_time / i.chips
    return Run(
        forward_flops_per_token=2.0 * i.parameters,
        training_flops_per_token=per_token,
        training_flops=flops,
        time=time,
        days=time / DAY,
        years=time / DAY / YEAR,
        total_time=chip_time,
        utilisation=flops / (chip_time * i.system.matrix_flops),
    )


@record
class MemoryInputs:
    """A model, one batch, what is kept of it, and the machines; amounts given hold as given."""

    system: System
    chips: Number = quantity("1", "Accelerators.", default=1.0, symbol="n")
    parameters: Number = quantity("1", "Parameters.", symbol="P")
    layers: Number = quantity("1", "Transformer layers.", whole=True, symbol="L")
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    expansion: Number = quantity(
        "1", "Width inside the MLP over that of the residual stream.", default=4.0
    )
    feedforward: Number = quantity(
        "1", "Width inside the MLP; by the expansion if not given.", default=None, symbol="F"
    )
    tokens: Number = quantity("token", "Tokens of one batch.", symbol="B")
    kept: Number = quantity("1", "Vectors that a layer keeps of a token.", default=20.0, symbol="c")
    weight_width: Number = quantity("B", "Bytes of one weight.", default=2.0)
    optimizer_width: Number = quantity("B", "Bytes of optimizer state of a weight.", default=8.0)
    activation_width: Number = quantity("B", "Bytes of one activation.", default=2.0)
    state: Number = optional("B", "Weights and optimizer state; by their widths if not given.")
    activations: Number = optional("B", "Activations kept; so many vectors a layer if not given.")


@record
class Memory:
    """What training holds in memory, and the accelerators that hold it."""

    weights: Number = quantity("B", "Weights.")
    optimizer: Number = quantity("B", "Optimizer state.")
    weights_and_optimizer: Number = quantity("B", "Weights and optimizer state.")
    checkpoints: Number = quantity("B", "Activations kept, so many vectors a layer.")
    wide_checkpoints: Number = quantity(
        "B", "Activations kept where a layer keeps one vector and two of the MLP's width."
    )
    memory: Number = quantity("B", "State and activations together.")
    memory_per_chip: Number = quantity("B", "The same, an accelerator.")
    chips_needed: Number = quantity("1", "Accelerators that hold all, unrounded.")
    chips_needed_whole: Any = quantity("1", "Accelerators that hold all.", whole=True)
    fits: Any = quantity("1", "The accelerators hold all.")


@answers(
    "tpu-v5p-book", chips=8960.0, parameters=70e9, layers=80.0, hidden=8192.0, tokens=4e6, kept=4.0
)
def training_memory(inputs: MemoryInputs, recipe: None) -> Memory:
    """Return the memory that training needs; gradients do not count.

    State P (w + o); c vectors a layer and token s c B D L, or one and two of the MLP's width
    s L B (D + 2 F)
    """
    i = inputs
    feedforward = value_or(i.feedforward, lambda: i.expansion * i.hidden)
    kept = i.activation_width * i.kept * i.tokens * i.hidden * i.layers
    state = value_or(i.state, lambda: i.parameters * (i.weight_width + i.optimizer_width))
    memory = state + value_or(i.activations, lambda: kept)
    capacity = i.system.hbm_capacity
    return Memory(
        weights=i.parameters * i.weight_width,
        optimizer=i.parameters * i.optimizer_width,
        weights_and_optimizer=state,
        checkpoints=kept,
        wide_checkpoints=i.activation_width * i.layers * i.tokens * (i.hidden + 2.0 * feedforward),
        memory=memory,
        memory_per_chip=memory / i.chips,
        chips_needed=memory / capacity,
        chips_needed_whole=rounded_up(memory, capacity),
        fits=memory <= i.chips * capacity,
    )
