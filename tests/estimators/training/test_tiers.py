"""Training over tiers: two of them are the machine as it was, and more obey the laws of links."""

import pytest

import jaxroof as jr
from jaxroof.analyses.explain import explain
from jaxroof.analyses.result_metadata import resources_of
from jaxroof.catalog.fabrics import with_fabric
from jaxroof.catalog.lookup import training_system
from jaxroof.engine.grid.dataset import sign_of
from jaxroof.engine.grid.question import ask
from jaxroof.estimators.training.step import training
from jaxroof.records import leaves, replace_all
from jaxroof.views.parameter_words import words_of

DENSE = {"model": "llama3-70b", "tp": 8, "cp": 2, "pp": 4, "dp": 16, "mb": 1}
ROUTED = {"model": "deepseek-v3", "tp": 4, "pp": 8, "dp": 16, "ep": 64, "mb": 1}
SHARDED = {"model": "llama3-70b", "tp": 4, "dp": 256, "mb": 1, "zero_stage": 3}
STEPS = [DENSE, ROUTED, SHARDED]
TAPER = "taper-2-h100"


def step_time(asked: dict[str, object], system: object, **settings: object) -> float:
    given = {**asked, "system": system, "global_batch": 1024, **settings}
    return float(jr.evaluate("training", given).step_time)


@pytest.mark.parametrize("asked", STEPS)
@pytest.mark.parametrize("name", ["h100-nvs8", "gb200-nvl72"])
def test_two_tiers_are_the_machine_as_it_was(asked, name):
    plain = training_system(name)
    same = with_fabric(plain, None, [{}, {}])
    assert same.tiers is not None
    assert step_time(asked, same) == pytest.approx(step_time(asked, plain), rel=1e-12)


@pytest.mark.parametrize("asked", STEPS)
def test_a_tier_that_no_group_crosses_changes_nothing(asked):
    """Pods of 2,048 hold all 1,024 accelerators, whatever the links between pods are."""
    worse = {"tiers.3.bandwidth": 1.0, "tiers.3.oversubscription": 100.0, "tiers.3.health": 0.1}
    assert step_time(asked, training_system(TAPER, **worse)) == step_time(asked, TAPER)


@pytest.mark.parametrize("asked", STEPS)
def test_no_faster_link_slows(asked):
    before = step_time(asked, TAPER, **{"system.tiers.1.size": 64})
    for tier in range(4):
        fast = {"system.tiers.1.size": 64, f"system.tiers.{tier}.health": 0.9}
        assert step_time(asked, TAPER, **fast) >= before
        rate = float(training_system(TAPER).tiers[tier].bandwidth)
        fast = {"system.tiers.1.size": 64, f"system.tiers.{tier}.bandwidth": 2.0 * rate}
        assert step_time(asked, TAPER, **fast) <= before


@pytest.mark.parametrize("asked", STEPS)
def test_time_is_homogeneous_in_rates_and_latencies(asked):
    given = {**asked, "system": TAPER, "global_batch": 1024, "system.tiers.1.size": 64}
    inputs = ask(training, settings=given).inputs
    faster = {
        path: value * 2.0 ** -sign_of(field.metadata["unit"])
        for path, field, value in leaves(inputs)
        if sign_of(field.metadata["unit"])
    }
    assert len([path for path in faster if path.startswith("system.tiers.")]) == 16
    found = training.evaluate(replace_all(inputs, faster))
    whole = training.evaluate(inputs)
    assert float(found.step_time) == pytest.approx(float(whole.step_time) / 2.0, rel=1e-12)


def test_an_order_of_ranks_matters_where_tiers_do():
    order = {"plan.rank_order": "data-last"}
    alone = {**SHARDED, "plan.rank_order": 1}
    assert step_time(alone, TAPER) == step_time(SHARDED, TAPER)  # without stages there is one
    whole = training_system(TAPER, **{f"tiers.{k}.size": 4096 for k in (3, 2, 1, 0)})
    assert step_time(DENSE, whole, **order) == step_time(DENSE, whole)  # all in one domain
    near = {"model": "llama3-70b", "tp": 2, "pp": 4, "dp": 128, "mb": 1}
    assert step_time(near, TAPER, **order) > step_time(near, TAPER)
    found = jr.search(
        "training",
        model="llama3-70b",
        system=TAPER,
        gpus=1024,
        global_batch=1024,
        where="rank_order=1",
    )
    assert float(found.rank_order) == 1.0


def test_a_fabric_is_a_setting_and_an_axis():
    one = step_time(DENSE, "h100-nvs8", fabric=TAPER)
    assert one == step_time(DENSE, TAPER)
    given = {**DENSE, "system": "h100-nvs8", "global_batch": 1024}
    every = jr.tabulate("training", given, axes={"fabric": ["dgx-h100-pod", TAPER]})
    assert float(every.step_time[1]) == one
    mixed = jr.tabulate("training", given, axes={"system": ["h100-nvs8", TAPER]})
    expected = [step_time(DENSE, "h100-nvs8"), one]  # the first has its two links as tiers
    assert mixed.step_time.values == pytest.approx(expected, rel=1e-12)
    for axes in ({"fabric": []}, {"fabric": ["taper"]}):
        with pytest.raises(jr.InputError):
            jr.tabulate("training", given, axes=axes)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"system.tiers.1.hop_low": 1e-6}, "does not enter the estimator training"),
        ({"system.fast_bandwidth": 1e11}, "does not enter the estimator training"),
        ({"system.tiers.2.size": 64}, "tiers.2.size: expected at least that of"),
        ({"system.tiers.2.oversubscription": 0.5}, "of at least 1, given 0.5"),
    ],
)
def test_wrong_numbers_of_tiers_are_refused(settings, said):
    with pytest.raises(jr.InputError) as error:
        step_time(DENSE, TAPER, **settings)
    assert said in str(error.value)


def test_tiers_need_a_fabric_and_grow_along_an_axis():
    with pytest.raises(jr.InputError, match=r"expected a fabric too, such as fabric=dgx-h100-pod"):
        step_time(DENSE, "h100-nvs8", **{"system.tiers.1.oversubscription": 2})
    given = {**DENSE, "system": TAPER, "global_batch": 1024}
    with pytest.raises(jr.InputError, match=r"system.tiers.1.size: expected at least"):
        jr.tabulate("training", given, axes={"system.tiers.1.size": [4, 64]})


def test_explain_names_the_tier_that_binds():
    asked = {"model": "llama3-70b", "system": TAPER, "gpus": 1024, "global_batch": 1024}
    slow = {"system.tiers.1.size": 32, "system.tiers.2.bandwidth": 2e9}
    found = explain({**asked, **slow}, estimator="training", where="zero=3,tp=8,pp=1,cp=1,off=0")
    names = resources_of(found.operations).limits
    seconds = found.operations.seconds.sum("operation").to_series()
    assert names["tier_2"] == "tier 2"
    assert seconds["tier_2"] > seconds["tier_1"] >= 0.0
    assert words_of("system.tiers.2.oversubscription") == "oversubscription of tier 2"
