"""Serving: the best plan within limits, whole pools against every pair, the frontier, refusals."""

import itertools
import json
from typing import Any

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.analyses.serve import found_some, pool_of, table
from jaxroof.errors import InputError
from jaxroof.views.answers import answer, headline

ASKED: dict[str, Any] = {
    "model": "llama3-8b", "system": "h100-nvs8", "gpus": 12, "prompt": 2048, "output": 256,
    "ttft": "1 s", "tpot": "20 ms",
}  # fmt: skip


OTHERS = {"prefill": {"tpot", "output"}, "decode": {"ttft"}}  # that do not enter a pool


def of_pool(name: str) -> dict[str, Any]:
    return {key: value for key, value in ASKED.items() if key not in OTHERS[name]}


def words(data: Any) -> str:
    return " ".join(piece for _, piece, _ in answer(data) if isinstance(piece, str))


@pytest.fixture(scope="module")
def both() -> Any:
    return jr.serve(**ASKED, split="both", where="tp<=4", own="tp=4,batch=64,chunk=2048")


def test_the_best_is_that_of_a_search(both: Any):
    found = jr.search("serving", **ASKED, where="tensor<=4")
    assert float(both.accelerator_time[0]) == float(found.accelerator_time)
    for name in OTHERS:
        one = jr.search(f"serving_{name}", **of_pool(name), where="tensor<=4")
        assert float(both[f"{name}_accelerator_time"][0]) == float(one.accelerator_time)
    splits = [tuple(row) for row in np.stack([both.tensor, both.data]).T]
    assert len(splits) == len({*splits})  # one plan a split


