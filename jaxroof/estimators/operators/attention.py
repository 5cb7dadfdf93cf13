"""The score part of attention: in training, in prefill, in generation; and when it matters."""

import dataclasses
import enum

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.dtypes import WIDTHS, Widths
from jaxroof.estimators.operators.recipe import example_system
from jaxroof.estimators.operators.report import Roofline, roofline
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import attention_scores as scores
from jaxroof.formulas import roofline as roof
from jaxroof.records import Number, quantity, record


class Phase(enum.Enum):
    """What attention is computed for."""

    TRAINING = "training"
    PREFILL = "prefill"
    GENERATION = "generation"


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


def _length(inputs: AttentionInputs, rate: Number, bandwidth: Number) -> tuple[Number, ...]:
    """Return the critical length of attention over itself; any other size it is beside is none."""
    widths = inputs.widths
    found = scores.critical_length(
        inputs.heads,
        inputs.kv_heads,
        widths.input,
        widths.weight,
        widths.output,
        roof.balance(rate, bandwidth),
    )
    return found, found, True


def _queries(inputs: AttentionInputs, rate: Number, bandwidth: Number) -> tuple[Number, ...]:
    """Return the queries that make one pass over the cache compute bound."""
    widths = inputs.widths
    held = scores.cache_bytes(1.0, inputs.keys, inputs.kv_heads, 1.0, widths.weight)
    row = scores.query_row(inputs.heads, inputs.keys, widths.input, widths.output)
    return (
        roof.critical_rows(held, *row, rate, bandwidth),
        roof.critical_rows_small(held, row[0], rate, bandwidth),
        roof.rows_can_bind(*row, rate, bandwidth),
    )


CRITICAL = {Phase.TRAINING: _length, Phase.PREFILL: _length, Phase.GENERATION: _queries}


def step(inputs: AttentionInputs, recipe: AttentionRecipe) -> AttentionRoofline:
    """Return the roofline of one layer's scores at the peak rates, without a causal mask.

    The backward pass does twice what the forward pass does and moves twice as much.
    """
    i, widths = inputs, inputs.widths
    rate, bandwidth = i.system.matrix_flops, i.system.hbm_bandwidth
    passes = PASSES[recipe.phase]
    shape = (i.batch, i.queries, i.keys)
    cache = scores.cache_bytes(i.batch, i.keys, i.kv_heads, i.head_size, widths.weight)
    moved = cache + scores.query_bytes(
        i.batch, i.queries, i.heads, i.head_size, widths.input, widths.output
    )
    critical, small, exists = CRITICAL[recipe.phase](i, rate, bandwidth)
    common = roofline(
        scores.score_flops(*shape, passes, i.heads, i.head_size),
        passes * moved,
        0.0,
        0.0,
        rate,
        bandwidth,
        critical,
        small,
        exists,
    )
    once = scores.score_flops(*shape, 1.0, i.heads, i.head_size)
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


def share_step(inputs: ShareInputs, recipe: None) -> Share:
    """Return how much of a layer's arithmetic the scores are, and where they overtake the rest."""
    i = inputs
    once = scores.score_flops(1.0, i.tokens, i.tokens, 1.0, i.heads, i.head_size)
    around = scores.projection_flops(i.hidden, i.heads, i.kv_heads, i.head_size, i.tokens, 1.0)
    mlp = scores.mlp_flops(i.hidden, i.expansion * i.hidden, i.tokens, i.matrices, 1.0)
    return Share(
        score_flops=once,
        projection_flops=around,
        mlp_flops=mlp,
        share=once / (once + around + mlp),
        projection_length=scores.equal_length(i.tokens, around, once),
        matrix_length=scores.equal_length(i.tokens, around + mlp, once),
    )


def example() -> AttentionInputs:
    """Return attention with eight query heads to a key head, over a cache."""
    return AttentionInputs(
        system=example_system(), batch=4.0, queries=512.0, keys=4096.0, heads=32.0, kv_heads=4.0
    )


attention = Estimator(
    step=step,
    inputs=AttentionInputs,
    recipe=AttentionRecipe(),
    name="attention",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["attention"],
)
attention_share = Estimator(
    step=share_step,
    inputs=ShareInputs,
    name="attention_share",
    example=lambda: ShareInputs(tokens=4096.0, hidden=4096.0, heads=32.0, kv_heads=8.0),
    about=QUESTIONS["attention_share"],
)
