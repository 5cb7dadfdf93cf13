"""The model of a row that states the options of Megatron-LM.

Source: docs/models/parameters_flops_memory.md, sections 2.1 and 4.2.
"""

from jaxroof.catalog.architecture import Architecture
from jaxroof.errors import refusal
from jaxroof.estimators.training.recipe import Attention, Biases, Embeddings, Mlp, Norm, Recipe
from jaxroof.validation.measured_rows import Options, Row, count, option_count
from jaxroof.validation.memory.megatron_options import leading_dense_layers


def architecture(row: Row, given: Options) -> tuple[Architecture, Recipe]:
    """Return the model of a row and its choices."""
    gated, tied = "swiglu" in given, "untie-embeddings-and-output-weights" not in given
    hidden, heads = count(row, "hidden"), count(row, "heads")
    wide = hidden * 8.0 // 3.0 // 64.0 * 64.0 if gated else 4.0 * hidden
    feedforward = option_count(given, "ffn-hidden-size", wide)
    rotary = given.get("position-embedding-type") == "rope"
    rotary = rotary or "use-rotary-position-embeddings" in given
    latent = "multi-latent-attention" in given
    model = Architecture(
        layers=count(row, "layers"),
        hidden=hidden,
        feedforward=feedforward,
        heads=heads,
        kv_heads=option_count(given, "num-query-groups", heads),
        head_size=option_count(given, "kv-channels", hidden // heads),
        vocabulary=_vocabulary(row, given),
        sequence=count(row, "seq"),
        head_norms=2.0 * ("qk-layernorm" in given and not latent),
        positions=0.0 if rotary else option_count(given, "max-position-embeddings", 0.0),
        mtp_layers=option_count(given, "mtp-num-layers", 0.0),
        **_experts(given, feedforward),
        **(_latents(given) if latent else {}),
    )
    if model.kv_heads < 1.0 or model.head_size < 1.0 or feedforward < 1.0:
        raise refusal("settings", "widths and heads of 0; expected numbers above 0")
    rms = given.get("normalization") == "RMSNorm"
    return model, Recipe(
        attention=Attention.LATENT if latent else Attention.HEADS,
        mlp=Mlp.GATED if gated else Mlp.PLAIN,
        norm=Norm.RMSNORM if rms else Norm.LAYERNORM,
        biases=Biases.NONE if "disable-bias-linear" in given else Biases.ALL,
        embeddings=Embeddings.TIED if tied else Embeddings.SEPARATE,
    )


def _vocabulary(row: Row, given: Options) -> float:
    """Return the vocabulary; the null tokenizer adds an entry to what it is told, less one."""
    if given.get("tokenizer-type") != "NullTokenizer":
        return count(row, "vocab", GPT2_ENTRIES)
    found = option_count(given, "vocab-size", 0.0) - 1.0
    if found < 1.0:
        raise refusal("vocab-size", "not given; expected the entries of the null tokenizer")
    return found


GPT2_ENTRIES = 50257.0  # of the tokenizer of the functional tests


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
