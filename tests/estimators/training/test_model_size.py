"""Parameters of every model, integer for integer; FLOP of a token under every convention."""

import dataclasses
import statistics

import pytest
from architectures import architecture, architecture_of_2025, rows

import jaxroof as jr
from jaxroof import catalog
from jaxroof.estimators.training.inputs import training_model
from jaxroof.estimators.training.layer.attention import attention
from jaxroof.estimators.training.layer.sums import (
    groups,
    layer_weights,
    leading_layers,
    norm_weights,
    total_weights,
)
from jaxroof.estimators.training.model_size import size, token_flops
from jaxroof.estimators.training.recipe import Biases, Embeddings, Mlp, Norm, Recipe
from jaxroof.records import InputError

MODELS = {row["name"]: row for row in rows("models/models")}
OUTSIDE = ("embedding", "head", "positions", "class_head", "extra")  # of the layers
GOLDEN = {row["model"]: row for row in rows("training_today/parameters")}


def test_the_catalogue_has_every_model_of_the_table():
    assert {*MODELS} <= {*catalog.names("architectures")}
    assert [*GOLDEN] == [*MODELS]


@pytest.mark.parametrize("name", MODELS)
def test_totals_are_those_of_the_table(name):
    found = size(*architecture_of_2025(name))
    assert int(found["parameters"]) == int(MODELS[name]["computed_total"])
    assert int(found["active_parameters"]) == int(MODELS[name]["computed_active"])


@pytest.mark.parametrize("name", GOLDEN)
def test_parts_are_golden(name):
    model, recipe = architecture_of_2025(name)
    found = size(model, recipe)
    read = training_model(model, recipe)
    dense, routing = layer_weights(groups(read))
    layers = {"dense_layer": dense} if leading_layers(model) else {}
    layers |= {"moe_layer": routing} if model.experts else {}
    ((_, _, operations),) = attention(read)
    attended = total_weights(operations.values())
    last = recipe.norm is Norm.LAYERNORM
    ours = {
        "total": found["parameters"],
        "active": found["active_parameters"],
        "embedding": found["parameters_embedding"],
        "head": found["parameters_head"],
        "position": found["parameters_positions"],
        "block": found["parameters"]
        - sum(found[f"parameters_{part}"] for part in OUTSIDE)
        - model.hidden * (1.0 + last),
        "mtp_not_in_total": found["parameters_mtp"],
        "attention_tensor_sharded": attended.sharded,
        "attention_replicated": attended.replicated,
    }
    for key, one in layers.items():
        parts = {"tensor": one.sharded, "replicated": one.replicated, "expert": one.routed}
        ours |= {key: one.all} | {f"{key}_{part}": value for part, value in parts.items()}
    told = {key: int(value) for key, value in GOLDEN[name].items() if key != "model"}
    expected = {key: value for key, value in told.items() if value or key in ours}
    if "dense_layer" not in layers:  # that of a model which has none
        expected = {key: one for key, one in expected.items() if "dense_layer" not in key}
    assert expected.pop("matches_models_csv") == 1
    assert {key: float(value) for key, value in ours.items()} == expected


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_parts_and_layers_sum_to_the_whole(name):
    found = jr.evaluate("model_size", model=name)
    parts = [p for p, v in found.items() if v.attrs.get("part_of") == "parameters"]
    assert len(parts) == 14
    assert float(found.parameters) == sum(float(found[part]) for part in parts)
    assert 0.0 < float(found.active_parameters) <= float(found.parameters)
    assert float(found.weights) == 2.0 * float(found.parameters)
    model = training_model(*architecture(name))
    counted = ((of.layers, total_weights(of.operations.values()).all) for of in groups(model))
    layers = sum(number * weights for number, weights in counted)
    ends = sum(found[f"parameters_{part}"] for part in OUTSIDE)
    assert float(layers + norm_weights(model)) == float(found.parameters - ends)


