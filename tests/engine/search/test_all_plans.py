"""Laws of the splits over a grid of ranks: the same whole, the legal plans, one answer however."""

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.estimator import reads
from jaxroof.estimators.published.layer_time import timings
from jaxroof.estimators.published.legality import EVERY, RULES, panels_fit, plans
from jaxroof.estimators.published.operations import operations
from jaxroof.records import checked, replace_at

FIELDS = [f.name for f in dataclasses.fields(jr.Plan)]
SMALL = jr.Model(layers=12.0, hidden=1536.0, feedforward=6144.0, heads=12.0, sequence=512.0)
GRIDS = [jr.Split.SUMMA, jr.Split.CONTEXT]
every_split = pytest.mark.parametrize("split", jr.Split, ids=lambda split: split.value)
every_grid = pytest.mark.parametrize("split", GRIDS, ids=lambda split: split.value)


def small(gpus=24.0, domain=4.0, **system):
    """Return a small question."""
    machine = jr.system("h200-nvs4", fast_domain=domain, **system)
    return checked(jr.Inputs(model=SMALL, system=machine, gpus=gpus, global_batch=12.0))


# ---- Where the splits coincide ------------------------------------------------------------------


def layer(split, model="gpt3-1t", **ranks):
    inputs = jr.Inputs(model=jr.model(model), system=jr.system("b200-nvs8"))
    found = operations(inputs, jr.Recipe(split=split), **{"microbatch": 2.0, **ranks})
    return {
        name: (operation, timings(operation, inputs.system)) for name, operation in found.items()
    }


def same(ours, theirs):
    (work, times), (other, others) = ((o.work, t) for o, t in (ours, theirs))
    return jax.tree.all(jax.tree.map(lambda a, b: bool(a == b), (work, times), (other, others)))


@pytest.mark.parametrize("tensor", [1.0, 8.0])
def test_one_context_rank_is_1d(tensor):
    """All but the biases behind the products split by rows (Q10)."""
    ranks = {"tensor": tensor, "fast_tensor": tensor}
    plain, cut = (layer(split, **ranks) for split in (jr.Split.ONE_D, jr.Split.CONTEXT))
    assert list(plain) == list(cut)
    differ = [name for name in plain if not same(plain[name], cut[name])]
    assert differ == ([] if tensor == 1.0 else ["fc2-bias", "vproj-bias"])


def test_a_grid_of_one_is_1d_but_for_a_flop_in_two_widths():
    """Of each output SUMMA counts the first addition too; its norm's width is the sequence (Q1)."""
    plain, grid = (layer(split, tensor=1.0) for split in (jr.Split.ONE_D, jr.Split.SUMMA))
    assert list(plain) == list(grid)
    products = {"fc1": 102400.0, "fc2": 25600.0, "qkv": 76800.0, "vproj": 25600.0}
    differ = [name for name in plain if not same(plain[name], grid[name])]
    assert differ == [name for name in plain if name in products or name in ("ln1", "ln2")]
    for name, outputs in products.items():
        one, two = (found[name][0].work for found in (plain, grid))
        assert float(two.forward.flops) == float(one.forward.flops + 2.0 * 2048 * outputs)
        assert float(two.backward.flops) == float(one.backward.flops)
        assert float(two.forward.traffic) == float(one.forward.traffic)
        assert float(two.parameters) == float(one.parameters)


def test_both_grids_attend_alike():
    """SUMMA's attention core is the context ranks' ring (section 6)."""
    ranks = {"tensor": 4.0, "context": 8.0, "fast_tensor": 2.0, "fast_context": 4.0}
    summa, context = (layer(split, **ranks) for split in GRIDS)
    for name in ("fusedla", "fc1-bias", "act1", "dpr1", "vproj-bias"):
        assert same(summa[name], context[name]), name


# ---- Conservation -------------------------------------------------------------------------------

