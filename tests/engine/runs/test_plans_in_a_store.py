"""Every plan of a grid in a store: stopped, it goes on; as CSV it is an export of the same rows."""

import pathlib

import pandas as pd
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.engine.runs import chunked_sweep as sweep

MINE = """
import dataclasses
import enum
import numpy as np
import jaxroof as jr

class Order(enum.Enum):
    TURNS, ROWS = "turns", "rows"

@dataclasses.dataclass(frozen=True)
class Recipe:
    order: Order = Order.TURNS
    packing: Order | None = None

@jr.record
class Field:
    rows: float = jr.quantity("1", "Rows to plough.", whole=True)
    length: float = jr.quantity("m", "Length of a row.")
    stones: float | None = jr.quantity("1", "Stones.", default=None)

@jr.record
class Plan:
    teams: float = jr.quantity("1", "Teams.", whole=True)
    turns: float = jr.quantity("1", "Turns of a team.", whole=True)

@jr.record
class Inputs:
    model: Field
    oxen: float | None = jr.quantity("1", "Oxen.", whole=True, default=None)
    speed: float = jr.quantity("m/s", "Speed of an ox.", default=0.5)
    plan: Plan | None = None

def step(inputs, recipe):
    plan, field = inputs.plan, inputs.model
    divides = field.rows % plan.teams == 0
    time = field.rows * field.length / inputs.speed / plan.teams + plan.turns / 4.0
    fits = plan.teams * plan.turns <= 12.0
    return {
        "time": time if recipe.order is Order.TURNS else 2.0 * time,
        "memory": plan.teams * plan.turns,
        "teams_divide_rows": divides,
        "memory_fits": fits,
        "feasible": divides & fits,
    }

def tried(inputs, recipe):
    teams, turns = np.meshgrid(np.arange(1, int(inputs.oxen) + 1), [1, 3])
    return {"teams": teams.T.ravel(), "turns": turns.T.ravel()}

FIELDS = {"north": Field(rows=6, length=100.0), "south": Field(rows=8, length=0.1 + 0.2)}
estimator = jr.Estimator(
    step=step, inputs=Inputs, plan=Plan, recipe=Recipe(), tried=tried, need="memory",
    candidates=lambda inputs, recipe: jr.estimator.Candidates(tried(inputs, recipe), {}),
    structural=("oxen", "model"), objective="time", names={"model": FIELDS.__getitem__},
    limit=lambda inputs: 12.0, name="ploughing",
)
"""
SWEEP = """
title = "A field"
estimator = "mine:estimator"
answer = "plans"
model = "north"
[axes]
oxen = [4]
"""


@pytest.fixture
def field(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


STUDY = """
estimator = "pipeline"
answer = "plans"
model = "mlp-study"
system = "distir-a"
set = { profile = "distir-a", "model.layers" = 2 }
search = { where = "pipeline=2" }
axes = { gpus = [2], global_batch = [66] }
"""
GRIDS = [  # the file, its points, what is changed, what is said
    (SWEEP, 8, ('"north"', '"south"'), "model.rows: 6 there, 8 here"),
    pytest.param(
        *(STUDY, 2, ('layers" = 2', 'layers" = 4'), "model.layers: 2 there, 4 here"),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("text", "points", "change", "said"), GRIDS, ids=["field", "study"])
def test_a_stopped_grid_of_every_plan_goes_on(
    text, points, change, said, field, jaxroof, monkeypatch
):
    pathlib.Path("sweep.toml").write_text(text)
    first = jaxroof("run sweep.toml --trust -o rows.csv")
    assert first.code == 0
    assert first.out
    rows = pd.read_csv("rows.csv")
    assert len(rows) == points
    ran = []

    def once(*asked):
        ran.append(asked)
        if len(ran) > 1:
            raise KeyboardInterrupt
        return whole(*asked)

    whole = sweep._evaluated
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "_evaluated", once)
        stop = jaxroof("run sweep.toml --trust -o rows.zarr --chunk 1")
    assert (stop.code, stop.out) == (130, "")
    assert f"1 of {points} chunks are finished; run again to continue" in stop.err
    assert jaxroof("run sweep.toml --trust -o rows.zarr").out == first.out
    data = jr.read("rows.zarr").load()
    xr.testing.assert_identical(data, jr.run("sweep.toml", trust=True))
    time = next(name for name in ("time", "step_time") if name in data)
    assert rows[time].dropna().tolist() == data[time].values[data.feasible.values].tolist()
    pathlib.Path("sweep.toml").write_text(text.replace(*change))
    assert f"holds another sweep: {said}" in jaxroof("run sweep.toml --trust -o rows.zarr").err


def test_chunks_are_of_a_store(field, jaxroof):
    for option in ("--chunk 3", "--overwrite"):
        said = jaxroof(f"run sweep.toml --trust -o rows.csv {option}")
        assert said.code == 2
        assert "of a .zarr file alone; expected one as the output" in said.err
