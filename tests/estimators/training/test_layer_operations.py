"""A layer operation by operation: the rows sum to the layer, their FLOP to the model's."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from measured_steps import CHIPS, steps

from jaxroof import catalog
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.layer import dense_layer, routing_layer, score_width
from jaxroof.estimators.training.layer_operations import layer_operations
from jaxroof.estimators.training.layer_time import expert_weights, layer_weights
from jaxroof.estimators.training.layer_work import layer_work
from jaxroof.estimators.training.plan_time import Timed, timed
from jaxroof.estimators.training.product_times import dense_share
from jaxroof.estimators.training.recipe import (
    AttentionKernel,
    Selective,
    TrainingRecipe,
    modules_of,
)
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.step_time import layer_parts, whole_step
from jaxroof.formulas.model_flops import exact_context
from jaxroof.records import with_named_absences
from jaxroof.settings import choose

RTOL = 1e-10
PARTS = {  # of the sheet: operations that sum to it, both directions
    "attention": ("attention",),
    "elementwise": ("elementwise",),
    "cast": ("cast",),
    "recompute": ("recompute",),
    "expert_comm": ("exchange",),
    "experts": (
        *("router", "router_scores", "permutation"),
        *("routed_up", "routed_activation", "routed_down", "routed_cast"),
    ),
    "matmul": (
        *("qkv", "query_down", "query_up", "query", "key_value_down", "key_value_up"),
        *("output", "up", "down", "shared_up", "shared_down"),
    ),
}


@functools.cache
def operations(kind: str):
    """Return the operations of the layers of all measured rows of a kind of chip, in groups."""
    return [
        (places, layer_operations(inputs.model.sequence, timed(inputs, recipe)))
        for places, inputs, recipe in steps(kind).groups
    ]


def of_ways(found):
    """Return the seconds forward and backward of some operations."""
    return [sum(getattr(one.time, way) for one in found) for way in ("forward", "backward")]


@pytest.mark.parametrize("kind", CHIPS)
def test_the_rows_sum_to_the_layers_of_the_sheet(kind):
    expected = steps(kind).expected
    for places, found in operations(kind):
        forward, backward = of_ways(found.values())
        np.testing.assert_allclose(forward, expected["forward"][places], rtol=RTOL)
        np.testing.assert_allclose(backward, expected["backward"][places], rtol=RTOL)


@pytest.mark.parametrize("kind", CHIPS)
def test_operations_of_a_kind_sum_to_its_part_of_the_sheet(kind):
    expected = steps(kind).expected
    for places, found in operations(kind):
        for part, names in PARTS.items():
            both = sum(of_ways([found[name] for name in names]))
            np.testing.assert_allclose(both, expected[part][places], rtol=RTOL, err_msg=part)


def test_every_operation_is_in_one_part_or_is_a_message_or_a_limit():
    named = [name for names in PARTS.values() for name in names]
    others = {"tensor", "context", "launch_limit", "fsdp"}
    for _, found in operations("h100"):
        assert sorted([*named, *others]) == sorted(found)


@pytest.mark.parametrize("kind", CHIPS)
def test_no_product_exceeds_the_rate_of_its_chip(kind):
    for (_, found), (_, inputs, recipe) in zip(operations(kind), steps(kind).groups, strict=True):
        speed = timed(inputs, recipe).speed
        most = np.maximum(speed.layer.rate, speed.plain.rate)
        for name in PARTS["matmul"]:
            one = found[name]
            assert np.all(one.flops.forward <= most * one.time.forward), name
            assert np.all(one.flops.backward <= most * one.time.backward), name


def asked_of(name: str, **plan: float) -> Timed:
    """Return a model of the catalogue under a plan, on H100."""
    model, choices = architecture_with_choices(name)
    recipe = choose(TrainingRecipe(), choices)
    inputs = TrainingInputs(
        model=model,
        system=training_system("h100-nvs8"),
        global_batch=8.0,
        plan=TrainingPlan(**plan),
    )
    return timed(with_named_absences(inputs), recipe)


def over_layers(name: str, amount) -> float:
    """Return the mean over the layers of a model of a sum over a layer's operations."""
    model, choices = architecture_with_choices(name)
    recipe, dense = choose(TrainingRecipe(), choices), dense_share(model)
    kinds = ((dense, dense_layer), (1.0 - dense, routing_layer))
    return float(
        sum(share * amount(one) for share, of in kinds for one in of(model, recipe).values())
    )