SHARDS = [  # split, operation, by how much each rank's parameters and FLOP are the layer's shares
    *((jr.Split.SUMMA, name, 32.0, 32.0) for name in ("fc1", "fc2", "qkv", "vproj")),
    *((jr.Split.SUMMA, name, 4.0, 32.0) for name in ("fc1-bias", "fc2-bias", "vproj-bias")),
    *((jr.Split.SUMMA, name, 1.0, 32.0) for name in ("act1", "dpr1", "dpr2", "dpr_v", "fusedla")),
    (jr.Split.CONTEXT, "fc1", 4.0, 32.0),
    (jr.Split.CONTEXT, "qkv", 4.0, 32.0),
    (jr.Split.CONTEXT, "fc2-bias", 1.0, 32.0),
    (jr.Split.CONTEXT, "vproj-bias", 4.0, 32.0),
    *((jr.Split.CONTEXT, name, 1.0, 32.0) for name in ("act1", "dpr1", "dpr2", "dpr_v", "fusedla")),
    *((jr.Split.CONTEXT, name, 1.0, 32.0) for name in ("ln1", "ln2")),
]


@pytest.mark.parametrize(("split", "name", "parameters", "flops"), SHARDS)
def test_shards_of_a_grid_sum_to_the_layer(split, name, parameters, flops):
    """A weight lies once on a SUMMA grid, and once on every context rank of the other."""
    one = layer(split, tensor=1.0)[name][0].work
    shard = layer(split, tensor=4.0, context=8.0)[name][0].work
    assert float(parameters * shard.parameters) == float(one.parameters)
    assert float(flops * shard.forward.flops) == pytest.approx(float(one.forward.flops), rel=1e-12)


def test_weights_of_a_grid_sum_to_the_models():
    """Over all ranks and stages the products' weights are 128 layers of 12 E^2."""
    names = ("fc1", "fc2", "qkv", "vproj")
    found = layer(jr.Split.SUMMA, tensor=4.0, context=8.0)
    total = 4 * 8 * sum(found[name][0].work.parameters for name in names)
    assert float(128 * total) == 128 * 12 * 25600.0**2


def test_context_ranks_share_the_optimizer_state_and_summa_ranks_do_not():
    plan = jr.Plan(data=2.0, tensor=2.0, context=4.0, pipeline=2.0, microbatch=1.0, panels=4.0)
    inputs = dataclasses.replace(small(gpus=32.0), plan=plan)
    for split, replicas in ((jr.Split.SUMMA, 2.0), (jr.Split.CONTEXT, 8.0)):
        found = jr.published.evaluate(inputs, jr.Recipe(split=split))
        assert float(found.memory_optimizer * replicas) == 6.0 * float(found.memory_weights)


# ---- Search -------------------------------------------------------------------------------------


def winners(data, top):
    """Return the indices of the best feasible plans; ties go to the leaner, then the smaller."""
    order = np.lexsort([*(data[field].values for field in reversed(FIELDS)), data.memory.values])
    order = order[data.feasible.values[order]]
    times, found = data.step_time.values[order], []
    while len(order) and len(found) < top:
        best = int(np.argmax(times <= times.min() * (1 + 1e-12)))
        found.append(int(order[best]))
        order, times = np.delete(order, best), np.delete(times, best)
    return found


CAPACITIES = ("0.1 GB", "0.5 GB", "0.8 GB", "1.6 GB", "2.5 GB", "30 GB")


@every_grid
def test_search_is_survey_then_argmin(split):
    """A search finds what listing every plan and taking the best finds, whatever fits."""
    axes = {"system.hbm_capacity": CAPACITIES, "system.hbm_bandwidth": [0.3e12, 4.8e12]}
    options = {"split": split, "top": 3, "placements": True}
    searched = jr.search(jr.published, small(), axes={"gpus": [4, 24], **axes}, **options)
    for gpus, index in itertools.product((4, 24), np.ndindex(len(CAPACITIES), 2)):
        at = searched.sel(gpus=gpus).isel(hbm_capacity=index[0], hbm_bandwidth=index[1])
        machine = {f"system.{name}": float(at[name]) for name in ("hbm_capacity", "hbm_bandwidth")}
        data = jr.survey(jr.published, small(float(gpus)), split=split, **machine)
        best = winners(data, 3)
        assert int(at.plans_legal) == data.sizes["plan"]
        assert int(at.plans_feasible) == int(data.feasible.sum())
        for field in FIELDS:
            expected = [int(data[field][i]) for i in best] + [-1] * (3 - len(best))
            assert at[field].values.tolist() == expected, field
        expected = data.step_time.values[best]
        np.testing.assert_allclose(at.step_time[: len(best)], expected, rtol=1e-12)
    for gpus in (4, 24):
        counts = set(searched.plans_feasible.sel(gpus=gpus).values.ravel().tolist())
        assert min(counts) == 0
        assert len(counts) >= 4


