"""The question of a stored result is answered again from the file alone, and compared."""

import json

import numpy as np
import pytest
import xarray as xr
from refusals import refused

import jaxroof as jr
from jaxroof.analyses.rerun import compare, rerun


def question(**changes):
    given = {"gpus": 64.0, "global_batch": 256.0, **changes}
    return jr.Inputs(model=jr.model("gpt3"), system=jr.system("h200-nvs4"), **given)


TOGETHER = {"system.hbm_capacity": ["80 GB", "141 GB"], "system.nics": [1, 2]}
ONE = {"data": 8.0, "tensor": 4.0, "pipeline": 2.0, "microbatch": 1.0}
TODAY = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}
RESULTS = {
    "search": lambda: jr.search(
        jr.published, question(), axes={"gpus": [7, 64]}, top=2, where="tensor<=4"
    ),
    "search of placements": lambda: jr.search(
        jr.published, question(), top=2, placements=True, objective="memory", attention="unfused"
    ),
    "axes that move together": lambda: jr.search(
        jr.published, question(), axes={"machine": TOGETHER}
    ),
    "systems by name": lambda: jr.search(
        jr.published, question(), axes={"system": ["h200-nvs4", "b200-nvs8"], "gpus": [64, 128]}
    ),
    "choices": lambda: jr.search(jr.published, question(), axes={"split": ["1d", "summa"]}),
    "table": lambda: jr.tabulate(
        jr.published,
        question(plan=jr.Plan(**ONE), gpus=None),
        axes={"plan.tensor": [4, 7], "system.nics": [1, 2]},
    ),
    "operator": lambda: jr.evaluate("matmul", batch=8, hidden=64, feedforward=64, system="tpu-v5e"),
    "elasticities": lambda: jr.elasticities(
        jr.published, question(), parameters=["system.hbm_bandwidth"], axes={"gpus": [32, 64]}
    ),
    "elasticities of a plan": lambda: jr.elasticities(
        jr.published, question(plan=jr.Plan(**ONE), gpus=None), of="memory"
    ),
    "legal plans": lambda: jr.survey(jr.published, question(gpus=8.0)),
    "fastest plans": lambda: jr.fastest_plans(**TODAY, gpus=8, top=2, own="tp=2", where="zero<=1"),
    "another chip": lambda: jr.fastest_plans(**TODAY, gpus=8, settings={"precision": "fp8"}),
    "least memory": lambda: jr.least_memory(**TODAY, where="off=0", top=2),
    "least memory on eight": lambda: jr.least_memory(**TODAY, gpus=8, own="tp=2"),
}


@pytest.fixture(scope="module", params=RESULTS)
def known(request):
    return RESULTS[request.param]()


def test_a_question_is_answered_again_from_its_file(known, tmp_path):
    jr.write(known, tmp_path / "a.json")
    found = rerun(jr.read(tmp_path / "a.json"))
    assert found.identical, found.differences
    assert found.compared == len(known.data_vars)
    assert found.versions == {}


def test_a_changed_question_has_another_answer(known):
    """Else the attributes would not be what is answered."""
    inputs = json.loads(known.attrs["inputs"])
    path = next(p for p in ("model.sequence", "sequence", "batch", "global_batch") if p in inputs)
    inputs = {**inputs, path: 2.0 * inputs[path]}
    found = rerun(known.assign_attrs(inputs=json.dumps(inputs)))
    assert not found.identical


DATA = xr.Dataset(
    {"time": ("x", [1.0, 2.0, np.nan]), "plans": ("x", [3, 4, -1]), "fits": True},
    {"x": [8, 16, 32]},
    {"versions": json.dumps({"jaxroof": "0.0.1", "unknown": "3"})},
)


def test_the_largest_difference_comes_first_with_its_place():
    now = DATA.assign(time=DATA.time * [1.0, 1.001, 1.0], plans=DATA.plans + np.array([1, 0, 0]))
    found = compare(DATA, now)
    assert [one.name for one in found.differences] == ["plans", "time"]
    assert found.differences[0].largest == pytest.approx(1 / 3)
    assert found.differences[1].largest == pytest.approx(1e-3)
    assert found.differences[1].where == {"x": 16}
    assert [one.points for one in found.differences] == [1, 1]
    assert found.versions["jaxroof"][0] == "0.0.1"
    assert "unknown" not in found.versions


def test_a_missing_number_a_flag_and_another_shape_differ_wholly():
    others = [
        DATA.assign(time=DATA.time.fillna(3.0)),
        DATA.assign(fits=False),
        DATA.assign(time=1.0),
    ]
    for now in others:
        (one,) = compare(DATA, now).differences
        assert np.isinf(one.largest)


def test_a_result_that_is_not_computed_any_more_is_named():
    found = compare(DATA, DATA.drop_vars("plans"))
    assert (found.not_again, found.identical) == (("plans",), False)


REFUSED = [  # attributes that are changed or, if None, lost; what is said
    ({"question": "design"}, "question: design cannot be answered again from a file"),
    ({"question": "x" * 500}, "cannot be answered again"),
    ({"question": None, "inputs": None}, "the file does not say what was asked"),
    ({"estimator": "mine"}, "mine: no such estimator"),
    ({"inputs": "{"}, "its attributes are damaged"),
    ({"inputs": "[" * 100_000}, "its attributes are damaged"),
    ({"inputs": "3"}, "its attributes are damaged"),
    ({"recipe": None}, "its attributes are damaged"),
    ({"where": '{"a": 1}'}, "its attributes are damaged"),
    ({"where": '["tensr<=8"]'}, "Did you mean 'tensor'?"),
    ({"objective": "speed"}, "speed: no such result"),
    ({"recipe": '{"split": "3d"}'}, "split: 3d: no such Split"),
    ({"inputs": '{"gpus": "many"}'}, "model: missing"),
]


@pytest.fixture(scope="module")
def small():
    return RESULTS["search of placements"]()


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_what_cannot_be_answered_again_says_why(changes, said, small):
    attrs = {k: v for k, v in {**small.attrs, **changes}.items() if v is not None}
    data = small.drop_attrs(deep=False).assign_attrs(attrs)
    line = refused(rerun, data)
    assert said in line
    assert len(line) < 400
