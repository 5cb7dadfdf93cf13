"""A whole run: its golden rows, failures drawn one by one, its laws and its slopes."""

import csv
import gzip
from typing import Any

import numpy as np
import pytest
from places import ROOT

from jaxroof.dual import Dual
from jaxroof.formulas import whole_run as run

RTOL = 1e-12
FOLDER = ROOT / "tests/golden/whole_run"
Rows = dict[str, np.ndarray]


def rows(name: str) -> Rows:
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        every = [*csv.DictReader(file)]
    return {
        key: np.array([float(one[key]) if one[key] else np.nan for one in every])
        for key in every[0]
        if key != "id"
    }


def given(table: Rows, *names: str) -> list[np.ndarray]:
    return [table[name] for name in names]


def agree(found: Any, table: Rows, name: str, rtol: float = RTOL) -> None:
    np.testing.assert_allclose(found, table[f"out_{name}"], rtol=rtol, atol=0.0, err_msg=name)


def test_golden_run_size():
    t = rows("run_size")
    steps = run.run_steps(*given(t, "tokens", "batch", "sequence"))
    agree(steps, t, "steps")
    agree(steps * t["step_time"] / t["realised"], t, "ideal_time")
    tokens, batch, sequence, step = given(t, "tokens", "batch", "sequence", "step_time")
    first, begun = batch * t["first_share"], step * t["first_time_share"]
    ramp = run.ramp(tokens, batch, sequence, tokens * t["ramp_share"], first, step, begun)
    agree(ramp.steps, t, "ramp_steps")
    agree(ramp.time, t, "ramp_time")


def test_golden_failures():
    t = rows("failures")
    names = ("gpus", "chip_mtbf", "node_gpus", "node_rate", "switch_gpus", "switch_rate")
    rate = run.failure_rate(*given(t, *names, "software_rate"))
    agree(rate, t, "failure_rate")
    agree(1.0 / rate, t, "mtbf")
    slow = ("gpus", "straggler_rate", "straggler_find", "straggler_slowdown")
    agree(run.straggler_slowdown(*given(t, *slow)), t, "slowdown")


def test_golden_saves():
    t = rows("saves")
    names = ("parameters", "bytes_per_parameter", "writers", "copy_rate", "store_rate")
    found = run.saves(*given(t, *names, "writer_rate", "hidden", "barrier"))
    detect = run.detection(*given(t, "error_detect", "hang_share", "hang_timeout"))
    agree(found.state, t, "state_bytes")
    agree(found.write, t, "write_time")
    agree(found.stop, t, "save_stop")
    agree(detect, t, "detect")
    starts = t["replace"] + t["start"] + t["start_per_gpu"] * t["gpus"] + t["warmup"]
    agree(detect + starts + found.read, t, "restart")


def test_golden_interval():
    t = rows("interval")
    mtbf, save, restart, floor, extra = given(t, "mtbf", "save", "restart", "floor", "extra")
    share = run.best_share(save / mtbf)
    agree(share, t, "best_share")
    interval = run.larger(mtbf * share, floor)
    agree(interval, t, "save_interval")
    found = run.segment(interval, save, restart, mtbf)
    agree(interval / (found.time * (1.0 + extra)), t, "goodput")
    agree(found.lost, t, "segment_lost")
    agree(found.restarts, t, "segment_restart")
    slopes = run.wall_slopes(interval, save, restart, mtbf)
    for name in slopes._fields:
        agree(getattr(slopes, name), t, f"wall_by_{name}")


def test_golden_spares():
    t = rows("spares")
    rate = run.failure_rate(8.0 * t["nodes"], t["chip_mtbf"], 8.0)
    found = run.spares(t["spare_nodes"], rate, t["repair_share"], t["repair_time"])
    agree(found.load, t, "load")
    agree(found.short, t, "short")
    agree(found.wait, t, "mean_wait")
    agree(run.available(t["nodes"], t["spare_nodes"], found.load), t, "available", 1e-10)


