"""What must hold of any step: nothing is lost, faster never slows, and units scale."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_collective import COLLECTIVES
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxroof as jr
from jaxroof.engine.sensitivity.derivatives import slopes
from jaxroof.estimators.published import operations as layers
from jaxroof.estimators.published.operations import operations, stage_send
from jaxroof.estimators.published.step import model_flops, schedule_counts, send_share
from jaxroof.formulas import arithmetic, network
from jaxroof.records import checked, get_at, leaves
from jaxroof.structure import results

RATES = ("matrix_flops", "vector_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")
LATENCIES = ("launch_latency", "fast_latency", "slow_latency")
SHARES = ("matrix_efficiency", "fast_efficiency", "slow_efficiency", "nics")
PARTS = ("compute", "memory", "tensor", "data", "pipeline", "bubble")
RECIPES = [
    *(jr.Recipe(attention=jr.Attention(name)) for name in ("fused", "unfused", "recompute")),
    *(jr.Recipe(jr.Split.SUMMA, jr.Attention(name)) for name in ("fused", "panels")),
    *(jr.Recipe(jr.Split.CONTEXT, jr.Attention(name)) for name in ("fused", "unfused")),
]
STEEP = [recipe for recipe in RECIPES if recipe.attention is jr.Attention.FUSED]  # slopes taken
NAMES = [f"{recipe.split.value} {recipe.attention.value}" for recipe in RECIPES]
SIZES = {jr.Split.ONE_D: (1, 8, 256, 2048), jr.Split.SUMMA: (8, 32), jr.Split.CONTEXT: (8, 64)}


@functools.cache  # asked when first needed, not when a worker collects
def questions(split):
    """Return inputs with all plans of a few cluster sizes."""
    found = []
    for name, machine in (
        ("gpt3-1t", "h200-nvs4"),
        ("gpt3", "b200-nvs8"),
        ("vit-era5", "a100-nvs4"),
    ):
        for gpus in SIZES[split]:
            inputs = jr.Inputs(model=jr.model(name), system=jr.system(machine), gpus=float(gpus))
            inputs = checked(inputs)
            found.append((inputs, jr.survey(jr.published, inputs, split=split)))
    return found


FIELDS = [f.name for f in dataclasses.fields(jr.Plan)]


@st.composite
def planned(draw, recipes=STEEP):
    """Draw inputs with one legal plan, feasible or not, and the recipe that it is legal under."""
    recipe = draw(st.sampled_from(recipes))
    inputs, data = draw(st.sampled_from(questions(recipe.split)))
    row = data.isel(plan=draw(st.integers(0, data.sizes["plan"] - 1)))
    plan = jr.Plan(**{f: np.float64(row[f]) for f in FIELDS})
    return dataclasses.replace(inputs, plan=plan), recipe


@pytest.fixture(scope="module", params=RECIPES, ids=NAMES)
def reports(request):
    """Return every plan of every question under one recipe."""
    asked = questions(request.param.split)
    return [(inputs, jr.survey(jr.published, inputs, request.param)) for inputs, _ in asked]


evaluate = jr.published.evaluate  # by NumPy: other laws hold its values and slopes to JAX's


def elasticities(inputs, recipe):
    """Return d log(step time) / d log(field) of system and precision, by dotted path."""
    paths = [p for p, _, _ in leaves(inputs) if p.startswith(("system.", "precision."))]
    time, along = slopes(jr.published, recipe, inputs, paths, "step_time")
    return dict(zip(paths, (along[0] / time[0]).tolist(), strict=True))


def test_time_parts_sum_to_the_step(reports):
    for _, data in reports:
        total = sum(data[f"time_{part}"] for part in PARTS)
        np.testing.assert_allclose(total, data.step_time, rtol=1e-12)


def test_memory_parts_sum_to_the_memory(reports):
    for _, data in reports:
        names = ("weights", "gradients", "optimizer", "activations")
        np.testing.assert_allclose(sum(data[f"memory_{n}"] for n in names), data.memory, rtol=1e-12)


def test_rates_of_work_say_the_same_thing(reports):
    for inputs, data in reports:
        tokens = data.throughput * inputs.model.sequence
        np.testing.assert_allclose(data.tokens_per_second * inputs.gpus, tokens, rtol=1e-12)
        assert float(data.mfu.max()) < float(inputs.system.matrix_efficiency) + 1e-12
        assert float(data.step_time.min()) > 0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=planned(), factor=st.floats(1.0, 50.0), name=st.sampled_from(RATES + SHARES))
def test_a_faster_part_never_slows_a_step(case, factor, name):
    """Except vector_flops in fused attention's FLOP (Q11), which count, not time, goes down."""
    inputs, recipe = case
    value = np.asarray(getattr(inputs.system, name) * factor)
    value = np.asarray(min(value, 1.0) if name.endswith("efficiency") else value)
    faster = jr.replace_at(inputs, f"system.{name}", value)
    before, after = (evaluate(i, recipe).step_time for i in (inputs, faster))
    assert float(after) <= float(before) * (1 + 1e-12)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(case=planned(), factor=st.floats(0.0, 1.0), name=st.sampled_from(LATENCIES))
