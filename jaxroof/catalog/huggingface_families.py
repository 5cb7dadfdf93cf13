"""How each family of models writes its ``config.json``, and what its layers consist of.

Where a file leaves out a field, the default of its class in `transformers` holds if it stands here;
a size that stands nowhere is required.
"""

from collections.abc import Callable

from jaxroof.catalog.huggingface_config import CHUNKS, CLASS, FULL, LINEAR, WINDOW, Config, Entry
from jaxroof.catalog.huggingface_parts import (
    FIRST,
    SIZES,
    after_first,
    decoder,
    deepseek_experts,
    divides,
    embeddings,
    even,
    every_nth,
    gated_expert,
    latent_attention,
    local_experts,
    prediction,
    qwen_experts,
    qwen_windows,
    routed_experts,
    shared_experts,
    some_experts,
    unused_width,
    windowed,
    windows,
)
from jaxroof.errors import shown

# ---- Dense models --------------------------------------------------------------------------------


def _llama(config: Config, window: int = 0) -> Entry:
    inside = ("none", "mlp"), ("attention", "all")
    attention, mlp = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    return decoder(config) | {"biases": inside[attention][mlp]} | windows(config, window)


def _mistral(config: Config) -> Entry:
    return _llama(config, 0 if "sliding_window" in config.written else 4096)


def _phi3(config: Config) -> Entry:
    config.only(False, "attention_bias")
    return decoder(config) | windows(config, 0)


def _smollm3(config: Config) -> Entry:
    config.only(False, "attention_bias", "mlp_bias")
    return decoder(config, tied=True) | qwen_windows(config)


def _seed_oss(config: Config) -> Entry:
    config.only(True, "attention_bias")
    config.only(False, "mlp_bias")
    output = config.flag("attention_out_bias", False)
    return decoder(config) | {"biases": "attention" if output else "qkv"}


def _qwen2(config: Config) -> Entry:
    return decoder(config) | {"biases": "qkv"} | qwen_windows(config)


def _mimo(config: Config) -> Entry:
    config.only(True, "attention_bias")
    return _qwen2(config) | prediction(config)


def _qwen3(config: Config, inside: int | None = None) -> Entry:
    config.count("head_dim")  # its default is not hidden / heads
    found = decoder(config, inside=inside) | {"head_norms": 2}
    if config.flag("attention_bias", False):
        found["biases"] = "attention"
    return found | qwen_windows(config)


def _gemma2(config: Config) -> Entry:
    config.only(False, "attention_bias")
    config.count("head_dim")  # its default is not hidden / heads
    return decoder(config, tied=True) | {"norms_per_layer": 4} | windows(config, 4096, even)


def _gemma3(config: Config) -> Entry:
    config.only(False, "attention_bias", "use_bidirectional_attention")
    found = decoder(
        config,
        tied=True,
        heads=("num_attention_heads", 8),
        kv_heads=("num_key_value_heads", 4),
        head_size=("head_dim", 256),
        vocabulary=("vocab_size", 262208),
    )
    interval = config.count("sliding_window_pattern", config.count("_sliding_window_pattern", 6))
    found |= {"norms_per_layer": 4, "head_norms": 2}
    return found | windows(config, 4096, every_nth(interval, WINDOW))


def _gemma4(config: Config) -> Entry:
    config.only(False, "attention_bias", "enable_moe_block", "use_double_wide_mlp")
    config.only(0, "hidden_size_per_layer_input", "num_kv_shared_layers")
    config.given("vocab_size_per_layer_input")  # of those inputs
    config.given("use_bidirectional_attention")  # of pictures
    local = config.counts(window_kv_heads="num_key_value_heads", window_head_size="head_dim")
    found = decoder(
        config,
        tied=True,
        kv_heads=("num_global_key_value_heads", local["window_kv_heads"]),
        head_size=("global_head_dim", 512),
    )
    found |= {"norms_per_layer": 4, "head_norms": 2, "extra_parameters": found["layers"]}
    found["shared_kv"] = int(config.flag("attention_k_eq_v", False))
    config.taken |= {"shared_kv": "attention_k_eq_v", "extra_parameters": "a scalar a layer"}
    return found | local | windows(config, 512, every_nth(6, WINDOW))


def _olmo(config: Config) -> Entry:
    config.only(False, "attention_bias")
    return decoder(config) | {"head_norms": 2, "wide_head_norms": 1}


