"""A whole run by the public door: golden rows, where its time goes, what doubles, slopes."""

import csv
import dataclasses
import gzip
from typing import Any

import numpy as np
import pytest
from places import ROOT

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.estimators.whole_run.operation import KWH, Operation
from jaxroof.estimators.whole_run.run import BUSY, HOST_WATTS, WAITING, RunInputs, whole_run
from jaxroof.formulas import whole_run as formulas
from jaxroof.records import units
from jaxroof.views.text.whole_run import takes

with gzip.open(ROOT / "tests/golden/whole_run/whole.csv.gz", "rt", encoding="utf-8") as file:
    ROWS = [*csv.DictReader(file)]
RTOL = 1e-12
DIFFERENT = {  # golden column: our result, and how much of it one is
    "out_energy_kwh": ("energy", KWH),
    "out_carbon_kg": ("carbon", 1.0),
    "out_embodied_kg": ("embodied_carbon", 1.0),
}
LEFT_OUT = {"out_wall_spread", "out_cost_lost", "out_water_litres"}
OWNED = {"out_dollars_per_token"}  # of the cost of owning it, also where rent is given


def inputs_of(row: dict[str, str]) -> RunInputs:
    own = {name for name in row if name in RunInputs.__dataclass_fields__}
    given = {name: float(row[name]) for name in own}
    told = {n: float(row[n]) for n in units(Operation) if row.get(n)}
    system = jr.system("h100-nvs8")
    assert float(system.chip_watts) == 700.0
    return RunInputs(system=system, **given, operation=Operation(price=31250.0, **told))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_golden_row(row: dict[str, str]):
    inputs = inputs_of(row)
    found = whole_run.evaluate(inputs)
    owned = whole_run.evaluate(
        dataclasses.replace(inputs, operation=dataclasses.replace(inputs.operation, rent=None))
    )
    for column in set(row) - LEFT_OUT:
        if not column.startswith("out_"):
            continue
        name, scale = DIFFERENT.get(column, (column.removeprefix("out_"), 1.0))
        report = owned if column in OWNED else found
        if name == "cost_rented" and not row["rent"]:
            continue  # it is what is beside a rent that nobody gives
        np.testing.assert_allclose(
            getattr(report, name) / scale, float(row[column]), rtol=RTOL, err_msg=column
        )


