"""The memory of every stage: golden rows, measured peaks, and laws that hold between rows."""

import collections
import dataclasses
import functools
import itertools
import statistics
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import training_memory as golden
from daily import daily

from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.layer.sums import (
    activations,
    groups,
    layer_weights,
    norm_weights,
    sizes,
)
from jaxroof.estimators.training.recipe import Module, Schedule
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import TERMS as SINGLE
from jaxroof.estimators.training.stage_memory import (
    FullestStage,
    fullest_stage,
    memory_by_stage,
)
from jaxroof.estimators.training.stage_memory import (
    stages as stages_of,
)
from jaxroof.records import replace_at
from jaxroof.structure import map_numbers

CASES = {row["case"]: row for row in golden.rows("memory_cases")}
SETTINGS = golden.rows("memory_settings")
TERMS = [field.name for field in dataclasses.fields(StageMemory)]
STAGES: dict[str, list[dict[str, str]]] = collections.defaultdict(list)
for _row in golden.rows("memory_rows"):
    STAGES[_row["case"]].append(_row)


@functools.cache
def found(name: str, **changed: Any) -> StageMemory:
    """Return the memory by stage of a case, with numbers at dotted paths replaced."""
    inputs, recipe = golden.case(CASES[name])
    for path, value in changed.items():
        inputs = replace_at(inputs, path.replace("__", "."), np.float64(value))
    return memory_by_stage(inputs, recipe)


def recomputing(inputs: PlannedStep, level: float) -> PlannedStep:
    """Return a step under a level of recomputation."""
    again: PlannedStep = replace_at(inputs, "plan.recompute", np.float64(level))
    return again


# ---- Golden rows --------------------------------------------------------------------------------


def test_every_row_and_every_term_is_there() -> None:
    assert (len(CASES), sum(map(len, STAGES.values())), len(SETTINGS)) == (67, 251, 139)
    there = [name for name in STAGES["base"][0] if name not in ("case", "stage")]
    assert [name for name in TERMS if name not in LAYERS_2026] == there
    assert {*TERMS} == {*there, *LAYERS_2026}


LAYERS_2026 = (  # terms of recurrent layers, indexers and latent experts: test_layers_2026.py
    *("activations_recurrent", "activations_indexer", "activations_expert_latents"),
    "transient_mixer",
)


def test_every_term_of_every_stage() -> None:
    for name, term in itertools.product(CASES, TERMS):
        expected = np.array([float(row.get(term, 0.0)) for row in STAGES[name]])
        rtol = 1e-12 if term in ("reserved", "device") else 0.0  # all others are whole numbers
        ours = getattr(found(name), term)
        np.testing.assert_allclose(ours, expected, rtol, 0.0, err_msg=f"{name} {term}")


def measured(group: str) -> list[float]:
    """Return the absolute errors [%] of a group of settings against their measured peaks."""
    errors = []
    for row in SETTINGS:
        if row["group"] == group:
            peaks = memory_by_stage(*golden.case(row)).peak_allocated
            peak = float(np.asarray(peaks)[int(row["stage"])])
            assert peak == pytest.approx(float(row["peak_allocated"]), rel=1e-12), row["row_id"]
            errors.append(100.0 * abs(peak / float(row["measured"]) - 1.0))
    return errors


GROUPS = [  # group, rows, mean and median error [%] that the sheet's README allows
    ("dense", 65, 0.7, 0.3),
    ("dense, kernel by rule", 48, 1.0, 0.36),
    ("MoE, dropless", 26, 2.7, 2.7),
]


def test_measured_peaks_of_the_last_stage() -> None:
    for group, count, mean, median in GROUPS:
        errors = measured(group)
        assert len(errors) == count
        assert statistics.mean(errors) <= mean
        assert statistics.median(errors) <= median


