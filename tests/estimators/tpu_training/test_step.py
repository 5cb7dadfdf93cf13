"""A step of MaxText on a torus of TPUs: golden rows, laws, plans, and what is refused."""

import dataclasses
import re

import numpy as np
import pytest
from golden_rows import networks

import jaxroof as jr
from jaxroof.analyses.training_plans import fastest_plans
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import tpu_system
from jaxroof.engine.grid.question import ask
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.estimators.legality import Columns
from jaxroof.estimators.tpu_training.inputs import POLICIES, REMAT, MaxText, TpuInputs, TpuPlan
from jaxroof.estimators.tpu_training.layer import work
from jaxroof.estimators.tpu_training.slices import SHAPES, Ways, links, shape_word, sides
from jaxroof.estimators.tpu_training.step import step, tpu_training
from jaxroof.estimators.tpu_training.step_time import memory, step_time
from jaxroof.estimators.training.recipe import Mlp, Recipe

RTOL = 1e-12
DIFFERENCES = ("out_fsdp_exposed", "out_context_comm")
ASKED = {"model": "llama3-8b", "system": "tpu-v5p", "gpus": 64, "global_batch": 256}
RATES = ("matrix_flops", "hbm_bandwidth", "link_bandwidth", "slow_bandwidth")
LATENCIES = ("launch", "base", "hop")


def numbers(row):
    return {key: float(cell) for key, cell in row.items() if key not in ("row_id", "chip") and cell}


def inputs_of(row):
    """Return the inputs of a golden row, its recipe and the links that it gives."""
    at, system = numbers(row), tpu_system(row["chip"])
    chip = dataclasses.replace(system.tpu, backward_factor=at["backward_factor"])
    latent = at["head_size"] if at["kv_rank"] else 0.0
    shared = [name for name in Architecture.__dataclass_fields__ if name in at]
    model = Architecture(
        **{name: at[name] for name in shared if name != "dense_layers"},
        active_experts=at["topk"],
        first_dense_layers=at["dense_layers"],
        windowed_layers=at["local"] * at["layers"],
        q_rank=at["query_rank"],
        nope_size=latent,
        value_size=latent,
    )
    software = MaxText(**{name: at[name] for name in MaxText.__dataclass_fields__ if name in at})
    fields = {name: at[name] for name in TpuPlan.__dataclass_fields__ if name in at}
    plan = TpuPlan(**fields, remat=float(REMAT.index("custom")))
    inputs = TpuInputs(
        model=model,
        system=dataclasses.replace(system, tpu=chip),
        gpus=at["devices"] / chip.devices,
        global_batch=at["global_batch"],
        software=software,
        plan=plan,
    )
    recipe = Recipe(mlp=Mlp.GATED if at["gated"] else Mlp.PLAIN)
    return inputs, recipe, Ways(*(at[f"{name}_ways"] for name in Ways._fields))


def parts_of(inputs, recipe, ways):
    """Return every part of a step and of its memory."""
    plan = inputs.plan
    degrees = {"tensor": plan.tensor, "expert": plan.expert, "microbatches": plan.microbatches}
    done = work(inputs, recipe, **degrees)
    time, held = step_time(inputs, recipe, plan, done, ways), memory(inputs, recipe, plan)
    report = step(inputs, recipe, work=done, links=ways)
    of_memory = {f"memory_{name}": value for name, value in held._asdict().items()}
    return {**time.layer._asdict(), **time._asdict(), **of_memory}, report


@pytest.mark.parametrize("row", networks("tpu_steps"), ids=lambda row: row["row_id"])
def test_every_part_of_a_step_is_that_of_the_sheet(row):
    found, report = parts_of(*inputs_of(row))
    both = float(found["forward"] + found["backward"])
    for name, expected in numbers(row).items():
        if name.startswith("out_"):
            atol = RTOL * both if name in DIFFERENCES else 0.0
            value = float(found[name.removeprefix("out_")])
            np.testing.assert_allclose(value, expected, RTOL, atol, err_msg=name)
    times = [float(getattr(report, name)) for name in vars(report) if name.startswith("time_")]
    np.testing.assert_allclose(sum(times), report.step_time, RTOL)
    np.testing.assert_allclose(report.memory_states + report.memory_kept, report.memory, RTOL)


# ---- Laws ---------------------------------------------------------------------------------------

ROWS = [row for row in networks("tpu_steps") if row["row_id"].startswith("tpusyn")]


def test_one_slice_neither_grows_nor_sends():
    for row in ROWS:
        inputs, recipe, ways = inputs_of(row)
        plan = dataclasses.replace(inputs.plan, slices=1.0, dcn_fsdp=0.0)
        found, _ = parts_of(dataclasses.replace(inputs, plan=plan), recipe, ways)
        assert (found["growth"], found["dcn_comm"]) == (0.0, 0.0)


def test_a_machine_that_is_all_faster_is_as_much_faster():
    """Elasticities in all rates less those in latencies sum to -1, in the finite form of it."""
    for row in ROWS[::4]:
        inputs, recipe, ways = inputs_of(row)
        system, chip = inputs.system, inputs.system.tpu
        fast = {name: 3.0 * getattr(system, name) for name in RATES}
        few = {f"{name}_flops": 3.0 * getattr(chip, f"{name}_flops") for name in ("int8", "fp8")}
        late = {name: getattr(chip, name) / 3.0 for name in LATENCIES}
        machine = dataclasses.replace(system, **fast, tpu=dataclasses.replace(chip, **few, **late))
        before, _ = parts_of(inputs, recipe, ways)
        after, _ = parts_of(dataclasses.replace(inputs, system=machine), recipe, ways)
        np.testing.assert_allclose(3.0 * after["step_time"], before["step_time"], 1e-11)


