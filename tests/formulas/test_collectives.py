"""Collectives over tiers and over axes of a torus: golden rows, and the laws of the model."""

import copy
import functools
import itertools
import math

import fabrics
import jax
import numpy as np
import pytest

from jaxroof.formulas import collectives as c
from jaxroof.formulas import tori

GATHERED = (c.Op.ALL_GATHER, c.Op.REDUCE_SCATTER, c.Op.ALL_REDUCE)


def lane(row: fabrics.Row) -> tuple[c.Lane, c.Spread]:
    tiers, library = fabrics.machine(row)
    spread = c.spread_over(fabrics.sizes(tiers), float(row["degree"]), float(row["stride"]))
    named = c.Op(row["op"]), c.Method(row["algorithm"]), c.Protocol(row["protocol"])
    return c.lane(*named, spread, tiers, library), spread


def test_collectives_are_those_of_the_golden_rows() -> None:
    every = fabrics.rows("collectives")
    assert len(every) == 121
    for row in every:
        found, spread = lane(row)
        message = float(row["size_bytes"])
        assert found.time(message) == pytest.approx(float(row["out_time"]), rel=1e-12), row
        for name, values in (("n", spread.here), ("p", spread.below)):
            expected = [float(row[f"{name}{level}"]) for level in range(4)]
            np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=row["row_id"])
        if float(row["out_time"]):
            op, method = c.Op(row["op"]), c.Method(row["algorithm"])
            ours = c.ALGORITHMS[op][method].rows(spread, c.SENT[op])
            for name, values in (("steps", ours.steps), ("bytes", ours.shares)):
                expected = [float(row[f"{name}{level}"]) for level in range(4)]
                np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=row["row_id"])


def times(op: c.Op, tiers, library, members: float, message: float, stride: float = 1.0):
    """Return the time of every candidate of an operation, and whether it exists."""
    spread = c.spread_over(fabrics.sizes(tiers), members, stride)
    reductions = [tier.reduction for tier in tiers]
    names = c.CANDIDATES[op]
    every = [c.lane(op, *name, spread, tiers, library).time(message) for name in names]
    return every, [bool(c.ALGORITHMS[op][m].exists(spread, reductions)) for m, _ in names]


def test_choices_are_those_of_the_golden_rows() -> None:
    every = fabrics.rows("choices")
    assert len(every) == 96
    for row in every:
        op, message = c.Op(row["op"]), float(row["size_bytes"])
        plain, library = fabrics.preset(row["preset"])
        tiers = copy.deepcopy(plain)
        for tier in tiers[1:]:
            tier.oversubscription *= float(row["outer_oversubscription"])
        for tier in plain:
            tier.oversubscription = tier.health = 1.0
        asked = op, tiers, library, float(row["degree"]), message
        found, exist = times(*asked)
        reference, _ = times(op, plain, library, float(row["degree"]), message)
        names = [f"{method.value} {protocol.value}" for method, protocol in c.CANDIDATES[op]]
        listed = dict(part.split("=") for part in row["out_every"].split(";"))
        there = {n: t for n, t, e in zip(names, found, exist, strict=True) if e}
        assert list(there) == list(listed), row
        for name, time in there.items():
            assert time == pytest.approx(float(listed[name]), rel=1e-12)
        best, tuned = (int(c.first_least(some, exist)) for some in (found, reference))
        assert (names[best], names[tuned]) == (row["out_best"], row["out_tuned"]), row
        assert found[best] == pytest.approx(float(row["out_best_time"]), rel=1e-12)
        assert found[tuned] == pytest.approx(float(row["out_tuned_time"]), rel=1e-12)
        rate = message / found[tuned] if found[tuned] else 0.0
        assert rate == pytest.approx(float(row["out_algbw"]), rel=1e-12)
        bus = rate * c.FACTORS[op](float(row["degree"]))
        assert bus == pytest.approx(float(row["out_busbw"]), rel=1e-12)


