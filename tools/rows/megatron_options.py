"""Options of Megatron-LM: those that decide memory, those that do not, those not modelled."""

import re

from jaxroof.errors import refusal
from tools.rows.common import Options

NOT_MODELLED = {  # option: what it is
    "use-megatron-fsdp": "Megatron-FSDP",
    "defer-embedding-wgrad-compute": "deferred weight gradients",
    "delay-wgrad-compute": "deferred weight gradients",
    "fp8-format": "FP8 copies of weights",
    "fp8-recipe": "FP8 copies of weights",
    "fp4-format": "FP4 copies of weights",
    "cuda-graph-impl": "CUDA graphs",
    "enable-cuda-graph": "CUDA graphs",
    "external-cuda-graph": "CUDA graphs",
    "optimizer": "another optimizer than Adam",
    "fine-grained-activation-offloading": "activation offload by module",
    "cpu-offloading": "activation offload by module",
    "optimizer-cpu-offload": "optimizer offload of a run",
    "use-transformer-engine-op-fuser": "fused operations of Transformer Engine",
    "tp-comm-overlap": "buffers of overlapped tensor messages",
    "use-precision-aware-optimizer": "optimizer states of other widths",
    "use-torch-fsdp2": "FSDP2 inside Megatron",
    "moe-enable-deepep": "buffers of another expert exchange",
    "use-nccl-ub": "registered communication buffers",
    "distribute-saved-activations": "distributed activations",
    "account-for-embedding-in-pipeline-split": "ends counted as layers",
    "account-for-loss-in-pipeline-split": "ends counted as layers",
}
READ = {
    "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "num-query-groups",
    "kv-channels", "seq-length", "max-position-embeddings", "position-embedding-type",
    "use-rotary-position-embeddings",
    "vocab-size", "tokenizer-type", "make-vocab-size-divisible-by", "swiglu",
    "untie-embeddings-and-output-weights", "normalization", "disable-bias-linear",
    "qk-layernorm", "multi-latent-attention", "q-lora-rank", "kv-lora-rank", "qk-head-dim",
    "qk-pos-emb-head-dim", "v-head-dim", "num-experts", "moe-router-topk",
    "moe-ffn-hidden-size", "moe-shared-expert-intermediate-size", "moe-layer-freq",
    "mtp-num-layers", "tensor-model-parallel-size", "pipeline-model-parallel-size",
    "context-parallel-size", "expert-model-parallel-size", "expert-tensor-parallel-size",
    "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank",
    "pipeline-model-parallel-layout", "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers", "microbatch-group-size-per-virtual-pipeline-stage",
    "overlap-moe-expert-parallel-comm", "micro-batch-size", "global-batch-size",
    "use-distributed-optimizer", "num-distributed-optimizer-instances", "sequence-parallel",
    "hidden-dropout", "attention-dropout", "attention-backend", "transformer-impl",
    "cross-entropy-loss-fusion", "cross-entropy-fusion-impl", "no-gradient-accumulation-fusion",
    "recompute-granularity", "recompute-modules", "recompute-method", "recompute-num-layers",
    "moe-grouped-gemm", "moe-token-dispatcher-type", "moe-expert-capacity-factor",
    "moe-pad-expert-input-to-capacity",
}  # fmt: skip
NEUTRAL = {  # no effect that is known on the terms of the sheet
    "accumulate-allreduce-grads-in-fp32", "apply-query-key-layer-scaling",
    "attention-softmax-in-fp32", "bf16", "fp16", "calculate-per-token-loss",
    "ddp-average-in-collective", "deterministic-mode", "disable-gloo-process-groups",
    "moe-permute-fusion", "moe-router-dtype", "moe-router-enable-expert-bias",
    "moe-router-fusion", "moe-router-load-balancing-type", "moe-aux-loss-coeff",
    "moe-z-loss-coeff", "moe-router-pre-softmax", "moe-router-score-function",
    "moe-router-topk-scaling-factor", "moe-router-group-topk", "moe-router-num-groups",
    "moe-router-bias-update-rate", "moe-router-force-load-balancing", "mtp-loss-scaling-factor",
    "no-bias-gelu-fusion", "no-bias-swiglu-fusion", "no-bias-dropout-fusion",
    "no-masked-softmax-fusion", "no-create-attention-mask-in-dataloader", "no-rope-fusion",
    "no-persist-layer-norm", "overlap-grad-reduce", "overlap-param-gather",
    "overlap-p2p-communication-warmup-flush", "overlap-param-gather-with-optimizer-step",
    "rotary-interleaved", "rotary-base", "rotary-percent", "rotary-scaling-factor",
    "te-rng-tracker", "use-mcore-models", "cuda-graph-modules", "cuda-graph-warmup-steps",
    "group-query-attention", "norm-epsilon", "init-method-std", "use-flash-attn",
    "align-grad-reduce", "align-param-gather", "no-gradient-reduce-div-fusion",
    "apply-rope-fusion", "data-parallel-random-init", "enable-experimental", "manual-gc",
    "moe-shared-expert-overlap", "moe-token-drop-policy", "no-overlap-p2p-communication",
    "overlap-p2p-communication", "rope-scaling-factor", "rope-type", "use-cpu-initialization",
    "use-rope-scaling",
}  # fmt: skip


def check_options(given: Options) -> None:
    """Check that every option is one whose effect on memory is known."""
    for name in given:
        if name in NOT_MODELLED:
            raise refusal(name, f"{NOT_MODELLED[name]}: not modelled")
    for name in given:
        if name not in READ | NEUTRAL:
            raise refusal(name, "an option whose effect on memory is not known")


def listed(written: str) -> list[str]:
    """Return the items of ``[a b]``, ``a b`` or ``a,b``."""
    return written.strip("[]").replace(",", " ").split()


def layout_layers(written: str) -> tuple[int, ...]:
    """Return the layers of every virtual stage of a pipeline layout.

    >>> layout_layers("Et*3|(tt|)*6mL")
    (3, 2, 2, 2, 2, 2, 2, 0)
    """
    many = re.sub(r"\(([^()]*)\)\*(\d{1,4})", lambda found: found[1] * int(found[2]), written)
    many = re.sub(r"([A-Za-z])\*(\d{1,4})", lambda found: found[1] * int(found[2]), many)
    if not re.fullmatch(r"[EtmL|]+", many) or len(many) > 10_000:
        expected = "expected parts of E, t, m and L, such as Et*3|(tt|)*6mL"
        raise refusal("pipeline-model-parallel-layout", f"not understood; {expected}")
    return tuple(part.count("t") for part in many.split("|"))


def leading_dense_layers(written: str) -> float:
    """Return the leading layers that do not route, of ``([0]*1+[1]*15)``.

    >>> leading_dense_layers("([0]*3+[1]*12)")
    3.0
    """
    found = re.fullmatch(r"\(?\[0\]\*(\d+)\+\[1\]\*\d+\)?", written.replace(" ", ""))
    if found is None:
        expected = "expected leading dense layers, such as ([0]*1+[1]*15)"
        raise refusal("moe-layer-freq", f"not understood; {expected}")
    return float(found[1])
