"""Predicted servers beside measured ones: medians of the sheet, intervals, rows not believed."""

import numpy as np
import pandas as pd
import pytest
from places import packed_bytes

from jaxroof import catalog
from jaxroof.catalog.serving_software import KIND, MEASURED, kind_of_chip
from jaxroof.errors import InputError
from jaxroof.validation.serving import (
    BEATS,
    COVERED,
    QUEUE,
    packaged_answers,
    regime_scores,
    scores,
    server_answers,
)
from jaxroof.validation.sources import packaged, sources

PLACES = ("attention", "mlp")
MEDIANS = [  # docs/models/serving.md, section 12, visible rows: n, median, p90, 0 if not printed
    ("inferencemax", "vllm-2026 hopper", "TPOT", 86, 3.8, 10),
    ("inferencemax", "vllm-2026 blackwell", "TPOT", 112, 4.3, 12),
    ("inferencemax", "sglang-2025 hopper", "TPOT", 33, 6.5, 11),
    ("inferencemax", "sglang-2025 blackwell", "TPOT", 127, 8.0, 21),
    ("inferencemax", "sglang-2025 cdna3", "TPOT", 33, 16, 27),
    ("inferencemax", "sglang-2025 cdna4", "TPOT", 115, 6.0, 17),
    ("inferencemax", "trtllm-2025 hopper", "TPOT", 20, 3.4, 9),
    ("inferencemax", "trtllm-2025 blackwell", "TPOT", 108, 12.9, 35),
    ("inferencemax", "atom-2025 cdna4", "TPOT", 84, 8.2, 20),
    ("inferencemax", "vllm-2026 hopper", "TTFT", 86, 9.1, 37),
    ("inferencemax", "vllm-2026 blackwell", "TTFT", 112, 11.5, 25),
    ("inferencemax", "trtllm-2025 hopper", "TTFT", 20, 18.8, 29),
    ("inferencemax", "sglang-2025 hopper", "TTFT", 33, 8.7, 33),
    ("inferencemax", "sglang-2025 cdna4", "TTFT", 115, 16.9, 38),
    ("inferencemax", "atom-2025 cdna4", "TTFT", 84, 16.2, 45),
    ("argonne", "vllm-2024 ampere", "latency", 120, 3.6, 0),
    ("argonne", "trtllm-2024 hopper", "latency", 215, 7.5, 0),
    ("argonne", "vllm-2024 cdna3", "latency", 599, 20, 0),
    ("mlenergy", "vllm-2025 hopper", "decode step", 122, 10, 0),
    ("mlenergy", "vllm-2025 blackwell", "decode step", 126, 16, 0),
]


@pytest.fixture(scope="module")
def found():
    return packaged_answers()


def test_medians_are_those_of_the_sheet(found):
    made = {one[:3]: one for one in scores(found)}
    for *key, rows, median, p90 in MEDIANS:
        one = made[tuple(key)]
        digit = 0.51 if float(median).is_integer() and median > 9 else 0.051
        assert (one.rows, one.median) == (rows, pytest.approx(median, abs=digit)), key
        assert p90 == 0 or one.p90 == pytest.approx(p90, abs=0.55), key


def test_intervals_hold_what_they_say_and_narrower_ones_less(found):
    for one in regime_scores(found):
        assert one.covered_50 < one.covered < one.covered_90
        assert 50 <= one.covered_50 <= 76, one
        assert 80 <= one.covered <= 93, one
        assert 92 <= one.covered_90 <= 98, one


def test_rows_faster_than_the_data_sheet_are_dropped(found):
    dropped = found[found["error"].isna()]
    counts = dropped.groupby(["source", "reason"]).size().to_dict()
    assert counts == {("argonne", BEATS): 33, ("inferencemax", BEATS): 1, ("splitwise", BEATS): 1}
    assert (dropped["predicted"] > dropped["measured"]).all()


def test_a_wrong_measurement_shows():
    frame = packaged("serving", "tpu")
    right = server_answers(frame.reset_index(drop=True))
    twice = frame.assign(**{"#tpot_s": [f"{2 * float(v)}" if v else "" for v in frame["#tpot_s"]]})
    wrong = server_answers(twice.reset_index(drop=True))
    here = (right["quantity"] == "tpot").to_numpy()
    assert np.allclose(2 * (1 + wrong["error"][here]), 1 + right["error"][here])
    assert (wrong["error"][~here] == right["error"][~here]).all()


def test_a_queue_is_not_a_time_to_the_first_token():
    shared = {"#kind": "closed", "model": "llama3-8b", "system": "h100-nvs8", "tp": "1", "dp": "1"}
    shared |= {"software": "vllm-2026", "prompt": "8192", "output": "16", "chunk": "8192"}
    rows = [{"id": name, "batch": users} for name, users in (("few", "1"), ("many", "512"))]
    measured = {"#tpot_s": "1", "#ttft_s": "30"}
    answers = server_answers(pd.DataFrame([shared | row | measured for row in rows]))
    said = dict(zip(answers["id"] + " " + answers["quantity"], answers["reason"], strict=True))
    assert said == {"few tpot": "", "few ttft": "", "many tpot": "", "many ttft": QUEUE}
    assert {*COVERED.values()} <= {*answers}


def test_the_catalogue_says_which_formats_and_experts_were_measured():
    formats, models, ranks = {}, {}, {}
    for name in sources("serving"):
        frame = packaged("serving", name)
        places = ["software", "system", "model", *(f"precision.{of}_format" for of in PLACES)]
        if "#pool_tpot_s" in frame:
            frame = frame.assign(dp=frame["dp"].where(frame["#pool_tpot_s"] == "", "1"))
        for software, system, model, *pair, dp in frame[[*places, "dp"]].itertuples(index=False):
            key = software, kind_of_chip(system)
            ranks[key] = max(ranks.get(key, 0), int(dp or 1))
            formats.setdefault(key, set()).add(":".join(dict.fromkeys(pair)))
            models.setdefault(key, set()).update({model} & {*MEASURED})
    for software in catalog.names(KIND):
        written = catalog.describe(KIND, software)
        for kind in [one for one in written if (software, one) in formats]:
            assert {*written[kind]["formats"]} == formats.pop((software, kind))
            assert {*written[kind].get("models", ())} == models[software, kind], (software, kind)
            assert written[kind].get("data_measured", 0) == (ranks[software, kind] > 1)
    assert not formats


def test_what_travels_is_small_and_known():
    assert packed_bytes("serving") < 60e3
    with pytest.raises(InputError, match=r"argone: no such source of measured servers"):
        packaged("serving", "argone")
    assert next(iter(sources("serving"))) == "inferencemax"
