"""Rows that state the options of Megatron-LM of today: the inputs of the memory of every stage.

Source: docs/models/parameters_flops_memory.md, sections 10.1 to 10.3.
"""

import dataclasses
from typing import Any

from jaxroof.catalog.architecture import Architecture
from jaxroof.errors import refusal, unknown
from jaxroof.estimators.training.memory_inputs import (
    Activations,
    Buffers,
    MemoryInputs,
    MemoryPlan,
    States,
)
from jaxroof.estimators.training.memory_recipe import (
    AttentionKernel,
    ContextExchange,
    CrossEntropy,
    ExpertWeighting,
    MemoryRecipe,
    Module,
    Recompute,
)
from jaxroof.validation.measured_rows import (
    Options,
    Row,
    count,
    option_count,
    option_number,
    option_share,
    options,
)
from jaxroof.validation.memory.megatron_models import architecture
from jaxroof.validation.memory.megatron_options import (
    check_options,
    layout_layers,
    listed,
)
from jaxroof.validation.memory.models import described
from jaxroof.validation.memory.plans import (
    Described,
    automatic_kernel,
    chip,
    degrees,
    legal_inputs,
    workspace,
)

DROPOUT = 0.1  # Megatron's own default
SIZES = {  # options that the columns state too
    "num-layers": "layers", "hidden-size": "hidden", "num-attention-heads": "heads",
    "seq-length": "seq", "tensor-model-parallel-size": "tp", "pipeline-model-parallel-size": "pp",
    "context-parallel-size": "cp", "expert-model-parallel-size": "ep",
    "global-batch-size": "gbs", "micro-batch-size": "mbs",
}  # fmt: skip
KERNELS = {
    "unfused": AttentionKernel.UNFUSED,
    "flash": AttentionKernel.FLASH,
    "fused": AttentionKernel.CUDNN,
}
OLD_CONTAINER = "golden_values_lts"  # of a Transformer Engine that chooses kernels otherwise


def megatron_inputs(row: Row) -> tuple[MemoryInputs, MemoryRecipe, str]:
    """Return the inputs and the recipe of a row, and the kind of row that it is.

    Raises: InputError for an option that is not modelled, for one that is lacking, and where the
    options contradict the columns.
    """
    given = options(row)
    check_options(given)
    _check_columns(row, given)
    model, made = architecture(row, given)
    plan, split = _plan(row, given, model)
    recipe = dataclasses.replace(_recipe(row, given), layer_split=split)
    found = Described(
        *described(model, made),
        plan=plan,
        states=_states(given),
        activations=_activations(given),
        buffers=_buffers(row, given),
    )
    return legal_inputs(row, found, recipe), recipe, _kind(model, recipe, given)


def _kind(model: Architecture, recipe: MemoryRecipe, given: Options) -> str:
    if model.experts > 0.0:
        padded = "moe-expert-capacity-factor" in given
        return "MoE, capacity" if padded else "MoE, dropless"
    if recipe.cross_entropy is CrossEntropy.NATIVE:
        return "dense, compiled loss"
    return "dense, kernel by rule" if _kernel_open(given, recipe) else "dense"


def _check_columns(row: Row, given: Options) -> None:
    for name, column in SIZES.items():
        if name in given and column in row.cells:
            stated, written = count(row, column), option_count(given, name, 0.0)
            if stated != written:
                raise refusal(column, f"{stated:.0f}, but the settings say {name}={written:.0f}")


def _plan(row: Row, given: Options, model: Architecture) -> tuple[MemoryPlan, tuple[int, ...]]:
    """Return the plan, and the layers of every virtual stage if they are stated."""
    found: dict[str, Any] = degrees(row)
    tensor, pipeline = found["tensor"], found["pipeline"]
    routes = model.experts > 0.0
    within = option_count(given, "expert-tensor-parallel-size", tensor) if routes else 1.0
    interleave, split = _chunks(given, float(model.layers), pipeline)
    plan = MemoryPlan(
        **found,
        interleave=interleave,
        expert=count(row, "ep", 1.0),
        expert_tensor=within,
        sequence_parallel=float("sequence-parallel" in given and tensor > 1.0),
        microbatch_group=option_count(
            given, "microbatch-group-size-per-virtual-pipeline-stage", 0.0
        ),
        early_forward=float("overlap-moe-expert-parallel-comm" in given),
    )
    return plan, split


