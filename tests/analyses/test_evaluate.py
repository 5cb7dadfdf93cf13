"""What can be asked: estimators are listed and shown, and answer settings by name."""

import dataclasses
import enum
import json

import numpy as np
import pytest
from refusals import refused

import jaxroof as jr
from jaxroof import estimators
from jaxroof.errors import InputError


def test_every_estimator_is_listed_with_its_question(jaxroof) -> None:
    listed = jaxroof("list estimators").out.splitlines()
    assert [line.split()[0] for line in listed] == list(estimators.names())
    assert all(line.endswith("?") for line in listed)


PLAN = {f"plan.{field}": 1 for field in ("data", "tensor", "pipeline", "microbatch")}
MACHINE = {"model": "gpt3", "system": "h200-nvs4"}


def test_settings_by_name_are_the_records() -> None:
    """Names, fields that differ from them, texts with units and choices make the same inputs."""
    found = jr.evaluate(
        "published", {**MACHINE, **PLAN, "split": "1d"}, **{"system.hbm_bandwidth": "2 TB/s"}
    )
    plan = jr.Plan(data=1.0, tensor=1.0, pipeline=1.0, microbatch=1.0)
    system = jr.system("h200-nvs4", hbm_bandwidth=2e12)
    expected = jr.tabulate(
        jr.published, jr.Inputs(model=jr.model("gpt3"), system=system, plan=plan)
    )
    np.testing.assert_equal(float(found.step_time), float(expected.step_time))


MISTAKES = [
    ({}, "model: missing; expected a name of the catalogue or its fields, model.FIELD"),
    ({**MACHINE, "plan.tensor": 4}, "plan.data: missing; expected a value: Data-parallel degree"),
    (MACHINE, "plan: not given; expected its fields, such as plan.data"),
    ({**MACHINE, **PLAN, "systm.nics": 1}, "systm.nics: no such field of Inputs"),
    ({**MACHINE, **PLAN, "system.nic": 1}, "Did you mean 'system.nics'?"),
    ({**MACHINE, **PLAN, "system.nics": -1}, "system.nics: expected a finite number above 0"),
    ({**MACHINE, **PLAN, "system.nics": "2 GB"}, "'GB' is not a plain number"),
    ({**MACHINE, **PLAN, "system.nics": "nan"}, "system.nics: not a finite number"),
    ({**MACHINE, **PLAN, "split": "2d"}, "split: 2d: no such Split"),
    ({"model": 3.0}, "model: a record, not a number, given 3.0; expected a name"),
    ({"model": "gpt3", "system": "tpu-v5", **PLAN}, "tpu-v5: no such system"),
    (
        {"model": "gpt3", "system.matrix_flops": 1e15, "system.hbm_bandwidth": 1e12, **PLAN},
        "system.slow_latency, system.fast_latency, system.hbm_capacity and system.fast_domain: not",
    ),
]


