"""The cheapest changes of a plan: each keeps its promise, and no single one was overlooked."""

import functools
import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from architectures import language_models, one_of_each
from daily import daily

import jaxroof as jr
from jaxroof.analyses.fit_changes import (
    ABOUT,
    KINDS,
    PATHS,
    SHORTEST,
    at_once,
    cheapest_changes,
    even_where_it_fits,
    pairs,
    recipes,
)
from jaxroof.analyses.fit_question import asked_question
from jaxroof.catalog.lookup import architecture
from jaxroof.estimators.training.layer.sums import freeing

PLANNED = {SHORTEST[path] for path in SHORTEST if path.startswith("plan.")} | {"zero"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "llama3-8b": {"plan": {"dp": 8}, "global_batch": 128},
    "llama3.1-405b": {
        "plan": {"tp": 8, "pp": 16, "dp": 128}, "global_batch": 2048, "layer_split": "7,14x8,7",
    },
    "deepseek-v3": {
        "plan": {"pp": 16, "dp": 32, "ep": 32}, "global_batch": 3840, "layer_split": "even",
    },
}  # fmt: skip


def asked(name: str, **changed: Any) -> dict[str, Any]:
    """Return a question about a model on H100."""
    return {"model": name, "system": "h100-nvs8", **QUESTIONS[name], **changed}


@functools.cache
def cheapest(name: str) -> xr.Dataset:
    """Return the changes of a question that nothing is changed in."""
    return jr.fit_changes(**asked(name))


def applied(question: dict[str, Any], change: dict[str, Any]) -> xr.Dataset:
    """Return the answer of ``fit`` after a change."""
    plan = {**question["plan"], **{k: v for k, v in change.items() if k in PLANNED}}
    rest = {name: value for name, value in change.items() if name not in PLANNED}
    return jr.fit(**{**question, **rest, "plan": plan})


@pytest.mark.parametrize("name", daily(QUESTIONS, 0, 1))
def test_a_change_does_what_it_says(name: str) -> None:
    question = asked(name)
    before, found = jr.fit(**question), cheapest(name)
    assert not bool(before.fits)
    assert found.sizes["change"] == 5
    for place in range(5):
        change = found.isel(change=place)
        settings = json.loads(str(change["set"].values))
        after = applied(question, settings)
        assert float(after.device.max()) == pytest.approx(float(change.device), rel=1e-12)
        assert bool(after.fits) == bool(change.fits) is True
        saved = float(before.device.max() - after.device.max())
        assert float(change.saved) == pytest.approx(saved, rel=1e-9)
        gpus = [json.loads(data.attrs["inputs"])["gpus"] for data in (before, after)]
        assert gpus[0] == gpus[1]


@pytest.mark.parametrize(("name", "most"), daily([("llama3-8b", 8), ("deepseek-v3", 5)], 0))
def test_single_changes_come_first_and_cheapest_first(name: str, most: int) -> None:
    found = jr.fit_changes(**asked(name), most=most)
    sizes = [_choices(json.loads(str(text))) for text in found["set"].values]
    assert sizes == sorted(sizes)
    assert set(sizes) == {1, 2}
    for size in set(sizes):
        costs = found.cost.values[np.array(sizes) == size]
        known = costs[np.isfinite(costs)]
        assert (np.diff(known) >= -1e-9).all()
        assert np.isnan(costs[len(known) :]).all(), "those without a price come last"


def _choices(settings: dict[str, Any]) -> int:
    """Return how many choices are changed; degrees move together, each module by itself."""
    kinds = {SHORTEST[path]: kind for path, kind in KINDS.items()}
    own = {kinds.get(name, name) for name in settings}
    of_modules = str(settings.get("modules", "")).count(",")
    return of_modules + len(own - {"layer_split"} if "degrees" in own else own)


