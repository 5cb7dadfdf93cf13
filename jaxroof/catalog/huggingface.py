"""A model from the ``config.json`` of a Hugging Face repository, without its libraries.

Every field of the file is used, is known not to change the count of parameters or FLOP, or is
refused by name. Where a file leaves out a field, the default of its class in `transformers` holds.
"""

import json

from jaxroof.catalog.huggingface_families import FAMILIES, Config, Entry
from jaxroof.errors import nearest, refusal, shown

NEUTRAL = {  # fields that change neither parameters nor FLOP
    *("_name_or_path", "architectures", "attn_implementation", "_attn_implementation", "auto_map"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "decoder_start_token_id"),
    *("dtype", "torch_dtype", "model_type", "transformers_version", "quantization_config"),
    *("initializer_range", "use_cache", "cache_implementation", "gradient_checkpointing"),
    *("output_attentions", "output_hidden_states", "return_dict", "task_specific_params"),
    *("hidden_act", "hidden_activation", "activation_function", "swiglu_limit"),
    *("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"),
    *("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout"),
    *("classifier_dropout", "embedding_dropout"),
    *("max_position_embeddings", "original_max_position_embeddings", "initial_context_length"),
    *("rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq", "rope_interleave"),
    *("partial_rotary_factor", "rotary_pct", "rotary_emb_base"),
    *("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"),
    *("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"),
    *("n_ctx", "summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
    *("summary_type", "summary_use_proj", "use_parallel_residual", "pretraining_tp", "ep_size"),
    *("n_group", "topk_group", "topk_method", "scoring_func", "norm_topk_prob", "aux_loss_alpha"),
    *("seq_aux", "routed_scaling_factor", "output_router_logits", "router_aux_loss_coef"),
    *("router_jitter_noise", "max_length", "do_sample", "temperature", "top_k", "top_p"),
}

OTHER_LAYERS = {  # beginnings of the fields and kinds of layers that they have, or part of the kind
    **dict.fromkeys(("mamba", "ssm", "hybrid_override_pattern", "jamba", "zamba"), "Mamba"),
    **dict.fromkeys(("bamba", "nemotron_h", "granitemoehybrid", "falcon_h1"), "Mamba"),
    **dict.fromkeys(("linear_attention", "linear_num_", "qwen3_next"), "linear-attention"),
    "rwkv": "RWKV",
    "recurrent_gemma": "recurrent",
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
    kind = written["model_type"]
    _refuse_other_layers(path, kind, written)
    if kind not in FAMILIES:
        if isinstance(written.get("text_config"), dict):
            remedy = "expected its text_config as a file of its own"
            raise refusal(f"{path}: model_type", f"{kind}: a model of several towers; {remedy}.")
        near = nearest(kind, FAMILIES)
        meant = f" Did you mean {near!r}?" if near else ""
        known = f"expected one of {', '.join(FAMILIES)}"
        raise refusal(f"{path}: model_type", f"{kind}: not understood; {known}.{meant}")
    config = Config(path, written)
    for name in config.items("architectures"):
        if not str(name).endswith(("ForCausalLM", "LMHeadModel")):
            said = f"{shown(name)}: its head is not known"
            raise config.refuse("architectures", said, "...ForCausalLM")
    found = FAMILIES[kind](config)
    _check_the_rest(config, kind)
    return {"title": f"A {kind}, read from its configuration", "source": path} | found


def _refuse_other_layers(path: str, kind: str, written: Entry) -> None:
    """Raise for a model with layers that are no attention: state-space or linear ones."""
    listed = [written.get(name) for name in ("layer_types", "layers_block_type")]
    fields = [name for name, value in written.items() if value is not None]
    named = [*fields, *(str(one) for some in listed if isinstance(some, list) for one in some)]
    for start, words in OTHER_LAYERS.items():
        if start in kind or any(name.startswith(start) for name in named):
            said = f"{words} layers are not modelled; expected attention in every layer"
            raise refusal(f"{path}: model_type", f"{kind}: {said}.")


def _check_the_rest(config: Config, kind: str) -> None:
    """Raise for a field that was not used and that may change the count."""
    known = {*NEUTRAL, *config.used}
    for key in config.written:
        if key not in known and config.written[key] is not None:
            near = nearest(key, config.used)
            meant = f" Did you mean {near!r}?" if near else " Leave it out if it does not."
            said = f"not understood of a {kind}, and it may change the count."
            raise refusal(f"{config.path}: {key}", said + meant)