def _olmo3(config: Config) -> Entry:
    return _olmo(config) | windows(config, 4096, every_nth(4, WINDOW))


def _gpt2(config: Config) -> Entry:
    config.only(False, "add_cross_attention")
    found = config.counts(layers="n_layer", vocabulary="vocab_size", positions="n_positions")
    found |= config.counts(hidden="n_embd", heads="n_head", kv_heads="n_head")
    found |= config.counts(feedforward=("n_inner", 4 * found["hidden"]))
    divides(config, "n_head", found["heads"], found["hidden"], "n_embd")
    return {
        **found,
        "head_size": found["hidden"] // found["heads"],
        "attention": "heads",
        "recurrence": "none",
        "mlp": "plain",
        "norm": "layernorm",
        "biases": "all",
        "embeddings": embeddings(config, True),
    }


def _gpt_neox(config: Config) -> Entry:
    biases = "all" if config.flag("attention_bias", True) else "mlp"
    return decoder(config) | {"mlp": "plain", "norm": "layernorm", "biases": biases}


# ---- Models with experts -------------------------------------------------------------------------


def _mixtral(config: Config) -> Entry:
    found = local_experts(config, ("num_experts_per_tok", 2), ("num_local_experts", 8))
    return decoder(config) | found | windows(config, 0)


def _gpt_oss(config: Config) -> Entry:
    config.only(True, "attention_bias")
    config.count("head_dim")
    config.given("experts_per_token")  # a repetition
    found = decoder(config) | {"biases": "experts"}
    found |= local_experts(config, "num_experts_per_tok", "num_local_experts")
    return found | {"sink_layers": found["layers"]} | windows(config, 128, even)


def _olmoe(config: Config) -> Entry:
    found = local_experts(config, ("num_experts_per_tok", 8), ("num_experts", 64))
    return _olmo(config) | found


def _minimax_m2(config: Config) -> Entry:
    config.only(False, "attention_bias")
    config.only("per_layer", "qk_norm_type")
    config.only(True, "use_qk_norm")
    config.given("mlp_intermediate_size")  # of MLPs that no layer has
    config.pattern("attn_type_list", (1,), lambda layer: "1")
    found = local_experts(config, "num_experts_per_tok", "num_local_experts")
    found |= config.counts(zero=True, shared_feedforward=("shared_intermediate_size", 0))
    if config.flag("use_mtp", False):
        found |= prediction(config, "num_mtp_modules")
        each = config.count("mtp_transformer_layers", 1)
        found["mtp_blocks"] = each * found.get("mtp_layers", 0)
    for key in ("num_mtp_modules", "mtp_transformer_layers"):
        config.given(key)
    found["router_correction"] = int(config.flag("use_routing_bias", True))
    norms = {"head_norms": 2, "wide_head_norms": 1}
    return decoder(config) | norms | found | windows(config, 0)


def _qwen2_moe(config: Config) -> Entry:
    config.only(True, "qkv_bias")
    return _qwen2(config) | qwen_experts(config) | gated_expert(config)


def _qwen3_moe(config: Config) -> Entry:
    found = qwen_experts(config, ("num_experts", 128), ("num_experts_per_tok", 8))
    return _qwen3(config, unused_width(found)) | found


def _delta(config: Config, modules: int, inside: int | None = None) -> Entry:
    """Return a model of gated DeltaNet layers, with attention in every so manieth."""
    config.only(True, "attn_output_gate")
    config.only(False, "mtp_use_dedicated_embeddings", "use_sliding_window", "attention_bias")
    config.count("head_dim")
    interval = config.count("full_attention_interval", 4)
    kinds = config.pattern("layer_types", (LINEAR, FULL), every_nth(interval, LINEAR))
    found = decoder(config, inside=inside) | {"head_norms": 2, "attention_gate": 1}
    found |= config.counts(
        delta_key_heads=("linear_num_key_heads", 16),
        delta_value_heads=("linear_num_value_heads", 32),
        delta_key_size=("linear_key_head_dim", 128),
        delta_value_size=("linear_value_head_dim", 128),
        convolution=("linear_conv_kernel_dim", 4),
    )
    keys, values = found["delta_key_heads"], found["delta_value_heads"]
    divides(config, "linear_num_key_heads", keys, values, "heads of values")
    config.taken["delta_layers"] = "layer_types" if config.given("layer_types") else CLASS
    found |= {"delta_layers": kinds.count(LINEAR), "recurrence": "delta"}
    return found | prediction(config, "mtp_num_hidden_layers", modules)


