"""Configurations of Hugging Face against published parameters, and what is said of wrong ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from architectures import architecture
from refusals import refused

import jaxroof as jr
from jaxroof.catalog import huggingface
from jaxroof.catalog.huggingface_families import FAMILIES
from jaxroof.errors import InputError
from jaxroof.records import leaves

FILES = Path(__file__).parent / "huggingface"
PUBLISHED = {  # file, written by hand after the public configuration: tensors of its checkpoint
    "gpt2": 124_439_808,
    "gpt-neox-20b": 20_554_567_680,
    "llama-3.1-8b": 8_030_261_248,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-32b": 32_762_123_264,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,  # its modules of multi-token prediction left out
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-27b-text": 27_009_002_240,
    "phi-3-mini-4k": 3_821_079_552,
    "gpt-oss-20b": 20_914_757_184,
}
SAME = {  # file: the model of the catalogue that it describes
    "gpt2": "gpt2-124m", "llama-3.1-8b": "llama3-8b", "mixtral-8x7b": "mixtral-8x7b",
    "qwen3-30b-a3b": "qwen3-30b-a3b", "qwen3-32b": "qwen3-32b", "deepseek-v3": "deepseek-v3",
    "gemma-2-27b": "gemma2-27b",
}  # fmt: skip
WINDOWS = {  # file: tokens of the window, layers that have it
    "mistral-7b-v0.1": (4096, 32), "gemma-2-27b": (4096, 23),
    "gemma-3-27b-text": (1024, 52), "phi-3-mini-4k": (2047, 32), "gpt-oss-20b": (128, 12),
}  # fmt: skip


def written(name: str, **changed: Any) -> dict[str, Any]:
    """Return a configuration with fields changed, or left out where they are ``...``."""
    found = json.loads((FILES / f"{name}.json").read_text("utf-8")) | changed
    return {key: value for key, value in found.items() if value is not ...}


def entry(config: dict[str, Any]) -> dict[str, Any]:
    return huggingface.entry("config.json", json.dumps(config))


def test_there_is_a_file_of_every_family() -> None:
    assert {path.stem for path in FILES.glob("*.json")} == {*PUBLISHED}
    today = [json.loads(path.read_text("utf-8")) for path in FILES.glob("today/*.json")]
    texts = [one.get("text_config", one) for one in today]
    kinds = {one["model_type"] for one in (*texts, *map(written, PUBLISHED))}
    assert kinds == {*FAMILIES}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    found = jr.evaluate("model_size", model=str(FILES / f"{name}.json"))
    assert int(found.parameters) == PUBLISHED[name]


@pytest.mark.parametrize("name", SAME)
def test_a_file_says_what_the_catalogue_says(name: str) -> None:
    (found, recipe), (known, chosen) = (
        architecture(model) for model in (str(FILES / f"{name}.json"), SAME[name])
    )
    ours, theirs = (
        {path: float(value) for path, _, value in leaves(model)} for model in (found, known)
    )
    ours.pop("training_tokens")  # a config.json does not say them
    assert ours == {path: value for path, value in theirs.items() if path in ours}
    assert {*theirs} - {*ours} <= {"sequence", "training_tokens"}
    assert recipe == chosen


@pytest.mark.parametrize("name", PUBLISHED)
def test_windows_are_understood(name: str) -> None:
    found = entry(written(name))
    assert (found.get("window", 0), found.get("windowed_layers", 0)) == WINDOWS.get(name, (0, 0))


UNDERSTOOD = [  # file, fields that change, what changes in the model
    ("llama-3.1-8b", {"head_dim": 64}, {"head_size": 64}),
    ("llama-3.1-8b", {"num_key_value_heads": ...}, {"kv_heads": 32}),
    ("llama-3.1-8b", {"attention_bias": True}, {"biases": "attention"}),
    ("llama-3.1-8b", {"mlp_bias": True}, {"biases": "mlp"}),
    ("llama-3.1-8b", {"mlp_bias": True, "attention_bias": True}, {"biases": "all"}),
    ("llama-3.1-8b", {"tie_word_embeddings": True}, {"embeddings": "tied"}),
    ("gemma-2-27b", {"tie_word_embeddings": False}, {"embeddings": "separate"}),
    ("gemma-2-27b", {"layer_types": ["full_attention"] * 46},
     {"window": ..., "windowed_layers": ...}),
    ("gpt-neox-20b", {"attention_bias": False}, {"biases": "mlp"}),
    ("gpt2", {"n_inner": 1024}, {"feedforward": 1024}),
    ("qwen3-32b", {"attention_bias": True}, {"biases": "attention"}),
    ("qwen3-30b-a3b", {"mlp_only_layers": [0, 1]}, {"first_dense_layers": 2}),
    ("qwen3-30b-a3b", {"mlp_only_layers": [3]}, {"dense_layers": 1}),
    ("qwen3-30b-a3b", {"decoder_sparse_step": 2}, {"dense_layers": 24}),
    ("mixtral-8x7b", {"num_experts_per_tok": [2] * 32}, {}),
    ("deepseek-v3", {"num_nextn_predict_layers": ...}, {"mtp_layers": ...}),
    ("mistral-7b-v0.1", {"sliding_window": None}, {"window": ..., "windowed_layers": ...}),
    ("mixtral-8x7b", {"sliding_window": 4096}, {"window": 4096, "windowed_layers": 32}),
    ("qwen2.5-7b", {"use_sliding_window": True, "max_window_layers": 8},
     {"window": 131072, "windowed_layers": 20}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "moved"), UNDERSTOOD)
def test_a_field_that_changes_the_model_is_understood(
    name: str, changed: dict[str, Any], moved: dict[str, Any]
) -> None:
    found, expected = entry(written(name, **changed)), entry(written(name)) | moved
    found["taken"] = expected["taken"] = {}
    assert found == {key: value for key, value in expected.items() if value is not ...}


KINDS = ", ".join(FAMILIES)
OTHERS = {  # kind that is refused: what it has
    "jamba": "Mamba-1 layers", "zamba2": "blocks that layers share",
    "kimi_k3": "attention residuals",
    "deepseek_v4": "hyper-connections and compressed attention", "lfm2": "convolutions as mixers",
    "minimax": "lightning attention", "longcat_flash": "experts that compute nothing",
    "nemotron-nas": "another width in every layer", "bert": "no causal decoder",
    "bamba": "Mamba layers of another shape", "minimax_m3": "a block-sparse index",
}  # fmt: skip
WRONG = [  # file, fields that change, what is said of it
    ("llama-3.1-8b", {"model_type": "llama4"}, f"model_type: llama4: not understood; expected one "
     f"of {KINDS}."),
    ("gemma-3-27b-text", {"model_type": "gemma3", "text_config": {}}, "text_config: model_type: "
     f"None: not understood; expected one of {KINDS}."),
    *(("llama-3.1-8b", {"model_type": kind}, f"model_type: {kind}: {words}, which no formula here "
       f"counts; expected one of {KINDS}.") for kind, words in OTHERS.items()),
    ("llama-3.1-8b", {"mamba_d_state": 128}, "mamba_d_state: not understood of a llama, and it may "
     "change the count. Leave it out if it does not."),
    ("llama-3.1-8b", {"layer_types": ["mamba"] * 32}, "layer_types: given 'mamba'; expected "
     "sliding_attention or full_attention."),
    ("llama-3.1-8b", {"is_encoder_decoder": True}, "is_encoder_decoder: given true; expected false,"
     " the only one counted."),
    ("llama-3.1-8b", {"num_hidden_layers": None}, "num_hidden_layers: given null; expected a whole "
     "number above 0."),
    ("llama-3.1-8b", {"num_key_value_heads": 5}, "num_key_value_heads: given 5; expected a divisor "
     "of 32, the attention heads."),
    ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_experts_per_tok: given 9; expected at most "
     "the 8 experts."),
    ("mistral-7b-v0.1", {"sliding_window": 0}, "sliding_window: given 0; expected a whole number "
     "above 0."),
    ("gpt-oss-20b", {"sliding_window": -128}, "sliding_window: given -128; expected a whole number "
     "above 0."),
    ("llama-3.1-8b", {"model_type": 3}, "no model_type; expected the config.json of a language "
     "model."),
    ("llama-3.1-8b", {"mlp_biass": True}, "mlp_biass: not understood of a llama, and it may change "
     "the count. Did you mean 'mlp_bias'?"),
    ("llama-3.1-8b", {"zebra": 1}, "zebra: not understood of a llama, and it may change the count. "
     "Leave it out if it does not."),
    ("llama-3.1-8b", {"num_local_experts": 8}, "num_local_experts: not understood of a llama, and "
     "it may change the count. Leave it out if it does not."),
    ("llama-3.1-8b", {"vocab_size": ...}, "vocab_size: missing; expected a whole number above 0."),
    ("llama-3.1-8b", {"vocab_size": "many"}, "vocab_size: given 'many'; expected "
     "a whole number above 0."),
    ("llama-3.1-8b", {"hidden_size": 40.5}, "hidden_size: given 40.5; expected a "
     "whole number above 0."),
    ("llama-3.1-8b", {"num_attention_heads": 24}, "num_attention_heads: given 24; expected a "
     "divisor of 4,096, the hidden_size."),
    ("llama-3.1-8b", {"attention_bias": 1}, "attention_bias: given 1; expected true or false."),
    ("llama-3.1-8b", {"architectures": ["LlamaForSequenceClassification"]}, "architectures: "
     "'LlamaForSequenceClassification': its head is not known; expected ...ForCausalLM."),
    ("qwen3-32b", {"head_dim": ...}, "head_dim: missing; expected a whole number above 0."),
    ("deepseek-v3", {"attention_bias": True}, "attention_bias: given true; expected false, the "
     "only one counted."),
    ("gpt-oss-20b", {"layer_types": ["chunked_attention"] * 24}, "layer_types: given "
     "'chunked_attention'; expected sliding_attention or full_attention."),
    ("gpt-oss-20b", {"layer_types": ["full_attention"]}, "layer_types: given ['full_attention'], "
     "of 1; expected the kinds of 24 layers, as num_hidden_layers says."),
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention: given true; expected false, the "
     "only one counted."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "said"), WRONG)
def test_what_is_not_understood_is_named(name: str, changed: dict[str, Any], said: str) -> None:
    assert refused(entry, written(name, **changed)) == f"config.json: {said}"


def test_texts_that_are_no_configuration() -> None:
    for text in ("", "[1]", "{}", "[" * 100_000, '{"model_type": "llama"'):
        with pytest.raises(InputError, match=r"^config\.json: (not JSON|no model_type)"):
            huggingface.entry("config.json", text)


def test_a_configuration_is_a_whole_model(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"gpt2\.json: a whole model, if anything; expected a TOML"
    ):
        jr.model(FILES / "gpt2.json")
    with pytest.raises(InputError, match=r"none\.json: no such file; expected a TOML file"):
        jr.evaluate("model_size", model=str(tmp_path / "none.json"))
    (tmp_path / "huge.json").write_text(json.dumps(written("gpt2", n_layer=10**12)))
    with pytest.raises(InputError, match=r"huge\.json: layers: expected a whole number above 0"):
        jr.evaluate("model_size", model=str(tmp_path / "huge.json"))


def test_flops_need_the_length_of_a_sequence() -> None:
    path = str(FILES / "llama-3.1-8b.json")
    with pytest.raises(InputError, match=r"^model\.sequence: not given; expected a value"):
        jr.evaluate("model_flops", model=path)
    found = jr.evaluate("model_flops", {"model": path, "model.sequence": 8192})
    known = jr.evaluate("model_flops", model="llama3-8b")
    assert float(found.flops_exact) == float(known.flops_exact)


def test_show_prints_what_was_understood(jaxroof: Any) -> None:
    said = jaxroof(f"show {FILES / 'gpt-oss-20b.json'}")
    assert (said.code, said.err) == (0, "")
    assert "20,914,757,184 parameters; a token meets 4,187,440,704 of them (20.0 %)" in said.words
    assert "embedding and head included; 3,608,307,264 without the embedding." in said.words
    said = jaxroof("show deepseek-v3")
    assert "Modules of multi-token prediction have 11,610,068,224 more" in said.out
    assert "routed experts  653,908,770,816" in said.out


VALUES = [None, True, False, 0, 1, -1, 3, 2.5, 10**400, "", "many", [], [0], [9], ["x"], [[]], {}]


@pytest.mark.parametrize("name", PUBLISHED)
def test_any_value_is_a_model_or_one_line(name: str) -> None:
    config = written(name)
    more = ("layer_types", "head_dim", "mlp_only_layers", "_sliding_window_pattern", "zebra")
    for key in {*config, *more}:
        for value in VALUES:
            said = ""
            try:
                found = entry(config | {key: value})
            except InputError as error:
                said = str(error)
            assert said.startswith("config.json: ") or found["layers"] >= 0
            assert len(said.splitlines()) <= 1
            assert len(said) < 900
