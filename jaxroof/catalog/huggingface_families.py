"""How each family of models writes its ``config.json``, and what its layers consist of.

Where a file leaves out a field, the default of its class in `transformers` holds; a width whose
default varies between models is required. What a family has beyond the fields of an Architecture,
such as the biases of a router, is counted as extra parameters.
"""

from collections.abc import Callable
from typing import Any

from jaxroof.errors import InputError, refusal, shown

WINDOWED = {"sliding_attention": True, "full_attention": False}  # kind of layer -> has a window


class Config:
    """A configuration; a field that is null is one that is not given."""

    def __init__(self, path: str, written: dict[str, Any]) -> None:
        self.path, self.written = path, written
        self.used: list[str] = []  # every field that was asked for

    def given(self, key: str) -> Any:
        """Return a field as written, or None."""
        self.used.append(key)
        return self.written.get(key)

    def stated(self, key: str) -> bool:
        """Return whether a field is not null: it has a value, or its default."""
        return self.given(key) is not None or key not in self.written

    def count(self, key: str, default: int | None = None, zero: bool = False) -> int:
        """Return a whole number above 0 (or 0, if allowed), or the default where there is none."""
        value = self.given(key)
        if value is None:
            value = default
        expected = f"a whole number {'of at least' if zero else 'above'} 0"
        if value is None:
            raise self.refuse(key, "missing", expected)
        if isinstance(value, bool) or not isinstance(value, int) or value < (not zero):
            raise self.refuse(key, f"given {shown(value)}", expected)
        return value

    def counts(self, **keys: str) -> "Entry":
        """Return whole numbers above 0 by the fields of an Architecture that they are."""
        return {name: self.count(key) for name, key in keys.items()}

    def items(self, key: str) -> list[Any]:
        """Return a list, empty where there is none. Raises: InputError for something else."""
        value = self.given(key)
        if value is not None and not isinstance(value, list):
            raise self.refuse(key, f"given {shown(value)}", "a list")
        return value or []

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false. Raises: InputError for something else."""
        value = self.given(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.refuse(key, f"given {shown(value)}", "true or false")
        return value

    def only(self, key: str, value: Any) -> None:
        """Raise an InputError for a field that is given and has another value."""
        found = self.given(key)
        if found is not None and (found != value or type(found) is not type(value)):
            raise self.refuse(key, f"given {shown(found)}", f"{shown(value)}, the only one counted")

    def local_layers(self) -> int:
        """Return how many layers have a window. Raises: InputError for layers of another kind."""
        kinds, layers = self.items("layer_types"), self.count("num_hidden_layers")
        if len(kinds) != layers:
            raise self.refuse("layer_types", f"given {shown(kinds)}", f"a list of {layers} kinds")
        for kind in kinds:
            if kind not in list(WINDOWED):
                raise self.refuse("layer_types", f"given {shown(kind)}", " or ".join(WINDOWED))
        return sum(WINDOWED[kind] for kind in kinds)

    def refuse(self, key: str, problem: str, expected: str) -> InputError:
        """Return the error for a field."""
        return refusal(f"{self.path}: {key}", f"{problem}; expected {expected}.")


Entry = dict[str, Any]  # fields of an Architecture and choices of its recipe


def _decoder(config: Config, tied: bool = False, size: int | None = None) -> Entry:
    """Return what all models share whose layers are like those of Llama."""
    heads = config.count("num_attention_heads")
    hidden = config.count("hidden_size")
    if config.given("head_dim") is None and hidden % heads:
        raise config.refuse("head_dim", "missing", "a width, as hidden_size has no such parts")
    return {
        **config.counts(layers="num_hidden_layers", feedforward="intermediate_size"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.count("num_key_value_heads", heads),
        "head_size": size or config.count("head_dim", hidden // heads),
        "vocabulary": config.count("vocab_size"),
        "attention": "heads",
        "mlp": "gated",
        "norm": "rmsnorm",
        "biases": "none",
        "embeddings": _embeddings(config, tied),
    }


def _embeddings(config: Config, tied: bool) -> str:
    return "tied" if config.flag("tie_word_embeddings", tied) else "separate"


def _windows(config: Config, window: int, local: int) -> Entry:
    """Return the windows of attention: of the layers that ``layer_types`` lists, or of so many."""
    if config.given("layer_types") is not None:
        local = config.local_layers()
    return {"window": window, "windowed_layers": local} if window and local else {}


def _windowed(config: Config, found: Entry, default: int) -> Entry:
    """Return a model all of whose layers have the window, unless it is null."""
    window = config.count("sliding_window", default) if config.stated("sliding_window") else 0
    return found | _windows(config, window, found["layers"])


def _llama(config: Config) -> Entry:
    inside = ("none", "mlp"), ("attention", "all")
    attention, mlp = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    return _decoder(config) | {"biases": inside[attention][mlp]}


def _mistral(config: Config) -> Entry:
    return _windowed(config, _decoder(config), 4096)


def _phi3(config: Config) -> Entry:
    config.only("attention_bias", False)
    return _windowed(config, _decoder(config), 0)


def _mixtral(config: Config) -> Entry:
    return _windowed(config, _with_experts(config, _decoder(config)), 0)


def _with_experts(config: Config, found: Entry) -> Entry:
    """Return a model all of whose MLPs are experts."""
    found |= config.counts(experts="num_local_experts", active_experts="num_experts_per_tok")
    return found | {"expert_feedforward": found["feedforward"]}


def _qwen_windows(config: Config, found: Entry) -> Entry:
    for key in ("sliding_window", "max_window_layers", "layer_types"):
        config.given(key)  # they count only where windows are used
    if not config.flag("use_sliding_window", False):
        return {}
    whole = config.count("max_window_layers", 28, zero=True)  # the leading layers have no window
    return _windows(config, config.count("sliding_window", 4096), max(found["layers"] - whole, 0))


def _qwen2(config: Config) -> Entry:
    found = _decoder(config) | {"biases": "qkv"}
    return found | _qwen_windows(config, found)


def _qwen3(config: Config) -> Entry:
    config.count("head_dim")  # its default is not hidden / heads
    found = _decoder(config) | {"head_norms": 2}
    if config.flag("attention_bias", False):
        found["biases"] = "attention"
    return found | _qwen_windows(config, found)


def _qwen_experts(config: Config) -> Entry:
    config.only("decoder_sparse_step", 1)
    dense = config.items("mlp_only_layers")
    if dense != list(range(len(dense))):
        raise config.refuse(
            "mlp_only_layers", f"given {shown(dense)}", "none, or the leading layers"
        )
    found = config.counts(experts="num_experts", active_experts="num_experts_per_tok")
    found |= config.counts(expert_feedforward="moe_intermediate_size")
    return found | {"first_dense_layers": len(dense)}


def _qwen2_moe(config: Config) -> Entry:
    config.only("qkv_bias", True)
    found = _qwen2(config)
    found |= _qwen_experts(config)
    gates = (found["layers"] - found["first_dense_layers"]) * found["hidden"]
    shared = config.count("shared_expert_intermediate_size", zero=True)
    return found | {"shared_feedforward": shared, "extra_parameters": gates}


def _qwen3_moe(config: Config) -> Entry:
    found = _qwen3(config)
    return found | _qwen_experts(config)


def _deepseek(config: Config) -> Entry:
    config.only("attention_bias", False)
    config.only("mlp_bias", False)
    config.only("moe_layer_freq", 1)
    each = config.count("moe_intermediate_size")
    latent = config.counts(kv_rank="kv_lora_rank", nope_size="qk_nope_head_dim")
    latent |= config.counts(rope_size="qk_rope_head_dim", value_size="v_head_dim")
    if config.stated("q_lora_rank"):  # null: queries have no latent
        latent["q_rank"] = config.count("q_lora_rank", 1536)
    size = latent["nope_size"] + latent["rope_size"]  # head_dim, if any, repeats a part of it
    shared = config.count("n_shared_experts", 0, zero=True)
    found = _decoder(config, size=size) | latent
    found |= config.counts(experts="n_routed_experts", active_experts="num_experts_per_tok")
    return found | {
        "expert_feedforward": each,
        "shared_feedforward": shared * each,
        "first_dense_layers": config.count("first_k_dense_replace", zero=True),
        "attention": "latent",
    }


def _deepseek_v3(config: Config) -> Entry:
    found = _deepseek(config)
    biases = (found["layers"] - found["first_dense_layers"]) * found["experts"]
    modules = config.count("num_nextn_predict_layers", 0, zero=True)
    return found | {"extra_parameters": biases, "mtp_layers": modules}


def _gemma2(config: Config) -> Entry:
    config.only("attention_bias", False)
    config.count("head_dim")  # its default is not hidden / heads
    found = _decoder(config, tied=True) | {"norms_per_layer": 4}
    local = found["layers"] - found["layers"] // 2  # every other layer, the first included
    return found | _windows(config, config.count("sliding_window", 4096), local)


def _gemma3(config: Config) -> Entry:
    config.only("attention_bias", False)
    config.only("use_bidirectional_attention", False)
    config.count("head_dim")
    found = _decoder(config, tied=True) | {"norms_per_layer": 4, "head_norms": 2}
    pattern = config.count("sliding_window_pattern", config.count("_sliding_window_pattern", 6))
    local = found["layers"] - found["layers"] // pattern
    return found | _windows(config, config.count("sliding_window", 4096), local)


def _gpt2(config: Config) -> Entry:
    config.only("add_cross_attention", False)
    hidden, heads = config.count("n_embd"), config.count("n_head")
    return {
        **config.counts(layers="n_layer", vocabulary="vocab_size", positions="n_positions"),
        "hidden": hidden,
        "feedforward": config.count("n_inner", 4 * hidden),
        "heads": heads,
        "kv_heads": heads,
        "head_size": hidden // heads,
        "attention": "heads",
        "mlp": "plain",
        "norm": "layernorm",
        "biases": "all",
        "embeddings": _embeddings(config, True),
    }


def _gpt_neox(config: Config) -> Entry:
    biases = "all" if config.flag("attention_bias", True) else "mlp"
    return _decoder(config) | {"mlp": "plain", "norm": "layernorm", "biases": biases}


def _gpt_oss(config: Config) -> Entry:
    config.only("attention_bias", True)
    config.count("head_dim")
    config.given("experts_per_token")  # a repetition
    found = _with_experts(config, _decoder(config)) | {"biases": "experts"}
    found["extra_parameters"] = found["layers"] * found["heads"]  # the sinks of attention
    local = found["layers"] - found["layers"] // 2
    return found | _windows(config, config.count("sliding_window", 128), local)


FAMILIES: dict[str, Callable[[Config], Entry]] = {  # model_type -> its reader
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek_v3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "phi3": _phi3,
}