def test_the_cheapest_single_change_is_that_of_trying_each() -> None:
    """Every ZeRO stage, every split of eight ranks over two degrees, every recomputation."""
    question = asked("llama3-8b")
    found = cheapest("llama3-8b").isel(change=0)
    tried: list[dict[str, Any]] = [{"zero": stage} for stage in (0, 2, 3)]
    tried += [{"recompute": "full"}, {"modules": "mlp"}]
    tried += [{"dp": 8 // ways, other: ways} for ways in (2, 4, 8) for other in ("tp", "cp", "pp")]
    after = [applied(question, change) for change in tried]
    times = [float(data.step_time) for data in after if bool(data.fits)]
    assert len(times) > 3
    assert float(found.step_time) <= min(times) * (1 + 1e-12)


def test_what_fits_is_told_what_is_faster() -> None:
    question = asked("llama3-8b", recompute="full")
    before, found = jr.fit(**question), jr.fit_changes(**question)
    assert bool(before.fits)
    assert found.sizes["change"] > 0
    assert found.fits.all()
    assert (found.cost < 0.0).all()
    assert (found.step_time < float(before.step_time)).all()


def test_if_nothing_fits_the_nearest_are_named() -> None:
    question = asked("llama3-8b", settings={"system.hbm_capacity": "6 GB"})
    found = json.loads(jr.fit(**question, changes=3).attrs["changes"])
    assert len(found) == 3
    assert not any(one["fits"] for one in found)
    assert (np.diff([one["device"] for one in found]) >= 0.0).all()
    assert all(one["saved"] > 0.0 for one in found)


def test_results_have_units_and_meanings() -> None:
    found = cheapest("llama3-8b")
    assert {*ABOUT} == {*map(str, found.data_vars)}
    assert all(found[name].attrs["long_name"] for name in found.data_vars)
    assert (found.step_time.attrs["units"], found.device.attrs["units"]) == ("s", "B")


def test_kernels_that_keep_more_are_a_change() -> None:
    settings = {"recompute": "full", "attention_kernel": "unfused", "system.hbm_capacity": "73 GB"}
    found = jr.fit_changes(**asked("llama3-8b", settings=settings), most=4)  # single ones alone
    assert {"attention_kernel": "cudnn"} in [json.loads(str(text)) for text in found["set"].values]


def test_pairs_are_of_two_kinds() -> None:
    points = at_once(asked_question(**asked("deepseek-v3")).inputs)
    both = pairs(points)
    kinds = list(KINDS.values())
    for changed in (both != points[0])[:: len(both) // 50]:
        assert len({kind for kind, moved in zip(kinds, changed, strict=True) if moved}) == 2


def test_a_split_of_layers_moves_them_off_the_fullest_stages() -> None:
    question = asked_question(**asked("llama3.1-405b"))
    split = even_where_it_fits(question)
    assert sum(split) == 126
    assert split[0] < max(split)
    assert bool(jr.fit(**asked("llama3.1-405b", layer_split=split)).fits)
    own, found = cheapest_changes(question)
    assert own.device == float(jr.fit(**asked("llama3.1-405b")).device.max())
    assert found


def test_where_no_change_fits_the_fewest_more_accelerators_are_named() -> None:
    about: dict[str, Any] = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 64}
    found = jr.fit(**about, plan={"tp": 4}, changes=3)
    assert not any(one["fits"] for one in json.loads(found.attrs["changes"]))
    more = int(found.attrs["fewest"])
    assert more > 4
    assert bool(jr.least_memory(**about, gpus=more).fits)
    assert not bool(jr.least_memory(**about, gpus=5).fits) or more == 5
    assert "fewest" not in jr.fit(**about, plan={"tp": 8, "off": 1}, changes=3).attrs


def test_context_ranks_may_exchange_in_another_way() -> None:
    own = {"plan": {"dp": 2, "cp": 4, "cx": "all-to-all"}, "global_batch": 128}
    question = asked_question(model="llama3-8b", system="h100-nvs8", **own)
    values = at_once(question.inputs)
    changed = values != values[0]
    alone = changed[:, PATHS.index("plan.exchange")] & (changed.sum(axis=1) == 1)
    assert values[alone, PATHS.index("plan.exchange")].tolist() == [1.0]
    fixed = at_once(question.inputs, exchanges=False)
    assert not (fixed != fixed[0])[:, PATHS.index("plan.exchange")].any()


@pytest.mark.parametrize("model", one_of_each(language_models()))
def test_changes_compute_again_only_what_a_model_has(model: str) -> None:
    """From any recomputation; what computes nothing again says so, never by a part not there."""
    shape = architecture(model)
    lacking = {"moe", "moe_act", "shared_experts"} if shape.experts == 0.0 else set()
    lacking |= set() if shape.kv_rank > 0.0 else {"mla_up_proj"}
    lacking |= set() if shape.index_layers > 0.0 else {"core_attn"}  # an indexer keeps its scores
    for level in (0, 1, 2):
        given = asked_question(
            model=model, system="h100-nvs8", plan={"dp": 8, "rc": level}, global_batch=64
        )
        modules = freeing(given.inputs, given.recipe)
        found = [change.said for change in recipes(float(level), given.recipe, modules)]
        named = {name for said in found for name in said.get("modules", "").split(",") if name}
        assert not named & lacking
        assert "layernorm" in named
        assert ({"recompute": "none"} in found) == (level > 0)