def test_golden_power():
    t = rows("power")
    limits, rates = np.array([0.4, 0.6, 0.8, 1.0]), np.array([0.62, 0.83, 0.95, 1.0])
    busy = t["busy"] / run.rate_at_limit(t["power_limit"], limits, rates)
    agree(busy + t["waiting"], t, "capped_step")
    draws = [
        run.chip_watts(*given(t, "tdp", n, "power_limit")) for n in ("busy_share", "wait_share")
    ]
    chip = run.mean_watts(*draws, busy, t["waiting"])
    agree(chip, t, "chip_watts")
    names = ("nodes", "node_gpus", "host", "switch", "fans", "conversion", "pue")
    agree(run.site_watts(chip, *given(t, *names)), t, "site_watts")


def test_golden_money():
    t = rows("money")
    agree(run.annuity(t["years"], t["interest"]), t, "annuity")
    capital = run.capital_rate(*given(t, "price", "years", "interest", "residual"))
    agree(capital, t, "capital_rate")
    agree(3600.0 * capital, t, "capital_hour")


# ---- Failures drawn one by one -------------------------------------------------------------------


def simulated(mtbf: float, save: float, restart: float, failures: int) -> np.ndarray:
    """Return the shares of useful, saved, lost and restart seconds of a run of many failures."""
    draw = np.random.default_rng(33)
    interval = mtbf * float(run.best_share(save / mtbf))
    segment, spent = interval + save, np.zeros(4)
    for _ in range(failures):
        lasts = draw.exponential(mtbf)
        whole = lasts // segment
        spent += [whole * interval, whole * save, lasts - whole * segment, 0.0]
        while (until := draw.exponential(mtbf)) < restart:  # restarts fail too
            spent[3] += until
        spent[3] += restart
    return spent / spent.sum()


@pytest.mark.parametrize(
    ("mtbf", "save", "restart"),
    [
        (10980.0, 5.0, 504.0),
        (11124.0, 30.0, 600.0),
        (11124.0, 300.0, 1800.0),
        (1800.0, 120.0, 600.0),
    ],
)
def test_goodput_is_that_of_drawn_failures(mtbf: float, save: float, restart: float):
    interval = mtbf * run.best_share(save / mtbf)
    found = run.segment(interval, save, restart, mtbf)
    shares = np.array([found.work, found.saved, found.lost, found.restarts]) / found.time
    # a share of sums of 20,000 draws has a relative error of about 1 %
    np.testing.assert_allclose(simulated(mtbf, save, restart, 20_000), shares, atol=6e-3)


# ---- Laws ----------------------------------------------------------------------------------------

COSTS = np.geomspace(1e-8, 9.0, 200)  # of a save, in mean times between failures


def test_the_best_interval_beats_every_other():
    others = np.geomspace(0.01, 100.0, 1000)[:, None]
    best = run.best_share(COSTS)
    for restart in (0.0, 0.3):
        least = best / run.segment(best, COSTS, restart, 1.0).time
        every = others * best / run.segment(others * best, COSTS, restart, 1.0).time
        assert (every <= least * (1.0 + 1e-12)).all()
    assert ((best > 0.0) & (best < 1.0)).all()


def test_the_best_interval_is_youngs_where_saves_are_cheap():
    cost = np.geomspace(1e-8, 1e-6, 20)
    below = np.sqrt(2.0 * cost) / 3.0  # relative
    young = np.sqrt(2.0 * cost)
    np.testing.assert_allclose(run.best_share(cost) / young, 1.0 - below, atol=1e-6)


def test_the_slope_of_the_best_interval_is_the_implicit_one():
    found = run.best_share(Dual(COSTS, np.ones((1, *COSTS.shape))))
    np.testing.assert_allclose(found.slope[0], (1.0 - found.value) / found.value, rtol=1e-9)