def test_measured_peaks_of_the_fullest_stage() -> None:
    rows = {row["row_id"]: row for row in golden.rows("simumax_b200")}
    errors = []
    for name in CASES:
        if name in rows:
            peak = np.max(found(name).peak_allocated)
            measured = float(rows[name]["measured_peak_memory_bytes"])
            errors.append(100.0 * abs(peak / measured - 1.0))
    assert len(errors) == 23
    assert statistics.mean(errors) <= 0.005
    assert max(errors) <= 0.02


TABLE_5 = [  # layers, hidden, heads, pipeline, interleave, microbatch; GiB: none, selective, full
    ((48, 6144, 64, 1, 1, 4), (39.5625, 9.5625, 4.5)),
    ((96, 12288, 96, 8, 3, 1), (41.414, 12.352, 5.8125)),
    ((105, 20480, 128, 35, 3, 1), (66.514, 23.076, 10.859)),
    ((128, 25600, 160, 64, 1, 1), (76.5625, 26.5625, 12.5)),
]


def test_check_values_of_stage_0() -> None:
    """Section 8: the runs of Korthikanti 2022, Table 5; full recomputation shares no tokens."""
    dropout = {"flash": 0, "attention_dropout": 1, "hidden_dropout": 1}
    chosen = [
        dropout,
        {**dropout, "recompute": "selective", "modules": ["core_attn"]},
        {**dropout, "recompute": "full", "sequence_parallel": 0},
    ]
    for (layers, hidden, heads, pipeline, interleave, microbatch), expected in TABLE_5:
        shape = {
            "layers": layers, "hidden": hidden, "feedforward": 4 * hidden, "heads": heads,
            "kv_heads": heads, "head_size": hidden // heads, "vocabulary": 51200, "gated": 0,
        }  # fmt: skip
        plan = {
            "sequence": 2048, "tensor": 8, "pipeline": pipeline, "interleave": interleave,
            "microbatch": microbatch, "microbatches": 4 * pipeline,
        }  # fmt: skip
        for some, gib in zip(chosen, expected, strict=True):
            memory = memory_by_stage(*golden.step(shape, plan, some))
            ends = memory.activations_embedding + memory.activations_pipeline
            assert (memory.activations - ends)[0] / 2**30 == pytest.approx(gib, abs=5e-4)


def test_check_values_of_the_gpt3_block() -> None:
    """Section 8, which is Korthikanti 2022, Table 2: both dropouts, unfused scores."""
    shape = {
        "layers": 1, "hidden": 12288, "feedforward": 49152, "heads": 96, "kv_heads": 96,
        "head_size": 128, "vocabulary": 51200, "gated": 0,
    }  # fmt: skip
    dropout = {"flash": 0, "attention_dropout": 1, "hidden_dropout": 1}
    for tensor, shared, expected in (
        (1, 0, 2_868_903_936),
        (8, 0, 578_813_952),
        (8, 1, 358_612_992),
    ):
        plan = {"sequence": 2048, "tensor": tensor}
        inputs, recipe = golden.step(shape, plan, {**dropout, "sequence_parallel": shared})
        dense, _ = activations(inputs, recipe, sizes(inputs), groups(inputs.model))
        assert sum(dense.saved.values()) == expected


# ---- Laws ---------------------------------------------------------------------------------------


def model_parameters(name: str) -> float:
    """Return the parameters of a model, with its multi-token prediction."""
    inputs, _ = golden.case(CASES[name])
    model = inputs.model
    (of_dense, routing), norm = layer_weights(groups(model)), norm_weights(model)
    dense = model.first_dense_layers if model.experts else model.layers
    ends = (2.0 - model.tied) * model.vocabulary * model.hidden
    prediction = model.mtp_layers * (routing.all + 2.0 * model.hidden**2 + 3.0 * norm)
    layers = dense * of_dense.all + (model.layers - dense) * routing.all
    return layers + ends + model.positions * model.hidden + norm + prediction


