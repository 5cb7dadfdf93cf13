"""Rows that state the options of Megatron-LM of today, as inputs of ``training`` by path.

Source: docs/models/parameters_flops_memory.md, sections 2.1, 4.2 and 10.1 to 10.3.
"""

from jaxroof.errors import refusal, unknown
from tools.rows.common import (
    Options,
    Row,
    Settings,
    count,
    option_count,
    option_number,
    option_share,
    options,
)
from tools.rows.megatron_options import check_options, layout_layers, leading_dense_layers, listed
from tools.rows.models import by_path
from tools.rows.plans import automatic_kernel, chip, degrees, workspace

DROPOUT = 0.1  # Megatron's own default
SIZES = {  # options that the columns state too
    "num-layers": "layers", "hidden-size": "hidden", "num-attention-heads": "heads",
    "seq-length": "seq", "tensor-model-parallel-size": "tp", "pipeline-model-parallel-size": "pp",
    "context-parallel-size": "cp", "expert-model-parallel-size": "ep",
    "global-batch-size": "gbs", "micro-batch-size": "mbs",
}  # fmt: skip
KERNELS = {"unfused": "unfused", "flash": "flash", "fused": "cudnn"}
LOSSES = {"native": "native", "te": "fused"}
OLD_CONTAINER = "golden_values_lts"  # of a Transformer Engine that chooses kernels otherwise
GPT2_ENTRIES = 50257.0  # of the tokenizer of the functional tests


def megatron_settings(row: Row) -> Settings:
    """Return the inputs of a row, and the kind of row that it is."""
    given = options(row)
    check_options(given)
    for name, column in SIZES.items():
        if name in given and column in row.cells:
            stated, written = count(row, column), option_count(given, name, 0.0)
            if stated != written:
                raise refusal(column, f"{stated:.0f}, but the settings say {name}={written:.0f}")
    model = _model(row, given)
    plan = _plan(row, given, model)
    return {
        **model,
        **plan,
        **_choices(row, given),
        **_states(given),
        **_activations(given),
        **_buffers(row, given),
        "#kind": _kind(row, given),
    }


def _kind(row: Row, given: Options) -> str:
    if "num-experts" in given:
        padded = "moe-expert-capacity-factor" in given
        return "MoE, capacity" if padded else "MoE, dropless"
    if _loss(given) == "native":
        return "dense, compiled loss"
    return "dense, kernel by rule" if _kernel_open(given) else "dense"


# ---- Model --------------------------------------------------------------------------------------


