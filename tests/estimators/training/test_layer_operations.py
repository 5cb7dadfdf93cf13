"""A layer operation by operation: the rows sum to the layer, their FLOP to the model's."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from architectures import one_of_each
from measured_steps import KINDS, steps

from jaxroof import catalog
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.estimators.training.details import layer_operations
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.layer import sums
from jaxroof.estimators.training.layer.operation import (
    Cut,
    Matrix,
    Operation,
    Saved,
    Weights,
    products,
    weights,
)
from jaxroof.estimators.training.layer.scores import full_shape, score_width
from jaxroof.estimators.training.layer.sums import groups, mean_weights
from jaxroof.estimators.training.layer_time import layer_work
from jaxroof.estimators.training.model_size import size
from jaxroof.estimators.training.recipe import AttentionKernel, Module, Selective, TrainingRecipe
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.step_time import plan_time, timed
from jaxroof.records import with_named_absences
from jaxroof.settings import choose

RTOL = 1e-10
ROUTED = ("router", "router scores", "permutation of tokens", "casts of experts")
ROUTED += ("routed experts up", "activation of experts", "routed experts down", "biases of experts")
ATTENTION = ("qkv", "latent of queries", "queries of their latent", "queries")
ATTENTION += ("latent of keys and values", "keys and values of it", "attention output")
ATTENTION += ("windowed qkv", "windowed attention output", "indexer queries", "indexer keys")
RECURRENT = [
    f"{kind} {end}" for kind in ("Mamba-2", "DeltaNet", "KDA") for end in ("input", "output")
]
RECURRENT += ["KDA latents", "KDA decay", "KDA gate"]
CORES = ("attention", "windowed attention", "attention to selected keys", "indexer")
MLPS = ("MLP up", "MLP down", "shared experts up", "shared experts down")
MLPS += ("latent of experts", "from the latent of experts")
PARTS = {  # of the sheet: operations that sum to it, both directions
    "attention": CORES,
    "elementwise": ("element-wise kernels",), "cast": ("casts",),
    "recompute": ("recomputation",),
    "expert_comm": ("expert messages",), "experts": ROUTED,
    "matmul": (*ATTENTION, *RECURRENT, *MLPS),
    "recurrent": ("Mamba-2 scan", "DeltaNet scan", "KDA scan"),
}  # fmt: skip
every_model = pytest.mark.parametrize("name", one_of_each(catalog.names("architectures")))


@functools.cache
def operations(kind: str):
    """Return the operations of the layers of all golden rows of a kind, in groups."""
    return [
        (places, layer_operations(inputs, recipe), timed(inputs, recipe).rates)
        for places, inputs, recipe in steps(kind).groups
    ]


def of_ways(found):
    """Return the seconds forward and backward of some operations."""
    return [sum(getattr(one.time, way) for one in found) for way in ("forward", "backward")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_sum_to_the_layers_of_the_sheet_and_to_its_parts(kind):
    expected = steps(kind).expected
    for places, found, rates in operations(kind):
        forward, backward = of_ways(found.values())
        np.testing.assert_allclose(forward, expected["forward"][places], rtol=RTOL)
        np.testing.assert_allclose(backward, expected["backward"][places], rtol=RTOL)
        left = {"tensor messages", "context messages", "launch limit", "FSDP messages"}
        for part, names in PARTS.items():
            both = sum(of_ways([found[name] for name in names if name in found]))
            whole = expected[part][places] if part in expected else 0.0
            np.testing.assert_allclose(both, whole, rtol=RTOL, err_msg=part)
            left |= {*names}
        assert {*found} <= left
        most = np.maximum(rates.layer.rate, rates.plain.rate)
        for one in (found[name] for name in PARTS["matmul"] if name in found):
            assert np.all(one.flops.forward <= most * one.time.forward)
            assert np.all(one.flops.backward <= most * one.time.backward)


def asked_of(name: str, choices: Any = None, model: Any = None, **plan: Any):
    """Return a model of the catalogue under a plan, on H100, and the recipe."""
    found, own = architecture_with_choices(name)
    changed = dataclasses.replace(found, **(model or {}))
    inputs = TrainingInputs(
        model=changed,
        system=training_system("h100-nvs8"),
        global_batch=8.0,
        plan=TrainingPlan(**plan),
    )
    return with_named_absences(inputs), choose(TrainingRecipe(), {**own, **(choices or {})})


def over_layers(model, amount) -> float:
    """Return the mean over the layers of a model of a sum over a layer's operations."""
    return float(
        sum(group.share * sum(map(amount, group.operations.values())) for group in groups(model))
    )


