"""Predicted step times of measured runs: the rows of the sheet, errors that may not grow."""

import numpy as np
import pytest
from measured_steps import CHIPS, MODEL, PLAN, SOFTWARE, rows

from jaxroof.catalog import lookup
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.step_time import timed
from jaxroof.validation.calibration.problem import on_machine
from jaxroof.validation.rows import reasons, rows_of
from jaxroof.validation.sources import packaged, packaged_rows, sources
from jaxroof.validation.steps import (
    PARTS,
    SMALL,
    largest_parts,
    packaged_answers,
    regime_scores,
    scores,
    step_answers,
    worst,
)

HALF = 0.05  # of the last digit of the table


@pytest.fixture(scope="module")
def found():
    return packaged_answers()


@pytest.fixture(scope="module")
def asked():
    return packaged_rows("steps")


# ---- The rows of the sheet ----------------------------------------------------------------------


def dense_rows():
    """Return the rows of the sheet without experts, whose answers stay."""
    return [row for row in rows() if float(row["experts"]) == 0.0]


def test_every_input_of_every_row_of_the_sheet(asked):
    """What a step follows from, as ``training`` makes it of the inputs, is what the sheet has.

    Rows with experts have other recipes since the sheet of layers of 2026, section 7.
    """
    sheet, names, seen = {row["row_id"]: row for row in dense_rows()}, asked.note("id"), 0
    measured = asked.note("#measured_step_time_s")
    for places, inputs, recipe in asked.groups:
        if not isinstance(inputs, TrainingInputs):
            continue  # of MaxText
        step = timed(inputs, recipe)
        known = np.array([names[place] in sheet for place in places])
        some = [sheet[names[place]] for place in places[known]]
        seen += len(some)
        software = {**step.rates._asdict(), **vars(step.software)}
        latent, level = step.model.latent > 0.0, inputs.plan.recompute
        expected = {
            **{name: (getattr(step.model, name), column) for name, column in MODEL.items()},
            "head_size": (np.where(latent, 128.0, step.model.head_size), "head_size"),
            **{name: (getattr(step.plan, name), name) for name in PLAN},
            **{name: (software[name], column) for name, column in SOFTWARE.items()},
            "full": (np.where(level == 2.0, step.software.repeated, 0.0), "recompute_full"),
            "selective": (level == 1.0, "recompute_selective"),
            "sequence_parallel": (step.plan.sequence_parallel, "sp"),
            "zero_stage": (step.plan.zero_stage, "zero"),
            "expert": (step.plan.expert, "expert_parallel"),
            "sequence": (inputs.model.sequence, "sequence"),
            "slow_bandwidth": (inputs.system.slow_bandwidth * inputs.system.nics, "slow_rate"),
            "measured": (np.array([float(measured[place]) for place in places]), "measured"),
        }
        for name, (values, column) in expected.items():
            written = [float(row[column] or 0) for row in some]
            values = np.broadcast_to(values, len(places))[known]
            np.testing.assert_allclose(values, written, rtol=1e-9, err_msg=name)
        systems = [asked.note("system")[place] for place in places[known]]
        chips = [lookup.chip_name(system) for system in systems]
        assert chips == [CHIPS[row["chip"]][1] for row in some]
    assert seen == len(sheet)


def test_every_time_of_every_row_of_the_sheet(found):
    times = dict(zip(found["id"], found["time"], strict=True))
    pairs = [(times[row["row_id"]], float(row["out_step_time"])) for row in dense_rows()]
    assert len(pairs) == 1227
    np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=1e-10)


# ---- Errors that may not grow -------------------------------------------------------------------

