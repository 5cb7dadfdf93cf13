"""Intervals of servers: half widths of docs/models/serving.md, section 12."""

import dataclasses

import numpy as np
import pytest

from jaxroof.catalog.lookup import architecture, device
from jaxroof.catalog.serving_software import serving_software
from jaxroof.estimators.serving import interval
from jaxroof.estimators.serving.inputs import ServingInputs, ServingPlan

ROWS = [  # model, system, software, word of the regime, half widths at 80 %: tpot, ttft, rate
    ("llama3-70b", "h100-nvs8", "vllm-2026", "dense", 0.17, 0.65, 0.27),
    ("gpt-oss-120b", "b200-180-sxm", "vllm-2026", "experts_measured", 0.19, 0.65, 0.45),
    ("qwen3-30b-a3b", "b200-180-sxm", "vllm-2026", "experts_not_measured", 0.44, 0.65, 0.45),
    ("deepseek-v3", "mi300x", "sglang-2025", "experts_measured", 0.19, 0.65, 0.45),
    ("llama3-70b", "h100-nvs8", "vllm-2024", "dense", 0.17, 1.3, 0.27),
    ("llama3-70b", "a100-80-sxm", "sglang-2025", "dense_not_calibrated", 0.24, 1.3, 0.27),
    ("deepseek-v3", "rtx-4090", "start", "experts_not_calibrated", 0.47, 1.3, 0.47),
    ("llama3-8b", "mi300x", "vllm-2024", "no_graphs_AMD_of_2024_or_TPU", 0.83, 1.3, 0.83),
    ("llama3-8b", "tpu-v6e", "jax-2026", "no_graphs_AMD_of_2024_or_TPU", 0.83, 1.3, 0.83),
]


def asked(model, system, software):
    return ServingInputs(
        model=architecture(model),
        system=device(system),
        software=serving_software(software, system),
    )


@pytest.mark.parametrize(("model", "system", "software", "word", "tpot", "ttft", "rate"), ROWS)
def test_half_widths(model, system, software, word, tpot, ttft, rate):
    inputs = asked(model, system, software)
    assert interval.WORDS[int(interval.regime(inputs))] == word
    found = [
        interval.token_half_width(inputs),
        interval.first_half_width(inputs, 0.5),
        interval.rate_half_width(inputs),
    ]
    assert [*map(float, found)] == pytest.approx([tpot, ttft, rate])


def test_pools_and_queues_are_known_less():
    inputs = asked("deepseek-v3", "gb200-nvl72", "trtllm-2025")
    assert interval.WORDS[int(interval.regime(inputs, pool=True))] == "disaggregated"
    assert float(interval.token_half_width(inputs, pool=True)) == 0.36
    halves = interval.first_half_width(inputs, np.array([0.5, 0.9]))
    assert halves.tolist() == [0.65, 1.3]
    assert float(interval.first_half_width(inputs, 0.5, pool=True)) == 1.3
    other = asked("mixtral-8x7b", "h100-nvs8", "vllm-2026")
    assert interval.WORDS[int(interval.regime(other, pool=True))] == "experts_not_measured"


def test_data_parallel_attention_that_nobody_measured_is_known_less():
    for software, half in (("vllm-2026", 0.44), ("trtllm-2025", 0.19)):
        inputs = asked("gpt-oss-120b", "b200-180-sxm", software)
        ranks = dataclasses.replace(inputs, plan=ServingPlan(data=np.array([1.0, 2.0])))
        assert interval.token_half_width(ranks).tolist() == [0.19, half]


def test_own_runs_go_before():
    inputs = asked("llama3-8b", "h100-nvs8", "vllm-2026")
    software = dataclasses.replace(inputs.software, own_dense=np.array(0.1))
    own = dataclasses.replace(inputs, software=software)
    assert float(interval.token_half_width(own)) == 0.1
    routed = dataclasses.replace(own, model=architecture("mixtral-8x7b"))
    assert float(interval.token_half_width(routed)) == 0.44


def test_levels_and_regimes_widen():
    widths = np.array([one.half_widths for one in interval.REGIMES])
    assert (np.diff(widths, axis=1) > 0).all()
    assert len(interval.WORDS) == len(interval.REGIMES)