def test_goodput_falls_in_what_costs():
    def goodput(save: Any = 30.0, restart: Any = 600.0, mtbf: Any = 1e4) -> Any:
        interval = mtbf * run.best_share(save / mtbf)
        return interval / run.segment(interval, save, restart, mtbf).time

    some = np.geomspace(1.0, 1e4, 50)
    for falls in (goodput(save=some), goodput(restart=some), goodput(mtbf=1e7 / some)):
        assert (np.diff(falls) < 0.0).all()
        assert ((falls > 0.0) & (falls <= 1.0)).all()


def test_erlangs_loss_is_that_of_his_recursion():
    for most, rtol in ((300, 1e-12), (5000, 1e-11)):
        load = 0.9 * most
        inverse = 1.0
        for servers in range(1, most + 1):
            inverse = 1.0 + servers / load * inverse
        np.testing.assert_allclose(run.erlang_loss(float(most), load), 1.0 / inverse, rtol=rtol)


def test_spares_help_and_load_hurts():
    nodes = np.linspace(0.0, 60.0, 121)
    short = run.spares(nodes, 1e-4, 0.75, 86400.0).short
    assert short[0] == 1.0
    assert (np.diff(short) < 0.0).all()
    rates = np.geomspace(1e-7, 1e-2, 100)
    found = run.spares(8.0, rates, 0.75, 86400.0)
    assert (np.diff(found.short) > 0.0).all()
    assert (found.short >= 1.0 - 8.0 / found.load).all()


def test_dollars_of_a_chip_have_their_limits():
    plain = run.capital_rate(31250.0, 4.0, 0.0, 0.2)
    assert plain == pytest.approx(31250.0 * 0.8 / (4.0 * run.YEAR), rel=1e-8)
    assert run.capital_rate(31250.0, 4.0, 0.0, 1.0) == pytest.approx(0.0, abs=1e-11)
    assert run.capital_rate(31250.0, 4.0, 0.1, 0.0) * 3600.0 == pytest.approx(1.125, abs=5e-4)


# ---- Slopes --------------------------------------------------------------------------------------


def chain(values: Any) -> Any:
    """Return the logarithm of a run's slowdown by all that interrupts it."""
    mtbf_chip, barrier, repair, spare = values
    rate = run.failure_rate(16384.0, mtbf_chip, 8.0)
    save = run.saves(4e11, 14.0, 16384.0, 2e10, 2e11, 2e9, 1.0, barrier)
    short = run.spares(spare, rate, 0.75, repair)
    mtbf = 1.0 / rate
    interval = mtbf * run.best_share(save.stop / mtbf)
    found = run.segment(interval, save.stop, 476.0 + save.read + short.wait, mtbf)
    return run.log(found.time / interval)


def test_slopes_are_those_of_differences_and_of_jax():
    import jax

    at = np.array([1.8e8, 5.0, 86400.0, 14.0])
    dual = chain([Dual(value, np.eye(4)[i]) for i, value in enumerate(at)])
    by_jax = jax.grad(lambda v: chain([v[0], v[1], v[2], v[3]]))(jax.numpy.asarray(at))
    np.testing.assert_allclose(chain(jax.numpy.asarray(at)), dual.value, rtol=1e-11)
    np.testing.assert_allclose(dual.slope, by_jax, rtol=1e-6)
    for place in range(4):
        step = np.zeros(4)
        step[place] = 1e-5 * at[place]
        slope = (chain(at + step) - chain(at - step)) / (2.0 * step[place])
        np.testing.assert_allclose(dual.slope[place], slope, rtol=1e-5)


@pytest.mark.parametrize("mtbf_chip", [1e2, 1e6, 1e18])
@pytest.mark.parametrize("spare", [0.0, 1.0, 1e4])
def test_values_and_slopes_are_finite_where_nothing_proceeds(mtbf_chip: float, spare: float):
    at = [mtbf_chip, 1e-9, 1e7, spare]
    found = chain([Dual(value, np.eye(4)[i]) for i, value in enumerate(at)])
    assert np.isfinite(found.value)
    assert np.isfinite(found.slope).all()
