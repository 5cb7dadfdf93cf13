"""The scores of attention: in training, in prefill, in generation; and when they matter.

Source: docs/models/op_rooflines.md, section 4.
"""

import dataclasses
import enum

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers
from jaxroof.estimators.book.common import (
    ROUND,
    WIDTHS,
    Critical,
    Roofline,
    Widths,
    critical_rows,
    roofline,
)
from jaxroof.records import Number, quantity, record

# What attention is computed for.
Phase = enum.Enum(
    "Phase", {"TRAINING": "training", "PREFILL": "prefill", "GENERATION": "generation"}
)


@dataclasses.dataclass(frozen=True)
class AttentionRecipe:
    """What attention is computed for."""

    phase: Phase = Phase.PREFILL


@record
class AttentionInputs:
    """Shape and number formats of attention, the cache in the place of weights, and the machine."""

    system: System
    batch: Number = quantity("1", "Sequences.", symbol="B")
    queries: Number = quantity("token", "Tokens that look back, of each sequence.", symbol="T")
    keys: Number = quantity("token", "Tokens that are looked at, of each sequence.", symbol="S")
    heads: Number = quantity("1", "Query heads.", symbol="N")
    kv_heads: Number = quantity("1", "Key and value heads.", symbol="K")
    head_size: Number = quantity("1", "Width of one head.", default=128.0, symbol="H")
    widths: Widths = WIDTHS


@record
class AttentionRoofline(Roofline):
    """The roofline of attention; its critical size is a length, in generation one of queries."""

    cache: Number = quantity("B", "Keys and values of one layer.")
    recomputed: Number = quantity(
        "FLOP", "Arithmetic to compute the scores once more, for a backward pass without them."
    )


PASSES = {Phase.TRAINING: 3.0, Phase.PREFILL: 1.0, Phase.GENERATION: 1.0}


def score_flops(
    batch: Number, queries: Number, keys: Number, heads: Number, head_size: Number
) -> Number:
    """Return F = 4 B T S N H of the scores and the weighted sum of the values, forward [FLOP].

    Assumes: no causal mask; the softmax does not count.
    """
    return 4.0 * batch * queries * keys * heads * head_size


def _length(inputs: AttentionInputs, rate: Number, bandwidth: Number) -> Critical:
    """Return the length from which attention over itself (T = S) is compute bound.

    T* = beta (s_q + s_o + 2 s K / N) / 4, which is beta (G + 1) / G at 2 bytes, G = N / K
    """
    widths, balance = inputs.widths, rate / bandwidth
    cached = 2.0 * widths.weight * inputs.kv_heads / inputs.heads
    found = balance * (widths.input + widths.output + cached) / 4.0
    return found, found, True


def _queries(inputs: AttentionInputs, rate: Number, bandwidth: Number) -> Critical:
    """Return the queries that make one pass over the cache compute bound.

    One more query is 4 S N FLOP and (s_q + s_o) N bytes, per unit of batch and head size.
    """
    i, widths = inputs, inputs.widths
    held = 2.0 * widths.weight * i.keys * i.kv_heads
    flops, moved = 4.0 * i.keys * i.heads, (widths.input + widths.output) * i.heads
    return critical_rows(held, flops, moved, rate, bandwidth)


CRITICAL = {Phase.TRAINING: _length, Phase.PREFILL: _length, Phase.GENERATION: _queries}


@answers(ROUND, batch=4.0, queries=512.0, keys=4096.0, heads=32.0, kv_heads=4.0)
def attention(inputs: AttentionInputs, recipe: AttentionRecipe) -> AttentionRoofline:
    """Return the roofline of one layer's scores at the peak rates, without a causal mask.

    Keys and values are 2 s B S K H bytes, queries and outputs (s_q + s_o) B T N H; the backward
    pass does twice what the forward pass does and moves twice as much.
    """
    i, widths = inputs, inputs.widths
    rates = (i.system.matrix_flops, i.system.hbm_bandwidth)
    passes = PASSES[recipe.phase]
    cache = 2.0 * widths.weight * i.batch * i.keys * i.kv_heads * i.head_size
    moved = (widths.input + widths.output) * i.batch * i.queries * i.heads * i.head_size
    once = score_flops(i.batch, i.queries, i.keys, i.heads, i.head_size)
    turns = CRITICAL[recipe.phase](i, *rates)
    traffic = passes * (cache + moved)
    common = roofline(passes * once, traffic, 0.0, 0.0, rates, turns)
    return AttentionRoofline(**common, cache=cache, recomputed=once)


@record
class ShareInputs:
    """One transformer layer: its matrices and the length of its sequences."""

    tokens: Number = quantity("token", "Tokens of one sequence.", symbol="T")
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    heads: Number = quantity("1", "Query heads.", symbol="N")
    kv_heads: Number = quantity("1", "Key and value heads.", symbol="K")
    head_size: Number = quantity("1", "Width of one head.", default=128.0, symbol="H")
    expansion: Number = quantity("1", "Width inside the MLP, in widths of the stream.", default=4.0)
    matrices: Number = quantity("1", "Matrices of the MLP: 3 with a gate, else 2.", default=3.0)


@record
class Share:
    """Arithmetic of scores and matrices of one layer and sequence, forward."""

    score_flops: Number = quantity("FLOP", "Arithmetic of the scores.")
    projection_flops: Number = quantity("FLOP", "Arithmetic of the four projections.")
    mlp_flops: Number = quantity("FLOP", "Arithmetic of the MLP.")
    share: Number = quantity("1", "Scores over all of it.")
    projection_length: Number = quantity(
        "token", "Length at which scores take as much as the projections."
    )
    matrix_length: Number = quantity(
        "token", "Length at which scores take as much as all matrices."
    )


@answers(tokens=4096.0, hidden=4096.0, heads=32.0, kv_heads=8.0)
def attention_share(inputs: ShareInputs, recipe: None) -> Share:
    """Return how much of a layer's arithmetic the scores are, and where they overtake the rest.

    Projections take 4 T D H (N + K), m matrices of the MLP 2 m T D F; scores grow with the square
    of the length, so they take as much at T F_other / F_scores.
    """
    i = inputs
    once = score_flops(1.0, i.tokens, i.tokens, i.heads, i.head_size)
    around = 4.0 * i.tokens * i.hidden * i.head_size * (i.heads + i.kv_heads)
    mlp = 2.0 * i.matrices * i.tokens * i.hidden * i.expansion * i.hidden
    return Share(
        score_flops=once,
        projection_flops=around,
        mlp_flops=mlp,
        share=once / (once + around + mlp),
        projection_length=i.tokens * around / once,
        matrix_length=i.tokens * (around + mlp) / once,
    )