def test_tori_are_those_of_the_golden_rows() -> None:
    every = fabrics.rows("torus")
    assert len(every) == 43
    for row in every:
        sides = [float(side) for side in row["shape"].split("x")]
        wraps = [float(digit) for digit in row["wraps"]]
        assert [float(wrap) for wrap in tori.wrapped(sides, float(row["rule"]))] == wraps, row
        axes = [tori.Axis(sides[int(axis)], wraps[int(axis)]) for axis in row["axes"]]
        numbers = (float(row[name]) for name in ("size_bytes", "link", "base", "tau"))
        found = tori.torus_time(row["op"], axes, *numbers)
        assert found == pytest.approx(float(row["out_time"]), rel=1e-12), row


def test_dispatches_are_those_of_the_golden_rows() -> None:
    every = fabrics.rows("dispatch")
    assert len(every) == 27
    for row in every:
        tiers, _ = fabrics.preset(row["preset"])
        weight = math.prod(float(row[name]) for name in ("tokens", "hidden", "width"))
        targets = c.least_targets if float(row["balanced"]) else c.distinct_targets
        targets = targets if float(row["one_copy"]) else c.every_choice
        shares = [float(row["share0"]), *[float(row["share1"])] * 3]
        spread = c.spread_over(fabrics.sizes(tiers), float(row["ranks"]))
        base, net = float(row["base"]), float(row["base_net"])
        found = c.dispatch(weight, float(row["topk"]), spread, tiers, shares, base, net, targets)
        assert found == pytest.approx(float(row["out_time"]), rel=1e-12), row


def test_windows_are_those_of_the_golden_rows() -> None:
    every = fabrics.rows("windows")
    assert len(every) == 18
    for row in every:
        work = float(row["compute"])
        took = [float(part) for part in row["times"].split(";")]
        loads = [[float(x) for x in part.split("|")] for part in row["loads"].split(";")]
        drags = [float(part) for part in row["drag"].split(";")]
        found = c.window(work, took, loads, drags)
        assert found == pytest.approx(float(row["out_window"]), rel=1e-12), row
        slowed = work + c.OVERLAP_SLOWDOWN * sum(drags)
        tiers = [sum(column) for column in zip(*loads, strict=True)]
        assert max(slowed, *took, *tiers) <= found <= slowed + sum(took) + sum(tiers)


# ---- Laws ---------------------------------------------------------------------------------------

PRESETS = [row["preset"] for row in fabrics.rows("presets")]
MESSAGES = (2.0**12, 2.0**22, 2.0**30)


def every_lane(tiers, library, members: float, stride: float = 1.0):
    """Yield the name and the lane of every algorithm of every operation under its protocols."""
    spread = c.spread_over(fabrics.sizes(tiers), members, stride)
    reductions = [tier.reduction for tier in tiers]
    for op, methods in c.ALGORITHMS.items():
        for method, way in methods.items():
            if bool(way.exists(spread, reductions)):
                for protocol in c.Protocol:
                    if protocol is c.Protocol.BULK or not way.bulk_alone:
                        name = (op, method, protocol)
                        yield name, c.lane(*name, spread, tiers, library)


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_is_sent_for_nothing(name: str) -> None:
    tiers, library = fabrics.preset(name)
    assert all(found.time(2.0**20) == 0.0 for _, found in every_lane(tiers, library, 1.0))
    assert all(found.time(0.0) == 0.0 for _, found in every_lane(tiers, library, 64.0))


@pytest.mark.parametrize("members", [2.0, 8.0, 256.0])
def test_a_tier_that_no_group_crosses_changes_nothing(members: float) -> None:
    tiers, library = fabrics.preset("taper-2-h100")
    changed = copy.deepcopy(tiers)
    for level, tier in enumerate(changed):
        if level and tiers[level - 1].size >= members:
            tier.bandwidth, tier.oversubscription, tier.hop, tier.health = 0.0, 1e30, 9.0, 0.0
    pairs = zip(
        every_lane(tiers, library, members), every_lane(changed, library, members), strict=True
    )
    for (name, one), (_, other) in pairs:
        assert [one.time(m) for m in MESSAGES] == [other.time(m) for m in MESSAGES], name


