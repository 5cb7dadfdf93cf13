"""A model from the ``config.json`` of a Hugging Face repository, without its libraries.

Every field of the file is used, is known not to change the count of parameters or FLOP, or is
refused by name. Of a file of several towers, the one of text is read.
"""

import json

from jaxroof.catalog.huggingface_config import Config, Entry
from jaxroof.catalog.huggingface_families import FAMILIES
from jaxroof.errors import nearest, refusal, shown

NEUTRAL = {  # fields that change neither parameters nor FLOP
    *("_name_or_path", "architectures", "attn_implementation", "_attn_implementation", "auto_map"),
    *("dtype", "torch_dtype", "model_type", "transformers_version", "quantization_config"),
    *("initializer_range", "use_cache", "cache_implementation", "gradient_checkpointing"),
    *("output_attentions", "output_hidden_states", "return_dict", "task_specific_params"),
    *("hidden_act", "hidden_activation", "activation_function", "swiglu_limit"),
    *("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"),
    *("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout"),
    *("classifier_dropout", "embedding_dropout"),
    *("max_position_embeddings", "original_max_position_embeddings", "initial_context_length"),
    *("partial_rotary_factor", "rotary_pct", "rotary_emb_base"),
    *("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"),
    *("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"),
    *("n_ctx", "summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
    *("summary_type", "summary_use_proj", "use_parallel_residual", "pretraining_tp", "ep_size"),
    *("n_group", "topk_group", "topk_method", "scoring_func", "norm_topk_prob", "aux_loss_alpha"),
    *("seq_aux", "routed_scaling_factor", "output_router_logits", "router_aux_loss_coef"),
    *("router_jitter_noise", "max_length", "do_sample", "temperature", "top_k", "top_p"),
    *("mamba_ssm_dtype", "mamba_ssm_cache_dtype", "mamba_hidden_act", "mlp_hidden_act", "expand"),
    *("chunk_size", "residual_in_fp32", "rescale_prenorm_residual", "num_logits_to_keep"),
    *("use_mamba_kernels", "norm_eps", "keep_mtp_spec_in_bf16", "moe_shared_expert_overlap"),
    *("output_gate_type", "attn_scale", "attn_temperature_tuning"),
    *("floor_scale", "for_llm_compression", "moe_router_dtype", "indexer_rope_interleave"),
    *("index_share_for_mtp_iteration", "index_skip_topk_offset"),
    *("index_topk_pattern", "mla_use_nope", "moe_renormalize", "moe_router_activation_func"),
    *("use_grouped_topk", "num_expert_group", "model_max_length", "scale_fmt", "rotary_dim"),
    *("shared_moe_mode", "no_rope_layers", "no_rope_layer_interval", "residual_dropout"),
    *("clip_qkv", "moe_capacity", "moe_gate", "moe_use_aux_free", "moe_norm_min", "is_quantized"),
    *("attention_value_scale", "attention_projection_layout", "hybrid_block_size"),
    *("layernorm_epsilon", "org_vocab_size", "norm_type", "pool_type", "position_embedding_xdrope"),
    *("num_media_embeds", "group_limited_greedy", "moe_drop_tokens", "skip_cls_token"),
    *("moe_random_routing_dropped_token", "router_dtype"),
}
NEUTRAL_ENDS = ("_token_id", "_token_ids", "_token_index", "_id")  # of tokens
NEUTRAL_STARTS = ("rope_", "swa_rope_", "mrope_", "time_step_", "layernorm_", "vit_", "anyres_")

REFUSED = {  # beginning of a model_type -> what it has that no formula counts
    "deepseek_v4": "hyper-connections and compressed attention",
    "deepseek-v4": "hyper-connections and compressed attention",
    "kimi_k3": "attention residuals",
    "minimax_m3": "a block-sparse index",
    "step3p": "gates and heads of each kind that the file does not state",
    "gemma4_unified": "towers that share layers",
    "jamba": "Mamba-1 layers",
    "falcon_h1": "attention and Mamba beside each other in a layer",
    "zamba": "blocks that layers share",
    "hymba": "attention and Mamba beside each other in a layer",
    "bamba": "Mamba layers of another shape",
    "granitemoehybrid": "Mamba layers of another shape",
    "minimax": "lightning attention",
    "lfm2": "convolutions as mixers",
    "longcat_flash": "experts that compute nothing",
    "bailing_hybrid": "lightning attention",
    "bailing_moe_linear": "lightning attention",
    "nemotron-nas": "another width in every layer",
    "mamba": "no attention",
    "rwkv": "no attention",
    "recurrent_gemma": "recurrent layers of another shape",
    **dict.fromkeys(("bert", "roberta", "t5", "mt5", "bart", "whisper"), "no causal decoder"),
}


def entry(path: str, text: str) -> Entry:
    """Return a model as an entry of the catalogue writes it, from the text of its configuration.

    >>> text = '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "vocab_size": 50,'
    >>> entry("config.json", text + '"n_positions": 16}')["feedforward"]
    32
    """
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"not JSON: {error}; expected a config.json.") from None
    if not isinstance(written, dict) or not isinstance(written.get("model_type"), str):
        raise refusal(path, "no model_type; expected the config.json of a language model.")
    left_out, where = "", path
    inner = written.get("text_config")
    if isinstance(inner, dict) and written["model_type"] not in FAMILIES:
        _refuse_unknown(where, written["model_type"], known=True)
        where, left_out = f"{path}: text_config", _other_towers(written)
        tie = "tie_word_embeddings"
        written = {**({tie: written[tie]} if tie in written else {}), **inner}
    kind = str(written.get("model_type"))
    _refuse_unknown(where, kind)
    config = Config(where, written)
    config.only(False, "is_encoder_decoder")
    for name in config.items("architectures"):
        if not str(name).endswith(("ForCausalLM", "LMHeadModel")):
            said = f"{shown(name)}: its head is not known"
            raise config.refuse("architectures", said, "...ForCausalLM")
    found = FAMILIES[kind](config)
    _check_the_rest(config, kind)
    about: Entry = {"title": f"A {kind}, read from its configuration", "source": path}
    about |= {"taken": {name: key for name, key in config.taken.items() if name in found}}
    return about | ({"left_out": left_out} if left_out else {}) | found


