"""Parameters of every model of the catalogue, integer for integer."""

import dataclasses

import pytest
from architectures import architecture, rows

import jaxroof as jr
from jaxroof import catalog
from jaxroof.estimators.training.inputs import training_model
from jaxroof.estimators.training.layer.attention import attention
from jaxroof.estimators.training.layer.sums import (
    groups,
    layer_weights,
    norm_weights,
    total_weights,
)
from jaxroof.estimators.training.model_size import size
from jaxroof.estimators.training.recipe import Biases, Embeddings, Norm

MODELS = {row["name"]: row for row in rows("models/models")}
OUTSIDE = ("embedding", "head", "positions", "class_head", "extra")  # of the layers
GOLDEN = {row["model"]: row for row in rows("training_today/parameters")}


def test_the_catalogue_has_every_model_of_the_table():
    assert [name for name in catalog.names("architectures") if name in MODELS] == [*MODELS]
    assert [*GOLDEN] == [*MODELS]


@pytest.mark.parametrize("name", MODELS)
def test_totals_are_those_of_the_table(name):
    found = size(*architecture(name))
    assert int(found["parameters"]) == int(MODELS[name]["computed_total"])
    assert int(found["active_parameters"]) == int(MODELS[name]["computed_active"])


@pytest.mark.parametrize("name", GOLDEN)
def test_parts_are_golden(name):
    model, recipe = architecture(name)
    found = size(model, recipe)
    read = training_model(model, recipe)
    dense, routing = layer_weights(groups(read))
    layers = {"dense_layer": dense} | ({"moe_layer": routing} if model.experts else {})
    attended = total_weights(attention(read).values())
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
    assert expected.pop("matches_models_csv") == 1
    assert {key: float(value) for key, value in ours.items()} == expected


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_parts_and_layers_sum_to_the_whole(name):
    found = jr.evaluate("model_size", model=name)
    parts = [p for p, v in found.items() if v.attrs.get("part_of") == "parameters"]
    assert len(parts) == 12
    assert float(found.parameters) == sum(float(found[part]) for part in parts)
    assert 0.0 < float(found.active_parameters) <= float(found.parameters)
    assert float(found.weights) == 2.0 * float(found.parameters)
    model = training_model(*architecture(name))
    of = groups(model)
    (dense, routing), (_, *counted) = layer_weights(of), of
    layers = sum(
        group.layers * one.all for group, one in zip(counted, (dense, routing), strict=True)
    )
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