def test_a_ladder_is_a_ring_in_one_tier() -> None:
    tiers, library = fabrics.preset("dgx-h100-pod")
    spread = c.spread_over(fabrics.sizes(tiers), 8.0)
    for op, protocol in itertools.product(GATHERED, c.Protocol):
        ring, ladder = (
            c.lane(op, method, protocol, spread, tiers, library)
            for method in (c.Method.RING, c.Method.LADDER)
        )
        assert ring.time(1e9) == pytest.approx(ladder.time(1e9), rel=1e-12)


def test_like_outer_tiers_merge_for_ring_and_tree() -> None:
    """Two of equal rates and hops are one; only the doublings of a tree's steps add up."""
    tiers, library = fabrics.preset("hgx-h200")
    merged = copy.deepcopy(tiers)
    tiers[2].hop, tiers[2].hop_low = tiers[1].hop, tiers[1].hop_low
    merged[1].size = merged[2].size
    for op, method in itertools.product(GATHERED, (c.Method.RING, c.Method.TREE)):
        if method in c.ALGORITHMS[op]:
            for protocol in c.Protocol:
                one, other = (
                    c.lane(
                        op, method, protocol, c.spread_over(fabrics.sizes(t), 2048.0), t, library
                    )
                    for t in (tiers, merged)
                )
                assert one.time(1e9) == pytest.approx(other.time(1e9), rel=1e-12)


def test_a_ring_hides_a_spine_that_an_exchange_pays() -> None:
    tiers, library = fabrics.preset("dgx-h100-pod")
    slim = copy.deepcopy(tiers)
    slim[2].oversubscription = 4.0
    one, other = (dict(every_lane(t, library, 1024.0)) for t in (tiers, slim))
    ring = (c.Op.ALL_REDUCE, c.Method.RING, c.Protocol.BULK)
    exchange = (c.Op.ALL_TO_ALL, c.Method.DIRECT, c.Protocol.BULK)
    assert one[ring].time(1e9) == other[ring].time(1e9)
    assert other[exchange].time(1e9) > 1.5 * one[exchange].time(1e9)


@pytest.mark.parametrize("name", ["dgx-b200-pod", "gb200-nvl72", "perlmutter-a100", "taper-2-h100"])
def test_no_faster_link_slows(name: str) -> None:
    tiers, library = fabrics.preset(name)
    for level, field in itertools.product(range(4), ("bandwidth", "efficiency", "rate_low")):
        faster = copy.deepcopy(tiers)
        setattr(faster[level], field, 1.5 * getattr(faster[level], field))
        for members in (4.0, 64.0, 6000.0):
            pairs = zip(
                every_lane(tiers, library, members),
                every_lane(faster, library, members),
                strict=True,
            )
            for (which, one), (_, other) in pairs:
                assert all(other.time(m) <= one.time(m) for m in MESSAGES), which


def test_an_all_reduce_is_a_scatter_and_a_gather() -> None:
    tiers, library = fabrics.preset("dgx-h100-pod")
    library.copy = 0.0
    for members, extra in ((8.0, library.base), (64.0, library.base + library.base_net)):
        found = dict(every_lane(tiers, library, members))
        whole, *halves = (found[op, c.Method.RING, c.Protocol.BULK].time(1e9) for op in
                          (c.Op.ALL_REDUCE, c.Op.ALL_GATHER, c.Op.REDUCE_SCATTER))  # fmt: skip
        assert whole == pytest.approx(sum(halves) - extra, rel=1e-12)


def test_times_scale_with_all_rates_and_latencies() -> None:
    """Twice the rates and half the latencies: half the time."""
    tiers, library = fabrics.preset("taper-2-h100")
    quick, quick_library = copy.deepcopy(tiers), copy.deepcopy(library)
    for tier in quick:
        tier.bandwidth, tier.rate_low = 2.0 * tier.bandwidth, 2.0 * tier.rate_low
        tier.hop, tier.hop_low = tier.hop / 2.0, tier.hop_low / 2.0
    quick_library.copy *= 2.0
    for field in ("base", "base_net", "relay_low", "nvls_latency", "peer", "pat_rank"):
        setattr(quick_library, field, getattr(library, field) / 2.0)
    pairs = zip(
        every_lane(tiers, library, 1024.0), every_lane(quick, quick_library, 1024.0), strict=True
    )
    for (name, one), (_, other) in pairs:
        assert other.time(1e7) == pytest.approx(one.time(1e7) / 2.0, rel=1e-12), name