# ---- The legal plans ----------------------------------------------------------------------------


def dense(gpus, batch, domain):
    """Return every row of small whole numbers whose degrees multiply to the accelerators."""
    numbers = range(1, gpus + 1)
    degrees = [four for four in itertools.product(numbers, repeat=4) if math.prod(four) == gpus]
    fast = [
        four
        for four in itertools.product(range(1, max(gpus, domain) + 1), repeat=4)
        if math.prod(four) in (gpus, domain)
    ]
    rest = [
        (microbatch, panels, *four)
        for microbatch in range(1, batch + 1)
        for panels in range(1, max(gpus, 8) + 1)
        for four in fast
    ]
    left, right = np.array(degrees), np.array(rest)
    table = np.hstack([left.repeat(len(right), axis=0), np.tile(right, (len(left), 1))])
    names = ("data", "tensor", "context", "pipeline", "microbatch", "panels")
    fields = (*names, *(f"fast_{name}" for name in names[:4]))
    return dict(zip(fields, table.T, strict=True))


@every_split
@pytest.mark.parametrize(("gpus", "domain"), [(8, 4), (12, 6), (4, 8)])
def test_exactly_what_every_rule_allows_is_listed(split, gpus, domain):
    """No legal plan is missed and none is listed that a verdict refuses."""
    inputs = replace_at(small(float(gpus), float(domain)), "global_batch", 6.0)
    rows = dense(gpus, 6, domain)
    held = np.ones(len(rows["data"]), bool)
    for rule in RULES[split]:
        held &= rule.holds(inputs, **{field: rows[field] for field in reads(rule.holds)})
    expected = np.stack([rows[field][held] for field in FIELDS], axis=1)
    listed = plans(inputs, jr.Recipe(split=split)).plans
    ours = np.stack([listed[field] for field in FIELDS], axis=1)
    assert len(ours) > 10
    np.testing.assert_array_equal(ours, expected[np.lexsort(expected.T[::-1])])
    data = jr.survey(jr.published, inputs, split=split)
    assert all(bool(data[verdict].all()) for verdict in EVERY)


