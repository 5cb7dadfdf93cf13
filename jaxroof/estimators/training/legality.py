"""The rules for legal plans of today's training, one verdict each.

Every rule takes the inputs and plan fields by name and uses only %, //, comparisons, & and |.
Source: docs/models/parameters_flops_memory.md, section 7.
"""

from typing import Any

from jaxroof.estimators.legality import Rule
from jaxroof.estimators.training.memory_recipe import (
    ContextExchange,
    LayerDivision,
    MemoryRecipe,
    Schedule,
)
from jaxroof.formulas.memory_layout import alike_chunks
from jaxroof.records import value_or


def gpus_used(inputs: Any, *, data: Any, tensor: Any, context: Any, pipeline: Any) -> Any:
    """Return whether every accelerator has one place, where their number is given."""
    gpus = value_or(inputs.gpus, None)
    return True if gpus is None else data * tensor * context * pipeline == gpus


def heads_divisible(inputs: Any, *, tensor: Any) -> Any:
    """Return whether every tensor rank gets whole heads."""
    return inputs.model.heads % tensor == 0


def kv_heads_divisible(inputs: Any, *, tensor: Any) -> Any:
    """Return whether key/value heads divide over tensor ranks, or are replicated evenly."""
    heads = inputs.model.kv_heads
    return (heads % tensor == 0) | (tensor % heads == 0)


def heads_exchanged(inputs: Any, *, tensor: Any, context: Any) -> Any:
    """Return whether an all-to-all exchange gives every context rank whole heads."""
    model, ranks = inputs.model, tensor * context
    return (context == 1) | ((model.heads % ranks == 0) & (model.kv_heads % ranks == 0))


def context_heads(inputs: Any, *, tensor: Any, context: Any, exchange: Any) -> Any:
    """Return whether every context rank gets whole heads, where a plan exchanges all to all."""
    return (exchange > 0) | heads_exchanged(inputs, tensor=tensor, context=context)


def feedforward_divisible(inputs: Any, *, tensor: Any) -> Any:
    """Return whether every tensor rank gets whole columns of an MLP."""
    return inputs.model.feedforward % tensor == 0


def expert_feedforward_divisible(inputs: Any, *, expert_tensor: Any) -> Any:
    """Return whether every expert-tensor rank gets whole columns of an expert."""
    return inputs.model.expert_feedforward % expert_tensor == 0


def sequence_divisible(inputs: Any, *, tensor: Any, context: Any, sequence_parallel: Any) -> Any:
    """Return whether a sequence divides into two parts a context rank, and over tensor ranks."""
    halves = (context == 1) | (inputs.sequence % (2 * context) == 0)
    return halves & ((sequence_parallel == 0) | (inputs.sequence % (tensor * context) == 0))


def context_tokens(inputs: Any, *, context: Any) -> Any:
    """Return whether a context rank has as many tokens as the fewest of any measured run."""
    return (context == 1) | (inputs.sequence >= LEAST_TOKENS * context)


