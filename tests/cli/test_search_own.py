"""An estimator of one's own is searched by the command: a ranked table, one's own plan, reasons."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import jaxroof as jr
from tests.helpers import pools

SETS = {
    "prompt": "1024", "widest": "16", "system.rate": "1e3 token/s", "system.latency": "0.1 ms",
    "system.memory": "16 GB",
}  # fmt: skip


def command(*more: str, **sets: str) -> str:
    """Return a search of the two pools of the helpers, as a module beside."""
    given = " ".join(f"--set {path}='{value}'" for path, value in {**SETS, **sets}.items())
    return " ".join(["search --estimator pools:estimator", given, *more])


@pytest.fixture(autouse=True)
def beside(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask in a folder that has the module."""
    shutil.copy(str(pools.__file__), tmp_path / "pools.py")
    monkeypatch.chdir(tmp_path)


def test_a_toy_of_two_pools_is_ranked_placed_and_refused(jaxroof) -> None:
    """Neither the command, nor views, nor the page know its fields."""
    said = jaxroof(command("--mine p=2,d=4,b=8 --where 'b<=64' --verbose"))
    found = jr.search(pools.estimator, pools.example(), where="b<=64", top=5, own="p=2,d=4,b=8")
    assert (said.code, said.err) == (0, "")
    assert "Which two pools answer a prompt at the least cost" in said.words
    best = "p {} d {} b {}".format(*(int(found[f][0]) for f in ("prefill", "decode", "batch")))
    assert f"plans that fit: {best}, cost {float(found.cost[0]):.4g} s" in said.words
    assert "cache" in said.words
    assert "Where the cost goes: prefill" in said.words
    assert "The rules dropped pools with idle ranks" in said.words
    fits = int(found.plans_feasible)
    assert f"place {int(found.own_place):,} of the {fits:,} plans that fit" in said.words
    assert json.loads(str(found.own_plan.values)) == {"prefill": 2, "decode": 4, "batch": 8}


def test_a_plan_that_is_not_legal_says_which_are_near(jaxroof) -> None:
    said = jaxroof(command("--mine p=3"))
    assert said.code == 2
    assert "Yours is not allowed: prefill=3: none of the" in said.words
    assert "expected p=2 or p=4" in said.words


def test_why_nothing_is_within_the_limits(jaxroof) -> None:
    said = jaxroof(command(**{"limits.first": "1 ms"}))
    assert said.code == 1
    assert "first excludes" in said.words
    assert "the nearest misses it by" in said.words
    assert (
        "175 legal plans; 0 fit every limit: cache excludes 50 and first excludes 175" in said.words
    )
    said = jaxroof(command("--where p=3"))
    assert said.code == 2
    assert "where: no legal plan has p=3; expected such as p=1" in said.err


def test_a_plan_of_yours_beyond_a_limit_has_no_place(jaxroof) -> None:
    held = jr.survey(pools.estimator, pools.example())
    first = float(held["first"].values[held.prefill.values == 4].min())
    said = jaxroof(command("--mine p=4,b=16", **{"limits.first": "100 ms"}))
    assert said.code == 0
    fits = (held["first"] <= 0.1) & (held.cache <= 16e9)
    assert f"Best of the {int(fits.sum())} plans that fit" in said.words
    over = f"its first is {1e3 * (first - 0.1):.4g} ms too much"
    assert said.words.endswith(f"but it does not fit: {over}.")


def test_what_is_asked_for_is_shown_under_any_name(jaxroof) -> None:
    """A result that has the name of one of a training step is no step."""
    assert "throughput" in jaxroof(command()).words
    said = jaxroof(command("--objective first"))
    assert "first 65.6 ms, cost" in said.words


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (command(gpus="8,16"), "--set: gpus: has an option; expected it in --gpus alone"),
        ("search --estimator pools", "--estimator: pools: no such estimator"),
    ],
)
def test_a_refusal_names_what_is_wrong(jaxroof, asked, said) -> None:
    assert said in jaxroof(asked).err


def test_plans_are_whole_numbers_and_none_says_why() -> None:
    def listing(change: Callable[[Any], Any]) -> jr.Estimator:
        def changed(inputs: pools.Inputs, recipe: None) -> jr.Candidates:
            found = pools.candidates(inputs, recipe)
            return found._replace(plans={f: change(column) for f, column in found.plans.items()})

        return dataclasses.replace(pools.estimator, candidates=changed)

    with pytest.raises(jr.InputError, match=r"prefill: 1\.5 of a plan; expected whole numbers"):
        jr.search(listing(lambda column: column + 0.5), pools.example())
    none = jr.search(listing(lambda column: column[:0]), pools.example())
    assert none.attrs["none_legal"].endswith("rules; refused are pools with idle ranks (50)")


def test_the_description_says_how_to_search(jaxroof) -> None:
    assert "jaxroof search --estimator pools:estimator" in jaxroof("show pools:estimator").words


def test_what_is_written_is_what_is_shown(jaxroof) -> None:
    said = jaxroof(command("--top 3 -o plans.nc"))
    assert said.code == 0
    assert jaxroof("report plans.nc -o page.html").code == 0
    assert "Where the cost goes: prefill" in pathlib.Path("page.html").read_text()
    assert jaxroof(command("--top 7 -o plans.csv")).code == 0
    rows = pathlib.Path("plans.csv").read_text().splitlines()
    assert len(rows) == 8
    assert rows[0].startswith("prefill,decode,batch,cost")