@pytest.mark.parametrize("name", ["base", "gpt3_dropout", "tied_two_stages", "deepseek_v3_1f1b"])
def test_stages_sum_to_the_model(name: str) -> None:
    inputs, recipe = golden.case(CASES[name])
    inputs = replace_at(inputs, "plan.tensor", 1.0)
    inputs = replace_at(inputs, "plan.expert", 1.0)
    inputs = replace_at(inputs, "states.vocabulary_multiple", 1.0)
    memory = memory_by_stage(inputs, recipe)
    model = inputs.model
    copies = model.tied + (1.0 if model.mtp_layers else 0.0)
    total = np.sum(memory.parameters_dense) + np.sum(memory.parameters_expert)
    assert total == model_parameters(name) + copies * model.vocabulary * model.hidden


def test_the_expert_degree_moves_neither_routed_tokens_nor_sharded_optimizer() -> None:
    others = [found("mixtral_ep8", plan__expert=degree) for degree in (1.0, 2.0)]
    for term in ("activations_routed", "optimizer_expert"):
        for other in (*others, found("mixtral_ep1")):
            own = getattr(found("mixtral_ep8"), term)
            np.testing.assert_array_equal(getattr(other, term), own)


FALLING = [  # case, path, values: more of it needs no more memory
    ("base", "plan__tensor", (1.0, 2.0, 4.0, 8.0)),
    ("gpt3_dropout", "plan__tensor", (1.0, 2.0, 4.0, 8.0)),
    ("mixtral_ep1", "plan__tensor", (1.0, 2.0, 4.0)),
    ("base", "plan__pipeline", (2.0, 4.0, 8.0, 16.0)),
    ("base", "plan__context", (2.0, 4.0, 8.0)),
    ("base", "plan__data", (1.0, 2.0, 4.0)),
    ("base", "plan__zero_stage", (0.0, 1.0, 2.0)),
    ("mixtral_ep8", "plan__zero_stage", (0.0, 1.0, 2.0)),
    ("base", "plan__offload_optimizer", (0.0, 0.5, 1.0)),
    ("base", "activations__offload_activations", (0.0, 0.5, 1.0)),
    ("base", "buffers__gradient_placeholders", (0.0,)),
    ("gpt3_dropout", "activations__hidden_dropout", (1.0, 0.0)),
    ("gpt3_dropout", "activations__attention_dropout", (1.0, 0.0)),
    ("mixtral_ep8", "activations__routing_imbalance", (1.5, 1.0)),
    ("mixtral_ep8", "activations__routed_copies", (4.0, 2.0)),
]


def test_sharding_and_dropping_terms_never_need_more() -> None:
    for name, path, values in FALLING:
        peaks = [np.max(found(name, **{path: value}).peak_allocated) for value in values]
        assert all(after <= before for before, after in itertools.pairwise(peaks)), (name, path)


def test_recomputation_keeps_no_more() -> None:
    inputs, recipe = golden.case(CASES["mixtral_ep8"])
    some, most = (
        dataclasses.replace(recipe, selective=frozenset(modules))
        for modules in ([Module.LAYERNORM], Module)
    )
    held = [
        memory_by_stage(recomputing(inputs, level), chosen).activations
        for level, chosen in ((0.0, recipe), (1.0, some), (1.0, most), (2.0, recipe))
    ]
    assert all(np.all(after < before) for before, after in itertools.pairwise(held))


def test_interleaving_holds_more_in_the_ratio_of_its_paper() -> None:
    """Korthikanti 2022: stage 0 holds 1 + (p - 1) / (p r) of 1F1B."""
    one, two = (found("base", plan__interleave=r).activations_mlp[0] for r in (1.0, 2.0))
    assert two / one == 1.0 + 3.0 / 8.0


def test_the_three_numbers_are_apart() -> None:
    memory = found("base")
    np.testing.assert_allclose(memory.reserved, 1.06 * memory.peak_allocated, rtol=1e-15)
    np.testing.assert_allclose(memory.device - memory.reserved, 1.5e9, rtol=1e-15)
    total = memory.static + memory.activations + memory.transient
    np.testing.assert_array_equal(memory.peak_allocated, total)


