"""Step time of today's training: every golden row of the sheets, part by part, and its laws."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from daily import daily
from measured_steps import KINDS, LAYERS, OLD, each_kind, rows, steps

import jaxroof as jr
from jaxroof.catalog import lookup
from jaxroof.catalog.chip import SharedConstants
from jaxroof.dual import slope_of, value_of
from jaxroof.engine.search.candidates import list_plans
from jaxroof.engine.sensitivity.derivatives import with_slopes
from jaxroof.estimators.training.named_settings import numbers_named
from jaxroof.estimators.training.recipe import ContextExchange, LayerDivision, Schedule
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.records import get_at, leaves, replace_at
from jaxroof.structure import map_numbers

RTOL = 1e-12
OF_STEPS = ("data_comm", "bubble")
OF_LAYERS = ("tensor_comm", "context_comm", "expert_comm", "recompute")  # may be small differences


def parts(step, names):
    """Return the parts of a step by the names of the sheets."""
    of = {**step.layer._asdict(), **step.edges._asdict(), **step.stages._asdict(), **step._asdict()}
    renamed = {"slow_stage": "slow", "pipeline_comm": "sends"}
    sharded = step.sharded._asdict()
    of |= {name: sharded[name] for name in ("forward", "backward")} | {"fsdp_edge": sharded["edge"]}
    return {name: of[renamed.get(name, name)] for name in names}


def times(asked, factors=None):
    """Return the times of all rows, with numbers of the inputs times a factor, by path."""
    found = {name: np.empty(len(asked.names)) for name in asked.expected}
    for places, inputs, recipe in asked.groups:
        for path, factor in (factors or {}).items():
            inputs = replace_at(inputs, path, get_at(inputs, path) * factor)
        for name, value in parts(plan_time(inputs, recipe), found).items():
            found[name][places] = value
    return found


@functools.cache
def plain(kind):
    """Return the times of all rows of a kind as they are."""
    return times(steps(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_of_every_row(kind):
    """Differences of near numbers agree as well as what they are differences of."""
    asked = steps(kind)
    found, whole = plain(kind), asked.expected
    layer = whole["forward"] + whole["backward"]
    for name, expected in whole.items():
        atol = layer if name in OF_LAYERS else whole["step_time"] * (name in OF_STEPS)
        error = np.abs(found[name] - expected) - RTOL * (np.abs(expected) + atol)
        worst = int(np.argmax(error))
        assert np.all(error <= 0.0), (name, asked.names[worst])


def test_all_rows_are_asked():
    counts = {kind: len(steps(kind).names) for kind in KINDS}
    assert counts.pop(LAYERS) == len(rows("layers_time")) == 220
    assert sum(counts.values()) == len(rows()) == 1312


def test_the_constants_of_2025_are_those_of_the_old_rows():
    """By name: what was answered before the layers of 2026 can be repeated."""
    found = {path: value for path, _, value in leaves(SharedConstants())}
    found |= {
        path.removeprefix("shared."): value
        for path, value in numbers_named("constants", "2025").items()
        if path.startswith("shared.")
    }
    assert found == {path: value for path, _, value in leaves(OLD)}
    assert numbers_named("constants", "2026") == {}


PRINTED = {  # the last section of each sheet
    "korthikanti_t5_175B_full": 19.007123729489777, "mpt-077": 158.5349367642458,
    "mlm-weak-7": 8.54705169959921, "mbridge-000": 11.785510423682899,
    "automodel-3": 22.38535285598505, "simumax-b200-22": 4.04658655468291,
    "layers-time-0015": 9.074100203008406, "layers-time-0034": 43.78380482056263,
    "layers-time-0048": 16.641118531069132, "layers-time-0049": 38.076399924424855,
    "layers-time-0054": 40.14862604627465, "layers-time-0147": 8.740344315133001,
    "layers-time-0291": 8.4936234062696,
}  # fmt: skip


@pytest.mark.parametrize(("name", "seconds"), PRINTED.items())
def test_check_values_of_the_sheets(name, seconds):
    kind = next(kind for kind in KINDS if name in steps(kind).names)
    found = plain(kind)["step_time"][steps(kind).names.index(name)]
    assert found == pytest.approx(seconds, rel=RTOL)


RATES = (
    *("system.matrix_flops", "system.hbm_bandwidth", "system.fast_bandwidth"),
    *("system.slow_bandwidth", "system.chip.fp8_flops", "system.chip.fp4_flops", "shared.scan"),
)
LATENCIES = (
    *("system.chip.step", "shared.launch", "shared.base", "shared.fast_hop", "shared.slow_hop"),
    *("shared.host", "shared.host_moe", "shared.sync"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_twice_as_fast_takes_half_as_long(kind):
    """A step is homogeneous of degree -1 in rates and inverse latencies."""
    asked = steps(kind)
    both = times(asked, dict.fromkeys(RATES, 2.0) | dict.fromkeys(LATENCIES, 0.5))
    np.testing.assert_allclose(2.0 * both["step_time"], asked.expected["step_time"], rtol=2e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_no_faster_part_slows_a_step(kind):
    for _, inputs, recipe in each_kind() if kind == LAYERS else steps(kind).groups:
        before = plan_time(inputs, recipe).step_time
        for paths, factor in ((RATES, 1.3), (LATENCIES, 0.7)):
            for path in paths:
                faster = replace_at(inputs, path, get_at(inputs, path) * factor)
                after = plan_time(faster, recipe).step_time
                assert np.all(after <= before * (1.0 + 1e-12)), path


def numbers(step):
    """Return the numbers of a step, one after another."""
    return [one for part in step for one in (part if isinstance(part, tuple) else (part,))]


def programs():
    """Return the name of every kind of layers, and steps: of 2026, and measured ones of GB200."""
    named = {}
    for asked in (*each_kind(), *steps("gb200").groups):
        choices = (asked.recipe.attention, asked.recipe.recurrence, asked.recipe.biases)
        named.setdefault("-".join(one.value for one in choices), []).append(asked)
    return named


DAILY = ("heads-mamba-none", "sparse-none-none")  # programs compile slowly


@pytest.mark.parametrize(
    "kind",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in DAILY)) for name in programs()],
)
def test_jax_and_numpy_agree(kind):
    """Rows in a compiled batch of single steps are those of columns."""
    import jax

    rows, inputs, recipe = max(programs()[kind], key=lambda one: len(one.rows))
    many = [np.ndim(leaf) > 0 for leaf in jax.tree.leaves(inputs)]
    along = jax.tree.unflatten(jax.tree.structure(inputs), [0 if one else None for one in many])
    alone = jax.vmap(lambda one: plan_time(one, recipe), in_axes=(along,), axis_size=len(rows))
    found, expected = jax.jit(alone)(inputs), plan_time(inputs, recipe)
    for value, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", programs())
def test_a_step_alone_is_its_row(kind):
    for asked in programs()[kind]:
        one = map_numbers(lambda values: values[-1] if np.ndim(values) else values, asked.inputs)
        alone, every = (numbers(plan_time(inputs, asked.recipe)) for inputs in (one, asked.inputs))
        for value, others in zip(alone, every, strict=True):
            last = np.broadcast_to(others, asked.rows.shape)[-1]
            np.testing.assert_allclose(value, last, rtol=1e-12, atol=1e-15)


CONSTANTS = [path for path, _, value in leaves(SharedConstants()) if value]


@pytest.mark.parametrize("path", daily(CONSTANTS, *range(0, len(CONSTANTS), 10)))
def test_slopes_are_those_of_a_complex_step(path):
    """Every constant may be fitted: its slope is finite, and that of a difference."""
    path = f"shared.{path}"
    for _, inputs, recipe in (*steps("h100").groups, *each_kind()):
        found = plan_time(with_slopes(inputs, [path], np.ones((1, 1))), recipe).step_time
        up, down = (
            plan_time(replace_at(inputs, path, get_at(inputs, path) * move), recipe).step_time
            for move in (1.0 + 1e-7, 1.0 - 1e-7)
        )
        slope = np.broadcast_to(slope_of(found), (1, len(up)))[0]
        assert np.all(np.isfinite(slope))
        here = value_of(found)
        near = np.abs(slope - (up - down) / 2e-7) <= 1e-6 * here + 1e-4 * np.abs(slope)
        assert np.all(near)


# ---- Its lower bound -----------------------------------------------------------------------------

PLANS = 4000
MOVED = ("matrix_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")


DIVISIONS = [  # the legal plans of the others are among those of uneven stages
    pytest.param(one, marks=[pytest.mark.slow] * (one is not LayerDivision.UNEVEN))
    for one in LayerDivision
]


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(("model", "gpus", "system"), [
    ("llama3.1-8b", 32, "h100-nvs8"),
    ("llama3.1-405b", 512, "h100-nvs8"),
    ("mixtral-8x7b", 64, "a100-80-sxm"),
    ("deepseek-v3", 64, "h100-nvs8"),
    ("qwen3-235b-a22b", 32, "h200-141-sxm"),
    ("gpt-oss-120b", 64, "gb200-nvl72"),
    ("nemotron-3-super-120b-a12b", 64, "gb200-nvl72"),
    ("deepseek-v3.2", 128, "gb200-nvl72"),
    ("qwen3-next-80b-a3b", 64, "h100-nvs8"),
    ("kimi-linear-48b-a3b", 64, "h100-nvs8"),
])  # fmt: skip
def test_no_step_is_faster_than_its_bound(
    model: str, gpus: int, system: str, division: LayerDivision
) -> None:
    """Whatever the plan and the rates of the machine; typical plans take little longer than it."""
    share = shares(model, gpus, system, layer_division=division)
    assert share.max() < 1.0
    assert np.median(share) > 0.6


@pytest.mark.parametrize("schedule", [one for one in Schedule if one is not Schedule.ONE_F_ONE_B])
def test_no_step_of_another_schedule_is_faster_than_its_bound(schedule: Schedule) -> None:
    assert shares("llama3.1-405b", 512, "h100-nvs8", schedule=schedule).max() < 1.0


def shares(model: str, gpus: int, system: str, **choices: Any) -> np.ndarray:
    """Return the bound over the step time of plans that are drawn, on machines that are."""
    draw = np.random.default_rng(gpus)
    inputs = jr.TrainingInputs(
        model=lookup.architecture_with_choices(model)[0],
        system=lookup.training_system(system),
        gpus=float(gpus),
        global_batch=512.0,
    )
    recipe = jr.TrainingRecipe(context_exchange=ContextExchange.RING, **choices)
    legal = list_plans(jr.training, inputs, recipe).plans
    some = draw.integers(len(legal["data"]), size=PLANS)
    plan = jr.TrainingPlan(**{field: column[some].astype(float) for field, column in legal.items()})
    factors = {name: 10.0 ** draw.uniform(-1.5, 1.5, PLANS) for name in MOVED}
    moved = {name: getattr(inputs.system, name) * factor for name, factor in factors.items()}
    machine = dataclasses.replace(inputs.system, **moved)
    asked = dataclasses.replace(inputs, plan=plan, system=machine)
    time = jr.training.evaluate(asked, recipe).step_time
    parts = jr.training.evaluate_parts(asked, recipe)
    assert jr.training.lower_bound is not None
    return np.asarray(jr.training.lower_bound(asked, recipe, **parts) / time)