def layers_divisible(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether every chunk gets the same whole number of layers."""
    return inputs.model.layers % (pipeline * interleave) == 0


def layers_divisible_with_ends(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether chunks are equal, or are once embedding and loss count as a layer each."""
    layers, chunks = inputs.model.layers, pipeline * interleave
    return (layers % chunks == 0) | ((layers + 2) % chunks == 0)


def layers_divisible_but_ends(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether chunks are equal, but for the first and the last, which may have fewer.

    Where a rank has several chunks, the first one lacks a layer at most, so that few numbers of
    chunks are legal.
    """
    model = inputs.model
    found = alike_chunks(model.layers, model.mtp_layers, pipeline * interleave)
    return found.possible & ((interleave == 1) | (found.first_lacks <= 1))


def stages_enough(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether no chunk is empty."""
    return pipeline * interleave <= inputs.model.layers


def stages_enough_with_ends(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether no chunk is empty but the first and the last, of embedding and loss alone."""
    return pipeline * interleave <= inputs.model.layers + 2


def interleave_needs_pipeline(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether stages have several chunks only in a pipeline."""
    return (interleave == 1) | (pipeline > 1)


def interleave_microbatches(
    inputs: Any, *, pipeline: Any, microbatches: Any, interleave: Any
) -> Any:
    """Return whether an interleaved schedule walks in whole groups of microbatches."""
    return (interleave == 1) | (microbatches % pipeline == 0)


def one_chunk(inputs: Any, *, interleave: Any) -> Any:
    """Return whether stages have one chunk."""
    return interleave == 1


def dualpipe_microbatches(inputs: Any, *, pipeline: Any, microbatches: Any) -> Any:
    """Return whether both directions of DualPipe get as many stages and microbatches."""
    even = (pipeline % 2 == 0) & (microbatches % 2 == 0)
    return even & (microbatches >= 2 * pipeline)


def experts_divisible(inputs: Any, *, expert: Any) -> Any:
    """Return whether every expert rank gets whole experts."""
    return inputs.model.experts % expert == 0


def experts_exist(inputs: Any, *, expert: Any, expert_tensor: Any) -> Any:
    """Return whether there are experts to divide."""
    return ((expert == 1) & (expert_tensor == 1)) | (inputs.model.experts > 0)


def expert_group(
    inputs: Any, *, data: Any, tensor: Any, context: Any, expert: Any, expert_tensor: Any
) -> Any:
    """Return whether the ranks of a stage regroup into whole copies of the experts."""
    return (data * context * tensor) % (expert * expert_tensor) == 0


def moe_sequence_parallel(inputs: Any, *, tensor: Any, sequence_parallel: Any) -> Any:
    """Return whether tensor ranks share the tokens where there are experts."""
    return (tensor == 1) | (sequence_parallel > 0) | (inputs.model.experts == 0)


def batch_divisible(inputs: Any, *, data: Any, microbatch: Any) -> Any:
    """Return whether the batch divides into whole microbatches."""
    return inputs.global_batch % (data * microbatch) == 0


def zero_pipeline(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether no pipeline gathers or scatters anew for every microbatch."""
    return (inputs.states.zero_stage < 2) | (pipeline == 1)


LEAST_TOKENS = 512  # of a sequence on a context rank; no measured run has fewer

_COMMON = (
    Rule("gpus_used", gpus_used, "splits that do not use every accelerator once"),
    Rule("heads_divisible", heads_divisible, "tensor degrees that do not divide the heads"),
    Rule(
        "kv_heads_divisible",
        kv_heads_divisible,
        "tensor degrees that neither divide the key/value heads nor are a multiple of them",
    ),
    Rule(
        "feedforward_divisible",
        feedforward_divisible,
        "tensor degrees that do not divide the width of the MLP",
    ),
    Rule(
        "expert_feedforward_divisible",
        expert_feedforward_divisible,
        "expert-tensor degrees that do not divide the width of an expert",
    ),
    Rule(
        "sequence_divisible",
        sequence_divisible,
        "tensor and context degrees that do not divide the sequence evenly",
    ),
    Rule(
        "context_tokens",
        context_tokens,
        f"context degrees that leave a rank fewer than {LEAST_TOKENS} tokens of a sequence",
    ),
    Rule(
        "interleave_needs_pipeline",
        interleave_needs_pipeline,
        "several chunks of a stage without a pipeline",
    ),
    Rule(
        "interleave_microbatches",
        interleave_microbatches,
        "interleaved schedules whose microbatches are no multiple of the pipeline degree",
    ),
    Rule("experts_divisible", experts_divisible, "expert degrees that do not divide the experts"),
    Rule(
        "experts_exist",
        experts_exist,
        "expert degrees other than 1 of a model without experts",
    ),
    Rule(
        "expert_group",
        expert_group,
        "expert groups that do not divide the ranks of a stage",
    ),
    Rule(
        "moe_sequence_parallel",
        moe_sequence_parallel,
        "tensor degrees without sequence parallelism of a model with experts",
    ),
    Rule(
        "batch_divisible",
        batch_divisible,
        "data degrees and microbatches that do not divide the batch",
    ),
)
_LAYERS = Rule(
    "layers_divisible",
    layers_divisible,
    "pipelines whose chunks do not divide the layers, without a split of layers",
)
_WITH_ENDS = Rule(
    "layers_divisible",
    layers_divisible_with_ends,
    "pipelines whose chunks are unequal, also with embedding and loss as a layer each",
)
_BUT_ENDS = Rule(
    "layers_divisible",
    layers_divisible_but_ends,
    "pipelines whose chunks are unequal, also where the first and the last have fewer layers",
)
_CHUNKS = Rule("stages_enough", stages_enough, "more chunks than layers")
_CHUNKS_WITH_ENDS = Rule(
    "stages_enough",
    stages_enough_with_ends,
    "more chunks than layers, embedding and loss",
)
_HEADS, _ALL_HEADS = (
    Rule(
        "context_heads",
        holds,
        "context degrees whose all-to-all exchange does not divide the heads",
    )
    for holds in (context_heads, heads_exchanged)
)
_ONE_CHUNK = Rule(
    "interleave_microbatches",
    one_chunk,
    "several chunks of a stage under a schedule other than 1F1B",
)
_DUALPIPE = Rule(
    "dualpipe_microbatches",
    dualpipe_microbatches,
    "DualPipe with odd pipelines or microbatches, or fewer than two microbatches a stage",
)
OF_EXCHANGE: dict[ContextExchange | None, tuple[Rule, ...]] = {
    None: (_HEADS,),
    ContextExchange.ALL_TO_ALL: (_ALL_HEADS,),
    ContextExchange.RING: (),
}
OF_DIVISION = {
    LayerDivision.EQUAL: (_CHUNKS, _LAYERS),
    LayerDivision.WITH_ENDS: (_CHUNKS_WITH_ENDS, _WITH_ENDS),
    LayerDivision.UNEVEN: (_CHUNKS_WITH_ENDS, _BUT_ENDS),
    LayerDivision.EVEN: (_CHUNKS,),
}
OF_SCHEDULE: dict[Schedule, tuple[Rule, ...]] = {
    Schedule.ONE_F_ONE_B: (),
    Schedule.GPIPE: (_ONE_CHUNK,),
    Schedule.ZB_H1: (_ONE_CHUNK,),
    Schedule.DUALPIPE: (_ONE_CHUNK, _DUALPIPE),
}
WARNINGS = (  # what costs time, and what DeepSpeed refuses
    Rule("zero_pipeline", zero_pipeline, "ZeRO 2 or 3 in a pipeline"),
)


VERDICTS = tuple(rule.name for rule in (*_COMMON, _CHUNKS, _LAYERS, _HEADS, _DUALPIPE))


def rules(recipe: MemoryRecipe) -> tuple[Rule, ...]:
    """Return the rules for plans under a recipe.

    A split of layers replaces the rule that chunks are equal by one that it has a place for each.

    >>> [rule.name for rule in rules(MemoryRecipe())][-2:]
    ['layers_divisible', 'context_heads']
    """
    split, division = recipe.layer_split, OF_DIVISION[recipe.layer_division]
    layers = (_CHUNKS, _split_rule(split)) if split else division
    exchange, own = OF_EXCHANGE[recipe.context_exchange], OF_SCHEDULE[recipe.schedule]
    common = [rule for rule in _COMMON if rule.name not in {other.name for other in own}]
    return (*common, *layers, *exchange, *own)


def _split_rule(split: tuple[int, ...]) -> Rule:
    def split_covers_layers(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
        whole = inputs.model.layers == sum(split)
        return whole & (pipeline * interleave == len(split))

    return Rule(
        _LAYERS.name, split_covers_layers, "pipelines other than that of the split of layers"
    )


def verdicts(inputs: Any, recipe: MemoryRecipe) -> dict[str, Any]:
    """Return whether each rule holds for a plan; a rule that a recipe does not have holds."""
    found: dict[str, Any] = dict.fromkeys(VERDICTS, True)
    for rule in rules(recipe):
        found[rule.name] = rule.allows(inputs, vars(inputs.plan))
    return found