def _qwen3_next(config: Config) -> Entry:
    found = qwen_experts(config) | gated_expert(config)
    whole = _delta(config, 1, unused_width(found)) | found
    config.taken["mtp_layers"] = "the published checkpoint, no key"
    return whole


def _qwen35(config: Config) -> Entry:
    config.only([], "mlp_only_layers")
    return _delta(config, 0)


def _qwen35_moe(config: Config) -> Entry:
    found = qwen_experts(config) | gated_expert(config)
    return _delta(config, 0, unused_width(found)) | found


def _llama4(config: Config) -> Entry:
    config.only(False, "attention_bias")
    config.given("use_qk_norm")  # a norm that learns nothing
    step, listed = config.count("interleave_moe_layer_step", 1), config.given("moe_layers")
    found = routed_experts(
        config,
        lambda i: i in config.items("moe_layers") if listed else (i + 1) % step == 0,
        "moe_layers" if listed else "interleave_moe_layer_step",
        "num_local_experts",
        ("num_experts_per_tok", 1),
        "intermediate_size",
    )
    found["shared_feedforward"] = found["expert_feedforward"]
    config.taken["shared_feedforward"] = "intermediate_size"
    whole = decoder(config, inside=unused_width(found), width="intermediate_size_mlp") | found
    interval = config.count("no_rope_layer_interval", 4)
    if config.items("no_rope_layers"):
        turned = config.pattern("no_rope_layers", (0, 1))
    else:
        turned = [(layer + 1) % interval for layer in range(config.layers())]
    kinds = config.pattern("layer_types", (CHUNKS, FULL), lambda i: CHUNKS if turned[i] else FULL)
    local = kinds.count(CHUNKS)
    stated = "attention_chunk_size" in config.written
    window = config.count("attention_chunk_size", 0 if stated else 8192)
    chunks = windowed(config, window, local, "attention_chunk_size", "layer_types, or the class")
    return whole | (chunks | {"chunked": 1} if chunks else {})


def _glm4_moe(config: Config) -> Entry:
    biases = "qkv" if config.flag("attention_bias", True) else "none"
    found = deepseek_experts(config, 1)
    whole = decoder(config, inside=unused_width(found)) | found | {"biases": biases}
    norms = {"head_norms": 2} if config.flag("use_qk_norm", False) else {}
    return whole | norms | {"router_correction": 1} | prediction(config)


def _dots1(config: Config) -> Entry:
    config.only(False, "attention_bias")
    found = deepseek_experts(config)
    whole = decoder(config, inside=unused_width(found)) | found | qwen_windows(config)
    return whole | {"head_norms": 2, "router_correction": 1}


def _hunyuan(config: Config) -> Entry:
    config.only(False, "attention_bias", "mlp_bias", "use_cla", "use_mla")
    config.only(True, "use_mixed_mlp_moe", "use_rotary_pos_emb")
    for key in ("attention_head_dim", "cla_share_factor"):
        config.given(key)  # a repetition, and of what is not used
    skipped = config.count("moe_layer_num_skipped", 0, zero=True)
    own = config.given("moe_intermediate_size") is not None
    sizes = "num_experts", "moe_topk", "moe_intermediate_size" if own else "intermediate_size"
    found = routed_experts(config, lambda i: i >= skipped, "moe_layer_num_skipped", *sizes)
    found |= shared_experts(config, "num_shared_expert", found, 1)
    norms = {"head_norms": 2} if config.flag("use_qk_norm", True) else {}
    return decoder(config, inside=unused_width(found)) | found | norms


def _ernie(config: Config) -> Entry:
    config.only(False, "use_bias")
    config.only(True, "use_rmsnorm")
    first = config.count("moe_layer_start_index", 1, zero=True)
    every, last = config.count("moe_layer_interval", 1), config.given("moe_layer_end_index")
    if last in (None, -1):
        last = config.layers() - 1
    elif isinstance(last, bool) or not isinstance(last, int):
        raise config.refuse("moe_layer_end_index", f"given {shown(last)}", "a layer, or -1")
    found = routed_experts(
        config,
        lambda layer: first <= layer <= last and (layer + 1) % every == 0,
        "moe_layer_start_index, moe_layer_end_index, moe_layer_interval",
        "moe_num_experts",
        "moe_k",
        "moe_intermediate_size",
    )
    found |= shared_experts(config, "moe_num_shared_experts", found)
    whole = decoder(config, tied=True, inside=unused_width(found)) | found
    return whole | {"router_correction": 1} | prediction(config)