@pytest.mark.parametrize(("settings", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_a_mistake_names_the_field(settings, says) -> None:
    assert says in refused(jr.evaluate, "published", settings)


def test_an_unknown_estimator_is_answered_by_the_nearest() -> None:
    with pytest.raises(InputError, match=r"trainig: no such estimator. Did you mean 'training'\?"):
        jr.evaluate("trainig")


def test_a_setting_is_one_number_and_a_record_of_its_kind() -> None:
    shape = {"system": "tpu-v5e", "hidden": 8, "feedforward": 8}
    with pytest.raises(InputError, match=r"^batch: expected one number, given 2 of them; several"):
        jr.evaluate("matmul", shape, batch=np.array([1.0, 2.0]))
    with pytest.raises(InputError, match=r"^system: expected a System, given a Model$"):
        jr.evaluate("matmul", shape, system=jr.model("gpt3"), batch=4)
    with pytest.raises(InputError, match=r"^fed: no such field .* Did you mean 'feed'\?$"):
        jr.evaluate("matmul", shape, batch=4, fed="host")


def test_an_input_of_a_results_name_makes_an_axis() -> None:
    """A kernel's work is input and result: the axis over it has a name of its own."""
    found = jr.evaluate("kernel", system="tpu-v5e", axes={"flops": [1e9, 1e12], "traffic": [1e6]})
    assert dict(found.sizes) == {"input_flops": 2, "input_traffic": 1}
    np.testing.assert_allclose(found.flops.squeeze(), [1e9, 1e12], rtol=1e-15)


# ---- Choices of the recipe that come with a model -----------------------------------------------

UNFUSED = 'base = "gpt3"\nattention = "unfused"\n'
RANKS = {"plan.data": 2, "plan.tensor": 4, "plan.pipeline": 8, "plan.microbatch": 1}
CLUSTER = {"system": "b200-nvs8", "gpus": 64, "global_batch": 64}
SEARCH = "--estimator published --system b200-nvs8 --gpus 64 --batch 64"


@pytest.fixture
def unfused(tmp_path, monkeypatch):
    """Write a model that says how its attention runs into the folder of the test."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(UNFUSED)
    (tmp_path / "alike.toml").write_text('base = "gpt3"\n')
    return "mine.toml"


def point(model, **more):
    return jr.evaluate("published", {**CLUSTER, **RANKS, "model": model}, **more)


def start(name="gpt3"):
    system = jr.system("b200-nvs8")
    return jr.Inputs(model=jr.model(name), system=system, gpus=64.0, global_batch=64.0)


def same(ours, theirs):
    """Check that two results are the same number for number, their labels aside."""
    assert list(ours.data_vars) == list(theirs.data_vars)
    for name in ours.data_vars:
        np.testing.assert_array_equal(ours[name].values, theirs[name].values, err_msg=name)


def test_a_model_s_choices_count_where_nobody_chooses(unfused):
    """A setting, a recipe that is given and a choice on an axis win over what a model says."""
    assert point(unfused).attrs["recipe"] == point("gpt3", attention="unfused").attrs["recipe"]
    same(point(unfused), point("gpt3", attention="unfused"))
    same(point(unfused, attention="fused"), point("gpt3"))
    assert float(point(unfused).step_time) != float(point("gpt3").step_time)
    assert isinstance(jr.model(unfused), jr.Model)
    plain = jr.search(jr.published, start())
    other = jr.search(jr.published, start(), settings={"attention": "unfused"})
    same(jr.search(jr.published, start(), model=unfused), other)
    same(jr.search(jr.published, start(), model=unfused, attention="fused"), plain)
    same(jr.search(jr.published, start(), jr.Recipe(), model=unfused), plain)
    pair = (jr.model("gpt3"), {"attention": "unfused"})
    same(jr.search(jr.published, start(), settings={"model": pair}), other)


class Way(enum.Enum):
    """How a field is ploughed."""

    TURNS, ROWS = "turns", "rows"


class Depth(enum.Enum):
    """How deep."""

    FLAT, DEEP = "flat", "deep"


@dataclasses.dataclass(frozen=True)
class Ploughing:
    """Choices of a question of one's own."""

    way: Way = Way.TURNS
    depth: Depth = Depth.FLAT


@jr.record
class Field:
    """A field."""

    rows: float = jr.quantity("1", "Rows to plough.", whole=True)
    length: float = jr.quantity("m", "Length of a row.")


@jr.record
class Teams:
    """Who ploughs it."""

    teams: float = jr.quantity("1", "Teams.", whole=True)


@jr.record
class Farm:
    """What is asked."""

    model: Field
    speed: float = jr.quantity("m/s", "Speed of an ox.", default=0.5)
    oxen: float = jr.quantity("1", "Oxen.", whole=True, default=12.0)
    plan: Teams | None = None


@jr.record
class Ploughed:
    """What is answered."""

    time: float = jr.quantity("s", "Time.")
    turns: float = jr.quantity("s", "Time of turns.")
    oxen_needed: float = jr.quantity("1", "Oxen needed.")
    feasible: bool = jr.quantity("1", "There are as many.")


def ploughed(inputs, recipe):
    """Return what ploughing takes: turns only where rows are not ploughed one way."""
    field, teams = inputs.model, inputs.plan.teams
    time = field.rows * field.length / inputs.speed / teams
    turns = {Way.TURNS: field.rows, Way.ROWS: 0.0 * teams}[recipe.way]
    return Ploughed(
        time=time * {Depth.FLAT: 1.0, Depth.DEEP: 1.5}[recipe.depth] + turns,
        turns=turns,
        oxen_needed=2.0 * teams,
        feasible=2.0 * teams <= inputs.oxen,
    )


def divided(inputs, recipe):
    teams = np.arange(1, int(inputs.model.rows) + 1)
    legal = {"teams": teams[int(inputs.model.rows) % teams == 0]}
    return jr.estimator.Candidates(legal, {})


FIELDS = {
    "north": Field(rows=6.0, length=100.0),
    "south": (Field(rows=6.0, length=100.0), {"way": "rows"}),
    "west": Field(rows=8.0, length=70.0),
    "east": (Field(rows=10.0, length=70.0), {"way": "rows", "depth": "deep"}),
}
PLOUGHING = jr.Estimator(
    step=ploughed, inputs=Farm, plan=Teams, recipe=Ploughing(), candidates=divided,
    structural=("model",), objective="time", need="oxen_needed", limit=lambda inputs: inputs.oxen,
    names={"model": FIELDS.__getitem__}, name="ploughing",
)  # fmt: skip
FARM = Farm(model=FIELDS["north"])
PLANNED = Farm(model=FIELDS["north"], plan=Teams(teams=2.0))
SPEEDS = {"speed": [0.5, 1.0, 2.0]}


@pytest.mark.parametrize("depths", [{}, {"depth": ["deep", "flat"]}], ids=["", "depths"])
@pytest.mark.parametrize(("ask", "asked", "more"), [
    (jr.search, FARM, {"top": 2}), (jr.tabulate, PLANNED, {}),
    (jr.elasticities, FARM, {"parameters": ["speed"]}),
    (jr.elasticities, PLANNED, {"parameters": ["speed"]}),
    (jr.uncertain, FARM, {"distributions": {"speed": (0.4, 0.6)}, "samples": 8}),
], ids=["search", "table", "slopes", "slopes of a table", "uncertain"])  # fmt: skip
def test_records_of_different_choices_on_an_axis_are_a_program_each(ask, asked, more, depths):
    """Beside other axes, of numbers and of choices: point for point what each is by itself."""
    speeds = SPEEDS if ask is not jr.uncertain else {"oxen": [4, 12]}
    found = ask(PLOUGHING, asked, axes={**speeds, "model": list(FIELDS), **depths}, **more)
    assert list(found["model"].values) == list(FIELDS)
    assert json.loads(found.attrs["recipe"]) == {}  # both are in the labels
    for name in FIELDS:
        alone = ask(PLOUGHING, asked, axes={**speeds, **depths}, model=name, **more)
        assert set(found.data_vars) == set(alone.data_vars)
        for result in alone.data_vars:
            one = found[result]
            one = one.sel(model=name) if "model" in one.dims else one
            one = one.isel({d: slice(n) for d, n in alone[result].sizes.items() if d in one.dims})
            ours = np.broadcast_to(*_alike(one, alone[result]))
            np.testing.assert_array_equal(ours, alone[result].values, err_msg=result)


def test_stairs_and_plans_over_records_of_different_choices():
    stairs = jr.pareto(PLOUGHING, FARM, axes={"model": list(FIELDS)})
    for name in FIELDS:
        own = jr.pareto(PLOUGHING, FARM, model=name)
        ours = stairs.isel(step_number=stairs["model"].values == name)
        np.testing.assert_array_equal(ours.time.values, own.time.values)
    plans = jr.plans(PLOUGHING, FARM, model="east")
    assert json.loads(plans.attrs["recipe"]) == {"way": "rows", "depth": "deep"}
    with pytest.raises(InputError, match="model: chooses way, depth of the recipe; expected one"):
        jr.plans(PLOUGHING, FARM, axes={"model": list(FIELDS)})


def _alike(one, other):
    """Return values with the dimensions of another's, and its shape."""
    missing = [dim for dim in other.dims if dim not in one.dims]
    return one.expand_dims(missing).transpose(*other.dims).values, other.shape


SWEEPS = {  # a sweep file of the model, the same of its choice
    "search": ('model = "mine.toml"', 'model = "gpt3"\nset = { attention = "unfused" }'),
    "wins": ('model = "mine.toml"\nset = { attention = "fused" }', 'model = "gpt3"'),
    "axis": ('answer = "step"\n[axes]\nmodel = ["gpt3", "mine.toml"]',
     'model = "gpt3"\n[axes]\nattention = ["fused", "unfused"]'),
    "axis that loses": ('set = { attention = "unfused" }\n[axes]\nmodel = ["gpt3", "mine.toml"]',
     'set = { attention = "unfused" }\n[axes]\nmodel = ["gpt3", "alike.toml"]'),
    "beside": ('model = "mine.toml"\n[axes]\nmodel = ["vit-era5", "gpt3"]',
     '[axes]\nmodel = ["vit-era5", "gpt3"]'),
}  # fmt: skip
HEAD = """
estimator = "published"
title = "What a model says"
system = "b200-nvs8"
plan = { gpus = 64, global_batch = 64, data = 2, tensor = 4, pipeline = 8 }
"""


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_file_follows_what_its_models_choose(name, unfused, tmp_path):
    found = []
    for number, text in enumerate(SWEEPS[name]):
        path = tmp_path / f"{number}.toml"
        path.write_text(HEAD + text)
        found.append(jr.run(path))
    ours, theirs = (data.step_time.values.ravel() for data in found)
    np.testing.assert_array_equal(ours, theirs)


def test_commands_follow_what_a_model_chooses(unfused, jaxroof):
    for command in ("search", "pareto"):
        ours = jaxroof(f"{command} --model mine.toml {SEARCH}")
        theirs = jaxroof(f"{command} --model gpt3 {SEARCH} --set attention=unfused")
        assert (ours.code, ours.out) == (0, theirs.out.replace("gpt3 on", "mine.toml on"))
        ours = jaxroof(f"{command} --model mine.toml {SEARCH} --set attention=fused")
        theirs = jaxroof(f"{command} --model gpt3 {SEARCH}")
        assert ours.out == theirs.out.replace("gpt3 on", "mine.toml on")
    ours = jaxroof("layers --estimator published --model mine.toml --system b200-nvs8 --plan tp=4")
    assert "logits" in ours.out
    assert jaxroof(f"compare --model gpt3,mine.toml {SEARCH} --split 1d -o both.csv").code == 0
    assert jaxroof(f"compare --model mine.toml {SEARCH} --split 1d -o one.csv").code == 0
    both, one = jr.read("both.csv"), jr.read("one.csv")
    assert float(both.step_time.values.ravel()[1]) == float(one.step_time.values.ravel()[0])
    assert float(both.step_time.values.ravel()[0]) != float(one.step_time.values.ravel()[0])


def test_rows_follow_what_their_models_choose(unfused, jaxroof, tmp_path):
    head = "model,system,gpus,global_batch,dp,tp,pp,microbatch"
    rows = [f"{model},b200-nvs8,64,64,2,4,8,1" for model in ("gpt3", "mine.toml", "gpt3")]
    (tmp_path / "rows.csv").write_text("\n".join([head, *rows]))
    for more, expected in (
        ("", ["fused", "unfused", "fused"]),
        ("--set attention=fused", ["fused"] * 3),
    ):
        assert jaxroof(f"evaluate published rows.csv -o out.csv {more}").code == 0
        times = jr.read("out.csv").step_time.values
        alone = [float(point("gpt3", attention=name).step_time) for name in expected]
        np.testing.assert_allclose(times, alone, rtol=1e-12)
    (tmp_path / "rows.csv").write_text(
        "\n".join([head[6:], *(row[row.index(",") + 1 :] for row in rows)])
    )
    assert jaxroof("evaluate published rows.csv -o out.csv --set model=mine.toml").code == 0
    expected = float(point(unfused).step_time)
    np.testing.assert_allclose(jr.read("out.csv").step_time.values, expected, rtol=1e-12)


def test_a_choice_that_an_estimator_lacks_is_refused(unfused, jaxroof, tmp_path):
    """What a model is cannot be left out in silence."""
    said = jaxroof("layers --estimator unfused --model mine.toml --system a100-unfused --plan tp=4")
    assert said.code == 2
    assert "model: attention: no such choice of this estimator; expected one of variant" in said.err
    (tmp_path / "mine.toml").write_text('base = "gpt3"\nattention = "unfussed"\n')
    said = jaxroof(f"search --model mine.toml {SEARCH}")
    assert "model: attention: unfussed: no such Attention. Did you mean 'unfused'?" in said.err
    (tmp_path / "mine.toml").write_text('base = "gpt3"\natention = "unfused"\n')
    said = jaxroof(f"search --model mine.toml {SEARCH}")
    assert "atention: no such field of Model. Did you mean 'attention'?" in said.err
    (tmp_path / "mine.toml").write_text('base = "gpt3"\nattention = 3\n')
    said = jaxroof(f"search --model mine.toml {SEARCH}")
    assert "attention: not a string, given 3" in said.err
