"""Systems side by side: unlike questions, and the probability that one step is sooner."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from daily import daily
from refusals import refused

import jaxroof as jr
from jaxroof.analyses.compare import contender
from jaxroof.estimators.training.interval import REGIMES, WITHIN_SOURCE, Uncertain, chance_sooner
from jaxroof.validation.steps import packaged_answers

ASKED: dict[str, Any] = {"model": "llama3-8b", "global_batch": 64, "where": "tp<=2,pp=1,off=0"}
UNLIKE = ["h800-nvs8:16:fp8", "gb200-nvl72:8:mxfp8", "h100-nvs8:32"]


@pytest.fixture(scope="module")
def unlike() -> Any:
    return jr.compare(system=UNLIKE, **ASKED)


def test_each_of_unlike_questions_is_answered_as_alone(unlike: Any) -> None:
    for text, name in zip(UNLIKE, unlike.system.values, strict=True):
        one = contender(text)
        alone = jr.fastest_plans(
            system=one.system, gpus=one.gpus, settings={"precision": one.number_format}, **ASKED
        )
        found = unlike.sel(system=name)
        assert float(found.step_time) == pytest.approx(float(alone.step_time[0]), rel=1e-12)
        assert float(found.memory) == pytest.approx(float(alone.memory[0]), rel=1e-12)
        assert int(found.gpus) == one.gpus
        assert float(found.memory_limit) == float(alone.capacity)


def test_the_command_says_what_the_function_returns(
    unlike: Any, jaxroof: Any, tmp_path: Any
) -> None:
    said = jaxroof(
        f"compare --model llama3-8b --batch 64 --where {ASKED['where']} --system {','.join(UNLIKE)}"
        " -o both.json"
    )
    assert said.code == 0
    assert "llama3-8b, batch 64" in said.out
    written = jr.read(tmp_path / "both.json")
    for name in unlike.data_vars:
        np.testing.assert_array_equal(written[name].values, unlike[name].values, err_msg=str(name))
    fastest = str(unlike.system.values[np.argmin(unlike.step_time.values)])
    after = unlike.sortby("step_time").isel(system=1)
    assert f"Fastest: {fastest}, " in said.words
    assert f"It is sooner with a probability of {100 * float(after.sooner):.0f} %" in said.words
    assert json.loads(written.attrs["models"]) == {"llama3-8b": 15e12}


def test_a_file_of_unlike_questions_is_answered_again(jaxroof: Any) -> None:
    asked = "compare --model llama3-8b --batch 8 --where tp=1,pp=1,off=0,mb=1 --set chip.step=2ms"
    jaxroof(f"{asked} --system h100-nvs8:8,a100-80-sxm:16 -o pair.nc")
    said = jaxroof("rerun pair.nc")
    assert (said.code, said.err) == (0, "")
    assert "Identical" in said.words


BAD = [
    ({"system": "h100-nvs8"}, "gpus: missing; expected a number, or h100-nvs8:GPUS"),
    ({"system": ["h100-nvs8:8", "h100-nvs8:16"], "gpus": [8, 16]}, "gpus: several, beside"),
    ({"system": "h100-nvs8:8:fp8", "precision": "fp8"}, "its precision is given for all"),
    ({"system": "h100-nvs8:8:fp8:1"}, "system: expected SYSTEM, SYSTEM:GPUS or"),
    ({"system": "h100-nvs8:0"}, "system: expected SYSTEM, SYSTEM:GPUS or"),
    ({"system": ["h100-nvs8:8", "h100-nvs8:8"]}, "system: 8 x h100-nvs8: given twice"),
    ({"system": "h100-nvs9:8"}, "system: h100-nvs9: no such system"),
    ({"system": "h100-nvs8:8:fp9"}, "precision: fp9: no such number format"),
    ({"system": "rtx-4090:8"}, "rtx-4090: lacks hbm_capacity, fast_bandwidth, slow_bandwidth"),
]


@pytest.mark.parametrize(("asked", "said"), BAD)
def test_bad_contenders_are_refused(asked: dict[str, Any], said: str) -> None:
    assert said in refused(jr.compare, **{**ASKED, **asked})


def test_a_system_without_a_step_time_is_told_beside_the_others() -> None:
    data = jr.compare(system=["h100-nvs8:8", "rtx-4090:8", "tpu-v5p:8"], **ASKED)
    assert data.system.values.tolist() == ["8 x h100-nvs8"]
    without = json.loads(data.attrs["without"])
    assert "lacks hbm_capacity" in without["8 x rtx-4090"]
    assert "whose step is MaxText's" in without["8 x tpu-v5p"]
    assert "sooner" not in data


@pytest.mark.parametrize("place", range(len(REGIMES)))
@pytest.mark.parametrize("other", daily(range(len(REGIMES)), 0, 3, 7))
def test_chances_are_those_of_two_errors_of_which_a_part_is_shared(place: int, other: int) -> None:
    """Drawn: an error of each, and one of the software, as far as both have it."""
    rng = np.random.default_rng(7)
    halves = [REGIMES[each].half_widths[1] / 1.2815515655 for each in (place, other)]
    within = [WITHIN_SOURCE[each] / 1.2815515655 for each in (place, other)]
    shared = min(max(h**2 - w**2, 0.0) for h, w in zip(halves, within, strict=True))
    software = rng.normal(size=200_000) * np.sqrt(shared)
    draws = [
        np.log(time) + software + rng.normal(size=200_000) * np.sqrt(h**2 - shared)
        for time, h in zip((10.0, 11.0), halves, strict=True)
    ]
    widths = [1.2815515655 * h for h in halves]
    one, two = Uncertain(10.0, widths[0], place), Uncertain(11.0, widths[1], other)
    assert float(chance_sooner(one, two)) == pytest.approx(np.mean(draws[0] < draws[1]), abs=5e-3)
    assert float(chance_sooner(one, two)) + float(chance_sooner(two, one)) == pytest.approx(1.0)


def test_pairs_of_measured_runs_lie_inside_as_often_as_promised() -> None:
    """Pairs of one source and model on other chips or precisions: 80 % inside, 50 % inside."""
    width = {one.words: (one.half_widths[1], place) for place, one in enumerate(REGIMES)}
    chances = []
    for _, rows in packaged_answers().dropna(subset="error").groupby("source"):
        kinds = zip(rows["chip"], rows["regime"], strict=True)
        known = list(zip(rows["model"], kinds, np.log1p(rows["error"]), strict=True))
        for (model, kind, error), (another, other, beside) in itertools.combinations(known, 2):
            if model == another and kind != other:
                chances.append((error, *width[kind[1]], beside, *width[other[1]]))
    columns = np.array(chances).T
    first = Uncertain(np.exp(columns[0]), columns[1], columns[2])
    quantile = chance_sooner(first, Uncertain(np.exp(columns[3]), columns[4], columns[5]))
    assert len(quantile) > 4_000
    assert np.mean(np.abs(quantile - 0.5) < 0.4) == pytest.approx(0.84, abs=0.03)
    assert np.mean(np.abs(quantile - 0.5) < 0.25) == pytest.approx(0.54, abs=0.04)
