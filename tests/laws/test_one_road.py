"""One question about plans has one answer, whichever road asks it, and lists no plan twice."""

import itertools
import json

import numpy as np
import pytest
from daily import daily
from refusals import refused

import jaxroof as jr

# model, system, accelerators, batch, rules
ASKED = {
    "one replica": ("llama3-70b", "gb200-nvl72", 8, 64, ""),
    "one accelerator": ("gpt2-124m", "h100-nvs8", 1, 8, ""),
    "few experts": ("mixtral-8x7b", "h100-nvs8", 4, 16, ""),
    "experts": ("mixtral-8x7b", "h100-nvs8", 32, 128, "tp<=8"),
    "latent attention": ("deepseek-v3", "h800-nvs8", 128, 512, "tp<=2,mb<=2"),
    "windows": ("gpt-oss-120b", "gb200-nvl72", 64, 256, "tp<=2,mb<=2"),
    "hybrid": ("nemotron-3-super-120b-a12b", "gb200-nvl72", 64, 256, "tp<=2,mb<=2"),
    "deep": ("llama3.1-405b", "h100-nvs8", 512, 512, "off=0"),
    "stages": ("gpt3-175b", "a100-nvs4", 96, 1536, "zero<=2"),
}
TOP = 12
FIELDS = jr.training.plan_fields


def question(name: str) -> dict:
    model, system, gpus, batch, where = ASKED[name]
    return {
        "model": model,
        "system": system,
        "gpus": gpus,
        "global_batch": batch,
        "where": where,
    }


def inputs_of(name: str) -> jr.TrainingInputs:
    model, system, gpus, batch, _ = ASKED[name]
    return jr.TrainingInputs(
        model=jr.architecture(model),
        system=jr.training_system(system),
        gpus=float(gpus),
        global_batch=float(batch),
    )


@pytest.mark.parametrize("name", ASKED)
def test_a_search_lists_the_plans_of_the_command(name):
    table = jr.fastest_plans(**question(name), top=TOP)
    found = jr.search("training", **question(name), top=TOP)
    found = found.isel(rank=found.feasible.values)
    assert found.sizes["rank"] == table.sizes["plan"] > 1
    for field in (*FIELDS, "step_time", "memory", "mfu", "step_time_low"):
        np.testing.assert_array_equal(found[field].values, table[field].values, err_msg=field)
    for count in ("plans_legal", "plans_feasible"):
        assert int(found[count]) == int(table[count])


def test_the_command_prints_that_list(jaxroof):
    model, system, gpus, batch, _ = ASKED["one replica"]
    said = jaxroof(
        f"search --model {model} --system {system} --gpus {gpus} --batch {batch} --top {TOP} --json"
    )
    found = jr.search("training", **question("one replica"), top=TOP)
    printed = json.loads(said.out)["data_vars"]["step_time"]["data"]
    assert printed == found.step_time.values.tolist()


AXES = {"system.hbm_capacity": [64e9, 80e9, 192e9], "system.hbm_bandwidth": [2e12, 4e12]}


@pytest.mark.parametrize("name", ["one replica", "one accelerator", "experts"])
@pytest.mark.parametrize("axes", [None, AXES])
def test_no_plan_is_listed_twice(name, axes):
    """Without replicas there is nothing to shard: any ZeRO stage is the same plan."""
    found = jr.search("training", **question(name), top=TOP, axes=axes)
    columns = {f: found[f].values.reshape(-1, TOP) for f in FIELDS}
    for point in range(len(columns["data"])):
        plans = {f: column[point][column[point] > -1] for f, column in columns.items()}
        kinds = np.stack([*jr.training.kinds(inputs_of(name), plans).values()], axis=1)
        assert len(np.unique(kinds, axis=0)) == len(kinds) > 1


@pytest.mark.parametrize("name", ["one replica", "one accelerator", "few experts"])
def test_of_plans_that_differ_only_in_name_the_first_is_best(name):
    """Stages 0 and 1 are equal without replicas; no other is faster or needs less."""
    plans = jr.survey(jr.training, inputs_of(name))
    columns = {f: plans[f].values for f in FIELDS}
    kinds = np.stack([*jr.training.kinds(inputs_of(name), columns).values()], axis=1)
    _, kind, count = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    assert set(count) <= {1, 4}
    assert 4 in count
    order = np.argsort(kind.reshape(-1), kind="stable")
    whole = order[np.repeat(count == 4, count)].reshape(-1, 4)
    np.testing.assert_array_equal(columns["zero_stage"][whole], np.tile(range(4), (len(whole), 1)))
    for result in ("step_time", "memory"):
        value = plans[result].values[whole]
        np.testing.assert_allclose(value[:, 1], value[:, 0], rtol=1e-12)
        assert np.all(value[:, 2:] >= value[:, :1] * (1.0 - 1e-12))


def test_a_plan_of_the_table_has_its_place():
    asked = question("experts")
    table = jr.fastest_plans(**asked, top=5)
    for place in range(5):
        plan = ",".join(f"{field}={int(table[field][place])}" for field in FIELDS)
        own = jr.fastest_plans(**asked, own=plan)
        assert int(own.own_place) == place + 1
        assert float(own.own) == float(table.step_time[place])