def _model(row: Row, given: Options) -> Settings:
    """Return the model of a row and its choices."""
    gated, latent = "swiglu" in given, "multi-latent-attention" in given
    hidden, heads = count(row, "hidden"), count(row, "heads")
    wide = hidden * 8.0 // 3.0 // 64.0 * 64.0 if gated else 4.0 * hidden
    feedforward = option_count(given, "ffn-hidden-size", wide)
    rotary = given.get("position-embedding-type") == "rope"
    rotary = rotary or "use-rotary-position-embeddings" in given
    fields = {
        "layers": count(row, "layers"),
        "hidden": hidden,
        "feedforward": feedforward,
        "heads": heads,
        "kv_heads": option_count(given, "num-query-groups", heads),
        "head_size": option_count(given, "kv-channels", hidden // heads),
        "vocabulary": _vocabulary(row, given),
        "sequence": count(row, "seq"),
        "head_norms": 2.0 * ("qk-layernorm" in given and not latent),
        "positions": 0.0 if rotary else option_count(given, "max-position-embeddings", 0.0),
        "mtp_layers": option_count(given, "mtp-num-layers", 0.0),
        **_experts(given, feedforward),
        **(_latents(given) if latent else {}),
    }
    if min(fields["kv_heads"], fields["head_size"], feedforward) < 1.0:
        raise refusal("settings", "widths and heads of 0; expected numbers above 0")
    tied = "untie-embeddings-and-output-weights" not in given
    return {
        **by_path(fields),
        "attention": "latent" if latent else "heads",
        "mlp": "gated" if gated else "plain",
        "norm": "rmsnorm" if given.get("normalization") == "RMSNorm" else "layernorm",
        "biases": "none" if "disable-bias-linear" in given else "all",
        "embeddings": "tied" if tied else "separate",
    }


def _vocabulary(row: Row, given: Options) -> float:
    """Return the vocabulary; the null tokenizer adds an entry to what it is told, less one."""
    if given.get("tokenizer-type") != "NullTokenizer":
        return count(row, "vocab", GPT2_ENTRIES)
    found = option_count(given, "vocab-size", 0.0) - 1.0
    if found < 1.0:
        raise refusal("vocab-size", "not given; expected the entries of the null tokenizer")
    return found


def _latents(given: Options) -> dict[str, float]:
    names = {
        "q_rank": "q-lora-rank", "kv_rank": "kv-lora-rank", "nope_size": "qk-head-dim",
        "rope_size": "qk-pos-emb-head-dim", "value_size": "v-head-dim",
    }  # fmt: skip
    found = {field: option_count(given, name, 0.0) for field, name in names.items()}
    for field, name in names.items():
        if found[field] == 0.0 and field != "q_rank":
            raise refusal(name, "not given; expected a width of the latent attention")
    return found


def _experts(given: Options, feedforward: float) -> dict[str, float]:
    experts = option_count(given, "num-experts", 0.0)
    if experts == 0.0:
        return {}
    routing = given.get("moe-layer-freq")
    return {
        "experts": experts,
        "active_experts": option_count(given, "moe-router-topk", 2.0),
        "expert_feedforward": option_count(given, "moe-ffn-hidden-size", feedforward),
        "shared_feedforward": option_count(given, "moe-shared-expert-intermediate-size", 0.0),
        "first_dense_layers": leading_dense_layers(routing) if routing else 0.0,
    }


# ---- Plan ---------------------------------------------------------------------------------------


def _plan(row: Row, given: Options, model: Settings) -> Settings:
    """Return the plan, and the layers of every virtual stage if they are stated."""
    found = degrees(row)
    tensor, pipeline = found["plan.tensor"], found["plan.pipeline"]
    routes = "model.experts" in model
    within = option_count(given, "expert-tensor-parallel-size", tensor) if routes else 1.0
    interleave, split = _chunks(given, model["model.layers"], pipeline)
    group = "microbatch-group-size-per-virtual-pipeline-stage"
    return {
        **found,
        "plan.interleave": interleave,
        "plan.expert": count(row, "ep", 1.0),
        "plan.expert_tensor": within,
        "plan.sequence_parallel": float("sequence-parallel" in given and tensor > 1.0),
        "plan.zero_stage": float("use-distributed-optimizer" in given),
        "microbatch_group": option_count(given, group, 0.0),
        "early_forward": float("overlap-moe-expert-parallel-comm" in given),
        "#layer_split": ",".join(map(str, split)),
    }


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


# ---- States, activations and buffers ------------------------------------------------------------


def _states(given: Options) -> Settings:
    return {
        "states.optimizer_instances": option_count(
            given, "num-distributed-optimizer-instances", 1.0
        ),
        "states.vocabulary_multiple": option_count(given, "make-vocab-size-divisible-by", 128.0),
        "states.extra_token": float(given.get("tokenizer-type") == "NullTokenizer"),
    }


def _activations(given: Options) -> Settings:
    factor = option_number(given, "moe-expert-capacity-factor", 0.0)  # 0: no token is dropped
    if factor > 0.0 and "moe-pad-expert-input-to-capacity" not in given:
        raise refusal("moe-expert-capacity-factor", "capacities without padding: not modelled")
    found = {
        f"activations.{part}_dropout": float(option_share(given, f"{part}-dropout", DROPOUT) > 0.0)
        for part in ("attention", "hidden")
    }
    return {"activations.capacity_factor": factor, **found}


def _buffers(row: Row, given: Options) -> Settings:
    engine = _engine(given)
    large = "CUBLAS_WORKSPACE_CONFIG" in options(row, "environment")
    whole, grouped = workspace(chip(row), engine, large)
    fused = engine and "no-gradient-accumulation-fusion" not in given
    return {
        "buffers.gradient_placeholders": float(fused),
        "buffers.workspace": whole,
        "buffers.grouped_workspace": grouped if "moe-grouped-gemm" in given else 0.0,
    }


def _engine(given: Options) -> bool:
    """Return whether Transformer Engine runs."""
    return given.get("transformer-impl", "transformer_engine") != "local"


# ---- Choices ------------------------------------------------------------------------------------


def _choices(row: Row, given: Options) -> Settings:
    found = {
        **_recomputed(given),
        "attention_kernel": _kernel(row, given),
        "context_exchange": "all-to-all",  # whose second output its runs keep
        "cross_entropy": _loss(given),
        "expert_weighting": "fused" if "swiglu" in given else "separate",
    }
    if _kernel_open(given) and OLD_CONTAINER in row.cells.get("source_url", ""):
        what = "not given, and its choice is not known for containers of long-term support"
        raise refusal("attention-backend", what)
    return found


def _kernel_open(given: Options) -> bool:
    """Return whether no option names the kernel, and it matters."""
    named = given.get("attention-backend", "auto") != "auto" or not _engine(given)
    return not named and given.get("recompute-granularity") != "full"


def _kernel(row: Row, given: Options) -> str:
    named = given.get("attention-backend", "auto")
    if named == "auto":
        return automatic_kernel(chip(row), _engine(given))
    if named not in KERNELS:
        raise unknown("attention-backend", named, "attention kernel", [*KERNELS, "auto"])
    return KERNELS[named]


def _loss(given: Options) -> str:
    """Return the kernel of the loss; the fusion of Megatron is ``native`` unless named."""
    if "cross-entropy-loss-fusion" not in given:
        return "vocabulary_parallel"
    named = given.get("cross-entropy-fusion-impl", "native")
    if named not in LOSSES:
        raise unknown("cross-entropy-fusion-impl", named, "kernel of the loss", LOSSES)
    return LOSSES[named]


def _recomputed(given: Options) -> Settings:
    granularity = given.get("recompute-granularity", "none")
    levels = {"none": 0.0, "selective": 1.0, "full": 2.0}
    if granularity not in levels:
        raise unknown("recompute-granularity", granularity, "granularity", levels)
    if granularity == "selective":
        modules = ",".join(listed(given.get("recompute-modules", "core_attn")))
        return {"plan.recompute": 1.0, "#modules": modules}
    every = option_count(given, "recompute-num-layers", 1.0)
    if every > 1.0 or given.get("recompute-method", "uniform") != "uniform":
        raise refusal("recompute-method", "some layers whole, others not: not modelled")
    return {"plan.recompute": levels[granularity]}
