"""Parts of models that families of ``config.json`` share."""

from collections.abc import Callable
from typing import Any

from jaxroof.catalog.huggingface_config import CLASS, FULL, WINDOW, Config, Entry, Kind

Key = str | tuple[str, int]  # of a file, or with the default of its class


def _key(key: Key) -> str:
    return key if isinstance(key, str) else key[0]


def decoder(
    config: Config,
    tied: bool = False,
    size: int | None = None,
    inside: int | None = None,
    width: str = "intermediate_size",
    **own: str | tuple[str, int],
) -> Entry:
    """Return what all models share whose layers are like those of Llama.

    ``size`` is the width of a head, ``inside`` that of an MLP where no layer has one, ``own`` are
    keys or defaults of a family.
    """
    found = config.counts(layers="num_hidden_layers", hidden="hidden_size")
    found |= config.counts(feedforward=width if inside is None else (width, inside))
    found |= config.counts(heads=own.get("heads", "num_attention_heads"))
    kv = own.get("kv_heads", ("num_key_value_heads", found["heads"]))
    found |= config.counts(kv_heads=kv, vocabulary=own.get("vocabulary", "vocab_size"))
    divides(config, "num_key_value_heads", found["kv_heads"], found["heads"], "attention heads")
    if size is None and "head_size" in own:
        found |= config.counts(head_size=own["head_size"])
    elif size is None:
        if config.given("head_dim") is None:
            divides(config, "num_attention_heads", found["heads"], found["hidden"], "hidden_size")
        found |= config.counts(head_size=("head_dim", found["hidden"] // found["heads"]))
    return {
        **found,
        **({} if size is None else {"head_size": size}),
        "attention": "heads",
        "recurrence": "none",
        "mlp": "gated",
        "norm": "rmsnorm",
        "biases": "none",
        "embeddings": embeddings(config, tied),
    }


def divides(config: Config, key: str, part: int, whole: int, words: str) -> None:
    """Raise an InputError for a number of parts that does not divide the whole."""
    if whole % part:
        raise config.refuse(key, f"given {part}", f"a divisor of {whole:,}, the {words}")


def embeddings(config: Config, tied: bool) -> str:
    """Return whether the head uses the embedding."""
    stated = config.given("tie_word_embeddings") is not None
    config.taken["embeddings"] = "tie_word_embeddings" if stated else CLASS
    return "tied" if config.flag("tie_word_embeddings", tied) else "separate"


def windows(config: Config, default: int, kind: Kind = lambda layer: WINDOW) -> Entry:
    """Return the windows of attention: of the layers that ``layer_types`` lists, or of the kind."""
    local = config.pattern("layer_types", (WINDOW, FULL), kind).count(WINDOW)
    null = "sliding_window" in config.written and config.given("sliding_window") is None
    window = 0 if null else config.count("sliding_window", default)
    if local and not window and config.given("layer_types") is not None:
        raise config.refuse("sliding_window", "missing", "a window, as layer_types has some")
    listed = "layer_types" if config.given("layer_types") is not None else CLASS
    return windowed(config, window, local, "sliding_window", listed)


def windowed(config: Config, window: int, local: int, key: str, listed: str) -> Entry:
    """Return a window and the layers that have it, if there are some."""
    if not (window and local):
        return {}
    config.taken |= {"window": key, "windowed_layers": listed}
    return {"window": window, "windowed_layers": local}


def every_nth(interval: int, rest: str) -> Kind:
    """Return the kinds where every so manieth layer sees everything."""
    return lambda layer: rest if (layer + 1) % interval else FULL


def even(layer: int) -> str:
    """Return the kind of a layer where the first one and every other have a window."""
    return FULL if layer % 2 else WINDOW


def routed_experts(config: Config, routes: Callable[[int], bool], said: str, *keys: Key) -> Entry:
    """Return the experts of a model: their sizes by key, and how many layers have none.

    ``said`` are the keys that say which layers route.
    """
    found = some_experts(config, *keys)
    kinds = config.pattern(
        "mlp_layer_types", ("dense", "sparse"), lambda i: "sparse" if routes(i) else "dense"
    )
    dense = kinds.count("dense")
    if dense == len(kinds):
        raise config.refuse(_key(keys[0]), f"given {found['experts']}", "none, as no layer routes")
    if not dense:
        return found
    name = "dense_layers" if "dense" in kinds[dense:] else "first_dense_layers"
    config.taken[name] = said if config.given("mlp_layer_types") is None else "mlp_layer_types"
    return found | {name: dense}


def some_experts(config: Config, *keys: Key) -> Entry:
    """Return the sizes of experts. Raises: InputError for more active ones than there are."""
    names = ("experts", "active_experts", "expert_feedforward")
    found = config.counts(False, **dict(zip(names, keys, strict=True)))
    active, key = found["active_experts"], keys[1]
    if active > found["experts"]:
        most = f"at most the {found['experts']} experts"
        raise config.refuse(_key(key), f"given {active}", most)
    return found


def unused_width(found: Entry) -> int | None:
    """Return the width of an MLP that no layer has: that of an expert."""
    dense = found.keys() & {"first_dense_layers", "dense_layers"}
    return None if dense else int(found["expert_feedforward"])


def shared_experts(config: Config, key: str, experts: Entry, default: int = 0) -> Entry:
    """Return the shared experts, given by their number."""
    number = config.count(key, default, zero=True)
    config.taken["shared_feedforward"] = f"{key} x the width of an expert"
    return {"shared_feedforward": number * experts["expert_feedforward"]} if number else {}


def prediction(config: Config, key: str = "num_nextn_predict_layers", default: int = 0) -> Entry:
    """Return the modules of multi-token prediction."""
    found = config.counts(zero=True, mtp_layers=(key, default))
    return found if found["mtp_layers"] else {}


def after_first(config: Config) -> Callable[[int], bool]:
    """Return which layers route, where the first ones do not."""
    first = config.count("first_k_dense_replace", zero=True)
    every = config.count("moe_layer_freq", 1)
    return lambda layer: layer >= first and layer % every == 0


FIRST = "first_k_dense_replace, moe_layer_freq"
SIZES = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")  # of DeepSeek


def deepseek_experts(config: Config, shared: int = 0) -> Entry:
    """Return experts as DeepSeek names their sizes, beside shared ones."""
    found = routed_experts(config, after_first(config), FIRST, *SIZES)
    return found | shared_experts(config, "n_shared_experts", found, shared)


def latent_attention(config: Config) -> Entry:
    """Return the sizes of latent attention; without a rank of queries, they have no latent."""
    found = config.counts(kv_rank="kv_lora_rank", nope_size="qk_nope_head_dim")
    found |= config.counts(rope_size="qk_rope_head_dim", value_size="v_head_dim")
    if config.given("q_lora_rank") is not None:
        found |= config.counts(q_rank="q_lora_rank")
    elif "q_lora_rank" not in config.written:
        raise config.refuse("q_lora_rank", "missing", "a width, or null for none")
    for key in ("head_dim", "qk_head_dim"):
        config.given(key)  # a repetition, or no width of this attention
    config.taken["head_size"] = "qk_nope_head_dim + qk_rope_head_dim"
    return found | {"attention": "latent"}


def local_experts(config: Config, active: str | tuple[str, int], number: Any) -> Entry:
    """Return the experts of a model in all of its layers, as wide as its MLPs would be."""
    return routed_experts(config, everywhere, "", number, active, "intermediate_size")


def everywhere(layer: int) -> bool:
    """Return that a layer routes."""
    return True


def qwen_windows(config: Config) -> Entry:
    """Return the windows of a family whose files also have some that they do not use."""
    used = config.flag("use_sliding_window", False)
    whole = config.count("max_window_layers", 28, zero=True)  # the leading layers have no window
    found = windows(config, 4096, lambda layer: WINDOW if used and layer >= whole else FULL)
    return found if used else {}


def gated_expert(config: Config) -> Entry:
    """Return the shared expert of Qwen, which has a gate."""
    shared = config.counts(zero=True, shared_feedforward=("shared_expert_intermediate_size", 512))
    return shared | {"shared_gate": 1}


def qwen_experts(config: Config, number: Any = "num_experts", active: Any = None) -> Entry:
    """Return the experts of Qwen: in every so manieth layer, and in none that is listed."""
    step, dense = config.count("decoder_sparse_step", 1), config.items("mlp_only_layers")
    return routed_experts(
        config,
        lambda layer: (layer + 1) % step == 0 and layer not in dense,
        "decoder_sparse_step, mlp_only_layers",
        number,
        active or "num_experts_per_tok",
        ("moe_intermediate_size", 768) if active else "moe_intermediate_size",
    )
