"""The errors of predicted step times: no source gets worse, and statistics are what they say."""

import re

import numpy as np
import pytest

from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.prediction import StepAnswer, answers
from jaxroof.validation.steps.scores import (
    SMALL,
    kind_of,
    largest_parts,
    packaged_answers,
    reasons,
    regime_scores,
    scores,
    worst,
)
from jaxroof.validation.steps.sources import SOURCES, packed_bytes
from jaxroof.validation.steps.step_rows import step_row

HALF = 0.05  # of the last digit of the table


@pytest.fixture(scope="module")
def found():
    return packaged_answers()


# source, chips, precision, experts: n, median, p90 as the sheet's tables print them, in per cent
# (visible rows, and rows that became visible); None where the table names no p90
TABLE = [
    ("megatron_a100_korthikanti", "A100 80", "", False, 26, 1.7, 5.2),
    ("megatron_a100_korthikanti", "A100 40", "", False, 8, 1.2, 5.2),
    ("mt_nlg_a100", "", "", False, 3, 19.4, 21.3),
    ("vtrain_multi_node", "", "", False, 55, 6.5, 17.9),
    ("vtrain_single_node", "", "", False, 720, 6.9, 16.8),
    ("internevo_a100", "", "", False, 33, 14.9, 28.0),
    ("llm_foundry_mpt", "A100", "", False, 139, 3.1, 6.0),
    ("llm_foundry_mpt", "H100", "", False, 77, 3.5, 5.6),
    ("megatron_lm_h100", "", "", False, 17, 3.0, 6.4),
    ("nemo_releases", "H100", "", False, 15, 6.0, 9.6),
    ("nemo_releases", "B200", "", False, 19, 3.0, 9.0),
    ("mlperf_training", "H100", "", False, 17, 4.5, 10.8),
    ("mlperf_training", "^B200", "", False, 12, 3.5, None),
    ("mlperf_training", "GB200", "", False, 8, 2.5, None),
    ("mlperf_training", "B300", "", False, 8, 7.9, None),
    ("megatron_bridge_dense", "H100", "", False, 4, 6.7, 8.9),
    ("megatron_bridge_dense", "GB200", "", False, 29, 2.2, None),
    ("megatron_bridge_dense", "GB300", "", False, 11, 3.7, None),
    ("megatron_bridge_moe", "^B200", "", True, 11, 7.0, None),
    ("megatron_bridge_moe", "GB200", "", True, 29, 8.0, None),
    ("megatron_bridge_moe", "GB300", "", True, 15, 15.0, None),
    ("megatron_bridge_moe", "H100", "", True, 15, 14.0, None),
    ("simumax_b200", "", "", False, 14, 1.9, 4.8),
    ("simumax_b200", "", "", True, 9, 8.3, 14.7),
    ("dgxc_benchmarking", "H100", "BF16", False, 63, 8.5, 11.5),
    ("dgxc_benchmarking", "H100", "FP8", False, 63, 2.6, 10.4),
    ("dgxc_benchmarking", "GB200", "BF16", False, 3, 5.2, None),
    ("dgxc_benchmarking", "GB200", "FP8", False, 3, 6.9, None),
    ("dgxc_benchmarking", "H100", "BF16", True, 21, 18.0, None),
    ("dgxc_benchmarking", "H100", "FP8", True, 19, 6.6, None),
    ("dgxc_benchmarking", "GB200", "BF16", True, 3, 57.8, None),
    ("torchtitan", "A100", "", False, 3, 9.4, None),
    ("torchtitan", "H200", "", False, 2, 7.8, None),
    ("bigscience_a100", "", "", False, 64, 13.3, 23.5),
    ("megatron_bridge_moe_2", "", "", True, 5, 26.0, 35.2),
]
WHOLE = {
    26.0,
    3.0,
    6.0,
    7.0,
    8.0,
    9.0,
    14.0,
    15.0,
    28.0,
}  # printed as whole numbers


def some_of(found, source, chip, precision, experts):
    """Return the rows that a line of the table is about."""
    return [
        one
        for one in found[source]
        if one.error is not None
        and re.search(chip, kind_of(one.row))
        and precision in one.row.cells.get("precision", "").upper()
        and one.step.routed == experts
        and "ZeRO-3" not in one.row.cells["source"]
    ]