def test_a_shorter_latency_never_slows_a_step(case, factor, name):
    inputs, recipe = case
    value = np.asarray(getattr(inputs.system, name) * factor)
    shorter = jr.replace_at(inputs, f"system.{name}", value)
    before, after = (evaluate(i, recipe).step_time for i in (inputs, shorter))
    assert float(after) <= float(before) * (1 + 1e-12)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(case=planned())
def test_rates_less_latencies_sum_to_minus_one(case):
    """Exact everywhere: a step is homogeneous of degree -1 in rates and inverse latencies.

    Fused attention's vector FLOP carry matrix over vector rate (Q11), a ratio of two rates, so that
    the law survives. Efficiencies, nics and the capacity have no time in them and stay out of it.
    """
    inputs, recipe = case
    of = elasticities(inputs, recipe)
    rates, latencies = (sum(of[f"system.{n}"] for n in names) for names in (RATES, LATENCIES))
    total = rates - latencies
    assert total == pytest.approx(-1.0, abs=1e-12)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(case=planned(), scale=st.floats(0.01, 100.0))
def test_a_machine_that_is_all_faster_is_as_much_faster(case, scale):
    inputs, recipe = case
    faster = inputs
    for name in RATES:
        faster = jr.replace_at(
            faster, f"system.{name}", np.asarray(getattr(inputs.system, name) * scale)
        )
    for name in LATENCIES:
        faster = jr.replace_at(
            faster, f"system.{name}", np.asarray(getattr(inputs.system, name) / scale)
        )
    before, after = (float(evaluate(i, recipe).step_time) for i in (inputs, faster))
    assert after * scale == pytest.approx(before, rel=1e-12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    case=planned(),
    path=st.sampled_from(
        [f"system.{n}" for n in RATES + LATENCIES + SHARES]
        + [f"precision.{n}" for n in ("weight", "activation", "gradient", "mask")]
    ),
)
def test_derivative_equals_a_difference(case, path):
    """Off the ridge: the differences on both sides must agree, else the point is on one."""
    inputs, recipe = case
    value = float(get_at(inputs, path))
    step = 1e-6

    def log_time(factor):
        moved = jr.replace_at(inputs, path, np.asarray(value * factor))
        return float(jnp.log(evaluate(moved, recipe).step_time))

    up, here, down = log_time(1 + step), log_time(1.0), log_time(1 - step)
    if abs((up - here) - (here - down)) > 1e-11:
        return  # a ridge lies between
    slope = elasticities(inputs, recipe)[path]
    assert (up - down) / (2 * step) == pytest.approx(slope, abs=1e-6)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    case=planned(),
    change=st.fixed_dictionaries(
        {}, optional={f: st.sampled_from([1, 2, 3, 5, 7, 64, 1000]) for f in FIELDS}
    ),
)
def test_values_and_slopes_are_finite_for_any_plan(case, change):
    """Legal or not: what is not allowed is said by a verdict, never by a NaN."""
    inputs, recipe = case
    plan = dataclasses.replace(inputs.plan, **{f: np.float64(v) for f, v in change.items()})
    asked = dataclasses.replace(inputs, plan=plan)
    assert np.all(np.isfinite([*results(jr.published.evaluate_checked(asked, recipe)).values()]))
    assert np.all(np.isfinite([*elasticities(asked, recipe).values()]))