def panel_counts(hidden, tensor, context):
    """Return the panel counts of section 10, step by step."""
    side = max(tensor, context)
    if hidden / side < 512:
        return [side]
    powers = [side * 2**j for j in range(math.ceil(math.log2(hidden // side)))]
    return [n for n in powers if hidden % n == 0 and hidden / n >= 512]


PANELS = [  # hidden, tensor, context, panel counts by hand
    (25600, 8, 1, [8, 16, 32]),  # 64 would leave 400 columns
    (25600, 1, 32, [32]),
    (25600, 64, 2, [64]),  # too narrow already: the longer side alone
    (12288, 1, 1, [1, 2, 4, 8, 16]),
    (12288, 3, 2, [3, 6, 12, 24]),
    (12288, 5, 1, []),  # 5 divides no width here (Q20: choices may be empty)
    (1536, 2, 4, [4]),
    (1000, 1, 1, [1]),
]


@pytest.mark.parametrize(("hidden", "tensor", "context", "counts"), PANELS)
def test_panel_counts(hidden, tensor, context, counts):
    """Powers of two of the grid's longer side that leave 512 columns, else that side (Q20)."""
    inputs = replace_at(small(), "model.hidden", float(hidden))
    panels = np.arange(1, hidden + 1)
    held = panels_fit(inputs, tensor=np.array(tensor), context=np.array(context), panels=panels)
    assert panels[held].tolist() == counts == panel_counts(hidden, tensor, context)


BASE = {
    "data": 16, "tensor": 4, "context": 2, "pipeline": 32, "microbatch": 1, "panels": 1,
    "fast_data": 1, "fast_tensor": 4, "fast_context": 1, "fast_pipeline": 1,
}  # fmt: skip
GRID = BASE | {"panels": 4}
TRIPS = [  # split, a verdict; what of the plan and of the question trips it, and it alone
    *(
        (split, verdict, base | plan, settings)
        for split, base in ((jr.Split.SUMMA, GRID), (jr.Split.CONTEXT, BASE))
        for verdict, plan, settings in (
            ("tensor_divides_heads", {}, {"model.heads": 162.0}),
            ("tensor_wide_enough", {}, {"model.hidden": 504.0}),
            ("pipeline_divides_layers", {"pipeline": 20}, {}),
            ("data_divides_batch", {"data": 24}, {}),
            ("microbatch_divides_batch", {"microbatch": 3}, {}),
            ("placement_divides", {"fast_tensor": 1, "fast_context": 4}, {}),
            ("placement_fills_domain", {"fast_tensor": 2}, {}),
            ("memory_fits", {}, {"system.hbm_capacity": 1e9}),
        )
    ),
    (jr.Split.SUMMA, "context_divides_hidden", GRID | {"context": 3, "panels": 4}, {
        "model.sequence": 2046.0, "model.hidden": 25604.0}),
    (jr.Split.SUMMA, "context_long_enough", GRID | {"context": 32, "panels": 32}, {}),
    (jr.Split.SUMMA, "panels_fit", GRID | {"panels": 2}, {}),
    (jr.Split.SUMMA, "panels_fit", GRID | {"panels": 12}, {}),
    (jr.Split.SUMMA, "panels_fit", GRID | {"panels": 64}, {}),
    (jr.Split.SUMMA, "ranks_divide_tokens", GRID, {"model.sequence": 2047.0}),
    (jr.Split.CONTEXT, "tensor_divides_hidden", BASE, {"model.hidden": 25602.0}),
    (jr.Split.CONTEXT, "split_allows", BASE | {"panels": 2}, {}),
    (jr.Split.CONTEXT, "context_long_enough", BASE | {"context": 32}, {}),
    (jr.Split.CONTEXT, "ranks_divide_tokens", BASE, {"model.sequence": 2044.0}),
]  # fmt: skip


@pytest.mark.parametrize(("split", "verdict", "plan", "settings"), TRIPS)
def test_each_verdict_is_tripped_alone(split, verdict, plan, settings):
    """Token rules differ: SUMMA asks the context ranks alone, context asks all of them (Q21)."""
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs4"))
    for path, value in {"system.hbm_capacity": 1e15, **settings}.items():
        inputs = replace_at(inputs, path, value)
    chosen = jr.Plan(**{field: float(value) for field, value in plan.items()})
    asked = checked(dataclasses.replace(inputs, plan=chosen))  # of one kind: compiled once
    report = evaluate(asked, jr.Recipe(split=split))
    failed = [name for name in (*EVERY, "memory_fits") if not bool(getattr(report, name))]
    assert failed == [verdict]
    assert not bool(report.feasible)


evaluate = jax.jit(jr.published.evaluate, static_argnums=1)


def test_every_rule_of_a_grid_is_tripped():
    """But one of SUMMA's: what does not divide the width leaves panels that do not either."""
    for split in GRIDS:
        tripped = {row[1] for row in TRIPS if row[0] is split} - {"memory_fits"}
        missing = {rule.name for rule in RULES[split]} - tripped
        assert missing == ({"tensor_divides_hidden"} if split is jr.Split.SUMMA else set())


@pytest.mark.parametrize("split", [jr.Split.ONE_D, jr.Split.CONTEXT], ids=lambda s: s.value)
def test_panels_of_attention_are_summas_alone(split):
    with pytest.raises(jr.InputError, match=r"attention: 'panels' is of split 'summa' alone"):
        jr.search(jr.published, small(), split=split, attention="panels")


def test_plans_without_the_refused_are_a_survey():
    """Of one point; a grid of them is refused."""
    data = jr.plans(jr.published, small(), refused=False, split="1d")
    xr.testing.assert_identical(data, jr.survey(jr.published, small(), split="1d"))
    every = jr.plans(jr.published, small(), split="1d")
    assert every.sizes["configuration"] == data.sizes["plan"]
    with pytest.raises(jr.InputError, match=r"^axes: not with refused=False; expected one call"):
        jr.plans(jr.published, small(), axes={"gpus": [4, 8]}, refused=False)
