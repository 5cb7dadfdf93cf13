"""What a transformer counts to, and how far it spreads: laws that the formulas keep."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from places import ROOT
from refusals import refused

import jaxroof as jr
from jaxroof import estimators
from jaxroof.engine.grid.question import resolve

LLAMA = {
    "layers": 80, "hidden": 8192, "feedforward": 28672, "heads": 64, "kv_heads": 8,
    "head_size": 128, "vocabulary": 128256,
}  # fmt: skip
POD = {"system": "tpu-v5p-book", "feedforward": 28672, "tokens": 4e6, "chips": 8960, "data_axes": 2}
SERVER = {
    "system": "tpu-v5e-book", "chips": 16, "batch": 32, "context": 8192, "parameters": 70e9,
    "weight_width": 1, "cache_per_token": 163840,
}  # fmt: skip


def ask(name: str, **settings: Any) -> dict[str, np.ndarray]:
    """Return the results of an estimator for settings."""
    asked = estimators.estimator(name)
    report = asked.evaluate(*resolve(asked, settings)[:2])
    return {key: np.asarray(value) for key, value in vars(report).items()}


def same(actual: Any, expected: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=0)


# ---- Counting -----------------------------------------------------------------------------------


def test_parameters_add_up() -> None:
    data = jr.evaluate("transformer", {**LLAMA, "norms": 2})
    parts = [data[f"{part}_parameters"] for part in ("mlp", "attention", "vocabulary", "norm")]
    same(sum(parts), data.parameters)
    same(data.active_parameters, data.parameters)
    same(data.training_flops, 3 * data.forward_flops)
    same(data.forward_flops, 2 * data.parameters)


def test_counts_are_linear_in_layers_and_in_experts() -> None:
    """The vocabulary is no layer, and experts that a token does not meet cost no arithmetic."""
    bare = {**LLAMA, "vocabulary": 0}
    data = jr.evaluate("transformer", bare, axes={"layers": [1, 80], "experts": [1, 16]})
    for name in ("parameters", "forward_flops", "cache_per_token", "score_flops"):
        same(data[name].sel(layers=80), 80 * data[name].sel(layers=1))
    same(data.mlp_parameters.sel(experts=16), 16 * data.mlp_parameters.sel(experts=1))
    same(data.forward_flops.sel(experts=16), data.forward_flops.sel(experts=1))


def test_scores_overtake_where_they_are_said_to() -> None:
    """At the two lengths, scores cost as much as the projections, and as all matrices."""
    bare = {**LLAMA, "vocabulary": 0}
    found = jr.evaluate("transformer", bare)
    for length, parameters in (
        (found.projection_context, found.attention_parameters),
        (found.matrix_context, found.parameters),
    ):
        there = jr.evaluate("transformer", {**bare, "sequence": float(length)})
        same(there.score_flops, 2 * parameters * length)
    plain = {**bare, "kv_heads": 64, "feedforward": 4 * 8192}
    simple = jr.evaluate("transformer", plain)
    same(simple.projection_context, simple.projection_context_simple)
    same(simple.matrix_context, simple.matrix_context_simple)


def test_what_is_not_given_follows_from_the_rest() -> None:
    whole = {name: LLAMA[name] for name in ("layers", "hidden", "feedforward", "heads")}
    data = jr.evaluate("transformer", whole)
    other = jr.evaluate("transformer", {**whole, "kv_heads": 64, "head_size": 128})
    same(data.parameters, other.parameters)
    cache = jr.evaluate("kv_cache", layers=80, kv_heads=64, head_size=128, sequence=4096)
    same(cache.per_sequence, data.cache_per_sequence)


@pytest.mark.parametrize("more", [{"utilised": 0.4}, {"chip_time": 2.79e6 * 3600.0}])
def test_a_run_takes_its_total_over_its_accelerators(more) -> None:
    """Whether the total is given or follows from the share in use, every time is of it."""
    asked = {"system": "h100-sxm", "chips": 2048, "parameters": 37e9, "tokens": 14.8e12, **more}
    data = jr.evaluate("training_run", asked)
    same(data.time * 2048, data.total_time)
    same(data.days * 86400.0, data.time)
    rate = float(jr.system("h100-sxm").matrix_flops)
    same(data.utilisation * data.total_time * rate, data.training_flops)
    same(data.total_time, more.get("chip_time", data.total_time))


def test_memory_adds_up_and_fits_on_enough_chips() -> None:
    asked = {
        "system": "tpu-v5p-book", "parameters": 70e9, "layers": 80, "hidden": 8192, "tokens": 4e6,
        "kept": 4, "chips": 64,
    }  # fmt: skip
    data = jr.evaluate("training_memory", asked, axes={"chips": [64, 226, 8960]})
    same(data.memory, data.weights + data.optimizer + data.checkpoints)
    assert data.fits.values.tolist() == [False, bool(data.chips_needed <= 226), True]
    assert int(data.chips_needed_whole) == np.ceil(data.chips_needed)


# ---- Bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data_axes", "tensor_axes"), [(1.0, 1.0), (2.0, 1.0), (1.0, 2.0)])
def test_the_best_mixed_split_is_the_least_of_all(data_axes: float, tensor_axes: float) -> None:
    """On a fine grid of splits none sends less, and its ratio is the one that is told."""
    chips, tokens, feedforward, balance = 4096.0, 1e6, 32768.0, 2550.0
    data = jnp.geomspace(1.0, chips, 4001)
    asked = {
        "chips": chips, "tokens": tokens, "feedforward": feedforward, "balance": balance,
        "data_axes": data_axes, "tensor_axes": tensor_axes,
    }  # fmt: skip
    found = ask("training_bounds", **asked, data=np.asarray(data))
    shares = found["share"]
    same(data[np.argmin(shares)], found["mixed_data"], rtol=2e-3)
    same(1.0 / np.min(shares), found["mixed_ratio"], rtol=1e-5)


def test_at_its_bound_communication_takes_as_long_as_arithmetic() -> None:
    """Each bound, put back, makes the share one: of data alone, tensor alone, and mixed."""
    first = jr.evaluate("training_bounds", POD)
    batch = {**POD, "tokens": float(first.mixed_batch)}
    same(jr.evaluate("training_bounds", batch).share, 1.0)
    same(jr.evaluate("training_bounds", batch).mixed_ratio, 1.0)
    wide = 1e30  # as good as no tensor parallelism
    alone = {**POD, "tokens": float(first.data_batch), "data": 8960, "tensor": 1}
    same(jr.evaluate("training_bounds", {**alone, "feedforward": wide}).share, 1.0)
    inner = {**POD, "tokens": wide, "tensor": float(first.tensor_limit)}
    same(jr.evaluate("training_bounds", {**inner, "data": 1}).share, 1.0)


def test_pods_and_stages() -> None:
    data = jr.evaluate("pods", system="tpu-v5p-book", tokens=4e6, pods=2, axes={"pods": [1, 2, 10]})
    same(data.pod_tokens, 459e12 / 6.25e9)  # the machine's interfaces, however many chips
    same(data.pod_tokens_few / data.pod_tokens, [0.0, 0.5, 0.9])
    hops = jr.evaluate(
        "pipeline_hop", system="tpu-v5p-book", hidden=8192, tokens=65536, stages=8, microbatches=1,
        axes={"microbatches": [1, 16]},
    )  # fmt: skip
    same(hops.message * hops.microbatches, 2 * 65536 * 8192)
    same(hops.time, hops.hops * hops.hop_time)
    assert hops.hops.values.tolist() == [7.0, 22.0]


# ---- Serving ------------------------------------------------------------------------------------


def test_throughput_is_below_both_roofs() -> None:
    """No batch generates faster than the caches are read, or than the products are done."""
    batches = jr.geomspace(1, 1e5, 41)
    data = jr.evaluate("serving_roofline", SERVER, axes={"batch": batches})
    assert np.all(data.throughput <= 16 * 8.1e11 / data.cache_memory * (1 + 1e-12))
    assert np.all(data.throughput <= 16 * 197e12 / (2 * 70e9) * (1 + 1e-12))
    assert np.all(np.diff(data.throughput) > -1e-9 * data.throughput[1:])
    assert np.all(np.diff(data.step_time) > 0)
    assert np.all(data.step_time >= data.memory_step_time * (1 - 1e-12))
    assert np.all(np.asarray(data.compute_bound) == (data.batch > float(data.critical_batch)))
    same(data.queries * 512, data.throughput)


def test_what_fits_fits() -> None:
    """The whole caches that are said to fit do, and one more does not."""
    data = jr.evaluate("serving_roofline", SERVER)
    for more, fits in ((0, True), (1, False)):
        batch = int(data.caches_whole) + more
        assert bool(jr.evaluate("serving_roofline", {**SERVER, "batch": batch}).fits) is fits
    small = jr.evaluate("serving_roofline", {**SERVER, "chips": 2})
    assert float(small.free_memory) == 0.0
    assert int(small.caches_whole) == 0
    assert int(small.chips_for_weights_whole) == 5


def test_what_is_given_holds() -> None:
    """Bytes given stand for what would follow from parameters and tokens."""
    bytes_given = {k: v for k, v in SERVER.items() if k not in ("parameters", "cache_per_token")}
    bytes_given |= {"weights": 70e9, "cache": 163840 * 8192}
    one, other = (jr.evaluate("serving_roofline", asked) for asked in (SERVER, bytes_given))
    for name in one.data_vars:
        same(other[name], one[name])
    timed = jr.evaluate("serving_roofline", {**SERVER, "step": 0.019})
    same(timed.throughput, 32 / 0.019)
    same(timed.step_time, one.step_time)


def test_the_best_plane_is_the_least_of_all() -> None:
    hidden, feedforward, batch, chips, bandwidth = 8192.0, 28672.0, 32.0, 256.0, 9e10
    rows = jnp.geomspace(1.0, chips, 4001)
    inner = 4.0 * batch * feedforward * rows / (chips * bandwidth)
    outer = 2.0 * batch * hidden / (rows * bandwidth)
    least = jnp.argmin(inner + outer)
    asked = {"hidden": hidden, "feedforward": feedforward, "batch": batch, "chips": chips}
    found = ask("weight_sharding", system="tpu-v5e-book", bandwidth=bandwidth, **asked)
    same(rows[least], found["plane_rows"], rtol=2e-3)
    same((inner + outer)[least], found["plane_time"], rtol=1e-5)


def test_a_plane_beats_a_line_from_where_it_is_said_to() -> None:
    asked = {
        "system": "tpu-v5e-book",
        "batch": 32,
        "hidden": 8192,
        "feedforward": 32768,
        "line_axes": 3,
    }
    asked["chips"] = 72
    data = jr.evaluate("weight_sharding", asked, axes={"chips": [36, 72, 144]})
    same(data.plane_from, 72.0)
    same((data.line_time / data.plane_time) ** 2, [0.5, 1.0, 2.0])
    assert data.plane_wins.values.tolist() == [False, False, True]


# ---- Chips, and what is refused -----------------------------------------------------------------


def test_a_cluster_is_the_sum_of_its_chips() -> None:
    slice_of = jr.evaluate("cluster", system="tpu-v4-book", length=4, width=4, height=8)
    assert float(slice_of.total_chips) == 128.0
    assert float(slice_of.hosts) == 32.0
    whole = jr.evaluate("cluster", system="tpu-v5p-book")
    assert float(whole.total_chips) == 8960.0
    same(whole.total_flops, 8960 * 459e12)
    sparse = jr.evaluate("cluster", system="tpu-v5p-book", sparsity=2)
    same(sparse.total_flops, whole.total_flops / 2)


@pytest.mark.parametrize(
    ("ask", "settings", "said"),
    [
        ("training_bounds", {"chips": 4, "tokens": 4e6}, "system: missing; expected a name"),
        ("training_bounds", {"balance": 1, "chips": 4, "tokens": 4e6}, "hidden: not given"),
        (
            "serving_roofline",
            {k: v for k, v in SERVER.items() if k != "parameters"},
            "parameters: not give",
        ),
        ("pods", {"system": "h100-nvl", "pods": 2, "tokens": 4e6}, "system.pod: not given"),
        ("weight_sharding", {"system": "rtx-4090", "batch": 1, "hidden": 8, "feedforward": 8,
                             "chips": 2}, "system.link_bandwidth: not given"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused(ask: str, settings: Any, said: str) -> None:
    assert said in refused(jr.evaluate, ask, settings)


def test_the_page_runs_as_printed() -> None:
    """Every example of the page runs, and says what its comment says."""
    page = (ROOT / "docs" / "rooflines.md").read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    assert len(blocks) > 5
    scope: dict[str, Any] = {}
    told = 0
    for block in blocks:
        exec(compile(block, "rooflines.md", "exec"), scope)
        for line in block.splitlines():
            code, _, comment = line.partition("  # -> ")
            if comment:
                value, expected = float(eval(code, scope)), float(comment.split()[0])
                same(value, expected, rtol=5e-3)
                told += 1
    assert told >= len(blocks)