@pytest.mark.parametrize("recipe", RECIPES, ids=NAMES)
def test_model_flops_are_a_sum_over_the_operations(recipe):
    """What the operations say the model needs is the closed form, under every recipe."""
    for name in ("gpt3-1t", "gpt3", "vit-era5"):
        inputs = jr.Inputs(model=jr.model(name), system=jr.system("b200-nvs8"), global_batch=64.0)
        m = inputs.model
        weights = 4.0 * m.hidden**2 + 2.0 * m.hidden * m.feedforward
        a_token = 2.0 * weights + 4.0 * m.sequence * m.hidden
        expected = 3.0 * 64.0 * m.sequence * m.layers * a_token
        found = float(model_flops(checked(inputs), recipe))
        assert found == pytest.approx(float(expected), rel=1e-12)


def gated(layer, core):
    """Return the operations of a layer whose feedforward has a third matrix, a gate."""
    plain = layers.layer_1d(layer, core)
    return {**plain, "gate": plain["fc1"]}


def test_an_operation_more_moves_everything_that_is_summed(monkeypatch):
    """A gate as large as fc1: FLOP, parameters, memory and the FLOP that MFU counts all grow."""
    inputs = jr.published.example()
    batch, m = inputs.global_batch, inputs.model
    before, needed = jr.published.evaluate(inputs), model_flops(inputs, jr.Recipe())
    monkeypatch.setitem(layers.LAYER, jr.Split.ONE_D, gated)
    after, more = jr.published.evaluate(inputs), model_flops(inputs, jr.Recipe()) - needed
    gate = 3.0 * batch * m.layers * 2.0 * m.sequence * m.hidden * m.feedforward
    assert float(more) == pytest.approx(float(gate), rel=1e-9)
    ranks = float(inputs.plan.tensor * inputs.plan.pipeline * inputs.plan.data)
    assert float((after.flops - before.flops) * ranks) == pytest.approx(float(gate), rel=1e-3)
    assert float(after.memory_weights) > float(before.memory_weights)
    worth = float(after.mfu * after.step_time / (before.mfu * before.step_time))
    assert worth == pytest.approx(float(1.0 + gate / needed), rel=1e-12)


def test_what_a_norm_keeps_is_not_what_a_stage_sends(monkeypatch):
    """A norm that keeps nothing, or goes by another name, leaves the sends between stages alone."""
    inputs = jr.published.example()
    before = jr.published.evaluate(inputs)

    def lean(layer, core):
        found = layers.layer_1d(layer, core)
        norm = found.pop("ln1")
        return {**found, "rms1": norm._replace(work=norm.work._replace(kept=0.0))}

    monkeypatch.setitem(layers.LAYER, jr.Split.ONE_D, lean)
    after = jr.published.evaluate(inputs)
    assert float(after.time_pipeline) == float(before.time_pipeline) > 0.0
    assert float(after.memory_activations) < float(before.memory_activations)
    message = stage_send(inputs, jr.Recipe(), tensor=4.0, context=1.0, microbatch=2.0)
    assert float(message) == 2.0 * 2.0 * 2048 / 4 * 25600  # [B], by hand: w b l / t e


def test_shards_sum_to_the_whole():
    """Where the degree divides, shards of the weights and of their traffic sum to the layer's."""
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"))
    whole, shard = (
        operations(inputs, jr.Recipe(), tensor=t, microbatch=2.0, fast_tensor=t) for t in (1.0, 8.0)
    )
    for name in ("fc1", "fc2", "qkv", "vproj", "fc1-bias"):
        assert float(8 * shard[name].work.parameters) == float(whole[name].work.parameters)
    for name in ("act1", "dpr1", "dpr2", "dpr_v", "fusedla"):
        for way in ("forward", "backward"):
            ours, all_of_it = (getattr(o[name].work, way) for o in (shard, whole))
            assert float(8 * ours.flops) == pytest.approx(float(all_of_it.flops), rel=1e-12)
            assert float(8 * ours.traffic) == pytest.approx(float(all_of_it.traffic), rel=1e-12)
    # a product's multiplications, (F + T o) / 2 for T o (2 i - 1), are conserved exactly
    tokens, hidden = 2.0 * 2048, 25600.0
    for name, outputs in (("fc1", 102400.0), ("qkv", 76800.0)):
        all_of_it = whole[name].work.forward.flops + tokens * outputs
        ours = shard[name].work.forward.flops + tokens * outputs / 8
        assert float(8 * ours) == float(all_of_it) == 2 * tokens * hidden * outputs