GROWN = ("layers", "hidden", "feedforward", "heads", "vocabulary", "experts", "mtp_layers")


@pytest.mark.parametrize("field", GROWN)
def test_more_of_anything_is_more_parameters(field):
    model, recipe = architecture("deepseek-v3")
    more = dataclasses.replace(model, **{field: 2.0 * getattr(model, field)})
    before, after = size(model, recipe), size(more, recipe)
    key = "parameters_mtp" if field == "mtp_layers" else "parameters"
    assert after[key] > before[key]
    assert all(after[name] >= value for name, value in before.items())


def test_every_choice_counts():
    model, recipe = architecture("mixtral-8x7b")
    h, a, d, layers, vocabulary, experts = 4096, 32, 128, 32, 32000, 8
    keys = 8
    projections, output = (a + 2 * keys) * d, h
    routed = experts * (2 * 14336 + h) + experts
    for biases, each in {
        Biases.NONE: 0,
        Biases.QUERY_KEY_VALUE: projections,
        Biases.ATTENTION: projections + output,
        Biases.MLP: 0,  # no layer is dense
        Biases.ALL: projections + output,
        Biases.EXPERTS: projections + output + routed,
    }.items():
        found = size(model, dataclasses.replace(recipe, biases=biases))
        assert float(found["parameters_biases"]) == layers * each
    tied = size(model, dataclasses.replace(recipe, embeddings=Embeddings.TIED))
    assert float(size(model, recipe)["parameters"] - tied["parameters"]) == h * vocabulary
    norms = size(model, dataclasses.replace(recipe, norm=Norm.LAYERNORM))["parameters_norms"]
    assert float(norms) == 2 * h * (2 * layers + 1)


# ---- FLOP of a token -----------------------------------------------------------------------------

FLOPS = rows("training_today/flops")
CLOSURE = rows("training_today/flops_closure")


def field_of(convention: str) -> str:
    """Return our name of a convention of the golden files."""
    hardware = convention.startswith("hardware_")
    return f"hardware_flops_{convention[9:]}" if hardware else f"flops_{convention.lower()}"


@pytest.mark.parametrize("row", FLOPS, ids=lambda row: f"{row['model']}-{row['sequence']}")
def test_flops_are_golden(row):
    model, recipe = architecture_of_2025(row["model"], sequence=float(row["sequence"]))
    found = token_flops(model, recipe)
    told = {field_of(key): value for key, value in row.items() if key not in ("model", "sequence")}
    assert set(told) == set(found) - {"hardware_flops_flash"}
    for name, value in told.items():
        assert float(found[name]) == pytest.approx(float(value), rel=1e-12), name


NAMES = {  # names in the measured rows
    "DeepSeek-V3": "deepseek-v3", "Llama 3 8B": "llama3-8b", "Llama 3 70B": "llama3-70b",
    "Llama 3.1 405B": "llama3.1-405b", "Qwen3 30B-A3B": "qwen3-30b-a3b",
    "Qwen3 235B-A22B": "qwen3-235b-a22b",
}  # fmt: skip
GPT = Recipe(mlp=Mlp.PLAIN, norm=Norm.LAYERNORM, biases=Biases.ALL, embeddings=Embeddings.TIED)
PEAKS = {"A100": 312e12, "H100": 989.5e12}