@pytest.mark.parametrize("tensor", [1.0, 2.0])
@every_model
def test_the_flop_of_products_are_those_of_the_parameters_they_multiply(name, tensor):
    inputs, recipe = asked_of(name, tensor=tensor)
    found, model = layer_operations(inputs, recipe), timed(inputs, recipe).model

    def each(one):  # the projections to latents are multiplied by every tensor rank
        matrix = one.matrix
        whole = matrix and matrix.cut is Cut.WHOLE and not matrix.divided and one.part != "router"
        return products(one) / (1.0 if whole else tensor)

    some = [one for one in found.values() if one.kind == "matrix product"]
    forward = float(sum(one.flops.forward for one in some))
    assert forward == pytest.approx(2.0 * over_layers(model, each) * model.sequence, rel=1e-12)
    assert float(sum(one.flops.backward for one in some)) == pytest.approx(2.0 * forward)


@every_model
def test_the_weights_that_time_sends_and_updates_are_the_matrices_of_the_layer(name):
    work = timed(*asked_of(name))
    matrices = over_layers(work.model, lambda one: weights(one._replace(vectors=Weights())).all)
    blocks = next(group.share for group in groups(work.model) if group.kind is sums.Kind.BLOCKS)
    found = float(sum(mean_weights(work.model, work.plan)))
    norms = 2.0 * float(blocks * work.model.hidden)
    assert found == pytest.approx(matrices + norms, rel=1e-12)


@every_model
def test_a_tied_embedding_is_summed_over_the_end_stages_and_a_separate_one_is_not(name):
    tied = architecture_with_choices(name)[1]["embeddings"] == "tied"
    assert (float(plan_time(*asked_of(name, pipeline=2.0)).data_comm) > 0.0) == tied


@every_model
def test_queries_and_keys_are_rotated_where_no_positions_are_learned(name):
    given, learned = asked_of(name), asked_of(name, model={"positions": 1.0})
    times = [
        layer_operations(*one)["element-wise kernels"].time.forward for one in (given, learned)
    ]
    model = given[0].model
    assert (times[0] > times[1]) == (model.positions == 0.0 and model.rotary == 1.0)


@every_model
def test_a_window_takes_from_attention_what_it_hides(name):
    """A window as wide as the sequence hides nothing; a narrower one, in more layers, more.

    Of half the sequence: (s + 128) / 2 - (s / 2 + 128) 3 / 4 = s / 8 - 32 keys in whole tiles
    """
    model, sequence = timed(*asked_of(name)).model, 4096.0
    layers = float(model.full_layers + model.windowed_layers)

    def core(window: float, share: float) -> Any:
        own = dict.fromkeys(("window_heads", "window_kv_heads", "window_head_size"))
        some = {"full_layers": (1.0 - share) * layers, "windowed_layers": share * layers}
        asked = {**own, **some, "window": window, "sequence": sequence}
        asked |= {"chunked": 0.0, "index_layers": 0.0}
        found = layer_operations(*asked_of(name, model=asked))
        there = [found[one] for one in CORES if one in found]
        return sum(of_ways(there)), sum(one.flops.forward for one in there)

    half = sequence / 2.0
    none, wide, *some = core(0.0, 0.0), core(sequence, 1.0), core(half, 0.5), core(half, 1.0)
    assert wide == pytest.approx(none, rel=1e-12)
    times = [float(one[0]) for one in (none, *some)]
    assert times == sorted(times, reverse=True)
    assert len({*times}) == 3
    hidden = 2.0 * float(score_width(full_shape(model))) * sequence * (sequence / 8.0 - 32.0)
    share = layers / float(model.layers)
    assert float(none[1] - some[1][1]) == pytest.approx(share * hidden, rel=1e-9)


