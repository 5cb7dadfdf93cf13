"""Which accelerators, and how many: what is in time, for least, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daily import daily
from places import ROOT

import jaxroof as jr
from jaxroof.analyses.budget import broken
from jaxroof.config.budget_file import run_budget
from jaxroof.errors import InputError
from jaxroof.estimators.whole_run.report import LOW, MEDIAN
from jaxroof.io import formats
from jaxroof.io.stored_format import checksums
from jaxroof.units import days
from jaxroof.views.answers import answer, headline
from jaxroof.views.text.budget import _above
from jaxroof.views.text.whole_run import watts

DAY = 86400.0
ASKED: dict[str, Any] = {
    "model": "llama3-8b",
    "system": ["h100-nvs8", "gb200-nvl72"],
    "gpus": [64, 128, 256],
    "global_batch": 512,
    "where": "tensor=8,context=1",
    "operation": {"rent": "2.2 $/h"},
    "by_system": {"gb200-nvl72": {"rent": "3.3 $/h"}},
}
FILE = """
title = "A small one"
model = "llama3-8b"
systems = ["h100-nvs8", "gb200-nvl72"]
gpus = { from = 64, to = 128, steps = 2 }
batch = 512
deadline = "300 days"
where = "tensor=8,context=1"
[operation]
chip_mtbf = "40_000 h"
rent = "2.2 $/h"
[operation.gb200-nvl72]
rent = "3.3 $/h"
"""


@pytest.fixture(scope="module")
def free() -> Any:
    return jr.budget(**ASKED)


def words(data: Any) -> str:
    return " ".join(piece for _, piece, _ in answer(data) if isinstance(piece, str))


def test_the_least_is_taken_of_what_is_in_time(free: Any):
    assert free.sizes["choice"] == 6
    assert float(free.cost[int(free.best)]) == float(free.cost.min())
    some = jr.budget(**ASKED, deadline=float(np.sort(free.wall_days.values)[2]) * DAY)
    assert int(some.allowed.sum()) == 3
    assert float(some.cost[int(some.best)]) == float(some.cost.values[some.allowed.values].min())
    assert "days sooner for" in words(free)


def test_nothing_in_time_names_what_would_be(free: Any):
    none = jr.budget(**ASKED, deadline=1.0 * DAY)
    assert int(none.best) == -1
    soonest = free.isel(choice=int(np.argmin(free.wall_days.values)))
    near = f"{int(soonest.gpus)} {soonest.system.values} would be"
    assert headline(none).startswith(f"None is done in 1 day; {near}")
    assert "days late: " in headline(none)


def test_the_power_of_a_site_is_a_second_limit(free: Any):
    most = float(np.median(free.peak_site_watts))
    found = jr.budget(**ASKED, site_power=most)
    np.testing.assert_array_equal(found.allowed, free.peak_site_watts <= most)
    assert broken(found).keys() == {"power"}
    soon = jr.budget(**ASKED, site_power=most, minimise="days")
    assert f"would need {_above_words(free, most)} instead of" in words(soon)
    both = jr.budget(**ASKED, site_power=1.0, deadline=DAY)
    assert headline(both).startswith("None is done in 1 day and with 1 W; the soonest is")


def _above_words(free: Any, most: float) -> str:
    least = min(watt for watt in free.peak_site_watts.values if watt > most)
    return watts(_above(float(least)))


def test_a_deadline_that_published_runs_miss_is_told(free: Any):
    day = float(free.wall_days[int(free.best)])
    median, slowest = (day / speed for speed in (MEDIAN, LOW))
    for most, said in (
        (1.001 * day, f"speed, late at the median of published runs ({days(median)}"),
        (1.001 * median, f"late at the slowest of published runs ({days(slowest)} days)"),
    ):
        assert said in headline(jr.budget(**ASKED, deadline=most * DAY))
    assert "late" not in headline(jr.budget(**ASKED, deadline=1.001 * slowest * DAY))


def test_each_number_has_the_plan_of_a_search(free: Any):
    row = free.isel(choice=0)
    found = jr.search(
        "training", model="llama3-8b", system="h100-nvs8", gpus=64, global_batch=512,
        where=ASKED["where"], settings={"operation.rent": "2.2 $/h"},
    )  # fmt: skip
    for name in ("step_time", "wall_days", "cost", "goodput"):
        assert float(row[name]) == pytest.approx(float(found[name]), rel=1e-12)


def test_a_comparison_pays_the_same(free: Any):
    data = jr.compare(
        system=["h100-nvs8", "gb200-nvl72"], model="llama3-8b", gpus=64, global_batch=512,
        where=ASKED["where"], settings={"operation.rent": "2.2 $/h"},
    )  # fmt: skip
    for name, factor in (("h100-nvs8", 1.0), ("gb200-nvl72", 3.3 / 2.2)):
        row = free.isel(choice=int(np.flatnonzero((free.system == name) & (free.gpus == 64))[0]))
        one = data.sel(system=name)
        for result, scale in (("wall_days", 1.0), ("energy", 1.0), ("cost", factor)):
            assert float(one[result]) * scale == pytest.approx(float(row[result]), rel=1e-12)


def test_one_system_is_rented_and_another_bought():
    asked = {**ASKED, "gpus": 64, "operation": {"price": 3e4, "tariff": 2e-8}}
    data = jr.budget(**asked)
    rented = jr.budget(**{**asked, "operation": {"rent": "3.3 $/h"}, "system": "gb200-nvl72"})
    assert float(data.cost[1]) == float(rented.cost[0])


def test_machines_of_gpus_and_of_tpus_stand_side_by_side(tmp_path: Path):
    asked: dict[str, Any] = {"model": "llama3-8b", "gpus": 64, "global_batch": 512}
    asked |= {"operation": {"rent": "2 $/h"}}
    data = jr.budget(**asked, system=["h100-nvs8", "tpu-v5p"], where="tensor=1,context=1")
    for place, name in enumerate(("h100-nvs8", "tpu-v5p")):
        alone = jr.budget(**asked, system=name, where="tensor=1,context=1")
        for result in ("wall_days", "cost", "goodput"):
            assert float(data[result][place]) == float(alone[result][0])
    said = words(data)
    assert "Plan: dp" in said
    assert "64 tpu-v5p for 64 % more money: " in said
    formats.write(data, tmp_path / "both.nc")
    assert checksums(formats.read(tmp_path / "both.nc")) == checksums(data)


def test_a_file_asks_the_same(tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text(FILE)
    data = run_budget(path, {})
    assert data.gpus.values.tolist() == [64, 128, 64, 128]
    assert data.attrs["title"] == "A small one"
    assert data.attrs["deadline_days"] == 300.0
    again = run_budget(path, {"gpus": [64], "deadline": "1 days"})
    assert int(again.best) == -1
    fewer = run_budget(path, {"systems": ["h100-nvs8"], "gpus": [64], "operation": {"rent": 1e-3}})
    assert float(fewer.cost[0]) == pytest.approx(float(data.cost[0]) * 3.6 / 2.2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"operation": {}, "by_system": {}}, "operation.rent: not given of h100-nvs8"),
        ({"minimise": "money"}, "minimise: money: no such aim"),
        ({"by_system": {"gb200": {}}}, "operation: gb200: no such system of the question"),
        ({"operation": {"rent": 2.0}, "by_system": {}}, "operation.rent: expected a finite number"),
        ({"operation": {"rent": 1e-3, "price": 3e4}}, "operation.price: given beside a rent"),
        ({"operation": {"rents": 1.0}}, "operation.rents: no such field of Operation"),
        ({"operation": {"rent": "2 $/h", "pue": 0.5}}, "operation.pue: expected"),
        ({"gpus": [2**20]}, "no plan is legal"),
        ({"operation": {"rent": 1e-3, "power_limit": 0.8}}, "operation.rate_at_limit: missing"),
        ({"model": "glm-4.6", "deadline": 1e6}, "tokens: not known of glm-4.6"),
        ({"site_power": "many"}, "site_power: not a finite number, given 'many'"),
        ({"deadline": 80.0}, "deadline: 80 s; expected an hour at least"),
        (
            {"system": "h20-nvs8", "minimise": "energy", "by_system": {}},
            "system.chip_watts: not known of h20-nvs8",
        ),
        (
            {"operation": {"rent": "2 $/h", "save_interval": 1e-3}},
            "operation.save_interval: below what the store needs",
        ),
    ],
)
def test_bad_input_is_refused_in_a_line(changes: dict[str, Any], said: str):
    with pytest.raises(InputError) as caught:
        jr.budget(**{**ASKED, **changes})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("batch = 512", "", "batch: missing"),
        ('"300 days"', '"-3 days"', "deadline: expected more than 0"),
        ('"300 days"', '"soon"', "deadline: not a finite number, given 'soon'; expected"),
        ("40_000 h", "40,000 h", "a number in groups of digits, given '40,000 h'; write '40000 h'"),
        (", steps = 2", "", "gpus.steps: missing"),
        ("batch = 512", "batch = 512\nbudget = 3", "budget: no such key of a budget file"),
    ],
)
def test_bad_files_are_refused_with_their_name(tmp_path: Path, old: str, new: str, said: str):
    path = tmp_path / "own.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(InputError) as caught:
        run_budget(path, {})
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_the_command_ends_with_what_it_found(jaxroof: Any):
    line = "budget --model llama3-8b --system h100-nvs8 --gpus 64 --gpus 128 --batch 512"
    more = "--where tensor=8,context=1 --rent '2.2 $/h'"
    assert jaxroof(f"{line} {more} --deadline 1").code == 1
    found = jaxroof(f"{line} {more}")
    assert found.code == 0
    assert "128 h100-nvs8:" in found.words
    assert "goodput" in found.words
    twice = jaxroof(f"{line} {more} --system h200-141-sxm")
    assert "128 h200-141-sxm" in twice.words
    assert "128 h100-nvs8" in twice.words


DRAWN = ROOT / "sweeps/uncertain/whole_run.toml"
NAMED = "--model llama3-8b --batch 64 --where tp=8"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("search --objective cost", "operation.rent: not given of h100-nvs8"),
        ("search --set operation.save_interval='1 ms'", "operation.save_interval: below what"),
        (f"search --objective cost --uncertain {DRAWN}", "operation.rent: not given of h100-nvs8"),
        ("search --set operation.pue=0.5", "operation.pue: expected a finite number of at least"),
        ("search --set operation.chip_mtbf='50,000 h'", "write '50000 h'"),
        ("budget", "operation.rent: not given of h100-nvs8"),
        (
            "budget --system h20-nvs8 --set operation.price=3e4",
            "system.chip_watts: not known of h20",
        ),
        ("search --set operation.busy_share=1.1", "operation.busy_share: expected a finite number"),
        ("budget --rent '2 $/h' --set operation.hidden=2", "operation.hidden: expected a finite"),
        ("budget --rent '2 $/h' --deadline soon", "deadline: not a finite number, given 'soon'"),
        ("budget --rent '2 $/h' --system h100-nvs8", "h100-nvs8: given twice"),
    ],
)
def test_the_command_refuses_in_a_line(jaxroof: Any, line: str, said: str):
    found = jaxroof(f"{line} {NAMED} --system h100-nvs8 --gpus 8")
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_a_deadline_without_tokens_is_refused_by_the_command(jaxroof: Any):
    line = "budget --model glm-4.6 --system h100-nvs8 --gpus 8 --batch 64 --rent '2 $/h'"
    found = jaxroof(f"{line} --deadline 80")
    assert found.code == 2
    assert "tokens: not known of glm-4.6, and a deadline needs them; expected 15e12" in found.err


def test_every_option_that_is_a_list_may_be_repeated(jaxroof: Any):
    line = f"compare {NAMED} --gpus 8 --quiet --system"
    plain = jaxroof(f"{line} h100-nvs8,a100-80-sxm")
    assert jaxroof(f"{line} h100-nvs8 --system a100-80-sxm").words == plain.words


@pytest.mark.parametrize("deadline", daily([None, 1.0], 1))
def test_the_picture_shows_dollars_days_and_where_they_go(deadline: float | None):
    from jaxroof.views.plots.budget import picture

    data = jr.budget(**ASKED, deadline=deadline and deadline * DAY)
    money, days, waterfall = picture(data).axes
    assert money.get_ylabel() == "cost [million $]"
    assert days.get_xlabel() == "accelerators"
    assert len(waterfall.patches) >= 4