def test_another_chip_is_a_setting_on_every_road():
    asked = {**question("one accelerator"), "chip": "blackwell"}
    plain = jr.fastest_plans(**question("one accelerator"))
    table = jr.fastest_plans(**asked)
    seconds = float(table.step_time[0])
    assert seconds != float(plain.step_time[0])
    found = jr.search("training", **asked)
    plan = {f"plan.{field}": int(found[field]) for field in FIELDS}
    alone = {name: value for name, value in asked.items() if name != "where"}
    assert float(found.step_time) == seconds
    assert float(jr.evaluate("training", **alone, **plan).step_time) == seconds
    assert float(jr.pareto("training", **asked).step_time.min()) <= seconds
    moved = jr.response("training", **asked, parameters=["system.hbm_bandwidth"])
    assert float(moved.step_time.sel(factor=1.0).item()) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(("system", "axes", "words"), [
    (None, {"system": ["h100-nvs8", "b200-nvs8"]}, "chip: given beside several systems"),
    (jr.training_system("h100-nvs8"), None, "chip: a name beside a record of a system"),
])  # fmt: skip
def test_a_chip_is_of_one_named_system(system, axes, words):
    asked = {k: v for k, v in question("one accelerator").items() if k != "system"}
    if system is not None:
        asked["system"] = system
    with pytest.raises(jr.InputError, match=words):
        jr.search("training", **asked, axes=axes, chip="blackwell")


def test_what_a_device_reports_is_the_limit_on_every_road():
    """As a capacity of as many bytes is; the share that a step may fill counts too."""
    asked = {"model": "llama3-8b", "gpus": 4, "global_batch": 8, "where": "off=0,tp<=2"}
    told = {"system.hbm_reported": "70 GB", "system.hbm_usable": 0.9}
    one = {**asked, "system": "h100-nvs8"}
    limits = [
        jr.fastest_plans(**one, settings=told).capacity,
        jr.least_memory(**one, settings=told).capacity,
        jr.pareto("training", **one, settings=told).memory_limit[0],
        jr.explain(estimator="training", **one, settings=told).best.memory_limit,
        jr.compare(**one, settings=told).memory_limit[0],
        jr.fit(
            model="llama3-8b",
            system="h100-nvs8",
            global_batch=8,
            plan={"dp": 4},
            settings=told,
        ).capacity,
    ]
    np.testing.assert_allclose([float(limit) for limit in limits], 63e9, rtol=1e-15)
    found = jr.search("training", **one, settings=told)
    assert float(found.memory) <= 63e9
    least = jr.search("training", **one, settings={"system.hbm_reported": "10 GB"})
    assert float(least.memory_missing) == float(least.memory_least) - 10e9


@pytest.mark.parametrize("command", ["search", "explain", "pareto", "compare"])
@pytest.mark.parametrize(("asked", "why"), [
    ("--gpus 7", "plan: none is legal on 7 accelerators; expected 4 or 8 accelerators, "),
    ("--gpus 11,7", "plan: none is legal on 7 accelerators; expected 4 or 8 accelerators, "),
    ("--gpus 64 --where tensor=3", "where: no legal plan on 64 accelerators has tp=3; expected"),
])  # fmt: skip
def test_the_study_s_plans_end_in_that_way_too(command, asked, why, jaxroof):
    if command == "explain" and "," in asked:
        return
    line = f"{command} --estimator published --model gpt3 --system a100-nvs4 --batch 64"
    said = jaxroof(f"{line} {asked}")
    assert (said.code, said.out) == (2, "")
    assert why in said.err
    assert ("; refused are " in said.err) == (not why.startswith("where"))


@pytest.mark.parametrize(
    ("size", "where"), daily(itertools.product([13, 500], ["", "tp=1,dp=1,pp=1,cp=1"]), 2)
)
def test_where_nothing_is_legal_every_road_says_the_same(size, where, jaxroof):
    """The same reason and the same near numbers; over axes such a point is NaN with its reason."""
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "gpus": size, "global_batch": 64}
    found = jr.search("training", **asked, where=where or ())
    words = found.attrs["none_legal"]
    assert f"none is legal on {size} accelerators" in words
    assert "; refused are " in words
    for ask in (jr.fastest_plans, jr.least_memory):
        assert refused(ask, **asked, where=where) == words
    rule = f" --where {where}" if where else ""
    line = f"search --model llama3-8b --system h100-nvs8 --gpus {size} --batch 64{rule}"
    assert " ".join(jaxroof(line).err.split()) == f"jaxroof: {words}"
    for command in ("fit", "explain", "pareto", "compare"):
        said = jaxroof(line.replace("search", command, 1))
        assert (said.code, said.out) == (2, "")
        assert " ".join(said.err.split()).endswith(f"jaxroof: {words}")
    several = {name: value for name, value in asked.items() if name != "gpus"}
    grid = jr.search("training", **several, where=where or (), axes={"gpus": [size, 8, 1]})
    assert np.isnan(grid.step_time.values[0])
    assert int(grid.reason[0]) == 2
    assert "none_legal" not in grid.attrs