def _other_towers(written: Entry) -> str:
    """Return what a file has beside its text, in words."""
    others = [key for key, value in written.items() if key.endswith("_config") and value]
    others = [key for key in others if key not in ("text_config", "quantization_config")]
    return f"{', '.join(others) or 'none named'}: only the text is counted"


def _refuse_unknown(where: str, kind: object, known: bool = False) -> None:
    """Raise for a kind of model that is refused, or is not known unless ``known``."""
    expected = f"expected one of {', '.join(FAMILIES)}"
    if isinstance(kind, str) and kind in FAMILIES:
        return
    for start, words in REFUSED.items():
        if str(kind).startswith(start):
            said = f"{kind}: {words}, which no formula here counts; {expected}."
            raise refusal(f"{where}: model_type", said)
    if not known:
        called = kind if isinstance(kind, str) and kind else shown(kind)
        raise refusal(f"{where}: model_type", f"{called}: not understood; {expected}.")


def _check_the_rest(config: Config, kind: str) -> None:
    """Raise for a field that was not used and that may change the count."""
    known = {*NEUTRAL, *config.used}
    for key in config.written:
        neutral = key.startswith(NEUTRAL_STARTS) or key.endswith(NEUTRAL_ENDS)
        if key not in known and config.written[key] is not None and not neutral:
            near = nearest(key, config.used)
            meant = f" Did you mean {near!r}?" if near else " Leave it out if it does not."
            said = f"not understood of a {kind}, and it may change the count."
            raise refusal(f"{config.path}: {key}", said + meant)