TABLE = [  # source, chips, precision, experts: n, median, p90 as the sheet's tables print them [%]
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
    ("megatron_bridge_moe", "^B200", "", True, 15, 4.6, 21.8),
    ("megatron_bridge_moe", "^B300", "", True, 3, 10.1, None),
    ("megatron_bridge_moe", "GB200", "", True, 39, 7.9, 12.7),
    ("megatron_bridge_moe", "GB300", "", True, 20, 5.9, 17.5),
    ("megatron_bridge_moe", "H100", "", True, 19, 4.3, 11.1),
    ("simumax_b200", "", "", False, 14, 1.9, 4.8),
    ("simumax_b200", "", "", True, 9, 5.1, 8.6),
    ("dgxc_benchmarking", "H100", "bf16", False, 63, 8.5, 11.5),
    ("dgxc_benchmarking", "H100", "fp8", False, 63, 2.6, 10.4),
    ("dgxc_benchmarking", "GB200", "bf16", False, 3, 5.2, None),
    ("dgxc_benchmarking", "GB200", "fp8", False, 3, 6.9, None),
    ("dgxc_benchmarking", "H100", "bf16", True, 22, 6.2, None),
    ("dgxc_benchmarking", "H100", "fp8", True, 20, 9.2, None),
    ("dgxc_benchmarking", "GB200", "", True, 9, 7.2, 8.9),
    ("torchtitan", "A100", "", False, 3, 9.4, None),
    ("torchtitan", "H200", "", False, 2, 10.5, None),
    ("torchtitan", "H100", "bf16", False, 8, 4.0, 12.9),
    ("torchtitan", "H100", "fp8", False, 16, 12.0, 29.2),
    ("bigscience_a100", "", "", False, 64, 13.3, 23.5),
    ("megatron_bridge_moe_2", "", "", True, 5, 11.8, 27.0),
]
WHOLE = {26.0, 3.0, 6.0, 7.0, 8.0, 9.0, 14.0, 15.0, 28.0}  # printed as whole numbers


@pytest.mark.parametrize(("source", "chip", "precision", "experts", "n", "median", "p90"), TABLE)
def test_no_source_gets_worse(found, asked, source, chip, precision, experts, n, median, p90):
    frame = asked.frame
    routed = frame["model.experts"].replace("", "0").astype(float) > 0.0
    some = found[
        (found["source"] == source)
        & found["error"].notna()
        & found["chip"].str.contains(chip)
        & frame["precision"].str.contains(precision)
        & (routed == experts)
        & ~frame["#source"].str.contains("ZeRO-3")
        & ~found["regime"].str.contains("LoRA")
    ]
    sizes = 100.0 * some["error"].abs()
    assert len(some) == n
    assert np.median(sizes) <= median + (0.5 if median in WHOLE else HALF)
    if p90 is not None:
        assert np.quantile(sizes, 0.9) <= p90 + (0.5 if p90 in WHOLE else HALF)


HALF_SPEED = ("mbridge-226", "mbridge-227")  # Qwen3 30B in 26.02, whose other editions are faster
NEWLY = "Nemotron 3|Maverick"  # models whose rows state no dimensions


def test_errors_of_experts_are_those_of_the_sheet(found, asked):
    """Sheet of layers of 2026, section 8: n, median, 90th percentile, bias; and section 9."""
    layers = asked.frame["model.routed_layers"].replace("", "0").astype(float) > 0.0
    experts = asked.frame["model.experts"].replace("", "0").astype(float) > 0.0
    gpus = ~found["regime"].str.startswith("MaxText")
    routed = found[(layers | experts) & gpus & ~found["id"].isin(HALF_SPEED)]
    newly = routed["model"].str.contains(NEWLY)
    for some, printed in (
        (routed[~newly], (131, 6.6, 15.7, 1.3)),
        (routed[newly], (34, 6.7, 13.2, 2.5)),
    ):
        errors = 100.0 * some["error"]
        sizes = errors.abs()
        made = (len(some), np.median(sizes), np.quantile(sizes, 0.9), np.median(errors))
        np.testing.assert_allclose(made, printed, atol=HALF)
    titan = found[(found["source"] == "torchtitan") & (found["chip"] == "H100")]
    plain = asked.frame["precision"][titan.index] == "bf16"
    medians = [100.0 * titan["error"][which].median() for which in (plain, ~plain)]
    np.testing.assert_allclose(medians, [2.5, -1.6], atol=HALF)