# ---- Latent and sparse attention -----------------------------------------------------------------


def _deepseek(config: Config) -> Entry:
    config.only(False, "attention_bias", "mlp_bias")
    latent, found = latent_attention(config), deepseek_experts(config)
    size = latent["nope_size"] + latent["rope_size"]
    return decoder(config, size=size, inside=unused_width(found)) | latent | found


def _deepseek_v3(config: Config) -> Entry:
    return _deepseek(config) | {"router_correction": 1} | prediction(config)


def _deepseek_v32(config: Config) -> Entry:
    found = config.counts(
        index_heads="index_n_heads", index_size="index_head_dim", index_topk="index_topk"
    )
    kinds = config.pattern("indexer_types", ("full", "shared"), lambda layer: "full")
    if config.given("indexer_types") is None:
        config.only(1, "index_topk_freq")  # else only some layers own one
    config.given("index_topk_freq")
    config.taken["index_layers"] = "indexer_types" if config.given("indexer_types") else CLASS
    found |= {"index_layers": kinds.count("full"), "attention": "sparse"}
    return _deepseek_v3(config) | found


def _kimi_linear(config: Config) -> Entry:
    for key in ("routed_expert_hidden_size", "mla_use_output_gate", "attn_res_block_size"):
        if config.given(key) not in (None, False):
            raise config.refuse(key, f"given {shown(config.given(key))}", "none: it has no formula")
    latent, linear = latent_attention(config), config.given("linear_attn_config")
    if not isinstance(linear, dict):
        raise config.refuse("linear_attn_config", f"given {shown(linear)}", "a table")
    inner = Config(f"{config.path}: linear_attn_config", linear)
    here, there = inner.items("kda_layers"), inner.items("full_attn_layers")
    layers = config.layers()
    if not here or sorted(map(repr, here + there)) != sorted(map(repr, range(1, layers + 1))):
        said = f"given {shown(here)} and full_attn_layers {shown(there)}"
        raise inner.refuse("kda_layers", said, f"each of the layers 1 to {layers} in one of them")
    sizes = "num_experts", "num_experts_per_token", "moe_intermediate_size"
    found = routed_experts(config, after_first(config), FIRST, *sizes)
    found |= shared_experts(config, "num_shared_experts", found)
    own = inner.counts(
        kda_heads="num_heads", kda_head_size="head_dim", convolution=("short_conv_kernel_size", 4)
    )
    config.taken |= {name: f"linear_attn_config.{key}" for name, key in inner.taken.items()}
    config.taken["kda_layers"] = "linear_attn_config.kda_layers"
    size = latent["nope_size"] + latent["rope_size"]
    whole = decoder(config, size=size, inside=unused_width(found)) | latent | found | own
    whole |= {"kda_layers": len(here), "recurrence": "kda", "router_correction": 1}
    return whole | prediction(config)


# ---- Other mixes of layers -----------------------------------------------------------------------

BLOCKS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}


def _nemotron_h(config: Config) -> Entry:
    """Return a model each of whose layers is one part: a mixer, an MLP or experts.

    Its attention knows no positions.
    """
    config.only(False, "attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias")
    config.only(True, "use_conv_bias")
    config.given("n_shared_experts")  # their width is given as a whole
    listed = config.given("hybrid_override_pattern") is None
    if listed and config.given("layers_block_type") is not None:
        names = config.pattern("layers_block_type", list(BLOCKS))
        parts = [BLOCKS[name] for name in names]
    else:
        parts = config.pattern("hybrid_override_pattern", list(BLOCKS.values()))
    key = "layers_block_type" if listed else "hybrid_override_pattern"
    fields = {"mamba_layers": "M", "full_layers": "*", "dense_layers": "-", "routed_layers": "E"}
    found: Entry = {name: parts.count(letter) for name, letter in fields.items()}
    config.taken |= dict.fromkeys(fields, key)
    if found["mamba_layers"]:
        found |= config.counts(
            mamba_heads="mamba_num_heads",
            mamba_head_size="mamba_head_dim",
            mamba_groups="n_groups",
            mamba_state="ssm_state_size",
            convolution=("conv_kernel", 4),
        )
        divides(config, "n_groups", found["mamba_groups"], found["mamba_heads"], "Mamba heads")
        found["recurrence"] = "mamba"
    if found["routed_layers"]:
        found |= _latent_experts(config)
    else:
        del found["routed_layers"]
    config.given("attention_head_dim")  # a repetition, where there is the other
    size = "attention_head_dim" if config.given("head_dim") is None else "head_dim"
    inside = None if found["dense_layers"] else found.get("expert_feedforward")
    whole = decoder(config, inside=inside, head_size=size)
    return whole | found | {"mlp": "plain", "rotary": 0}