def bars(report: Any) -> list[Any]:
    fields = dataclasses.fields(report)
    return [getattr(report, f.name) for f in fields if f.metadata["part_of"] == "wall_time"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_the_bars_sum_to_the_wall_time(row: dict[str, str]):
    found = whole_run.evaluate(inputs_of(row))
    assert sum(bars(found)) == pytest.approx(float(found.wall_time), rel=1e-12)
    assert min(float(bar) for bar in bars(found)) > -1e-9 * float(found.wall_time)
    assert 0.0 < float(found.goodput) <= 1.0


def evaluate(**settings: Any) -> Any:
    given = {
        "system": "h100-nvs8", "tokens": 15.6e12, "batch": 2048, "sequence": 8192, "gpus": 16384,
        "parameters": 405.9e9, "time_compute": 5.0, "time_tensor": 0.8, "time_bubble": 0.4,
    }  # fmt: skip
    return jr.evaluate("whole_run", **{**given, **settings})


def test_twice_the_tokens_are_twice_of_all():
    once, twice = (evaluate(tokens=t, **{"operation.rent": "2 $/h"}) for t in (1e13, 2e13))
    for name in ("wall_days", "energy", "cost", "carbon", "gpu_hours", "failures"):
        assert float(twice[name]) == pytest.approx(2.0 * float(once[name]), rel=1e-12)


def test_times_and_rates_scale_together():
    times = [f.name for f in dataclasses.fields(Operation) if f.metadata["unit"] == "s"]
    rates = [f.name for f in dataclasses.fields(Operation) if f.metadata["unit"] in ("B/s", "1/s")]
    plain = Operation(restart=400.0, straggler_rate=1e-10, planned_rate=1e-6)
    scaled = {n: 2.0 * getattr(plain, n) for n in times if getattr(plain, n) is not None}
    scaled |= {n: getattr(plain, n) / 2.0 for n in rates}
    base = whole_run.example()
    double = {f"time_{n}": 2.0 * getattr(base, f"time_{n}") for n in (*BUSY, *WAITING)}
    once = whole_run.evaluate(dataclasses.replace(base, operation=plain))
    other = dataclasses.replace(base, operation=dataclasses.replace(plain, **scaled), **double)
    twice = whole_run.evaluate(other)
    assert float(twice.wall_days) == pytest.approx(2.0 * float(once.wall_days), rel=1e-12)
    assert float(twice.goodput) == pytest.approx(float(once.goodput), rel=1e-12)


def test_energy_lies_between_idle_and_peak():
    found = evaluate()
    assert float(found.energy) < float(found.peak_site_watts * found.wall_time)
    idle = evaluate(**{"operation.busy_share": 0.2, "operation.wait_share": 0.2})
    assert float(idle.energy / idle.wall_time) < float(found.energy / found.wall_time)
    capped = evaluate(**{"operation.power_limit": 0.5})
    assert float(capped.energy) < float(found.energy)


def test_rent_and_ownership_cost_the_same_at_the_rent_that_owning_is_worth():
    owned = evaluate(**{"operation.price": 31250.0})
    paid = 16384.0 + 8.0 * float(owned.spares)
    rent = float(owned.cost) / (paid * float(owned.wall_time))
    assert float(evaluate(**{"operation.rent": rent}).cost) == pytest.approx(float(owned.cost))


def test_without_prices_or_watts_there_are_no_dollars_or_energy():
    found = evaluate()
    assert "cost" not in found
    assert "energy" in found
    unknown = evaluate(system="h20-nvs8", **{"operation.rent": "2 $/h"})
    assert "cost" in unknown
    assert "energy" not in unknown


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"operation.save_interval": 1.0}, "operation.save_interval: below what the store needs"),
        ({"system": "h20-nvs8", "operation.price": 3e4}, "system.chip_watts: not given"),
        ({"operation.realised": 1.2}, "operation.realised: expected a finite number above 0 and"),
        ({"operation.hidden": 2}, "operation.hidden: expected"),
        ({"operation.pue": 0.9}, "operation.pue: expected a finite number of at least 1"),
        ({"operation.chip_mtbf": 0}, "operation.chip_mtbf: expected"),
        ({"operation.disk_interval": 9.0}, "operation.disk_interval: 9, without effect while"),
        ({"operation.rent": "2 GB"}, "operation.rent: 'GB' is not in $/h"),
        ({"operation.spare_nodes": -1}, "operation.spare_nodes: expected"),
        ({"operation.ppue": 1.1}, "Did you mean 'operation.pue'?"),
    ],
)
def test_bad_input_is_refused_in_a_line(settings: dict[str, Any], said: str):
    with pytest.raises(InputError) as caught:
        evaluate(**settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_units_of_prices():
    plain = evaluate(**{"operation.rent": 2.2 / 3600.0, "operation.chip_mtbf": 50_000 * 3600.0})
    told = evaluate(**{"operation.rent": "2.2 $/h", "operation.chip_mtbf": "50_000 h"})
    assert float(told.cost) == pytest.approx(float(plain.cost), rel=1e-14)


# ---- A training step -----------------------------------------------------------------------------

STEP = {
    "model": "llama3-8b",
    "system": "h100-nvs8",
    "gpus": 8,
    "global_batch": 64,
    "where": "tensor=8",
}


def test_an_operation_moves_no_plan_and_adds_results():
    plain = jr.search("training", **STEP)
    told = jr.search("training", **STEP, settings={"operation.rent": "2 $/h"})
    assert "wall_days" not in plain
    for name in plain.data_vars:
        np.testing.assert_array_equal(plain[name], told[name], err_msg=str(name))
    assert float(told.wall_days * told.goodput) == pytest.approx(float(told.training_days))
    assert float(told.wall_days_low) < float(told.wall_days_high)


def test_a_run_on_a_torus_is_that_of_its_step_by_hand():
    asked: dict[str, Any] = {"model": "llama3-8b", "system": "tpu-v4", "gpus": 64}
    asked |= {"global_batch": 512, "settings": {"operation.rent": "2 $/h"}}
    told = jr.search("tpu_training", **asked)
    parts = {n: float(told[f"time_{n}"]) for n in ("compute", "memory", "recompute", "tensor")}
    parts["data"] = sum(float(told[f"time_{n}"]) for n in ("data", "gather", "slices"))
    model = jr.evaluate("model_size", model="llama3-8b")
    run = jr.evaluate(
        "whole_run", system="tpu-v4", tokens=15e12, batch=512, sequence=8192, gpus=64,
        parameters=float(model.parameters), time_update=float(told.time_update),
        **{f"time_{n}": value for n, value in parts.items()}, **asked["settings"],
    )  # fmt: skip
    for name in ("wall_days", "cost", "energy", "goodput"):
        assert float(told[name]) == pytest.approx(float(run[name]), rel=1e-12), name
    assert sum(float(told[n]) for n in told if told[n].attrs.get("part_of") == "wall_time") == (
        pytest.approx(float(told.wall_time), rel=1e-12)
    )
    assert "wall_days" not in jr.search("tpu_training", **{**asked, "settings": {}})


def test_plans_rank_by_days_as_by_steps_and_are_searched_by_cost():
    given = {"settings": {"operation.rent": "2 $/h"}, "top": 5}
    for objective in ("wall_days", "cost", "energy"):
        found = jr.search("training", **STEP, **given, objective=objective)
        assert (np.diff(found[objective].values) >= 0.0).all()
    days = jr.search("training", **STEP, **given, objective="wall_days")
    steps = jr.search("training", **STEP, **given)
    np.testing.assert_array_equal(days.step_time, steps.step_time)


def test_jax_answers_as_numpy_does():
    axes = {"operation.chip_mtbf": np.geomspace(1e7, 1e9, 7), "operation.spare_nodes": [0, 3, 400]}
    asked = whole_run.example()
    plain, compiled = (
        jr.tabulate(whole_run, asked, axes=axes, executor=e) for e in ("numpy", "jax")
    )
    assert plain.sizes == {"chip_mtbf": 7, "spare_nodes": 3}
    for name in plain.data_vars:
        np.testing.assert_allclose(plain[name], compiled[name], rtol=1e-10, err_msg=str(name))


def test_a_search_says_what_the_run_takes_with_its_stops(jaxroof: Any):
    line = "search --model llama3-8b --system h100-nvs8 --gpus 8 --batch 64 --where tp=8"
    assert "With its stops" not in jaxroof(line).words
    assert "With its stops it takes" in jaxroof(f"{line} --tokens 1T").words
    said = jaxroof(f"{line} --set operation.rent='2 $/h' --objective energy").words
    assert "GWh: save every" in said
    assert jaxroof(f"{line} --objective cost").code == 2
    torus = "search --model llama3-8b --system tpu-v5p --gpus 64 --batch 512 --where tp=1"
    assert "With its stops" not in jaxroof(torus).words
    assert "With its stops it takes" in jaxroof(f"{torus} --tokens 1T").words


def test_compare_says_the_cheapest_beside_the_soonest(jaxroof: Any):
    line = (
        "compare --model llama3-8b --gpus 8 --batch 64 --system h100-nvs8,a100-80-sxm --where tp=8"
    )
    plain = jaxroof(line).words
    assert "stops" not in plain
    said = jaxroof(f"{line} --set operation.rent='2 $/h'").words
    assert "With its stops it takes" in said
    assert "It is the cheapest, too." in said
    assert "dollars" in said


def test_one_per_cent_of_reliability_in_days_and_dollars():
    given = {"operation.rent": "2 $/h", "operation.chip_mtbf": 1e7}
    for result in ("wall_days", "cost"):
        found = jr.elasticities(
            "training", **STEP, settings=given, parameters=["operation.chip_mtbf"], of=result
        )
        ends = [
            jr.search("training", **STEP, settings=given | {"operation.chip_mtbf": 1e7 * f})[result]
            for f in (1.0 - 1e-4, 1.0 + 1e-4)
        ]
        slope = float(np.log(ends[1] / ends[0])) / 2e-4
        assert float(found.elasticity.squeeze()) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("command", ["explain", "pareto"])
def test_other_questions_say_what_the_run_of_their_plan_takes(jaxroof: Any, command: str):
    line = f"{command} --model llama3-8b --system h100-nvs8 --gpus 8 --batch 64"
    more = "--where tp=8,cp=1,off=0,zero=0"
    assert "With its stops" not in jaxroof(f"{line} {more}").words
    asked = f"{more} --set operation.rent='2 $/h' --set operation.chip_mtbf='1000 h'"
    run = jr.search(
        "training", model="llama3-8b", system="h100-nvs8", gpus=8, global_batch=64,
        where="tp=8,cp=1,off=0,zero=0",
        settings={"operation.rent": "2 $/h", "operation.chip_mtbf": "1000 h"},
    )  # fmt: skip
    said = jaxroof(f"{line} {asked}").words
    assert f"With its stops it takes {takes(run)}: save every" in said
    assert ("1 % more time between failures of a chip saves" in said) == (command == "explain")


DESIGN = """
estimator = "training"
model = "llama3-8b"
system = "h100-nvs8"
plan = { gpus = 8, global_batch = 64 }
where = "tp=8,cp=1,off=0,zero=0,mb=4,rc=0"
set = { "operation.rent" = "2 $/h" }
price = { "system.hbm_bandwidth" = { price = 1, per = "1 GB/s" } }
bounds = { "system.hbm_bandwidth" = ["1 TB/s", "4 TB/s"] }
"""


def test_a_design_tells_the_cost_of_the_run_from_that_of_the_machine(jaxroof: Any, tmp_path: Any):
    (tmp_path / "own.toml").write_text(DESIGN)
    said = jaxroof("design own.toml")
    assert said.code == 0
    assert "million, 1.1" in said.words.partition("With its stops it takes")[2]
    assert "$3,350" in said.words


def test_an_explanation_says_what_one_per_cent_of_reliability_saves():
    asked: dict[str, Any] = {**STEP, "where": "tensor=8,context=1,zero=0,off=0"}
    given = {"operation.rent": "2 $/h", "operation.chip_mtbf": 1e7}
    best = jr.explain(**asked, estimator="training", settings=given).best
    more = {**given, "operation.chip_mtbf": 1.0001e7}
    for name, saved in (("wall_days", "reliability_days"), ("cost", "reliability_cost")):
        now, then = (jr.search("training", **asked, settings=s)[name] for s in (given, more))
        assert float(best[saved]) == pytest.approx(100.0 * float(now - then), rel=1e-3)


def test_the_cost_is_drawn_over_what_nobody_knows():
    """By a compiled fold too, where a part of the layers is a number that no plan moves."""
    drawn = {"operation.realised": [0.53, 0.99], "operation.chip_mtbf": [1e8, 3e8]}
    given = {**STEP, "settings": {"operation.rent": "2 $/h"}, "objective": "cost"}
    del given["where"]
    found = jr.uncertain("training", **given, distributions=drawn, samples=64, top=10)
    cost = found["objective"] if "objective" in found else found["cost"]
    assert np.isfinite(cost.values).any()


def test_nodes_draw_what_was_measured():
    """By the catalogue's watts; median 2 % (page of the whole run, where trust is told)."""
    path = ROOT / "tests/golden/whole_run/measured_power_nodes.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        every = [*csv.DictReader(file)]
    op, errors = Operation(), []
    for row in every:
        known = row["program_busy"] or row["scaling_efficiency"]
        if not known:
            continue
        busy = float(known) + float(row["program_imbalance"] or 0.0)
        system = jr.system("b200-180-sxm" if "B200" in row["system"] else "h100-nvs8")
        tdp, host = float(system.chip_watts), float(system.host_watts or HOST_WATTS)
        chip = formulas.mean_watts(op.busy_share * tdp, op.wait_share * tdp, busy, 1.0 - busy)
        plugged = row["side"] == "AC" and float(row["conversion_efficiency"]) == 1.0
        supply = op.conversion if plugged else 1.0
        node = formulas.site_watts(chip, 1.0, 8.0, host, 0.0, 0.0, supply, 1.0)
        errors.append(abs(node / float(row["node_mean_W"]) - 1.0))
    assert len(errors) == 11
    assert np.median(errors) < 0.025
    assert max(errors) < 0.15
