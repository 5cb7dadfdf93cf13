"""A plan without a placement is placed best, on every road; its degrees multiply to its gpus."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pandas as pd
import pytest

import jaxroof as jr
from jaxroof.engine.grid import evaluate as placing
from jaxroof.errors import InputError
from jaxroof.estimators.published.legality import GROUPS, PLACED, placements

FAST = PLACED  # in the order of the plan
DEGREES = {"plan.data": 8, "plan.tensor": 8, "plan.pipeline": 8, "plan.microbatch": 1}
ASKED = {"model": "gpt3", "system": "h200-nvs8", "global_batch": 1024, **DEGREES}
BEST = {"fast_data": 1, "fast_tensor": 8, "fast_context": 1, "fast_pipeline": 1}
SECONDS = 9.106628599619416  # of the golden row, the best of ten placements; the worst takes 23.7


def question(**more):
    plan = {field.removeprefix("plan."): float(degree) for field, degree in DEGREES.items()}
    known = {"model": jr.model("gpt3"), "system": jr.system("h200-nvs8"), "global_batch": 1024.0}
    return jr.Inputs(**known, plan=jr.Plan(**{**plan, **more}))


def every_placement(degrees, domain):
    """Return the ways to fill a domain, or to come as close as any does, by plain loops."""
    if np.prod(degrees) <= domain:
        return [tuple(degrees)]
    ways = itertools.product(*([d for d in range(1, n + 1) if n % d == 0] for n in degrees))
    ways = [way for way in ways if domain % np.prod(way) == 0]
    most = max(np.prod(way) for way in ways)
    return [way for way in ways if np.prod(way) == most]


# ---- What placements there are ------------------------------------------------------------------

PLANS = [(8, 8, 1, 8), (1, 4, 2, 1), (6, 5, 1, 3), (64, 4, 16, 12), (7, 1, 1, 11), (2, 2, 2, 2)]


@pytest.mark.parametrize("domains", [(4.0,), (8.0, 72.0), (6.0, 4.0, 16.0)])
def test_placements_of_many_plans_are_those_of_plain_loops(domains):
    data, tensor, context, pipeline = np.array(PLANS, float).T[..., None]
    plan = jr.Plan(data=data, tensor=tensor, context=context, pipeline=pipeline, microbatch=1.0)
    system = dataclasses.replace(jr.system("h200-nvs8"), fast_domain=np.array(domains))
    found = placements(dataclasses.replace(question(), system=system, plan=plan), jr.Recipe())
    columns = np.stack([found[field] for field in FAST])
    for i, degrees in enumerate(PLANS):
        for j, domain in enumerate(domains):
            here = [tuple(way) for way in columns[:, i, j].T.tolist()]
            expected = sorted(every_placement(degrees, int(domain)))
            assert here[: len(expected)] == expected
            assert set(here) == set(expected)


def test_placements_of_one_plan_are_columns():
    found = placements(question(), jr.Recipe())
    assert {field: column.shape for field, column in found.items()} == dict.fromkeys(FAST, (10,))
    assert GROUPS == ("tensor", "context", "data", "pipeline")


# ---- The best of them, on every road ------------------------------------------------------------


def by_sweep_file(tmp_path):
    plan = ", ".join(f"{path.removeprefix('plan.')} = {n}" for path, n in DEGREES.items())
    text = 'estimator = "published"\nmodel = "gpt3"\nsystem = "h200-nvs8"\n'
    text += f"plan = {{ global_batch = 1024, {plan} }}\n"
    (tmp_path / "plan.toml").write_text(text)
    return jr.run(tmp_path / "plan.toml")


def by_rows(tmp_path):
    frame = pd.DataFrame([{"dp": 8, "tp": 8, "pp": 8, "mb": 1}] * 3)
    found = jr.evaluate_rows(
        "published", frame, model="gpt3", system="h200-nvs8", global_batch=1024
    )
    return found.iloc[2]


def by_itself(tmp_path):
    report, placed = jr.published.evaluate(question()), jr.published.placed(question()).plan
    return {"step_time": report.step_time, **{field: getattr(placed, field) for field in FAST}}


ROADS = {
    "evaluate": lambda _: jr.evaluate("published", ASKED),
    "tabulate": lambda _: jr.tabulate(jr.published, question()),
    "tabulate, given anew": lambda _: jr.tabulate(
        jr.published, question(fast_pipeline=8.0), placement="best"
    ),
    "sweep file": by_sweep_file,
    "rows": by_rows,
    "estimator": by_itself,
    "elasticities": lambda _: jr.elasticities(jr.published, question()),
}


@pytest.mark.parametrize("road", ROADS)
def test_a_plan_without_a_placement_is_placed_best_and_says_how(road, tmp_path):
    found = ROADS[road](tmp_path)
    assert float(found["step_time"]) == pytest.approx(SECONDS, rel=1e-12)
    assert {field: int(found[field]) for field in FAST} == BEST


def test_layers_schedules_and_traces_place_a_plan_best():
    for data in (
        jr.layers(question()),
        jr.schedule(question(), schedules="1f1b"),
        jr.schedule(ASKED, estimator="published", schedules="1f1b"),
        jr.trace("published", ASKED),
    ):
        inputs = json.loads(data.attrs["inputs"])
        assert {field: inputs[f"plan.{field}"] for field in FAST} == BEST


def test_slopes_of_a_plan_without_a_placement_are_those_of_the_best():
    best = question(**{field: float(n) for field, n in BEST.items()})
    found, expected = (jr.elasticities(jr.published, one) for one in (question(), best))
    np.testing.assert_array_equal(found.elasticity, expected.elasticity)


def test_beside_a_fast_degree_the_others_are_one():
    found = jr.tabulate(jr.published, question(fast_pipeline=8.0))
    whole = dict.fromkeys(FAST, 1.0) | {"fast_pipeline": 8.0}
    assert float(found.step_time) == float(jr.tabulate(jr.published, question(**whole)).step_time)
    assert {field: int(found[field]) for field in FAST} == whole
    axes = {"plan.fast_tensor": [2, 8]}
    moved = jr.tabulate(jr.published, question(), axes=axes)
    assert [int(moved.fast_data), *moved.fast_tensor] == [1, 2, 8]
    assert float(moved.step_time[1]) == pytest.approx(SECONDS, rel=1e-12)
    with pytest.raises(InputError, match=r"^placement: an axis gives plan\.fast_tensor; expected"):
        jr.tabulate(jr.published, question(), axes=axes, placement="best")


def test_every_point_of_a_grid_has_the_best_of_every_placement():
    """Over plans, machines, fast domains and capacities; what moves no placement has none."""
    axes = {
        "plan.tensor": [1, 8, 5],
        "system.slow_bandwidth": [1e9, 1e11, 4e12],
        "system.fast_domain": [4, 6, 8],
        "system.hbm_capacity": [1e9, 1e12],
    }
    found = jr.tabulate(jr.published, question(), axes=axes)
    assert found.fast_tensor.dims == ("tensor", "slow_bandwidth", "fast_domain")
    assert found.memory.dims == ("tensor",)
    for i, tensor in enumerate(axes["plan.tensor"]):
        for j, rate in enumerate(axes["system.slow_bandwidth"]):
            for k, domain in enumerate(axes["system.fast_domain"]):
                ways = sorted(every_placement((8, tensor, 1, 8), domain))
                columns = dict(zip(FAST, np.array(ways, float).T, strict=True))
                together = {f"plan.{field}": column for field, column in columns.items()}
                system = {"system.slow_bandwidth": rate, "system.fast_domain": domain}
                all_of_them = jr.tabulate(
                    jr.published,
                    question(tensor=float(tensor)),
                    axes={"way": together},
                    **system,
                )
                times = all_of_them.step_time.values
                here = found.isel(tensor=i, slow_bandwidth=j, fast_domain=k)
                first = int(np.argmax(times <= times.min() * (1.0 + 1e-12)))
                assert tuple(int(here[field]) for field in FAST) == ways[first]
                assert float(here.step_time) == pytest.approx(times.min(), rel=1e-12)


def test_many_rows_are_placed_as_each_by_itself(monkeypatch):
    """Over the borders of calls, systems with other fast domains among them."""
    monkeypatch.setattr(placing, "PLACED", 8)
    chance = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "system": chance.choice(["h200-nvs8", "h200-nvs4", "b200-nvs64"], 21),
            **{name: chance.choice([1, 2, 4, 8, 16], 21) for name in ("dp", "tp", "pp")},
            "mb": 1,
        }
    )
    found = jr.evaluate_rows("published", frame, model="gpt3", global_batch=1024)
    for _, row in found.iterrows():
        plan = {"plan.data": row.dp, "plan.tensor": row.tp, "plan.pipeline": row.pp}
        alone = jr.evaluate("published", {**ASKED, **plan, "system": row.system})
        assert [int(row[field]) for field in FAST] == [int(alone[field]) for field in FAST]
        assert row.step_time == pytest.approx(float(alone.step_time), rel=1e-12)


def test_a_traced_plan_says_which_fields_it_lacks():
    fields = ", ".join(f"plan.{field}" for field in jr.published.placement)
    with pytest.raises(InputError, match=f"^plan: a traced plan .*; expected {fields}"):
        jax.jit(jr.published.evaluate)(question())

    @jax.jit
    @jax.grad
    def slope(rate):
        asked = jr.replace_at(question(), "system.matrix_flops", rate)
        return jr.published.evaluate(asked).step_time

    assert float(slope(9.9e14)) < 0.0


# ---- Degrees and accelerators -------------------------------------------------------------------

WRONG = "not the product of the plan's degrees, given 1000; expected data 8 x tensor 8 x pipeline 8"


def contradicted():
    return dataclasses.replace(question(), gpus=1000.0)


def a_file_of_a_contradiction(tmp_path):
    (tmp_path / "wrong.toml").write_text(
        'estimator = "published"\nmodel = "gpt3"\nsystem = "h200-nvs8"\n'
        "plan = { gpus = 1000, data = 8, tensor = 8, pipeline = 8, microbatch = 1 }\n"
    )
    return jr.run(tmp_path / "wrong.toml")


def rows_of_a_contradiction(tmp_path):
    frame = pd.DataFrame({"gpus": [512, 1000], "dp": 8, "tp": 8, "pp": 8, "mb": 1})
    return jr.evaluate_rows("published", frame, model="gpt3", system="h200-nvs8")


CONTRADICTED = {
    "evaluate": lambda _: jr.evaluate("published", {**ASKED, "gpus": 1000}),
    "tabulate": lambda _: jr.tabulate(jr.published, contradicted()),
    "estimator": lambda _: jr.published.evaluate(contradicted()),
    "layers": lambda _: jr.layers(contradicted()),
    "schedule": lambda _: jr.schedule(contradicted()),
    "trace": lambda _: jr.trace("published", ASKED, gpus=1000),
    "elasticities": lambda _: jr.elasticities(jr.published, contradicted()),
    "sweep file": a_file_of_a_contradiction,
    "rows": rows_of_a_contradiction,
}


@pytest.mark.parametrize("road", CONTRADICTED)
def test_gpus_that_are_not_the_product_of_the_degrees_are_refused(road, tmp_path):
    with pytest.raises(InputError, match=f"gpus: {WRONG} = 512$") as told:
        CONTRADICTED[road](tmp_path)
    if road == "rows":
        assert str(told.value).startswith("row 1: ")


def test_gpus_that_are_not_whole_are_refused():
    for asked in (512.5, "0.5"):
        with pytest.raises(InputError, match=r"^gpus: expected a whole number above 0"):
            jr.evaluate("published", {**ASKED, "gpus": asked})
    with pytest.raises(InputError, match=r"^gpus: not the product .* given 512\.5; expected"):
        jr.published.evaluate(dataclasses.replace(question(), gpus=512.5))


def test_gpus_agree_at_every_point_of_a_grid():
    together = {"plan.data": [8, 16], "gpus": [512, 1024]}
    found = jr.tabulate(jr.published, question(), axes={"size": together})
    assert found.step_time.dims == ("size",)
    with pytest.raises(InputError, match=r"^gpus: not .* given 1024; expected data 8 x"):
        jr.tabulate(jr.published, question(), axes=together)


def test_gpus_of_an_mlp_agree_with_its_degrees():
    plan = {"plan.data": 1, "plan.tensor": 1, "plan.pipeline": 2, "plan.microbatches": 4}
    asked = {"model": "mlp-xs", "system": "distir-a", "profile": "distir-a", **plan}
    assert jr.stages(asked, gpus=2).sizes["stage"] == 2
    for road in (jr.evaluate, jr.trace):
        with pytest.raises(InputError, match=r"^gpus: not the .* 3; expected pipeline 2 = 2$"):
            road("pipeline", asked, gpus=3)
    with pytest.raises(InputError, match=r"^gpus: not the .* 3; expected pipeline 2 = 2$"):
        jr.stages(asked, gpus=3)


def test_a_row_whose_gpus_contradict_it_is_named_by_its_line(tmp_path):
    """Passed over among the others, whose answers stay."""
    frame = pd.DataFrame({"gpus": [1000, 512, 512], "dp": [8, 8, 16], "tp": 8, "pp": 8, "mb": 1})
    shared = {"model": "gpt3", "system": "h200-nvs8", "global_batch": 1024}
    found = jr.evaluate_rows("published", frame, shared, keep_going=True)
    assert found.step_time.isna().tolist() == [True, False, True]
    assert [why.partition(": not")[0] for why in found.error] == ["row 0: gpus", "", "row 2: gpus"]
    assert found.step_time[1] == pytest.approx(SECONDS, rel=1e-12)


# ---- From the command line ----------------------------------------------------------------------


def test_the_schedule_command_places_its_plan_as_evaluate_does(jaxroof, tmp_path):
    """Two stages share a domain here: to fill it with replicas first would be slower."""
    plan = {"plan.data": 8, "plan.tensor": 1, "plan.pipeline": 8}
    best = jr.evaluate("published", {**ASKED, "global_batch": 4096, **plan})
    line = "schedule --estimator published --model gpt3 --system h200-nvs8 --batch 4096"
    assert jaxroof(f"{line} --schedule 1f1b --plan dp=8,pp=8,mb=1 -o placed.nc").code in (0, 1)
    inputs = json.loads(jr.read(tmp_path / "placed.nc").attrs["inputs"])
    assert [inputs[f"plan.{field}"] for field in FAST] == [4, 1, 1, 2]
    assert [int(best[field]) for field in FAST] == [4, 1, 1, 2]


def test_the_layers_command_places_its_plan_best_unless_it_says_how(jaxroof):
    line = "layers --estimator published --model gpt3 --system h200-nvs8 --plan dp=8,tp=8,pp=8"
    assert "8 of the 8 tensor ranks share an NVLink domain" in jaxroof(line).words
    assert "2 of the 8 tensor ranks share" in jaxroof(f"{line},fast_tp=2,fast_dp=4").words
    assert "1 of the 8 tensor ranks share" in jaxroof(f"{line},fast_dp=8").words
