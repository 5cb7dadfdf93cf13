"""The rules for legal plans of today's training, and the verdicts of a report: one a rule.

Every rule takes the inputs and plan fields by name and uses only %, //, comparisons, & and |.
Source: docs/models/parameters_flops_memory.md, section 7.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxroof.errors import refusal
from jaxroof.estimator import reads
from jaxroof.estimators.legality import Rule, with_verdicts
from jaxroof.estimators.legality import verdicts as verdicts_of
from jaxroof.estimators.training.inputs import BatchPlan, PlannedStep
from jaxroof.estimators.training.recipe import (
    ContextExchange,
    LayerDivision,
    Schedule,
    TrainingRecipe,
)
from jaxroof.estimators.training.stages import alike_chunks
from jaxroof.records import record, units, value_or

LEAST_TOKENS = 512  # of a sequence on a context rank; no measured run has fewer


def _gpus_used(inputs: Any, *, data: Any, tensor: Any, context: Any, pipeline: Any) -> Any:
    gpus = value_or(inputs.gpus, None)
    return True if gpus is None else data * tensor * context * pipeline == gpus


def _kv_heads(inputs: Any, *, tensor: Any) -> Any:
    heads = inputs.model.kv_heads
    return (heads % tensor == 0) | (tensor % heads == 0)


def _exchanged(inputs: Any, *, tensor: Any, context: Any) -> Any:
    model, ranks = inputs.model, tensor * context
    return (context == 1) | ((model.heads % ranks == 0) & (model.kv_heads % ranks == 0))


def _sequence(inputs: Any, *, tensor: Any, context: Any, sequence_parallel: Any) -> Any:
    sequence = inputs.model.sequence
    halves = (context == 1) | (sequence % (2 * context) == 0)
    return halves & ((sequence_parallel == 0) | (sequence % (tensor * context) == 0))


def _adapters(inputs: Any) -> Any:
    rank = value_or(inputs.lora_rank, None)
    if rank is None:
        return True
    narrow = rank < inputs.model.hidden
    for width in (inputs.model.feedforward, inputs.model.expert_feedforward):
        narrow = narrow & ((width == 0) | (rank < width))
    return narrow


def _with_ends(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    layers, chunks = inputs.model.layers, pipeline * interleave
    return (layers % chunks == 0) | ((layers + 2) % chunks == 0)


def layers_divisible_but_ends(inputs: Any, *, pipeline: Any, interleave: Any) -> Any:
    """Return whether chunks are equal, but for the first and the last, which may have fewer.

    Where a rank has several chunks, the first one lacks a layer at most, so that few numbers of
    chunks are legal.
    """
    model = inputs.model
    more = value_or(model.mtp_blocks, model.mtp_layers)
    each, *lacks = alike_chunks(model.layers, more, pipeline * interleave)
    possible = (lacks[0] <= each) & (lacks[1] <= each)
    return possible & ((interleave == 1) | (lacks[0] <= 1))


def _dualpipe(inputs: Any, *, pipeline: Any, microbatches: Any) -> Any:
    even = (pipeline % 2 == 0) & (microbatches % 2 == 0)
    return even & (microbatches >= 2 * pipeline)


_LAYERS_FACT = "the model has {layers:.0f} layers"
_EXPERTS_FACT = "the model has {experts:.0f} experts"
_SEQUENCE_FACT = "a sequence has {sequence:,.0f} tokens"
_STEP_FACT = "a step has {microbatches:,.0f} microbatches"
_STAGES_ENOUGH = Rule(
    "stages_enough",
    lambda inputs, *, pipeline, interleave: pipeline * interleave <= inputs.model.layers,
    "more chunks than layers",
    "There are no more chunks than layers.",
    _LAYERS_FACT,
)
_WITH_EMPTY_ENDS = dataclasses.replace(
    _STAGES_ENOUGH,  # the first and the last chunk may have embedding and loss alone
    holds=lambda inputs, *, pipeline, interleave: pipeline * interleave <= inputs.model.layers + 2,
    words="more chunks than layers, embedding and loss",
)
_LAYERS = Rule(
    "layers_divisible",
    lambda inputs, *, pipeline, interleave: inputs.model.layers % (pipeline * interleave) == 0,
    "pipelines whose chunks do not divide the layers, without a split of layers",
    "Chunks divide the layers.",
    _LAYERS_FACT,
)
_CONTEXT_HEADS = Rule(
    "context_heads",
    lambda inputs, *, tensor, context, exchange: (
        (exchange > 0) | _exchanged(inputs, tensor=tensor, context=context)
    ),
    "context degrees whose all-to-all exchange does not divide the heads",
    "Tensor and context degrees divide the heads.",
    "the model has {heads:.0f} heads and {kv_heads:.0f} of keys and values",
)
_MICROBATCHES = Rule(
    "interleave_microbatches",
    lambda inputs, *, pipeline, microbatches, interleave: (
        (interleave == 1) | (microbatches % pipeline == 0)
    ),
    "interleaved schedules whose microbatches are no multiple of the pipeline degree",
    "The schedule has these chunks; interleaved, whole groups of microbatches.",
    _STEP_FACT,
)
_ONE_CHUNK = dataclasses.replace(
    _MICROBATCHES,
    holds=lambda inputs, *, interleave: interleave == 1,
    words="several chunks of a stage under a schedule other than 1F1B",
)
_DUALPIPE = Rule(
    "dualpipe_microbatches",
    _dualpipe,
    "DualPipe with odd pipelines or microbatches, or fewer than two microbatches a stage",
    "DualPipe has even stages and microbatches.",
    _STEP_FACT,
)
HEADS = (  # of any tensor group
    Rule(
        "heads_divisible",
        lambda inputs, *, tensor: inputs.model.heads % tensor == 0,
        "tensor degrees that do not divide the heads",
        "Tensor degree divides the heads.",
        "the model has {heads:.0f} heads",
    ),
    Rule(
        "kv_heads_divisible",
        _kv_heads,
        "tensor degrees that neither divide the key/value heads nor are a multiple of them",
        "Tensor degree divides the key/value heads, or is a multiple of them.",
        "the model has {kv_heads:.0f} heads of keys and values",
    ),
)
_FIRST = (
    Rule(
        "adapters_narrow",
        _adapters,
        "adapters as wide as what they stand beside",
        "The rank of adapters is below the narrowest width of the model.",
        "lora_rank is {rank:g}, the narrowest width {narrowest:,.0f}",
    ),
    Rule(
        "gpus_used",
        _gpus_used,
        "splits that do not use every accelerator once",
        "The degrees multiply to the accelerators.",
        "it uses {used:,.0f} of {gpus:,.0f} accelerators",
    ),
    *HEADS,
    Rule(
        "feedforward_divisible",
        lambda inputs, *, tensor: inputs.model.feedforward % tensor == 0,
        "tensor degrees that do not divide the width of the MLP",
        "Tensor degree divides the width of the MLP.",
        "the MLP is {feedforward:.0f} wide",
    ),
    Rule(
        "expert_feedforward_divisible",
        lambda inputs, *, expert_tensor: inputs.model.expert_feedforward % expert_tensor == 0,
        "expert-tensor degrees that do not divide the width of an expert",
        "Expert-tensor degree divides the width of an expert.",
        "an expert is {expert_feedforward:.0f} wide",
    ),
    Rule(
        "sequence_divisible",  # into two parts a context rank, and over tensor ranks
        _sequence,
        "tensor and context degrees that do not divide the sequence evenly",
        "Context and tensor degrees divide the sequence.",
        _SEQUENCE_FACT,
    ),
    Rule(
        "context_tokens",  # as many as the fewest of any measured run
        lambda inputs, *, context: (
            (context == 1) | (inputs.model.sequence >= LEAST_TOKENS * context)
        ),
        f"context degrees that leave a rank fewer than {LEAST_TOKENS} tokens of a sequence",
        f"Every context rank has at least {LEAST_TOKENS} tokens.",
        _SEQUENCE_FACT,
    ),
)
_COMMON = (
    *_FIRST,
    Rule(
        "interleave_needs_pipeline",
        lambda inputs, *, pipeline, interleave: (interleave == 1) | (pipeline > 1),
        "several chunks of a stage without a pipeline",
        "Several chunks are in a pipeline.",
        "a stage of {layers:.0f} layers is no pipeline",
    ),
    _MICROBATCHES,
    Rule(
        "experts_divisible",
        lambda inputs, *, expert: inputs.model.experts % expert == 0,
        "expert degrees that do not divide the experts",
        "Expert degree divides the experts.",
        _EXPERTS_FACT,
    ),
    Rule(
        "experts_exist",
        lambda inputs, *, expert, expert_tensor: (
            ((expert == 1) & (expert_tensor == 1)) | (inputs.model.experts > 0)
        ),
        "expert degrees other than 1 of a model without experts",
        "Expert degrees are 1 without experts.",
        _EXPERTS_FACT,
    ),
    Rule(
        "expert_group",  # they regroup into whole copies of the experts
        lambda inputs, *, data, tensor, context, expert, expert_tensor: (
            (data * context * tensor) % (expert * expert_tensor) == 0
        ),
        "expert groups that do not divide the ranks of a stage",
        "Expert groups divide the ranks of a stage.",
        "a stage has {ranks:,.0f} ranks",
    ),
    Rule(
        "moe_sequence_parallel",
        lambda inputs, *, tensor, sequence_parallel: (
            (tensor == 1) | (sequence_parallel > 0) | (inputs.model.experts == 0)
        ),
        "tensor degrees without sequence parallelism of a model with experts",
        "Tensor ranks share the tokens where there are experts.",
        _EXPERTS_FACT,
    ),
    Rule(
        "batch_divisible",
        lambda inputs, *, data, microbatch: inputs.global_batch % (data * microbatch) == 0,
        "data degrees and microbatches that do not divide the batch",
        "Data degree and microbatch divide the batch.",
        "the batch is {global_batch:,.0f} sequences",
    ),
)
OF_EXCHANGE: dict[ContextExchange | None, tuple[Rule, ...]] = {
    None: (_CONTEXT_HEADS,),
    ContextExchange.ALL_TO_ALL: (dataclasses.replace(_CONTEXT_HEADS, holds=_exchanged),),
    ContextExchange.RING: (),
}
OF_DIVISION = {
    LayerDivision.EQUAL: (_STAGES_ENOUGH, _LAYERS),
    LayerDivision.WITH_ENDS: (
        _WITH_EMPTY_ENDS,
        dataclasses.replace(
            _LAYERS,
            holds=_with_ends,
            words="pipelines whose chunks are unequal, also with embedding and loss as a layer"
            " each",
        ),
    ),
    LayerDivision.UNEVEN: (
        _WITH_EMPTY_ENDS,
        dataclasses.replace(
            _LAYERS,
            holds=layers_divisible_but_ends,
            words="pipelines whose chunks are unequal, also where the first and the last have"
            " fewer layers",
        ),
    ),
    LayerDivision.EVEN: (_STAGES_ENOUGH,),
}
OF_SCHEDULE: dict[Schedule, tuple[Rule, ...]] = {
    Schedule.ONE_F_ONE_B: (),
    Schedule.GPIPE: (_ONE_CHUNK,),
    Schedule.ZB_H1: (_ONE_CHUNK,),
    Schedule.DUALPIPE: (_ONE_CHUNK, _DUALPIPE),
}
WARNINGS = (  # what costs time, and what DeepSpeed refuses
    Rule(
        "zero_pipeline",  # no pipeline gathers or scatters anew for every microbatch
        lambda inputs, *, zero_stage, pipeline: (zero_stage < 2) | (pipeline == 1),
        "ZeRO 2 or 3 in a pipeline",
    ),
)
RULES = (  # one of each name, in the order of the verdicts
    *_FIRST,
    _STAGES_ENOUGH,
    *_COMMON[len(_FIRST) :],
    *(_LAYERS, _CONTEXT_HEADS, _DUALPIPE),
)


def rules(recipe: TrainingRecipe) -> tuple[Rule, ...]:
    """Return the rules for plans under a recipe.

    A split of layers replaces the rule that chunks are equal by one that it has a place for each.
    """
    split = recipe.layer_division
    given = (_STAGES_ENOUGH, _split_rule(split)) if isinstance(split, tuple) else ()
    layers = given or OF_DIVISION[split]  # type: ignore[index]
    exchange, own = OF_EXCHANGE[recipe.context_exchange], OF_SCHEDULE[recipe.schedule]
    common = [rule for rule in _COMMON if rule.name not in {other.name for other in own}]
    return (*common, *layers, *exchange, *own)


def _split_rule(split: tuple[int, ...]) -> Rule:
    return dataclasses.replace(
        _LAYERS,
        holds=lambda inputs, *, pipeline, interleave: (
            (inputs.model.layers == sum(split)) & (pipeline * interleave == len(split))
        ),
        words="pipelines other than that of the split of layers",
        fact=f"{_LAYERS_FACT}, the split {sum(split)} on {len(split)} stages",
    )


def verdicts(inputs: PlannedStep, recipe: TrainingRecipe, **more: Any) -> dict[str, Any]:
    """Return whether each rule holds for a plan, more verdicts, and ``feasible``: all of them.

    A rule that a recipe does not have holds.
    """
    return verdicts_of([rule.name for rule in RULES], rules(recipe), inputs, **more)


@record
@with_verdicts(RULES)
class Legality:
    """One verdict a rule; a plan is legal if all hold."""


# ---- In words ------------------------------------------------------------------------------------

ABOUT = {name: BatchPlan.__dataclass_fields__[name].metadata for name in units(BatchPlan)}
EVEN = ("layer_division=even", "layer_split=even")  # the second where a split is given
FIRST = "batch_divisible"  # without it the number of microbatches means nothing
MOST = 4  # alternatives that an error names
FARTHEST = 2.0**16  # value that is tried


def refuse_illegal(inputs: PlannedStep, recipe: TrainingRecipe) -> None:
    """Check a plan against the rules of section 7 of docs/models/parameters_flops_memory.md.

    Raises: InputError for the first rule that it breaks, with values that keep the rule.
    """
    rule = broken_rule(inputs, recipe)
    if rule is not None:
        right = _alternatives(rule, inputs, recipe)
        expected = f"; expected {right}" if right else ""
        raise refusal("plan", f"{broken_words(rule, inputs)}{expected}")


def broken_rule(inputs: PlannedStep, recipe: TrainingRecipe) -> Rule | None:
    """Return the first rule that a plan breaks."""
    every, plan = sorted(rules(recipe), key=lambda rule: rule.name != FIRST), _fields(inputs)
    return next((rule for rule in every if not bool(rule.allows(inputs, plan))), None)


def refuse_wide_adapters(inputs: Any) -> None:
    """Check that the rank of adapters is below the widths of a model.

    Raises: InputError where it is not.
    """
    if not _adapters(inputs):
        narrowest = f"below {_narrowest(inputs.model):,.0f}, the narrowest width of the model"
        raise refusal("lora_rank", f"given {float(inputs.lora_rank):g}; expected one {narrowest}")


def _narrowest(model: Any) -> float:
    widths = (model.hidden, model.feedforward, model.expert_feedforward)
    return min(float(width) for width in widths if width > 0)


def broken_words(rule: Rule, inputs: PlannedStep) -> str:
    """Return what of a plan breaks a rule, the rule, and the number that decides."""
    plan = _fields(inputs)
    fields = [name for name in reads(rule.holds) if plan[name] != 1.0]
    said = ", ".join(_said(f, plan[f]) for f in fields or reads(rule.holds))
    ranks = plan["data"] * plan["tensor"] * plan["context"]
    numbers = {**vars(inputs.model), **plan, "global_batch": inputs.global_batch, "ranks": ranks}
    numbers |= {"used": ranks * plan["pipeline"], "gpus": value_or(inputs.gpus, 0.0)}
    numbers |= {"rank": value_or(inputs.lora_rank, 0.0), "narrowest": _narrowest(inputs.model)}
    return f"{said or 'plan'}: not legal ({rule.words}); {rule.fact.format(**numbers)}"


def _fields(inputs: PlannedStep) -> dict[str, float]:
    return {name: float(getattr(inputs.plan, name)) for name in ABOUT}


def _said(name: str, value: float) -> str:
    words = ABOUT[name].get("flags", ())
    return f"{ABOUT[name]['symbol'] or name}={words[int(value)] if words else f'{value:.0f}'}"


def _alternatives(rule: Rule, inputs: PlannedStep, recipe: TrainingRecipe) -> str:
    """Return values of single fields that keep every rule, the nearest ones below and above.

    Where there are none, those that keep the broken rule, a step on the way.
    """
    found = _nearest(rule, rules(recipe), inputs)
    if rule.name == "gpus_used" and not found:
        plan = inputs.plan
        each = int(plan.tensor * plan.context * plan.pipeline)
        return f"a multiple of {each:,} accelerators"
    found = (found or _nearest(rule, (rule,), inputs))[:MOST]
    if rule.name == "layers_divisible":
        found.append(EVEN[isinstance(recipe.layer_division, tuple)])
    return " or ".join(found)


def _nearest(rule: Rule, kept: Iterable[Rule], inputs: PlannedStep) -> list[str]:
    """Return the nearest values of the fields of a rule that keep some rules."""
    found, plan = [], _fields(inputs)
    for name in [name for name in reads(rule.holds) if name != "microbatches"]:
        held, most = plan[name], min(8.0 * plan[name] + 1.0, ABOUT[name]["most"], FARTHEST)
        values = np.arange(1.0, most + 1.0)
        there: dict[str, Any] = {**plan, name: values}
        if name in ("data", "microbatch") and inputs.global_batch is not None:
            batches = inputs.global_batch // (there["data"] * there["microbatch"])
            there["microbatches"] = np.maximum(batches, 1.0)
        every = [np.broadcast_to(one.allows(inputs, there), values.shape) for one in kept]
        allowed = np.logical_and.reduce(every)
        below, above = values[allowed & (values < held)], values[allowed & (values > held)]
        found += [_said(name, value) for value in (*below[-1:], *above[:1])]
    return found