def test_a_pipeline_of_one_stage_holds_one_microbatch() -> None:
    inputs, recipe = golden.case(CASES["pipeline_1"])
    one = memory_by_stage(inputs, recipe).activations
    for schedule in (Schedule.GPIPE, Schedule.ZB_H1):
        other = memory_by_stage(inputs, dataclasses.replace(recipe, schedule=schedule))
        np.testing.assert_array_equal(other.activations, one)


# ---- The fullest stage --------------------------------------------------------------------------


def fullest(name: str, capacity: float = 85.52e9) -> FullestStage:
    inputs, recipe = golden.case(CASES[name])
    return fullest_stage(memory_by_stage(inputs, recipe), capacity)


FULLEST = [  # section 5
    ("base", 0),
    ("gpipe", 3),
    ("zb_h1", 3),
    ("deepseek_v3_1f1b", 2),  # stage 1 is the first that only routes; it has a layer less
    ("gpt3_dropout", 0),
]


def test_the_fullest_stage() -> None:
    assert [(name, int(fullest(name).stage)) for name, _ in FULLEST] == FULLEST


def test_what_is_missing_and_what_fills() -> None:
    found = fullest("base", 60e9)
    inputs, recipe = golden.case(CASES["base"])
    memory = memory_by_stage(inputs, recipe)
    assert float(found.device) == np.max(memory.device)
    assert float(found.missing) == float(found.device) - 60e9
    assert not found.fits
    name = SINGLE[int(found.largest_term)]
    assert float(found.largest) == np.asarray(getattr(memory, name))[int(found.stage)]
    assert name == "activations_mlp"
    fits = fullest("base", 1e12)
    assert fits.fits
    assert float(fits.missing) == 0.0


# ---- Arrays, and JAX ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    daily(["interleave_5", "deepseek_v3_dualpipe", "remainder", "zb_h1", "qwen3_moe_act"], 1),
)
def test_jax_and_numpy_agree(name: str) -> None:
    inputs, recipe = golden.case(CASES[name])
    stages = int(inputs.plan.pipeline)
    jitted = jax.jit(lambda asked, stage: stages_of(asked, recipe).memory(stage))
    traced = jitted(map_numbers(jnp.asarray, inputs), jnp.arange(float(stages)))
    memory = memory_by_stage(inputs, recipe)
    for term in TERMS:
        ours, theirs = np.broadcast_arrays(getattr(memory, term), getattr(traced, term))
        np.testing.assert_allclose(theirs, ours, rtol=1e-12, err_msg=term)


@pytest.mark.parametrize(
    "schedule",
    [pytest.param(s, marks=[pytest.mark.slow] * (s is not Schedule.DUALPIPE)) for s in Schedule],
)
def test_plans_that_are_not_legal_have_finite_slopes(schedule: Schedule) -> None:
    """Any positive number may be asked for: what is not allowed is said by a verdict."""
    inputs, recipe = golden.case(CASES["deepseek_v3_1f1b"])
    recipe = dataclasses.replace(recipe, schedule=schedule)
    inputs = recomputing(inputs, 2.0)
    shares = ("recompute", "zero_stage", "offload_optimizer", "exchange")
    fields = [f.name for f in dataclasses.fields(inputs.plan) if f.name not in shares]
    draws = np.random.default_rng(0).uniform(0.3, 40.0, (64, len(fields)))

    def device(values: Any) -> Any:
        plan = dataclasses.replace(inputs.plan, **dict(zip(fields, values, strict=True)))
        asked = dataclasses.replace(inputs, plan=plan)
        return stages_of(asked, recipe).memory(1.0).device

    values = device(draws.T)
    slopes = jax.jit(jax.vmap(jax.jacfwd(device)))(draws)
    assert np.all(np.isfinite(values))
    assert np.all(values > 0.0)
    assert np.all(np.isfinite(slopes))