ANSWERED = 1711
COVERED = {  # regime: rows whose 80 % interval holds the measured time, in per cent
    "dense, 16 bit": 80.0, "dense, 8 or 4 bit": 92.9, "experts": 92.6, "not calibrated": 81.4,
    "not dense, not calibrated": 100.0, "all": 83.0, "MaxText, dense": 89.7,
    "MaxText, experts": 100.0, "LoRA, not calibrated": 100.0,
}  # fmt: skip


SHEET = {  # regime: rows, median and 90th percentile of visible rows (networks.md, section 9)
    "MaxText, dense": (68, 3.4, 11.0),
    "MaxText, experts": (10, 2.7, 5.3),
}


@pytest.mark.parametrize("regime", SHEET)
def test_errors_on_tpus_are_those_of_the_sheet(found, regime):
    sizes = 100.0 * found[found["regime"] == regime]["error"].abs()
    made = (len(sizes), np.median(sizes), np.quantile(sizes, 0.9))
    np.testing.assert_allclose(made, SHEET[regime], atol=0.05)


def test_errors_on_chips_of_amd_are_those_of_the_sheet(found):
    """networks.md, section 11: +0 to +7 % for Llama 70B on MI325X, -3 % for 8B on MI350X."""
    some = found[found["chip"].str.startswith("AMD")].dropna(subset="error")
    errors = dict(zip(some["id"], 100.0 * some["error"], strict=True))
    assert set(errors) == {"primus-3", "primus-4", "primus-5", "amdmore-02"}
    assert -4.0 < errors.pop("amdmore-02") < -2.5
    assert all(0.0 <= error <= 7.0 for error in errors.values())


def test_intervals_cover_what_they_say(found):
    made = {one.regime: one for one in regime_scores(found)}
    assert set(made) == set(COVERED)
    for regime, least in COVERED.items():
        assert made[regime].covered >= least - HALF, regime
    assert made["all"].rows == sum(one.rows for one in scores(found)) == ANSWERED


def test_every_row_is_answered_or_has_a_reason(found):
    assert list(found["source"].unique()) == list(sources("steps"))
    assert sum(one.rows for one in reasons(found)) + ANSWERED == len(found)
    assert ((found["reason"] != "") == found["time"].isna()).all()


def test_parts_sum_to_the_step_and_intervals_hold_it(found):
    known = found[found["time"].notna()]
    np.testing.assert_allclose(known[[*PARTS]].sum(axis=1), known["time"], rtol=1e-12)
    assert (known["low"] < known["time"]).all()
    assert (known["time"] < known["high"]).all()
    assert (known[[*PARTS]].min(axis=1) >= -1e-9 * known["time"]).all()


def test_the_worst_rows_are_of_different_configurations(found):
    made = worst(found, 8)
    assert len(made[["source", "group", "id"]].drop_duplicates()) == 8
    assert not (made["group"] + made["id"].where(made["group"] == "", "")).duplicated().any()
    sizes = np.log1p(made["error"]).abs().tolist()
    assert sizes == sorted(sizes, reverse=True)
    shares = largest_parts({name: made[name].iloc[0] for name in PARTS}, 9)
    assert 1.0 - 9.0 * SMALL <= sum(share for _, share in shares) <= 1.0 + 1e-12


def test_a_file_of_a_chip_takes_the_place_of_the_catalogue(found, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "blackwell"\nstep = "1 s"\nown_dense_16_bit = 0.2\n', encoding="utf-8")
    one = packaged("steps", "simumax_b200")[:1]
    before = found[found["source"] == "simumax_b200"].iloc[0]

    def answered(chip):
        return step_answers(rows_of(one, lambda name: on_machine(name, chip))).iloc[0]

    after = answered(str(path))
    assert after["time"] - before["time"] == pytest.approx(1.0 - 32.4e-3, rel=1e-9)
    assert after["regime"] == "dense, 16 bit, own runs"
    assert after["high"] / after["time"] == pytest.approx(np.exp(0.2))
    assert answered("blackwell")["time"] == before["time"]