def test_an_axis_of_one_device_changes_no_torus() -> None:
    axes = [tori.Axis(4.0, 1.0), tori.Axis(8.0, 0.0)]
    for op in tori.TORUS:
        found = [tori.torus_time(op, some, 1e8, 9e10, 1e-5, 1e-6)
                 for some in (axes, [*axes, tori.Axis(1.0, 0.0)])]  # fmt: skip
        assert found[0] == found[1]


@pytest.mark.parametrize("op", [*c.Op])
def test_slopes_are_finite_and_right(op: c.Op) -> None:
    """Also of tiers without domains to join, of a group of one and of an empty buffer."""
    plain, library = fabrics.preset("taper-2-h100")

    def time(rates, members, message, method, protocol):
        tiers = copy.copy(plain)
        tiers = [copy.copy(tier) for tier in tiers]
        for tier, rate in zip(tiers, rates, strict=True):
            tier.bandwidth = rate
        spread = c.spread_over([tier.size for tier in tiers], members)
        return c.lane(op, method, protocol, spread, tiers, library).time(message)

    rates = np.array([tier.bandwidth for tier in plain])
    for method, protocol in c.CANDIDATES[op]:
        sizes = ((1.0, 1e6), (6.0, 0.0), (96.0, 1e8), (1500.0, 1e8))
        own = functools.partial(time, method=method, protocol=protocol)
        slopes = jax.vmap(jax.grad(own, argnums=(0, 1, 2)), (None, 0, 0))(rates, *np.array(sizes).T)
        assert all(np.all(np.isfinite(part)) for part in slopes)
        for place, (members, message) in enumerate(sizes):
            step = 1.0 + 1e-6
            found = time(rates * step, members, message, method, protocol)
            before = time(rates / step, members, message, method, protocol)
            expected = (found - before) / (step - 1.0 / step)
            scale = time(rates, members, message, method, protocol)
            got = float(np.sum(slopes[0][place] * rates))
            assert got == pytest.approx(expected, abs=1e-7 * scale + 1e-300)


# ---- Measured: medians of the sheet by source ---------------------------------------------------

KERNELS = [  # source, operation, preset, shares, base, base of the network, routing, median
    ("aiconfigurator-core DeepEP tables", "dispatch", "dgx-h100-pod", (0.667, 0.92), 30e-6,
     c.distinct_targets, 0.0405),
    ("aiconfigurator-core DeepEP tables", "combine", "dgx-h100-pod", (0.667, 0.92), 30e-6,
     c.distinct_targets, 0.0585),
    ("aiconfigurator-core TRT-LLM all-to-all", "dispatch", "gb200-nvl72", (0.64, 0.64), 14e-6,
     c.least_targets, 0.0405),
    ("aiconfigurator-core TRT-LLM all-to-all", "combine", "gb200-nvl72", (0.556, 0.556), 14e-6,
     c.least_targets, 0.0415),
]  # fmt: skip


@pytest.mark.parametrize(("source", "op", "preset", "shares", "base", "targets", "most"), KERNELS)
def test_medians_of_measured_dispatches(source, op, preset, shares, base, targets, most):
    tiers, _ = fabrics.preset(preset)
    every = [shares[0], *[shares[1]] * 3]
    errors = []
    for row in fabrics.rows("measured"):
        if row["source"] == source and row["op"].startswith(op):
            tokens = float(row["note"].split()[0])
            weight = tokens * 7168.0 * (2.0 if "bf16" in row["op"] else 1.03125)
            spread = c.spread_over(fabrics.sizes(tiers), float(row["gpus"]))
            found = c.dispatch(weight, 8.0, spread, tiers, every, base, 20e-6, targets)
            errors.append(abs(found / (float(row["time_us"]) * 1e-6) - 1.0))
    assert len(errors) >= 14
    assert np.median(errors) < most