@pytest.mark.parametrize("tensor", [1.0, 2.0])
@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_the_flop_of_products_are_those_of_the_parameters_they_multiply(name, tensor):
    asked = asked_of(name, tensor=tensor)
    found = layer_operations(asked.model.sequence, asked)

    def each(one):  # the projections to latents are multiplied by every tensor rank
        whole = one.part == "attention" and one.replicated
        return one.products / (1.0 if whole else tensor)

    products = [found[one] for one in (*PARTS["matmul"], "router", "routed_up", "routed_down")]
    forward = float(sum(one.flops.forward for one in products))
    assert forward == pytest.approx(2.0 * over_layers(name, each) * asked.model.sequence, rel=1e-12)
    assert float(sum(one.flops.backward for one in products)) == pytest.approx(2.0 * forward)


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_the_weights_that_time_sends_and_updates_are_the_matrices_of_the_layer(name):
    model, plan = asked_of(name)[:2]
    found = float(layer_weights(model) + expert_weights(model, plan))
    of_matrices = ("attention", "mlp", "router", "experts", "shared_experts")
    matrices = over_layers(name, lambda one: one.parameters * (one.part in of_matrices))
    assert found == pytest.approx(matrices + 2.0 * float(model.hidden), rel=1e-12)


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_a_tied_embedding_is_summed_over_the_end_stages_and_a_separate_one_is_not(name):
    asked = asked_of(name, pipeline=2.0)
    parts = layer_parts(asked.model, asked.model.sequence, *asked[1:4], modules_of(asked.choices))
    tied = architecture_with_choices(name)[1]["embeddings"] == "tied"
    assert (float(whole_step(*asked[:4], parts, asked.choices.schedule).data_comm) > 0.0) == tied


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_queries_and_keys_are_rotated_where_no_positions_are_learned(name):
    asked = asked_of(name)
    learned = dataclasses.replace(asked.model, positions=1.0)
    given, without = (
        layer_operations(model.sequence, asked._replace(model=model))["elementwise"].time.forward
        for model in (asked.model, learned)
    )
    assert (given > without) == (asked.model.positions == 0.0)


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_a_window_takes_from_attention_what_it_hides(name):
    """A window as wide as the sequence hides nothing; a narrower one, in more layers, more."""
    asked = asked_of(name)
    sequence = float(asked.model.sequence)

    def core(window: float, layers: float) -> Any:
        model = dataclasses.replace(asked.model, window=window, windowed_layers=layers)
        return layer_operations(sequence, asked._replace(model=model))["attention"]

    layers = float(asked.model.layers)
    none, wide = core(0.0, 0.0), core(sequence, layers)
    assert wide.time.forward == pytest.approx(float(none.time.forward), rel=1e-12)
    some = [core(float(sequence // 2), share * layers) for share in (0.5, 1.0)]
    times = [float(one.time.backward) for one in (none, *some)]
    assert times == sorted(times, reverse=True)
    assert len({*times}) == 3
    hidden = float(none.flops.forward - some[1].flops.forward)
    met = [float(exact_context(sequence, window)) for window in (0.0, sequence // 2)]
    width = float(
        score_width(asked.model, choose(TrainingRecipe(), architecture_with_choices(name)[1]))
    )
    assert hidden == pytest.approx(2.0 * width * sequence * (met[0] - met[1]), rel=1e-9)


def test_full_recomputation_repeats_the_flop_of_the_forward_pass():
    asked = asked_of("llama3-8b", recompute=2.0)
    found = layer_operations(asked.model.sequence, asked)
    again = found.pop("recompute").flops.backward
    assert float(again) == pytest.approx(float(sum(one.flops.forward for one in found.values())))


KINDS = ("memory_activations", "step_time")
AGAIN = {  # multiply-adds of a layer that selective recomputation repeats, beside the core's
    Selective.CORE_ATTENTION: (),
    Selective.LIGHT: ("query_up", "key_value_up"),
    Selective.MLP: ("query_up", "key_value_up", "up", "down", "shared_up", "shared_down"),
    Selective.EXPERTS: (
        *("query_up", "key_value_up", "up", "down", "shared_up", "shared_down"),
        *("router", "experts"),
    ),
}


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_what_memory_drops_time_repeats(name):
    """From none to all of a layer: what takes less memory takes more time."""
    model, choices = architecture_with_choices(name)
    inputs = TrainingInputs(
        model=model,
        system=training_system("h100-nvs8"),
        global_batch=8.0,
        plan=TrainingPlan(tensor=2.0, recompute=np.array([0.0, 1.0, 2.0])),
    )
    scores = {"attention_kernel": AttentionKernel.UNFUSED}  # so that each choice has the one before
    chosen = choose(TrainingRecipe(), {**choices, **scores})
    found = [
        training.evaluate(with_named_absences(inputs), dataclasses.replace(chosen, selective=some))
        for some in AGAIN
    ]
    none, full = ([getattr(found[0], kind)[i] for kind in KINDS] for i in (0, 2))
    chain = np.array([none, *([getattr(one, kind)[1] for kind in KINDS] for one in found), full])
    saved, longer = -np.diff(chain[:, 0]), np.diff(chain[:, 1])
    assert np.all(saved >= 0.0)
    assert np.sum(saved > 0.0) >= 3
    assert np.all(longer[saved > 0.0] > 0.0)
    assert np.all(longer >= 0.0)


@pytest.mark.parametrize("selective", list(AGAIN))
@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_the_flop_done_again_are_those_of_the_modules(name, selective):
    asked = asked_of(name, recompute=1.0)
    scores = TrainingRecipe(selective=selective, attention_kernel=AttentionKernel.UNFUSED)
    asked = asked._replace(choices=scores)
    found = layer_operations(asked.model.sequence, asked)
    model, choices = architecture_with_choices(name)
    recipe, dense = choose(TrainingRecipe(), choices), dense_share(model)
    kinds = ((dense, dense_layer(model, recipe)), (1.0 - dense, routing_layer(model, recipe)))
    each = sum(
        share * of[one].products for share, of in kinds for one in AGAIN[selective] if one in of
    )
    expected = 2.0 * float(each * model.sequence) + float(found["attention"].flops.forward)
    assert float(found["recompute"].flops.backward) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3"])
def test_weight_gradients_are_part_of_the_backward_pass_of_products(name):
    asked = asked_of(name)
    work = layer_work(asked.model, asked.model.sequence, *asked[1:4], modules_of(asked.choices))
    weights = float(work.weights)
    assert 0.0 < weights < float(work.matmul.backward + work.experts.backward)


def test_the_weight_gradients_of_large_products_are_half_of_their_way_back():
    asked = asked_of("llama3-8b", microbatch=8.0)
    work = layer_work(asked.model, asked.model.sequence, *asked[1:4], modules_of(asked.choices))
    weights = float(work.weights)
    assert weights == pytest.approx(float(work.matmul.backward) / 2.0, rel=0.05)