@pytest.mark.parametrize(("source", "chip", "precision", "experts", "n", "median", "p90"), TABLE)
def test_no_source_gets_worse(found, source, chip, precision, experts, n, median, p90):
    some = some_of(found, source, chip, precision, experts)
    sizes = [100.0 * abs(one.error) for one in some]
    assert len(some) == n
    assert np.median(sizes) <= median + (0.5 if median in WHOLE else HALF)
    if p90 is not None:
        assert np.quantile(sizes, 0.9) <= p90 + (0.5 if p90 in WHOLE else HALF)


COVERED = {  # regime: rows whose 80 % interval holds the measured time, in per cent
    "dense, 16 bit": 80.0,
    "dense, 8 or 4 bit": 92.9,
    "experts": 88.7,
    "not calibrated": 71.3,
    "all": 81.7,
}


def test_intervals_cover_what_they_say(found):
    made = {one.regime: one for one in regime_scores(found)}
    assert set(made) == set(COVERED)
    for regime, least in COVERED.items():
        assert made[regime].covered >= least - HALF, regime
    assert made["all"].rows == sum(one.rows for one in scores(found)) == 1585


def test_every_row_is_answered_or_has_a_reason(found):
    assert set(found) == set(SOURCES)
    refused = sum(one.rows for one in reasons(found))
    assert refused + 1585 == sum(len(some) for some in found.values())
    for some in found.values():
        for one in some:
            assert bool(one.reason) == (one.step is None)


def test_parts_sum_to_the_step_and_intervals_hold_it(found):
    for some in found.values():
        for one in some:
            if one.step is not None:
                assert sum(one.parts.values()) == pytest.approx(one.time, rel=1e-12)
                assert one.low < one.time < one.high
                assert min(one.parts.values()) >= -1e-9 * one.time


def test_a_statistic_is_what_numpy_says(found):
    row = found["simumax_b200"][0]
    errors = np.array([0.1, -0.2, 0.3, -0.4])
    some = [row._replace(time=row.step.measured * (1.0 + error)) for error in errors]
    some = [one._replace(low=0.9 * one.time, high=1.2 * one.time) for one in some]
    (one,) = scores({"some": some})
    assert (one.source, one.rows) == ("some", 4)
    expected = [np.median(abs(errors)), np.mean(abs(errors)), np.quantile(abs(errors), 0.9)]
    np.testing.assert_allclose(
        one[4:], [*(100.0 * np.array(expected)), 100.0 * np.median(errors), 25.0], rtol=1e-12
    )


def test_the_worst_rows_are_of_different_configurations(found):
    made = worst(found, 8)
    groups = [one.row.cells.get("split_group", one.row.cells["row_id"]) for _, one in made]
    assert len(set(groups)) == len(groups) == 8
    sizes = [abs(np.log1p(one.error)) for _, one in made]
    assert sizes == sorted(sizes, reverse=True)
    shares = largest_parts(made[0][1].parts, 9)
    assert 1.0 - 9.0 * SMALL <= sum(share for _, share in shares) <= 1.0 + 1e-12


def test_one_call_answers_what_single_calls_answer(found):
    rows = [
        found[name][0].row for name in ("mt_nlg_a100", "mlperf_training", "megatron_bridge_moe")
    ]
    for row, one in zip(rows, answers(rows), strict=True):
        assert one == answers([row])[0]


def test_a_file_of_a_chip_takes_the_place_of_the_catalogue(found, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "blackwell"\nstep = "1 s"\nown_dense_16_bit = 0.2\n', encoding="utf-8")
    before = found["simumax_b200"][0]
    (after,) = answers([before.row], str(path))
    assert after.time - before.time == pytest.approx(1.0 - 32.4e-3, rel=1e-9)
    assert after.regime == "dense, 16 bit, own runs"
    assert after.high / after.time == pytest.approx(np.exp(0.2))
    (again,) = answers([before.row], "blackwell")
    assert again == before


def test_rows_travel_with_the_package():
    assert packed_bytes() < 60e3


def test_no_row_ends_in_anything_but_an_answer_or_a_reason(found):
    """Every cell of a row of each source in turn blank, a word, negative, huge or a fraction."""
    changed = []
    for some in found.values():
        row = some[0].row
        for column in row.cells:
            for cell in ("", "x", "-1", "1e12", "0.5", "7", "nan"):
                cells = {**row.cells, column: cell}
                changed.append(Row(2, {key: value for key, value in cells.items() if value}))
    for one in answers(changed):
        assert isinstance(one, StepAnswer)
        assert (one.step is None) == bool(one.reason)
        if one.step is not None:
            assert np.isfinite(one.time), one.row
            assert step_row(one.row) == one.step