def _chunks(given: Options, layers: float, pipeline: float) -> tuple[float, tuple[int, ...]]:
    """Return the chunks of layers on a rank, and the layers of every chunk if they are stated."""
    layout = given.get("pipeline-model-parallel-layout")
    if layout:
        split = layout_layers(layout)
        return max(len(split) // pipeline, 1.0), split
    each = option_count(given, "num-layers-per-virtual-pipeline-stage", 0.0)
    chunks = option_count(given, "num-virtual-stages-per-pipeline-rank", 1.0)
    if each > 0.0:
        chunks = max(layers // pipeline // each, 1.0)
    first = option_count(given, "decoder-first-pipeline-num-layers", 0.0)
    last = option_count(given, "decoder-last-pipeline-num-layers", 0.0)
    if not first and not last:
        return chunks, ()
    if not (first and last) or pipeline < 3.0 or chunks > 1.0:
        raise refusal("decoder-first-pipeline-num-layers", "a split that is not modelled")
    between = int((layers - first - last) // (pipeline - 2.0))
    return chunks, (int(first), *[between] * int(pipeline - 2.0), int(last))


def _states(given: Options) -> States:
    return States(
        zero_stage=float("use-distributed-optimizer" in given),
        optimizer_instances=option_count(given, "num-distributed-optimizer-instances", 1.0),
        vocabulary_multiple=option_count(given, "make-vocab-size-divisible-by", 128.0),
        extra_token=float(given.get("tokenizer-type") == "NullTokenizer"),
    )


def _activations(given: Options) -> Activations:
    return Activations(
        capacity_factor=_capacity_factor(given),
        attention_dropout=float(option_share(given, "attention-dropout", DROPOUT) > 0.0),
        hidden_dropout=float(option_share(given, "hidden-dropout", DROPOUT) > 0.0),
    )


def _capacity_factor(given: Options) -> float:
    """Return the capacity that expert inputs are padded to, 0 if no token is dropped."""
    factor = option_number(given, "moe-expert-capacity-factor", 0.0)
    if factor > 0.0 and "moe-pad-expert-input-to-capacity" not in given:
        raise refusal("moe-expert-capacity-factor", "capacities without padding: not modelled")
    return factor


def _buffers(row: Row, given: Options) -> Buffers:
    engine = _engine(given)
    large = "CUBLAS_WORKSPACE_CONFIG" in options(row, "environment")
    whole, grouped = workspace(chip(row), engine, large)
    fused = engine and "no-gradient-accumulation-fusion" not in given
    return Buffers(
        gradient_placeholders=float(fused),
        workspace=whole,
        grouped_workspace=grouped if "moe-grouped-gemm" in given else 0.0,
    )


def _engine(given: Options) -> bool:
    """Return whether Transformer Engine runs."""
    return given.get("transformer-impl", "transformer_engine") != "local"


# ---- Choices ------------------------------------------------------------------------------------


def _recipe(row: Row, given: Options) -> MemoryRecipe:
    recompute, modules = _recomputed(given)
    found = MemoryRecipe(
        recompute=recompute,
        modules=modules,
        attention_kernel=_kernel(row, given),
        context_exchange=ContextExchange.ALL_TO_ALL,  # whose second output its runs keep
        cross_entropy=_loss(given),
        expert_weighting=ExpertWeighting.FUSED if "swiglu" in given else ExpertWeighting.SEPARATE,
    )
    if _kernel_open(given, found) and OLD_CONTAINER in row.cells.get("source_url", ""):
        what = "not given, and its choice is not known for containers of long-term support"
        raise refusal("attention-backend", what)
    return found


def _kernel_open(given: Options, recipe: MemoryRecipe) -> bool:
    """Return whether no option names the kernel, and it matters."""
    named = given.get("attention-backend", "auto") != "auto" or not _engine(given)
    return not named and recipe.recompute is not Recompute.FULL


def _kernel(row: Row, given: Options) -> AttentionKernel:
    named = given.get("attention-backend", "auto")
    if named == "auto":
        return automatic_kernel(chip(row), _engine(given))
    if named not in KERNELS:
        raise unknown("attention-backend", named, "attention kernel", [*KERNELS, "auto"])
    return KERNELS[named]


def _loss(given: Options) -> CrossEntropy:
    """Return the kernel of the loss; the fusion of Megatron is ``native`` unless named."""
    if "cross-entropy-loss-fusion" not in given:
        return CrossEntropy.VOCABULARY_PARALLEL
    named = given.get("cross-entropy-fusion-impl", "native")
    if named not in LOSSES:
        raise unknown("cross-entropy-fusion-impl", named, "kernel of the loss", LOSSES)
    return LOSSES[named]


LOSSES = {"native": CrossEntropy.NATIVE, "te": CrossEntropy.FUSED}


def _recomputed(given: Options) -> tuple[Recompute, frozenset[Module]]:
    granularity = given.get("recompute-granularity", "none")
    members = {member.value: member for member in Recompute}
    if granularity not in members:
        raise unknown("recompute-granularity", granularity, "granularity", members)
    if members[granularity] is not Recompute.SELECTIVE:
        every = option_count(given, "recompute-num-layers", 1.0)
        if every > 1.0 or given.get("recompute-method", "uniform") != "uniform":
            raise refusal("recompute-method", "some layers whole, others not: not modelled")
        return members[granularity], frozenset()
    known = {member.value: member for member in Module}
    names = listed(given.get("recompute-modules", Module.CORE_ATTENTION.value))
    for name in names:
        if name not in known:
            raise unknown("recompute-modules", name, "module of a layer", known)
    return Recompute.SELECTIVE, frozenset(known[name] for name in names)