def _latent_experts(config: Config) -> Entry:
    """Return the experts of a Nemotron-H, and its prediction modules, of two layers each."""
    found = some_experts(config, *SIZES)
    found |= config.counts(
        zero=True,
        shared_feedforward=("moe_shared_expert_intermediate_size", 0),
        expert_latent=("moe_latent_size", 0),
    )
    for key in ("mtp_hybrid_override_pattern", "mtp_layers_block_type"):
        given = config.given(key)
        if given not in (None, "*E", ["attention", "moe"]):
            raise config.refuse(key, f"given {shown(given)}", "attention and experts: *E")
    found |= prediction(config)
    return found | ({"mtp_blocks": 2 * found["mtp_layers"]} if "mtp_layers" in found else {})


def _mimo_v2(config: Config) -> Entry:
    config.only(False, "attention_bias")
    config.given("attention_chunk_size")  # a repetition
    local = config.pattern("hybrid_layer_pattern", (0, 1))
    routed = config.pattern("moe_layer_freq", (0, 1))
    found = routed_experts(config, lambda layer: bool(routed[layer]), "moe_layer_freq", *SIZES)
    found |= shared_experts(config, "n_shared_experts", found)
    config.count("head_dim")
    whole = decoder(config, inside=unused_width(found)) | found
    whole |= config.counts(value_size="v_head_dim")
    shape = config.counts(
        window_heads=("swa_num_attention_heads", whole["heads"]),
        window_kv_heads=("swa_num_key_value_heads", whole["kv_heads"]),
        window_head_size=("swa_head_dim", whole["head_size"]),
    )
    whole |= {name: size for name, size in shape.items() if size != whole[name[7:]]}
    config.only(whole["value_size"], "swa_v_head_dim")
    size = config.count("sliding_window_size", config.count("sliding_window"))
    whole |= windowed(config, size, sum(local), "sliding_window", "hybrid_layer_pattern")
    sinks = sum(local) * config.flag("add_swa_attention_sink_bias", False)
    sinks += (len(local) - sum(local)) * config.flag("add_full_attention_sink_bias", False)
    config.taken["sink_layers"] = "add_swa_attention_sink_bias"
    return whole | {"sink_layers": sinks, "router_correction": 1} | prediction(config)


FAMILIES: dict[str, Callable[[Config], Entry]] = {  # model_type -> its reader
    "llama": _llama,
    "mistral": _mistral,
    "ministral": _mistral,
    "mixtral": _mixtral,
    "llama4_text": _llama4,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "qwen3_5_text": _qwen35,
    "qwen3_5_moe_text": _qwen35_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek_v3,
    "deepseek_v32": _deepseek_v32,
    "kimi_k2": _deepseek_v3,
    "kimi_linear": _kimi_linear,
    "glm4_moe": _glm4_moe,
    "glm_moe_dsa": _deepseek_v32,
    "minimax_m2": _minimax_m2,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gemma4_text": _gemma4,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "nemotron_h": _nemotron_h,
    "olmo2": _olmo,
    "olmo3": _olmo3,
    "olmoe": _olmoe,
    "phi3": _phi3,
    "smollm3": _smollm3,
    "seed_oss": _seed_oss,
    "dots1": _dots1,
    "hunyuan_v1_moe": _hunyuan,
    "ernie4_5_moe": _ernie,
    "mimo": _mimo,
    "mimo_v2_flash": _mimo_v2,
}
