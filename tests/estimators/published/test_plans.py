"""The legal plans are all of them and nothing else; each rule refuses alone what it says."""

import dataclasses
import importlib.util
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

import jaxroof as jr
from jaxroof.estimators.published.legality import RULES, plans

PATH = ROOT / "benchmarks" / "baselines.py"
SPEC = importlib.util.spec_from_file_location("baselines", PATH)
baselines = importlib.util.module_from_spec(SPEC)
sys.modules["baselines"] = baselines
SPEC.loader.exec_module(baselines)

SHAPES = [  # layers, hidden, feedforward, heads, sequence
    (128, 25600, 102400, 160, 2048),
    (96, 12288, 49152, 96, 2048),
    (48, 12288, 49152, 64, 64800),
    (30, 1000, 4000, 20, 1000),
]


def question(shape, gpus, batch, domain):
    names = [f.name for f in dataclasses.fields(jr.Model)][: len(shape)]
    model = jr.Model(**{n: float(v) for n, v in zip(names, shape, strict=True)})
    system = jr.system("b200-nvs8", fast_domain=domain)
    return jr.Inputs(model=model, system=system, gpus=float(gpus), global_batch=float(batch))


BASE = {
    "data": 16, "tensor": 4, "context": 1, "pipeline": 32, "microbatch": 1, "panels": 1,
    "fast_data": 1, "fast_tensor": 4, "fast_context": 1, "fast_pipeline": 1,
}  # fmt: skip
TRIPS = [  # a verdict; what of the plan and of the question trips it, and it alone
    ("split_allows", {"panels": 2}, {}),
    ("tensor_divides_heads", {"tensor": 64}, {}),
    ("tensor_divides_hidden", {}, {"model.hidden": 25602}),
    ("tensor_wide_enough", {}, {"model.hidden": 160}),
    ("pipeline_divides_layers", {"pipeline": 20}, {}),
    ("data_divides_batch", {"data": 24}, {}),
    ("microbatch_divides_batch", {"microbatch": 3}, {}),
    ("ranks_divide_tokens", {}, {"model.sequence": 2047}),
    ("placement_divides", {"fast_tensor": 1, "fast_data": 1, "fast_pipeline": 4, "pipeline": 2},
     {}),
    ("placement_fills_domain", {"fast_tensor": 2}, {}),
    ("memory_fits", {}, {"system.hbm_capacity": "100 GB"}),
]  # fmt: skip


@pytest.mark.parametrize(("verdict", "plan", "settings"), TRIPS, ids=[t[0] for t in TRIPS])
def test_each_verdict_is_tripped_alone(verdict, plan, settings):
    inputs = question(SHAPES[0], 2048, 4096, 4)
    for path, value in {"system.hbm_capacity": "1 PB", **settings}.items():
        number = float(value) if not isinstance(value, str) else jr_bytes(value)
        inputs = jr.replace_at(inputs, path, number)
    chosen = jr.Plan(**{k: float(v) for k, v in {**BASE, **plan}.items()})
    report = jr.published.evaluate(dataclasses.replace(inputs, gpus=None, plan=chosen))
    names = [t[0] for t in TRIPS]
    assert [n for n in names if not bool(getattr(report, n))] == [verdict]
    assert not bool(report.feasible)


def jr_bytes(text):
    number, unit = text.split()
    return float(number) * {"GB": 1e9, "PB": 1e15}[unit]


def refusals(shape, gpus, batch, domain):
    """Return how many choices each rule drops, one plain loop a stage; each counts once."""
    layers, hidden, _, heads, sequence = shape
    counts = dict.fromkeys((r.name for r in RULES[jr.Split.ONE_D]), 0)
    for tensor in baselines.divisors(gpus):
        if heads % tensor:
            counts["tensor_divides_heads"] += 1
        elif hidden % tensor:
            counts["tensor_divides_hidden"] += 1
        elif 3 * hidden // tensor < 128:
            counts["tensor_wide_enough"] += 1
        else:
            for pipeline in baselines.divisors(gpus // tensor):
                data = gpus // tensor // pipeline
                if layers % pipeline:
                    counts["pipeline_divides_layers"] += 1
                elif batch % data:
                    counts["data_divides_batch"] += 1
                else:
                    fits = any(True for _ in baselines.fast_splits(data, tensor, pipeline, domain))
                    for microbatch in baselines.divisors(batch // data):
                        if microbatch * sequence % tensor:
                            counts["ranks_divide_tokens"] += 1
                        elif not fits:
                            counts["placement_fills_domain"] += 1
    return counts


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    layers=st.integers(1, 48),
    heads=st.integers(1, 24),
    head_size=st.integers(8, 200),
    odd=st.integers(0, 3),
    sequence=st.integers(1, 300),
    gpus=st.integers(1, 256),
    batch=st.integers(1, 300),
    domain=st.integers(1, 16),
)
def test_any_model_has_the_plans_and_refusals_of_plain_loops(
    layers, heads, head_size, odd, sequence, gpus, batch, domain
):
    """Each refused choice counts once, at the first stage and for the first rule that drops it."""
    shape = (layers, heads * head_size + odd, 64, heads, sequence)
    found, refused, *_ = plans(question(shape, gpus, batch, domain), jr.Recipe())
    expected = baselines.enumerate_1d(baselines.Model(*shape), gpus, batch, domain)
    ours = zip(*(found[field].tolist() for field in baselines.Plan._fields), strict=True)
    assert list(ours) == [tuple(plan) for plan in expected]
    assert dict(refused) == refusals(shape, gpus, batch, domain)
    assert all(column.dtype.kind == "i" for column in found.values())