def test_elasticities_of_rates_less_those_of_latencies_sum_to_minus_one():
    inputs = tpu_training.example()
    paths = [f"system.{name}" for name in RATES] + [f"system.tpu.{name}" for name in LATENCIES]
    data = jr.elasticities(tpu_training, inputs, parameters=paths)
    signs = np.array([1.0] * len(RATES) + [-1.0] * len(LATENCIES))
    assert float((data["elasticity"].values * signs).sum()) == pytest.approx(-1.0, abs=1e-9)


# ---- Slices -------------------------------------------------------------------------------------


def place(word):
    return float([*map(shape_word, SHAPES)].index(word))


@pytest.mark.parametrize(
    ("system", "word", "expected"),
    [
        ("tpu-v5p", "4x4x4", (2, 2, 2)),
        ("tpu-v5p", "2x4x4", (1, 1, 1)),
        ("tpu-v5p", "2x2x1", (1, 1, 0)),
        ("tpu-v5e", "8x16", (1, 2, 0)),
        ("tpu-v6e", "16x16", (2, 2, 0)),
    ],
)
def test_an_axis_that_wraps_has_two_ways(system, word, expected):
    assert links(tpu_system(system).tpu, sides(place(word))) == expected


def listed(**more) -> Columns:
    _, inputs, recipe, _ = ask(tpu_training, settings={**ASKED, **more})
    return tpu_training.candidates(inputs, recipe).whole()


def test_every_plan_that_is_listed_is_legal_and_uses_every_device_once():
    for more in ({}, {"system": "tpu-v7", "gpus": 16}, {"system": "tpu-v6e", "gpus": 512}):
        plans = listed(**more)
        _, inputs, recipe, _ = ask(tpu_training, settings={**ASKED, **more})
        some = TpuPlan(**{name: np.float64(column) for name, column in plans.items()})
        report = tpu_training.evaluate(dataclasses.replace(inputs, plan=some), recipe)
        legal = [v for n, v in vars(report).items() if n not in ("memory_fits", "feasible")]
        assert all(np.all(verdict) for verdict in legal if np.asarray(verdict).dtype == bool)
        degrees = ("slices", "fsdp", "tensor", "context", "data", "expert")
        devices = np.prod([plans[name] for name in degrees], axis=0)
        assert np.all(devices == inputs.gpus * inputs.system.tpu.devices)


def test_policies_by_name_are_those_of_the_sheet():
    kept = {name: tuple(map(int, policy)) for name, policy in POLICIES.items()}
    assert kept["minimal"] == (1, 0, 1, 1)
    assert kept["minimal_with_context"] == (1, 1, 1, 1)
    assert kept["save_dot_with_context_except_mlp"] == (1, 1, 1, 0)
    assert [*kept] == [*REMAT[:-1]]


# ---- The road of every question -----------------------------------------------------------------


def test_a_torus_is_answered_by_maxtext():
    data = jr.search("training", **ASKED)
    assert {"slice", "remat", "memory_verdict"} <= {*map(str, data.data_vars)}
    assert float(data.step_time_low) < float(data.step_time) < float(data.step_time_high)
    assert 0.3 < float(data.mfu) < 0.9
    assert float(data.memory) <= 102005473280.0
    assert jr.search("training", **{**ASKED, "system": "h100-nvs8"}).attrs["estimator"] == (
        "training"
    )


def test_an_unmeasured_torus_has_the_widest_interval():
    known = jr.search("training", **ASKED)
    other = jr.search("training", **ASKED, settings={"system.tpu.calibrated": 0.0})
    assert float(other.step_time_high / other.step_time) > float(
        known.step_time_high / known.step_time
    )


REFUSED = [
    ({"precision": "fp4"}, "precision: fp4: no such number format of MaxText on TPUs"),
    ({"model": "nemotron-3-nano-30b-a3b"}, "Mamba-2 layers: no formula of MaxText's step"),
]


@pytest.mark.parametrize(("more", "said"), REFUSED)
def test_what_has_no_answer_is_refused_in_one_line(more, said):
    with pytest.raises(InputError) as error:
        jr.search("training", **{**ASKED, **more})
    assert said in str(error.value)


MINE = [
    ("ep=2", "expert=2: not legal (expert degrees above 1: their all-to-all under MaxText was not"),
    ("tp=7", "tensor=7: not legal (tensor degrees that do not divide the heads)"),
    ("slice=16x16x24", "slice=16x16x24: 6,144 chips, which do not divide 64"),
    ("slices=64", "slices=64: more than the 32 of any measured run"),
]


@pytest.mark.parametrize(("own", "said"), MINE)
def test_a_plan_that_is_not_legal_is_refused_by_its_rule(own, said):
    with pytest.raises(InputError, match=re.escape(said)):
        fastest_plans(own=own, **ASKED)


def test_the_estimator_is_found_by_name():
    assert estimator("tpu_training") is tpu_training