def test_whole_pools_are_the_best_of_all_pairs(both: Any):
    found = {}
    for name in ("prefill", "decode"):
        every = jr.survey(f"serving_{name}", **of_pool(name), where="tensor<=4")
        some = every.isel(plan=np.flatnonzero(every.feasible.values))
        size = (some.tensor * some.data * some.pipeline).values
        found[name] = {n: float(some.rate.values[size == n].max()) for n in np.unique(size)}
    best = 0.0
    for (n, rate), (m, other) in itertools.product(*(one.items() for one in found.values())):
        for many in range(1, ASKED["gpus"] // n + 1):
            left = (ASKED["gpus"] - many * n) // m
            best = max(best, min(many * rate, left * other))
    assert float(both.pools_rate) == pytest.approx(best, rel=1e-12)


def test_what_is_said_of_both(both: Any):
    said = words(both)
    assert headline(both).startswith(("One server for both gives", "Pools of their own give"))
    for part in ("Best of the", "80 % of measured servers", "Best pools: prefill tp", "Yours, tp 4",
                 "Software", "vllm-2026", "bind"):  # fmt: skip
        assert part.casefold() in said.casefold(), part
    assert pool_of(both, "decode").attrs["estimator"] == "serving_decode"
    assert {*table(both).part.values} == {"server", "prefill", "decode"}


def test_a_load_says_how_many_carry_it():
    free = jr.serve(**ASKED)
    most = float(free.rate[0]) * ASKED["gpus"] / float(free.tensor[0])
    easy, hard = (jr.serve(**ASKED, load=share * most) for share in (0.3, 2.0))
    assert found_some(easy)
    assert float(easy.fewest) < ASKED["gpus"]
    assert not found_some(hard)
    assert float(hard.fewest) > ASKED["gpus"]
    assert "would do" in words(easy)
    assert headline(hard).startswith("12 carry at most")
    pools = jr.serve(**ASKED, load=2.0 * most, split="disaggregated")
    assert not found_some(pools)
    assert "asked for take" in words(pools)


def test_users_at_once_are_a_closed_loop():
    few = jr.serve(**ASKED, users=12)
    assert float(few.users_tpot) < float(few.tpot[0])
    many = jr.serve(**ASKED, users=1_000_000)
    assert not found_some(many)
    assert "hold at most" in words(many)


def test_nothing_within_says_what_is_missing():
    slow = jr.serve(**{**ASKED, "tpot": "1 ms"}, split="both")
    assert not found_some(slow)
    assert headline(slow).startswith("Nothing is within every limit")
    assert "TPOT all" in words(slow)
    large = jr.serve(**{**ASKED, "model": "llama3.1-405b", "gpus": 2})
    assert "HBM all" in words(large)
    assert "GB HBM of" in words(large)


def test_a_ladder_that_ends_says_so():
    data = jr.serve(model="llama3-8b", system="h100-nvs8", gpus=8, prompt=16, output=16)
    if int(data.batch[0]) == 8192:
        assert "are not tried" in words(data)


def test_a_limit_is_a_place_on_the_frontier():
    asked = {key: value for key, value in ASKED.items() if key != "tpot"}
    found = jr.frontier(**{**asked, "system": ["h100-nvs8", "b200-180-sxm"]}, tpot="10 ms")
    for name, limit in itertools.product(("h100-nvs8", "b200-180-sxm"), (0.006, 0.01, 0.03)):
        one = found.isel(step_number=np.flatnonzero(found.case.values == name))
        best = jr.search("serving", **{**asked, "system": name}, tpot=limit)
        inside = one.tpot.values <= limit
        assert one.accelerator_time.values[inside].min() == float(best.accelerator_time)
    assert headline(found).startswith("At TPOT 10 ms (100 tokens/s a user) b200-180-sxm gives")


@pytest.mark.parametrize(("changes", "said"), [
    ({"output": 1}, "workload.output: "),
    ({"ttft": 0.0}, "limits.ttft: "),
    ({"tpot": "nan s"}, "limits.tpot: "),
    ({"split": "half"}, "split: half: no such split"),
    ({"precision": "fp4"}, "fp4"),
    ({"software": "vlm"}, "software"),
    ({"where": "foo<3"}, "where: foo"),
    ({"split": "disaggregated", "own": "tp=2"}, "--mine: of one server"),
])  # fmt: skip
def test_bad_input_is_one_line(changes: Any, said: str):
    with pytest.raises(InputError) as raised:
        jr.serve(**{**ASKED, **changes})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_commands_end_as_they_found(jaxroof: Any):
    line = "serve --model llama3-8b --system h100-nvs8 --gpus 8 --input 1024 --output 256"
    some = jaxroof(f"{line} --tpot 20ms --load 3/s -o a.png")
    assert some.code == 0
    assert "Best of the" in some.out
    assert jaxroof(f"{line} --tpot 1ms").code == 1
    both = jaxroof(f"{line} --tpot 20ms --split both -o a.csv")
    assert both.code == 0
    assert "Best pools" in both.out
    two = jaxroof(f"{line.replace('nvs8', 'nvs8,b200-180-sxm')} --frontier -o b.png")
    assert two.code == 0
    assert "leads" in two.out


def test_where_memory_holds_nothing_it_is_said_how_many_would_do(jaxroof):
    said = jaxroof(
        "serve --model llama3-70b --system h100-nvs8 --gpus 3 --input 8192 --output 1024"
    )
    assert said.code == 1
    assert "4 accelerators would do (tp 2 batch 23 chunk 256)." in said.words
    said = jaxroof(
        "serve --model llama3-8b --system h100-nvs8 --gpus 1 --input 8 --output 8 --rent 2"
    )
    assert (said.code, "a price of no time" in said.err) == (2, True)


def test_data_parallel_attention_that_nobody_measured_is_said(jaxroof):
    asked = "serve --model gpt-oss-120b --system h100-nvs8 --gpus 8 --input 1024 --output 1024"
    said = jaxroof(f"{asked} --tpot 17ms")
    assert (
        "with data-parallel attention of vllm-2026. Without data-parallel attention the best is"
        in said.words
    )
    assert "never measured: data-parallel" in jaxroof(f"{asked} --frontier").words
    assert "data-parallel attention of" not in jaxroof(f"{asked} --software trtllm-2025").words


def test_a_rack_of_72_is_not_bound_to_replicas_that_divide_it(jaxroof):
    """64 ranks beside 8 idle accelerators, or beside a pool for prompts, beat replicas of eight."""
    asked = {"model": "deepseek-v3", "system": "gb200-nvl72", "prompt": 8192, "output": 1024}
    asked |= {"tpot": "20 ms", "ttft": "2 s", "precision": "fp4"}
    found, fewer = (jr.serve(**asked, gpus=gpus) for gpus in (72, 64))
    assert float(found.fewer_rate) == pytest.approx(float(fewer.output_rate[0]) * 64 / 72)
    assert json.loads(str(found.fewer_plan.values))["data"] == int(fewer["data"][0]) == 64
    pools = [jr.serve(**asked, gpus=gpus, split="disaggregated") for gpus in (64, 72)]
    assert [int(one.decode_data[0]) for one in pools] == [64, 64]
    rates = [float(one.pools_rate) for one in pools]
    assert rates == sorted(rates)
    with pytest.raises(InputError, match="--objective: of one server"):
        jr.serve(**asked, gpus=72, split="both", objective="tpot")
