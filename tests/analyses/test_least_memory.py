"""The plans that need the least memory, and the fewest accelerators that hold a step."""

import dataclasses
import json

import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.analyses.training_plans import plans_asked, plans_on
from jaxroof.catalog.lookup import device
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.question import Question
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.search.none_legal import NoLegalPlan
from jaxroof.engine.search.problem import constraints_of
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import StageInputs, TrainingPlan
from jaxroof.estimators.training.plans import cluster_sizes, plans
from jaxroof.estimators.training.step import memory_limit, stage_memory
from jaxroof.records import checked

ASKED = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 12}
USUAL = "off=0,zero<=1"
FIELDS = tuple(TrainingPlan.__dataclass_fields__)


def inputs(gpus: float | None = None) -> StageInputs:
    return StageInputs(
        model=jr.architecture("llama3-8b"),
        system=device("h100-nvs8"),
        gpus=gpus,
        global_batch=12.0,
    )


def test_the_least_is_the_least_of_all_plans() -> None:
    data = jr.least_memory(**ASKED, gpus=8, top=3, where=USUAL)
    every = jr.survey(stage_memory, inputs(8.0), where=USUAL, model="llama3-8b")
    order = np.argsort(every.device.values, kind="stable")
    for name in FIELDS:
        assert int(data[name][0]) == int(every[name][order[0]])
    assert float(data.device[0]) == pytest.approx(float(every.device.min()), rel=1e-12)
    assert int(data.plans_legal) == every.sizes["plan"]
    assert int(data.plans_feasible) == int(every.feasible.sum())
    assert np.all(np.diff(data.device) >= 0.0)


@pytest.mark.parametrize("where", ["", "zero<=1,off=0", "rc=1,zero!=0", "tp>2"])
def test_plans_as_a_product_need_what_each_reports(where: str) -> None:
    """ZeRO stage, recomputation and offload are dimensions of their own, whatever is left out."""
    asked = dataclasses.replace(inputs(), model=jr.architecture("mixtral-8x7b"))
    rules = constraints_of(stage_memory, where)
    question = Question(stage_memory, checked(asked), stage_memory.recipe)
    machine = plans_on(plans_asked(stage_memory, question, rules), 12)
    found, need = machine.plans.whole(), machine.need
    report = evaluate_points(
        stage_memory, stage_memory.recipe, with_plans(stage_memory, asked, found)
    )
    np.testing.assert_allclose(need, report["device"], rtol=1e-12)
    legal = survey_of(12, where)
    order = np.lexsort([*reversed(found.values())])
    for name, column in found.items():
        np.testing.assert_array_equal(column[order], legal[name].values, err_msg=name)
    assert machine.refused == json.loads(legal.attrs["refused"])


def survey_of(gpus: int, where: str) -> xr.Dataset:
    asked = dataclasses.replace(inputs(float(gpus)), model=jr.architecture("mixtral-8x7b"))
    return jr.survey(stage_memory, asked, where=where)


def test_the_fewest_accelerators_are_found_by_trying_every_number() -> None:
    found = jr.least_memory(**ASKED, where=USUAL)
    fewest = int(found.gpus)
    limit = float(memory_limit(inputs()))
    for gpus in range(1, fewest + 1):
        every = jr.survey(stage_memory, inputs(float(gpus)), where=USUAL, model="llama3-8b")
        fits = bool(every.sizes["plan"]) and float(every.device.min()) <= limit
        assert fits == (gpus == fewest), gpus


def test_every_number_of_accelerators_with_a_legal_plan_is_known() -> None:
    recipe, most = stage_memory.recipe, 40
    sizes = cluster_sizes(inputs(), recipe, most)
    legal = [n for n in range(1, most + 1) if len(plans(inputs(float(n)), recipe).plans["data"])]
    assert sizes.tolist() == legal


def test_the_same_memory_with_the_same_degrees_is_shown_once() -> None:
    data = jr.least_memory(**ASKED, gpus=4, top=20)
    split = [
        name for name in FIELDS if name not in ("zero_stage", "recompute", "offload_optimizer")
    ]
    rows = {tuple(row) for row in np.stack([data[n].values for n in (*split, "device")], axis=1)}
    assert len(rows) == data.sizes["plan"] == 20


def test_what_never_fits_says_what_comes_nearest() -> None:
    data = jr.least_memory(**ASKED, most=8, **{"system.hbm_capacity": "2 GB"})
    assert not bool(data.fits)
    assert int(data.plans_feasible) == 0
    assert float(data.device[0]) > float(data.capacity)
    assert int(data.gpus) == 8


def test_a_plan_of_ones_own_has_a_place() -> None:
    data = jr.least_memory(**ASKED, gpus=8, own="tp=2,pp=1,rc=0", where="off=0")
    own = json.loads(str(data.own_plan.values))
    assert (own["tensor"], own["pipeline"], own["recompute"]) == (2, 1, 0)
    every = jr.survey(stage_memory, inputs(8.0), where="off=0", model="llama3-8b")
    mask = np.all([every[name].values == value for name, value in own.items()], axis=0)
    assert float(data.own) == pytest.approx(float(every.device.values[mask][0]), rel=1e-12)
    assert int(data.own_place) == 1 + int((every.device < float(data.own)).sum())


WRONG = [
    ({"own": "tp=3"}, r"^mine: tp=3: not legal .tensor degrees .* has 32 heads; expected tp=2"),
    ({"own": "tp<=2"}, r"^mine: tp<: no such plan field. Did you mean 'tp'"),
    ({"own": "tp=2,pp=2,cp=3"}, r"^mine: tp=2, cp=3: not legal"),
    ({"own": "zero=4"}, r"^mine: zero: expected whole numbers from 0 to 3"),
    ({"own": "tp 2", "where": "tp=1"},
     r"^mine: tp 2: none of the .* legal plans that --where leaves"),
    ({"where": "tq<=2"}, r"^where: tq: no such plan field"),
    ({"gpus": 2.5}, r"^gpus: expected a whole number"),
    ({"gpus": 13}, r"^plan: none is legal on 13 accelerators; expected 12 or 14 accelerators"),
    ({"model": "llama3-8"}, r"^llama3-8: no such architecture. Did you mean 'llama3-8b'"),
    ({"model": "vit-l-16"}, r"^model: a model of pictures; expected a model with a vocabulary"),
    ({"global_batch": 0}, r"^global_batch: expected a whole number above 0"),
    ({"hbm_capacity": 3}, r"^hbm_capacity: "),
    ({"model.sequence": None, "layers": 3}, r"^layers: "),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), WRONG)
def test_bad_input_is_one_line(changed: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        jr.least_memory(**{**ASKED, "gpus": 6, **changed})


def test_unequal_stages_are_weighed_where_equal_ones_divide_nothing() -> None:
    asked = {**ASKED, "model": "deepseek-v3", "global_batch": 64, "gpus": 16, "where": "pp=16"}
    with pytest.raises(
        NoLegalPlan, match=r"no legal plan on 16 .* has pp=16; expected such as pp=1"
    ):
        jr.least_memory(**asked, layer_division="equal")
    assert int(jr.least_memory(**asked).plans_legal) > 0


def test_no_legal_plan_is_an_error_of_its_own() -> None:
    with pytest.raises(NoLegalPlan, match=r"no legal plan on 8 accelerators has tp>=64"):
        jr.least_memory(**ASKED, gpus=8, where="tp>=64")