def test_stages_share_the_weights():
    slow = dict.fromkeys(jr.published.placement, 1.0)
    base = jr.Plan(data=1.0, tensor=4.0, pipeline=1.0, microbatch=1.0, **slow)
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), plan=base)
    whole = evaluate(inputs, jr.Recipe())
    part = evaluate(jr.replace_at(inputs, "plan.pipeline", 16.0), jr.Recipe())
    assert float(16 * part.memory_weights) == float(whole.memory_weights)
    spread = evaluate(jr.replace_at(inputs, "plan.data", 8.0), jr.Recipe())
    assert float(8 * spread.memory_optimizer) == float(whole.memory_optimizer)
    assert float(spread.memory_weights) == float(whole.memory_weights)


LINKS = network.Network((network.Tier(8.0, 3e11, 2e-6), network.Tier(0.0, 3e10, 5e-6)))


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_group_of_one_and_an_empty_message_cost_nothing(kind):
    assert float(kind(1e9, 1.0, 1.0, LINKS)) == 0.0
    assert float(kind(0.0, 8.0, 4.0, LINKS)) == 0.0


@pytest.mark.parametrize("kind", COLLECTIVES)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(message=st.floats(1e3, 1e11), fast=st.sampled_from([1, 2, 4, 8]), domains=st.integers(1, 64))
def test_a_larger_message_takes_longer_and_fast_links_help(kind, message, fast, domains):
    group = float(fast * domains)
    time = float(kind(message, group, float(fast), LINKS))
    assert float(kind(2 * message, group, float(fast), LINKS)) >= time
    most = (
        2.0 if kind is network.study_all_reduce else 1.0
    )  # Q3: one tier is passed once, not twice
    assert time <= float(kind(message, group, 1.0, LINKS)) * most


def test_a_pipeline_of_one_stage_has_no_bubble_and_no_send():
    assert float(send_share(1.0, 1.0)) == 0.0
    alone = dict.fromkeys(("data", "pipeline", "microbatch", "fast_pipeline"), 1.0)
    assert float(schedule_counts(jr.published.example(), jr.Recipe(), **alone).idle) == 0.0


def test_on_the_ridge_the_slope_is_that_of_the_second():
    for function in (arithmetic.larger, arithmetic.smaller):
        assert jax.grad(function, (0, 1))(2.0, 2.0) == (0.0, 1.0)
        assert sum(jax.grad(function, (0, 1))(1.0, 2.0)) == 1.0


SHARDS = [  # operation, what each accelerator does in full: FLOP forward and backward, parameters
    ("fc1", 0.0, "tokens hidden", 0.0),
    ("qkv", 0.0, "tokens hidden", 0.0),
    ("fc2", "tokens hidden", 0.0, 0.0),
    ("vproj", "tokens hidden", 0.0, 0.0), ("fc1-bias", 0.0, 0.0, 0.0), ("act1", 0.0, 0.0, 0.0),
    ("dpr1", 0.0, 0.0, 0.0), ("dpr2", 0.0, 0.0, 0.0), ("ln1", 0.0, 0.0, "2 hidden"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "forward", "backward", "parameters"), SHARDS)
def test_shards_less_what_all_of_them_do_sum_to_the_whole(name, forward, backward, parameters):
    """A product of inner width i takes 2 i - 1 FLOP an output: the -1 is paid once a shard.

    Rows split over t save T o additions a shard (the reduce-scatter makes them), columns split over
    t save T i on the way back: t (F_shard + c) = F + c.
    """
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"))
    tokens, hidden = 2.0 * 2048, 25600.0
    sizes = {0.0: 0.0, "tokens hidden": tokens * hidden, "2 hidden": 2.0 * hidden}
    whole, shard = (
        operations(inputs, jr.Recipe(), tensor=t, microbatch=2.0, fast_tensor=t)[name].work
        for t in (1.0, 8.0)
    )
    for way, each in (("forward", sizes[forward]), ("backward", sizes[backward])):
        all_of_it, ours = (getattr(work, way).flops + each for work in (whole, shard))
        assert float(8 * ours) == float(all_of_it)
    each = sizes[parameters]
    assert float(8 * (shard.parameters - each)) == float(whole.parameters - each)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=planned())