KINDS = ("memory_activations", "step_time")
UP = (Module.LATENT_PROJECTION,)
AGAIN = {  # modules whose products are repeated, beside the core of attention
    Selective.CORE_ATTENTION: (),
    Selective.LIGHT: UP,
    Selective.MLP: (*UP, Module.MLP, Module.SHARED_EXPERTS),
    Selective.EXPERTS: (*UP, Module.MLP, Module.SHARED_EXPERTS, Module.EXPERTS),
}
SCORES = {"attention_kernel": AttentionKernel.UNFUSED}  # so that each choice has the one before


@every_model
def test_what_memory_drops_time_repeats(name):
    """From none to all of a layer: what takes less memory takes more time.

    Where layers route, all of one is not compared: as a module experts send their tokens again, in
    a whole layer they do not.
    """
    inputs, chosen = asked_of(name, SCORES, tensor=2.0, recompute=np.array([0.0, 1.0, 2.0]))
    found = [training.evaluate(inputs, dataclasses.replace(chosen, selective=one)) for one in AGAIN]
    none, full = ([getattr(found[0], kind)[i] for kind in KINDS] for i in (0, 2))
    some = [[getattr(one, kind)[1] for kind in KINDS] for one in found]
    chain = np.array([none, *some, *([full] if float(inputs.model.experts) == 0.0 else [])])
    saved, longer = -np.diff(chain[:, 0]), np.diff(chain[:, 1])
    assert np.all(saved >= 0.0)
    assert np.sum(saved > 0.0) >= 3
    assert np.all(longer[saved > 0.0] > 0.0)
    assert np.all(longer >= 0.0)


@every_model
def test_the_flop_done_again_are_those_of_the_modules(name):
    for selective, modules in AGAIN.items():
        inputs, recipe = asked_of(name, {**SCORES, "selective": selective}, recompute=1.0)
        found, model = layer_operations(inputs, recipe), timed(inputs, recipe).model
        each = over_layers(
            model, lambda one, some=modules: products(one) * bool({*one.again} & {*some})
        )
        cores = sum(found[one].flops.forward for one in CORES if one in found)
        expected = 2.0 * each * float(model.sequence) + float(cores)
        assert float(found["recomputation"].flops.backward) == pytest.approx(expected, rel=1e-12)
    found = layer_operations(*asked_of(name, recompute=2.0))
    again = found.pop("recomputation").flops.backward
    assert float(again) == pytest.approx(float(sum(one.flops.forward for one in found.values())))


@every_model
def test_weight_gradients_are_nearly_half_of_the_way_back_of_large_products(name):
    inputs, recipe = asked_of(name, microbatch=8.0)
    parts = layer_work(timed(inputs, recipe), frozenset()).parts
    for part in (parts["matmul"], parts["experts"]):
        assert 0.0 <= float(part.weights) <= float(part.backward)
    matmul = parts["matmul"]
    assert float(matmul.weights) == pytest.approx(float(matmul.backward) / 2.0, rel=0.2)


def test_an_operation_that_joins_a_list_is_read_by_all_sums(monkeypatch):
    """One entry more: parameters, FLOP, seconds, saved bytes, states, and a row of its own."""
    inputs, recipe = asked_of("llama3-8b", tensor=2.0)
    before, plain = training.evaluate(inputs, recipe), sums.attention

    def gated(model):
        gate = Matrix(model.hidden, model.heads * model.head_size, Cut.COLUMNS)
        saved = (Saved("attention_output", lambda kept: 2.0 * kept.size.tokens, read=True),)
        more = {"gate": Operation("attention", gate, time="matmul", saved=saved)}
        return [(name, layers, one | more) for name, layers, one in plain(model)]

    monkeypatch.setattr(sums, "attention", gated)
    after, found = training.evaluate(inputs, recipe), layer_operations(inputs, recipe)
    more = 4096.0**2 * 32.0
    assert float(size(inputs.model, recipe)["parameters"]) == 8030261248.0 + more
    assert float(after.memory_weights - before.memory_weights) == pytest.approx(more)  # 2 B of 1/2
    tokens = float(inputs.model.sequence)
    assert float(after.memory_activations - before.memory_activations) == 32.0 * 2.0 * tokens
    assert float(found["gate"].flops.forward) == 2.0 * tokens * 4096.0**2 / 2.0
    assert after.time_compute > before.time_compute
    assert float(after.mfu * after.step_time) > float(before.mfu * before.step_time)
