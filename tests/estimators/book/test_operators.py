"""Laws of rooflines, sharded products and collectives, and what is said of what cannot be."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

import jaxroof as jr
from jaxroof.engine.grid.question import resolve
from jaxroof.estimators import estimator
from jaxroof.estimators.book import sharding as sharded
from jaxroof.estimators.book import torus, tree
from jaxroof.estimators.book.common import ROUND

MACHINE = {"system": ROUND}
Report = dict[str, np.ndarray]


def grid(*columns: list[float]) -> list[np.ndarray]:
    """Return the points of a grid, a column each dimension."""
    return [column.reshape(-1) for column in np.meshgrid(*map(np.array, columns), indexing="ij")]


def ask(name: str, **settings: Any) -> Report:
    """Return the results of an estimator for settings, whose __ stands for a dot."""
    asked = estimator(name)
    told = {key.replace("__", "."): value for key, value in settings.items()}
    if "system" in asked.inputs.__dataclass_fields__:
        told = MACHINE | told
    inputs, recipe = resolve(asked, told)[:2]
    return {key: np.asarray(value) for key, value in vars(asked.evaluate(inputs, recipe)).items()}


def same(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=0)


# ---- Rooflines ----------------------------------------------------------------------------------

FLOPS, TRAFFIC, MESSAGE = grid([0.0, 1e8, 1e12], [0.0, 1e4, 1e9], [0.0, 1e3, 1e8])


@pytest.mark.parametrize("link", ["torus", "fast", "slow", "network"])
def test_bounds(link: str) -> None:
    """Overlap saves at most all but one of the resources in use, and exactly one of them binds."""
    found = ask("kernel", flops=FLOPS, traffic=TRAFFIC, message=MESSAGE, link=link)
    times = np.stack([found["math_time"], found["memory_time"], found["link_time"]])
    assert np.all(found["lower"] <= found["upper"])
    used = np.sum(times > 0.0, axis=0)
    assert np.all(found["upper"] <= found["lower"] * np.maximum(used, 1) * (1.0 + 1e-12))
    same(found["lower"], times.max(axis=0))
    binds = np.stack([found[f"{name}_bound"] for name in ("compute", "memory", "link")])
    assert np.all(binds.sum(axis=0) == 1)
    same(np.sum(times * binds, axis=0), found["lower"])


HIDDEN, FORWARD, WEIGHT, EXPERTS = grid(
    [1024.0, 8192.0], [2048.0, 3e4], [0.5, 1.0, 2.0], [1.0, 8.0]
)
SHAPE = {"hidden": HIDDEN, "feedforward": FORWARD, "widths__weight": WEIGHT, "experts": EXPERTS}


@pytest.mark.parametrize(("feed", "speedup"), [("hbm", 1.0), ("hbm", 22.0), ("on_chip", 1.0)])
def test_critical_batch_is_where_intensity_is_balance(feed: str, speedup: float) -> None:
    common = SHAPE | {"active": 1.0, "memory_speedup": speedup, "feed": feed}
    critical = ask("matmul", batch=1.0, **common)
    assert np.all(critical["critical_exists"])
    at = ask("matmul", batch=critical["critical"], **common)
    same(at["intensity"], at["balance"])
    same(at["math_time"], at["memory_time"])
    same(at["reachable"], ROUND.matrix_flops)
    below = ask("matmul", batch=0.99 * critical["critical"], **common)
    above = ask("matmul", batch=1.01 * critical["critical"], **common)
    assert np.all(below["memory_bound"])
    assert np.all(above["compute_bound"])
    assert np.all(critical["critical_small"] < critical["critical"])


def test_small_batch_is_the_limit_of_wide_matrices() -> None:
    wide = {"hidden": 1e12, "feedforward": 1e12, "widths__weight": WEIGHT, "experts": EXPERTS}
    found = ask("matmul", batch=64.0, active=1.0, **wide)
    same(found["critical"], found["critical_small"], 1e-6)
    same(found["intensity"], found["small_intensity"], 1e-6)
    same(found["small_intensity"], 2.0 * 64.0 / (WEIGHT * EXPERTS))


def test_narrow_matrices_are_never_compute_bound() -> None:
    narrow = {"hidden": 100.0, "feedforward": 100.0}
    found = ask("matmul", batch=1.0, **narrow)
    assert not found["critical_exists"]
    assert found["critical"] == 0.0
    assert ask("matmul", batch=1e12, **narrow)["memory_bound"]


def test_weights_of_their_own_have_one_intensity() -> None:
    batch = np.array([1.0, 64.0, 4096.0])
    found = ask("batched_matmul", batch=batch, hidden=1024.0, feedforward=4096.0)
    same(found["intensity"], found["intensity"][0])
    assert found["intensity"][0] < found["small_intensity"] == 1.0
    assert not found["critical_exists"]


def test_vectors() -> None:
    length = np.array([1.0, 10.0, 1e9])
    found = ask("dot", length=length)
    same(found["intensity"], (2.0 * length - 1.0) / (4.0 * length + 2.0))
    assert np.all(found["memory_bound"])
    slow = {"system__vector_flops": 1.0, "system__hbm_bandwidth": 3.0}
    critical = ask("dot", length=1.0, **slow)["critical"]
    at = ask("dot", length=critical, **slow)
    same(at["intensity"], at["balance"])
    added = ask("elementwise", length=length)
    same(added["intensity"], 1.0 / 6.0)


WIDE = {"batch": 1.0, "hidden": 1e12, "feedforward": 1e12}


def test_where_operands_come_from() -> None:
    """Sheet, section 1: the batch of a product fed by the host, and of one fed on the chip."""
    chip = jr.system("tpu-v5e-book", "int8")
    host = ask("matmul", system=jr.system("tpu-v5e-book"), feed="host", **WIDE)
    same(host["critical_small"], 1.97e14 / 1.5e10)
    shape = {"batch": 1.0, "hidden": 4096.0, "feedforward": 16384.0}
    shape |= {"widths__input": 1.0, "widths__weight": 1.0, "widths__output": 1.0}
    same(ask("matmul", system=chip, **shape)["critical"], 263.0, 2e-3)
    same(ask("matmul", system=chip, feed="on_chip", **shape)["critical"], 11.0, 0.02)


# ---- Attention ----------------------------------------------------------------------------------

HEADS, KV_HEADS, CACHE = grid([32.0, 64.0], [1.0, 8.0], [1.0, 2.0])
HEADED = {"batch": 2.0, "heads": HEADS, "kv_heads": KV_HEADS, "widths__weight": CACHE}


@pytest.mark.parametrize("phase", ["training", "prefill"])
def test_critical_length(phase: str) -> None:
    length = ask("attention", queries=1.0, keys=1.0, phase=phase, **HEADED)["critical"]
    at = ask("attention", queries=length, keys=length, phase=phase, **HEADED)
    same(at["intensity"], at["balance"])


def test_critical_queries_of_a_generation() -> None:
    settings = HEADED | {"keys": 8192.0, "phase": "generation"}
    found = ask("attention", queries=1.0, **settings)
    assert np.all(found["critical_exists"])
    at = ask("attention", queries=found["critical"], **settings)
    same(at["intensity"], at["balance"])
    assert np.all(found["critical_small"] < found["critical"])
    short = ask("attention", queries=1.0, **settings | {"keys": 100.0})
    assert not short["critical_exists"].any()


def test_training_is_three_forward_passes() -> None:
    settings = HEADED | {"queries": 512.0, "keys": 2048.0}
    once, thrice = (ask("attention", phase=p, **settings) for p in ("prefill", "training"))
    for name in ("flops", "traffic", "lower"):
        same(thrice[name], 3.0 * once[name])
    same(thrice["intensity"], once["intensity"])
    two = KV_HEADS[CACHE == 2.0] / HEADS[CACHE == 2.0]  # T S G / (T G + S) at 2 bytes
    expected = 512.0 * 2048.0 / (512.0 + 2048.0 * two)
    same(once["intensity"][CACHE == 2.0], expected)


def test_scores_overtake_the_matrices_where_it_says() -> None:
    shape = {"hidden": 4096.0, "heads": 32.0, "kv_heads": 8.0, "expansion": 3.5}
    found = ask("attention_share", tokens=1024.0, **shape)
    at = ask("attention_share", tokens=found["matrix_length"], **shape)
    same(at["share"], 0.5)
    at = ask("attention_share", tokens=found["projection_length"], **shape)
    same(at["score_flops"], at["projection_flops"])


# ---- Sharded products ---------------------------------------------------------------------------

B, D, F, X = grid([8.0, 512.0, 65536.0], [1024.0, 8192.0, 1e5], [4096.0], [1.0, 2.0, 16.0])
SPREAD = {"batch": B, "hidden": D, "feedforward": F, "shards": X}


@pytest.mark.parametrize("fabric", sharded.Fabric)
@pytest.mark.parametrize("case", sharded.Case)
def test_cheapest_strategy(case: sharded.Case, fabric: sharded.Fabric) -> None:
    asked = {"case": case, "fabric": fabric, **SPREAD}
    gather, product, cheapest = (
        ask("sharded_matmul", strategy=strategy, **asked) for strategy in sharded.Strategy
    )
    same(cheapest["cheapest_time"], np.minimum(gather["gather_time"], gather["product_time"]))
    for name in ("flops", "message", "link_time", "traffic"):
        chosen = np.where(cheapest["gather_wins"], gather[name], product[name])
        same(cheapest[name], chosen)
    alone = np.broadcast_to(X == 1.0, gather["link_time"].shape)
    assert not gather["link_time"][alone].any()
    assert not product["link_time"][alone].any()
    same(product["flops"] * X, 2.0 * B * D * F)
    assert np.all(cheapest["lower"] >= cheapest["cheapest_time"] * (1.0 - 1e-12))


def test_the_smaller_operand_is_gathered() -> None:
    found = ask("sharded_matmul", case="outputs", strategy="gather", **SPREAD)
    same(found["message"], np.where(X > 1.0, 2.0 * D * np.minimum(B, F), 0.0))
    assert np.all(found["gather_wins"])


@pytest.mark.parametrize("result", sharded.Result)
@pytest.mark.parametrize("case", ["one", "both"])
def test_critical_width_and_shards(case: str, result: sharded.Result) -> None:
    asked = {"case": case, "strategy": "product", "result": result, "batch": 512.0}
    asked |= {"feedforward": 4096.0}
    width = ask("sharded_matmul", hidden=1.0, shards=4.0, **asked)["critical"]
    at = ask("sharded_matmul", hidden=width, shards=4.0, **asked)
    same(at["math_time"], at["link_time"])
    same(at["critical_shards"], 4.0)


@pytest.mark.parametrize("case", ["one", "both"])
@pytest.mark.parametrize("batch", [8.0, 512.0, 65536.0])
def test_strategies_exchange_where_it_says(batch: float, case: str) -> None:
    asked = {"case": case, "batch": batch, "feedforward": 4096.0, "shards": 64.0}
    found = ask("sharded_matmul", hidden=1.0, **asked)
    width = found["exchange"]
    at = ask("sharded_matmul", hidden=width, **asked)
    same(at["gather_time"], at["product_time"])
    assert ask("sharded_matmul", hidden=0.9 * width, **asked)["gather_wins"]
    assert not ask("sharded_matmul", hidden=1.1 * width, **asked)["gather_wins"]
    assert width <= found["exchange_large"] * (1.0 + 1e-12)
    if batch > found["critical_batch"] > 0.0:
        same(width, found["exchange_large"])


@pytest.mark.parametrize("case", ["one", "both"])
def test_a_gather_hides_from_its_batch_on(case: str) -> None:
    asked = {"case": case, "strategy": "gather", "hidden": 8192.0, "feedforward": 16384.0}
    found = ask("sharded_matmul", batch=1.0, shards=4.0, **asked)
    batch = found["critical"]
    assert found["critical_exists"]
    same(batch, found["critical_batch"])
    at = ask("sharded_matmul", batch=batch, shards=4.0, **asked)
    same(at["math_time"], at["link_time"])


@pytest.mark.parametrize(("held", "missing"), [("batch", "feedforward"), ("feedforward", "batch")])
def test_a_gathered_operand_hides_from_its_missing_size_on(held: str, missing: str) -> None:
    asked = {"case": "outputs", "strategy": "gather", "hidden": 8192.0, "shards": 4.0, held: 256.0}
    found = ask("sharded_matmul", **{missing: 1024.0}, **asked)
    at = ask("sharded_matmul", **{missing: found["critical"]}, **asked)
    same(at["math_time"], at["link_time"])
    same(at["critical_shards"], 4.0)
    same(found["critical_shards"], 4.0 * found["math_time"] / found["link_time"])


@pytest.mark.parametrize("over", ["none", "x", "yz", "xyz"])
def test_shards_sum_to_the_whole(over: str) -> None:
    mesh = {"mesh__x": 4.0, "mesh__y": 8.0, "mesh__z": 2.0, "over": over}
    found = ask("array", rows=64.0, columns=128.0, **mesh)
    same(found["shard_bytes"] * found["shards"], found["bytes"])
    same(found["copies"] * found["shards"], found["devices"])
    same(found["mesh_bytes"], found["devices"] * found["shard_bytes"])
    work = ask("contraction", first=64.0, second=128.0, third=256.0, **mesh)
    same(work["mesh_flops"], found["copies"] * work["flops"])


# ---- Collectives --------------------------------------------------------------------------------

ROWS, ACROSS, UP = grid([1.0, 1e4, 1e9], [1.0, 2.0, 4.0, 15.0], [1.0, 4.0])
TORUS = {"rows": ROWS, "x": ACROSS, "y": UP}


@pytest.mark.parametrize("topology", torus.Topology)
def test_gather_and_scatter_are_halves_of_an_all_reduce(topology: torus.Topology) -> None:
    gather, scatter, reduce = (
        ask("torus", collective=name, topology=topology, **TORUS)
        for name in ("all_gather", "reduce_scatter", "all_reduce")
    )
    for name in ("time", "latency_time", "bandwidth_time"):
        same(gather[name], scatter[name])
        same(2.0 * gather[name], reduce[name])


@pytest.mark.parametrize("collective", torus.Collective)
def test_a_line_is_never_faster_than_a_ring(collective: torus.Collective) -> None:
    ring, line = (
        ask("torus", collective=collective, topology=name, **TORUS) for name in ("ring", "line")
    )
    assert np.all(ring["bandwidth_time"] <= line["bandwidth_time"] * (1.0 + 1e-12))
    assert np.all(ring["latency_time"] <= line["latency_time"] * (1.0 + 1e-12))


@pytest.mark.parametrize("topology", torus.Topology)
@pytest.mark.parametrize("collective", torus.Collective)
def test_hops_and_bytes(collective: torus.Collective, topology: torus.Topology) -> None:
    """Below its critical size an array is bound by hops; one device takes no time at all."""
    asked = {"collective": collective, "topology": topology, "x": ACROSS, "y": UP, "width": 1.0}
    found = ask("torus", rows=1e6, **asked)
    alone = ACROSS * UP == 1.0
    assert not found["serial_time"][alone].any()
    several = {**asked, "x": ACROSS[~alone], "y": UP[~alone]}
    critical = ask("torus", rows=1e6, **several)["critical_message"]
    at = ask("torus", rows=critical, **several)
    same(at["latency_time"], at["bandwidth_time"])
    assert np.all(ask("torus", rows=0.9 * critical, **several)["latency_bound"])
    assert not np.any(ask("torus", rows=1.1 * critical, **several)["latency_bound"])
    turned = ask("torus", rows=1e6, **{**asked, "x": UP, "y": ACROSS})
    same(turned["time"], found["time"])


def test_chunks_are_the_sum_of_distances() -> None:
    found = ask("torus", rows=1.0, x=np.arange(1.0, 10.0), collective="all_to_all")["chunks"]
    expected = [sum(min(d, n - d) for d in range(1, n)) for n in range(1, 10)]
    np.testing.assert_array_equal(found, expected)


NODES, UNITS, INNER = grid([1.0, 2.0, 32.0], [1.0, 4.0], [1.0, 4.0, 16.0, 1024.0])
TREE = {"rows": 1e9, "nodes": NODES, "units": UNITS}


def test_levels_of_a_tree() -> None:
    found = ask("tree", **TREE)
    rates = np.stack([np.broadcast_to(found[f"{n}_rate"], NODES.shape) for n in LEVELS])
    same(found["rate"], np.where(rates > 0.0, rates, np.inf).min(axis=0))
    times = np.stack([np.broadcast_to(found[f"{n}_time"], NODES.shape) for n in LEVELS])
    same(found["time"], times.max(axis=0))
    np.testing.assert_array_equal(times[1] == 0.0, NODES == 1.0)
    assert np.all(found["time"] <= found["simple_time"])


LEVELS = ("node", "leaf", "spine")


def test_reductions_of_a_tree() -> None:
    gather, scatter, ends = (
        ask("tree", collective=name, **TREE)
        for name in ("all_gather", "reduce_scatter", "all_reduce")
    )
    same(gather["time"], scatter["time"])
    same(2.0 * gather["time"], ends["time"])
    switches = ask("tree", collective="all_reduce", reduction="switches", **TREE)
    assert np.all(switches["time"] <= ends["time"] * (1.0 + 1e-12))


def test_arrays_sharded_inside_are_never_slower() -> None:
    plain, inner = ask("tree", **TREE), ask("tree", inner=INNER, **TREE)
    assert np.all(inner["time"] <= plain["time"] * (1.0 + 1e-12))


def test_an_all_to_all_takes_no_longer_than_a_gather() -> None:
    gather, every = (ask("tree", collective=c, **TREE) for c in ("all_gather", "all_to_all"))
    assert np.all(every["time"] <= gather["time"] * (1.0 + 1e-12))


def test_ragged_exchanges() -> None:
    active, size = grid([1.0, 2.0, 8.0, 100.0], [1.0, 8.0, 64.0])
    asked = {"rows": 1e9, "active": active, "system__fast_domain": size}
    dense, rough, exact = (
        ask("tree", collective="all_to_all", ragged=kind, **asked) for kind in tree.Ragged
    )
    assert np.all(rough["ragged_share_exact"] <= rough["ragged_share"] * (1.0 + 1e-12))
    assert np.all(rough["ragged_share"] <= 1.0)
    same(rough["time"], dense["time"] * rough["ragged_share"])
    same(exact["time"], dense["time"] * exact["ragged_share_exact"])


# ---- Refusals -----------------------------------------------------------------------------------

SQUARE = {"batch": 8, "hidden": 8, "feedforward": 8}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "matmul",
        {"system": "tpu-v5e-book", "unit": "vector", **SQUARE},
        "system.vector_flops: not given",
    ),
    ("torus", {"system": "h100-sxm", "rows": 8, "x": 4}, "system.link_latency: not given, and"),
    ("tree", {"system": "tpu-v5e-book", "rows": 8}, "system.fast_"),
    ("sharded_matmul", {"case": "botch", **SQUARE}, "no such Case. Did you mean 'both'?"),
]


@pytest.mark.parametrize(("name", "settings", "said"), WRONG)
def test_refusals(name: str, settings: dict[str, Any], said: str) -> None:
    assert said in refused(jr.evaluate, name, settings)