def test_an_efficiency_moves_time_as_its_rates_do(case):
    """An efficiency multiplies its rates, so that it has their elasticities: never count both."""
    inputs, recipe = case
    of = elasticities(inputs, recipe)
    for share, rates in (
        ("matrix_efficiency", ("matrix_flops", "vector_flops")),
        ("fast_efficiency", ("fast_bandwidth",)),
        ("slow_efficiency", ("slow_bandwidth",)),
    ):
        total = sum(of[f"system.{rate}"] for rate in rates)
        assert of[f"system.{share}"] == pytest.approx(total, abs=1e-12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=planned())
def test_bytes_and_the_bandwidths_that_carry_them_cancel(case):
    """Twice the bytes of every element over twice every bandwidth take the same time."""
    inputs, recipe = case
    of = elasticities(inputs, recipe)
    widths = ("weight", "activation", "gradient", "mask")
    carried = sum(of[f"system.{n}"] for n in ("hbm_bandwidth", "fast_bandwidth", "slow_bandwidth"))
    assert sum(of[f"precision.{n}"] for n in widths) + carried == pytest.approx(0.0, abs=1e-12)
    assert of["precision.optimizer"] == of["system.hbm_capacity"] == of["system.fast_domain"] == 0.0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(case=planned(), times=st.integers(2, 64))
def test_step_time_is_affine_in_the_batch(case, times):
    """At a fixed plan more batch only adds microbatches: fill and synchronisation are paid once.

    So a larger batch never lowers the throughput, and never lowers the memory.
    """
    inputs, recipe = case
    one, two, more = (
        evaluate(jr.replace_at(inputs, "global_batch", inputs.global_batch * n), recipe)
        for n in (1.0, 2.0, float(times))
    )
    added = (times - 1) * (two.step_time - one.step_time)
    assert float(more.step_time) == pytest.approx(float(one.step_time + added), rel=1e-12)
    assert float(more.throughput) >= float(one.throughput) * (1 - 1e-12)
    assert float(more.memory) >= float(one.memory)


def test_splitting_batch_and_layers_keeps_the_arithmetic(reports):
    """All data ranks' and stages' FLOP depend on what splits a layer and on the microbatch."""
    for _, data in reports:
        total = (data.flops * data.data * data.pipeline).values
        kinds = np.stack([data[f].values for f in ("tensor", "context", "microbatch")])
        _, first, number = np.unique(kinds, axis=1, return_index=True, return_inverse=True)
        np.testing.assert_allclose(total, total[first][number.reshape(-1)], rtol=1e-12)


def test_groups_of_one_take_no_time(reports):
    for _, data in reports:
        context = data.context.values
        assert not data.time_tensor.values[data.tensor.values * context == 1].any()
        assert not data.time_data.values[data.data.values * context == 1].any()
        alone = data.pipeline.values == 1
        assert not data.time_pipeline.values[alone].any()
        assert not data.time_bubble.values[alone].any()


WHOLE = [(7.0, 2.0), (8.0, 2.0), (1.0, 4.0), (64800.0, 64.0)]


@pytest.mark.parametrize(("a", "b"), WHOLE)
def test_whole_is_a_floor_with_the_slope_of_the_quotient(a, b):
    """Forward and reverse, compiled and in a batch, and once more for the curvature."""
    assert float(arithmetic.whole(a, b)) == np.floor(a / b)
    slopes = jax.grad(arithmetic.whole, (0, 1))(a, b)
    assert slopes == pytest.approx((1 / b, -a / b**2), rel=1e-15)
    value, tangent = jax.jvp(jax.jit(arithmetic.whole), (a, b), (1.0, 0.0))
    assert (float(value), float(tangent)) == (np.floor(a / b), 1 / b)
    batch = jax.vmap(jax.grad(arithmetic.whole))(jnp.full(2, a), jnp.full(2, b))
    np.testing.assert_allclose(batch, 1 / b, rtol=1e-15)
    curvature = jax.grad(jax.grad(arithmetic.whole, 1), 1)(a, b)
    assert float(curvature) == pytest.approx(2 * a / b**3, rel=1e-15)