def measured(row):
    """Return the model of a measured row, and its recipe."""
    foundry = row["source_file"] == "llm_foundry_mpt"
    multiple = 1 if foundry else 128  # to which Megatron pads the vocabulary
    padded = -(-int(row["vocab"]) // multiple) * multiple
    known = {"sequence": float(row["seq"]), "vocabulary": float(padded)}
    if row["model"] in NAMES:
        return architecture_of_2025(NAMES[row["model"]], **known)
    hidden, heads = float(row["hidden"]), float(row["heads"])
    known |= {
        "layers": float(row["layers"]),
        "hidden": hidden,
        "feedforward": float(row["ffn"] or 4.0 * hidden),
        "heads": heads,
        "kv_heads": float(row["kv_heads"] or heads),
        "head_size": 64.0 if row["model"] == "gpt-oss-120b" else hidden / heads,
        "positions": float(row["seq"]),
    }
    if row["model"] == "gpt-oss-120b":  # the source counts no gate and no window
        known |= {"experts": 128.0, "active_experts": 4.0, "expert_feedforward": 2880.0}
    model, _ = architecture("gpt3-175b", **known)
    # llm-foundry has no bias beside that of its LayerNorm
    return model, dataclasses.replace(GPT, biases=Biases.NONE) if foundry else GPT


def figure(row):
    """Return what our convention makes of the tokens a second of a row, in the unit it prints."""
    model, recipe = measured(row)
    rate = float(token_flops(model, recipe)[field_of(row["convention"])]) * float(
        row["tokens_per_s"]
    )
    if row["source_file"] == "llm_foundry_mpt":
        eight_bit = 2.0 if "fp8" in row["precision"] else 1.0
        return rate / (PEAKS[row["system"][:4]] * eight_bit)
    return rate / PEAKS["A100"] * 100.0 if row["row_id"].startswith("korth") else rate / 1e12


def test_printed_figures_close():
    """Each row is what the prototype computed; each source's median is within 0.2 % of print."""
    errors: dict[str, list[float]] = {}
    for row in CLOSURE:
        found, computed, printed = (
            figure(row),
            float(row["tflops_computed"]),
            float(row["tflops_printed"]),
        )
        assert found == pytest.approx(computed, rel=1e-9), row
        source = f"{row['source_file']} {row['convention']}"
        errors.setdefault(source, []).append(abs(found / printed - 1.0))
    assert sum(len(some) for some in errors.values()) == 344
    for source, some in errors.items():
        assert statistics.median(some) <= 0.002, source


def test_a_plain_gpt_costs_what_narayanan_prints():
    """72 B s L h^2 (1 + s / 6 h + V / 12 L h), and 96 with all layers computed again."""
    model, recipe = architecture("megatron-175b")
    layers, h, s, v = 96, 12288, 2048, 51200
    found = token_flops(model, recipe)
    head = v / (12 * layers * h)
    assert float(found["flops_megatron_full"]) == pytest.approx(
        72 * layers * h * h * (1 + s / (6 * h) + head), rel=1e-12
    )
    assert float(found["hardware_flops_full"]) == pytest.approx(
        96 * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h)), rel=1e-12
    )


def test_a_step_is_its_tokens_and_mfu_names_its_convention():
    asked = {"model": "llama3-70b", "model.sequence": 8192}
    one, step = (jr.evaluate("model_flops", asked, tokens=t) for t in (1, 8192 * 512))
    assert float(step.flops_palm) == float(one.flops_palm) * 8192 * 512
    rate = jr.evaluate("mfu", asked, system="h100-nvs8", token_rate=850)
    peak = float(jr.system("h100-nvs8").matrix_flops)
    assert not [name for name in rate if name in ("mfu", "hfu")]
    for name in one:
        if name.startswith("flops_"):
            expected = float(one[name]) * 850
            assert float(rate[name.replace("flops", "rate")]) == pytest.approx(expected, rel=1e-12)
            share = float(rate[name.replace("flops", "mfu")])
            assert share == pytest.approx(expected / peak, rel=1e-12)


def test_without_a_sequence_there_are_no_scores():
    fields = {"layers": 2, "hidden": 8, "feedforward": 32, "heads": 2, "kv_heads": 2}
    asked = {f"model.{key}": value for key, value in fields.items()}
    asked |= {"model.head_size": 4, "model.vocabulary": 100}
    assert float(jr.evaluate("model_size", asked).parameters) > 0.0
    with pytest.raises(InputError, match=r"^model\.sequence: not given; expected a value"):
        jr.evaluate("model_flops", asked)
