"""Calibration: changed constants are found again, slopes are exact, files are chips."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest
from daily import daily

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.errors import InputError
from jaxroof.estimators.training.interval import LEVEL, REGIMES, WITHIN_SOURCE
from jaxroof.estimators.training.step import example, training
from jaxroof.settings import paths_of
from jaxroof.validation.calibration import fit as calibration
from jaxroof.validation.calibration.believed import ranges, shared_ranges
from jaxroof.validation.calibration.chip_file import chip_lines
from jaxroof.validation.calibration.fit import calibrate, usable
from jaxroof.validation.calibration.next_measurement import most_instructive
from jaxroof.validation.calibration.problem import (
    FEWEST_OF_ANOTHER_CHIP,
    RATES,
    SOFTWARE,
    machine_of,
    on_machine,
    own_half_width,
    own_half_widths,
    part,
    problem,
    residuals,
)
from jaxroof.validation.rows import MEASURED_STEP, rows_of, table_of
from jaxroof.validation.sources import packaged
from jaxroof.validation.steps import packaged_answers, step_answers

SYSTEM = "h100-nvs8"


def written(tmp_path, lines):
    path = tmp_path / "chip.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def answered(rows, chip=None):
    """Return the answers to rows, with a chip in the place of the catalogue's."""
    return step_answers(rows_of(rows, lambda name: on_machine(name, chip)))


def errors_of(rows, chip):
    found = answered(rows, chip)
    return np.log(found["time"] / found["measured"]).to_numpy()


def made(tmp_path, rows, factor=1.0, **constants):
    """Return rows whose measured times are those of a chip with a factor and constants changed."""
    chip = lookup.chip("hopper")
    fields = {name: float(getattr(chip, name)) for name in (*RATES, "step")} | constants
    fields = {
        name: value * factor if name == "step" else value / factor if name in RATES else value
        for name, value in fields.items()
    }
    path = written(tmp_path, ['base = "hopper"', *(f"{n} = {v!r}" for n, v in fields.items())])
    return rows.assign(**{MEASURED_STEP: [repr(t) for t in answered(rows, path)["time"].tolist()]})


def usual(name):
    """Return what an input is where no column says it, as a text."""
    choices = {key: getattr(one, "value", one) for key, one in vars(training.recipe).items()}
    numbers = {path: field.metadata.get("default") for path, field in paths_of(training.inputs)}
    return str({**numbers, **choices}.get(name, ""))


@functools.cache
def dense():
    """Return rows of one kind of chip and of many plans, in both number formats."""
    parts = {"llm_foundry_mpt": 5, "mlperf_training": 1, "dgxc_benchmarking": 6}
    some = [packaged("steps", name)[::every] for name, every in parts.items()]
    whole = pd.concat([one[one["system"] == SYSTEM] for one in some], ignore_index=True)
    follow = [n for n in whole.columns if usual(n) == "None" and whole[n].isna().any()]
    whole = whole.drop(columns=follow)  # numbers of layers, of the others where not given
    whole = whole.fillna({name: usual(name) for name in whole.columns})
    return table_of(whole[whole["model.experts"].astype(float) == 0.0])


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Return three rows of a software that takes 1.2 times as long, and their calibration."""
    rows = made(tmp_path_factory.mktemp("few"), dense()[:3], 1.2)
    return rows, calibrate(rows, SYSTEM)


@pytest.fixture(scope="module")
def single(few):
    """Return the calibration of the first of them."""
    return calibrate(few[0][:1], SYSTEM)


@pytest.mark.parametrize("factor", daily([2.0, 0.9], 0))
def test_a_handful_of_rows_finds_the_factor_of_a_software(tmp_path, factor):
    found = calibrate(made(tmp_path, dense()[:5], factor), SYSTEM)
    one = found.alone
    assert one.low < factor < one.high
    assert one.value == pytest.approx(factor, rel=0.03)
    assert one.high / one.low < 1.15
    assert {one.name for one in found.constants} <= set(ranges("hopper"))
    assert np.median(np.abs(found.after)) < 0.03 < np.median(np.abs(found.before))
    assert np.median(np.abs(found.apart)) < 0.04


@pytest.mark.slow  # each plan is left out in turn; a handful of rows daily: above
def test_changed_constants_are_found_within_their_intervals(tmp_path):
    changed = {"matmul": 0.78, "matmul_fp8": 0.66}
    found = calibrate(made(tmp_path, dense(), 1.1, **changed), SYSTEM)
    assert found.factor.low < 1.1 < found.factor.high
    by_name = {one.name: one for one in found.constants}
    assert set(changed) <= set(by_name)
    for name, value in changed.items():
        one = by_name[name]
        assert one.low < value < one.high, one
        assert abs(one.value - value) < 0.35 * abs(one.catalogue - value), one
        low, high = ranges("hopper")[name]
        assert one.high - one.low < 0.5 * (high - low)
    assert np.median(np.abs(found.apart)) < 0.015 < np.median(np.abs(found.before))


def test_the_slopes_of_the_fit_are_exact():
    used = usable(dense()[::9], SYSTEM)
    asked = problem(used.groups, np.array([one.measured for one in used.steps]), used.machine)
    start = np.linspace(-0.05, 0.05, len(asked.names))
    _, slopes = residuals(asked, start)
    for place in range(len(start)):
        move = 1e-6 * np.eye(len(start))[place]
        up, down = residuals(asked, start + move)[0], residuals(asked, start - move)[0]
        np.testing.assert_allclose(slopes[:, place], (up - down) / 2e-6, rtol=1e-5, atol=1e-8)
    some = part(asked, ("hbm", SOFTWARE))
    places = [asked.names.index(name) for name in some.names]
    whole = residuals(asked, np.zeros(len(asked.names)))[1]
    np.testing.assert_allclose(residuals(some, np.zeros(2))[1], whole[:, places], rtol=1e-12)


def test_rows_that_route_are_fitted_with_constants_of_experts():
    some = packaged("steps", "megatron_bridge_moe").query("system == @SYSTEM")[::4]
    used = usable(table_of(some), SYSTEM)
    asked = problem(used.groups, np.array([one.measured for one in used.steps]), used.machine)
    places = [asked.names.index(name) for name in asked.shared]
    assert {*shared_ranges()} >= {*asked.shared} >= {"shared.grouped", "shared.permute"}
    still = np.zeros(len(asked.names))
    _, slopes = residuals(asked, still)
    for place in places:
        move = 1e-6 * np.eye(len(still))[place]
        up, down = residuals(asked, still + move)[0], residuals(asked, still - move)[0]
        np.testing.assert_allclose(slopes[:, place], (up - down) / 2e-6, rtol=1e-5, atol=1e-8)
    plain = usable(dense()[:2], SYSTEM)
    assert not problem(plain.groups, np.ones(2), plain.machine).shared


def test_the_file_is_a_chip_that_predicts_what_was_fitted(few, tmp_path):
    some, found = few
    path = written(tmp_path, chip_lines(found, "rows.csv"))
    chip = lookup.chip(path)
    assert {name: float(getattr(chip, name)) for name in found.fields} == found.fields
    assert float(chip.depth) == float(lookup.chip("hopper").depth)
    np.testing.assert_allclose(errors_of(some, path), found.after, rtol=1e-9, atol=1e-12)


def test_the_file_of_a_system_of_the_user_predicts_what_was_fitted(tmp_path):
    """Measured rows with --chip are of the system of the file, with its rates and its network."""
    path = tmp_path / "cluster.toml"
    lines = ['base = "h100-nvs8"', 'hbm_bandwidth = "2.4 TB/s"', 'slow_bandwidth = "25 GB/s"']
    path.write_text("\n".join(lines), encoding="utf-8")
    some = dense()[:2]
    found, usual = calibrate(some, str(path)), calibrate(some, SYSTEM)
    assert np.all(found.before > usual.before), "less bandwidth, longer predicted"
    file = written(tmp_path, chip_lines(found, "rows.csv"))
    np.testing.assert_allclose(errors_of(some, file), found.after, rtol=1e-9, atol=1e-12)


def test_a_source_that_the_fit_never_saw_gets_better():
    """Rows left out, 64 of BigScience: 13 % by the catalogue, about 5 % after a factor."""
    found = calibrate(packaged("steps", "bigscience_a100"), "a100-80-sxm")
    before, apart = (np.median(np.abs(np.expm1(v))) for v in (found.before, found.apart))
    assert before == pytest.approx(0.133, abs=0.001)
    assert apart < 0.055
    assert 1.1 < found.alone.low < found.alone.high < 1.2


def test_what_the_rows_do_not_tell_stays(few):
    _, found = few
    assert set(found.untold) | {one.name for one in found.constants} == set(ranges("hopper"))
    kept = dataclasses.asdict(lookup.chip("hopper"))
    factor = found.factor.value
    for name in set(found.untold) & set(RATES):
        assert found.fields[name] == pytest.approx(min(1.0, kept[name] / factor), rel=1e-12)


def test_a_further_measurement_narrows_what_it_says(few):
    _, found = few
    further = most_instructive(found)
    assert 0 < len(further) <= 3
    assert len({one.constant for one in further}) == len(further)
    gains = [one.information for one in further]
    assert gains == sorted(gains, reverse=True)
    for one in further:
        assert one.row in {row.name for row in found.rows}
        assert 0.0 < one.after < one.before
        assert one.information >= np.log2(one.before / one.after) - 1e-9


# ---- Which rows, which machine ------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_named():
    rows = dense()[:4].copy()
    names = rows["id"].tolist()
    for place, (column, cell) in enumerate(
        [("#refused", "task: LoRA"), ("system", "a100-80-sxm"), (MEASURED_STEP, "")]
    ):
        rows.iloc[place, list(rows.columns).index(column)] = cell
    found = calibrate(rows, SYSTEM)
    assert [one.name for one in found.rows] == names[3:]
    other = "system: a100-80-sxm, which is another chip; expected h100-nvs8 or another system of"
    blank = "#measured_step_time_s: blank; expected seconds of a step"
    for (name, reason), expected in zip(found.left_out, ("task: LoRA", other, blank), strict=True):
        assert name in names
        assert reason.startswith(expected)
    with pytest.raises(InputError, match=r"^no row can be used; the first, .*: task: LoRA"):
        calibrate(rows[:3], SYSTEM)
    with pytest.raises(InputError, match="h100: no such system"):
        calibrate(rows, "h100")


def test_rows_without_a_system_are_of_the_machine(few):
    rows, found = few
    assert calibrate(rows.drop(columns="system"), SYSTEM).fields == found.fields


CHIPS = {
    system: chip
    for chip in catalog.names("chips")
    for system in catalog.describe("chips", chip)["systems"]
}
KINDS = ("a100-40-sxm", "a100-80-sxm", "h100-nvs8", "h800-nvs8", "h200-141-sxm", "b200-180-sxm",
         "gb200-nvl72", "b300-nvs8", "gb300-nvl72", "mi300x", "mi325x", "mi350x",
         "mi355x")  # fmt: skip


@pytest.mark.parametrize("system", [*CHIPS, "mi300x", "mi355x"])
def test_a_machine_takes_rows_of_its_accelerators_alone(system):
    machine = machine_of(system)
    word = system.split("-")[0]
    own = [kind for kind in KINDS if machine.has(kind)]
    assert own
    assert {kind.split("-")[0] for kind in own} == {word}
    assert system not in ("a100-40-sxm", "a100-80-sxm") or own == [system]
    if system in CHIPS:
        assert (machine.chip, machine.like, machine.start) == (CHIPS[system], "", "the catalogue")


def test_the_nearest_chip_is_the_nearest_in_its_rates():
    assert (machine_of("b200-book").chip, machine_of("b200-book").like) == (
        "blackwell",
        lookup.nearest_system("b200-book"),
    )
    assert (machine_of("mi300x").chip, machine_of("mi300x").like) == ("cdna3", "")


@pytest.mark.parametrize("system", ["tpu-v5p", "rtx-4090"])
def test_a_system_without_what_a_step_needs_is_refused(system):
    with pytest.raises(InputError, match=f"{system}: lacks fast_domain, .*expected a system with"):
        machine_of(system)


def test_a_file_may_say_whose_constants_it_starts_from(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "h20-nvs8"\nchip = "hopper"\n', encoding="utf-8")
    assert machine_of(str(path))[1:] == ("h20-nvs8", "hopper", None, "hopper")
    path.write_text('base = "h100-nvs8"\n[chip]\nmatmul = 0.7\n', encoding="utf-8")
    with pytest.raises(
        InputError, match=r"mine\.toml: chip: base: missing; expected one of ampere"
    ):
        machine_of(str(path))


# ---- Intervals, and chips that were never calibrated --------------------------------------------


def sixteen_bits():
    """Return rows of one kind of plan."""
    return dense()[dense()["precision"] == "bf16"]


def bounds_of(path):
    """Return the regime and the half width of a plan's interval on a system of a file."""
    inputs = dataclasses.replace(example(), system=lookup.training_system(path))
    report = training.evaluate(inputs)
    half = float(np.log(report.step_time_high / report.step_time))
    return REGIMES[int(report.regime)].words, half


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_interval_of_a_file_is_that_of_the_rows(tmp_path, noise):
    rows = made(tmp_path, sixteen_bits()[:4], 1.2)
    moves = np.exp(noise * np.resize([1.0, -1.0], len(rows)))
    seconds = moves * rows[MEASURED_STEP].astype(float)
    found = calibrate(rows.assign(**{MEASURED_STEP: [repr(one) for one in seconds]}), SYSTEM)
    path = written(tmp_path, chip_lines(found, "rows.csv"))
    regime, half = bounds_of(path)
    assert regime == REGIMES[0].words
    assert half == pytest.approx(found.own.dense_16_bit, rel=1e-3)
    assert half >= WITHIN_SOURCE[0]
    assert (half > 1.01 * WITHIN_SOURCE[0]) == (noise > 0.0)
    assert half >= 0.999 * np.quantile(np.abs(found.apart), 0.8)
    assert (found.own.dense_8_or_4_bit, found.own.experts) == (0.0, 0.0)


def test_one_row_has_a_factor_and_narrows_no_interval(single, tmp_path):
    assert single.alone.low < 1.2 < single.alone.high
    assert np.all(np.isnan(single.apart))
    assert single.own == (0.0, 0.0, 0.0)
    path = written(tmp_path, chip_lines(single, "rows.csv"))
    assert bounds_of(path)[1] == pytest.approx(REGIMES[0].half_widths[1])


@pytest.mark.parametrize("rows", [4, 5])
def test_a_chip_that_was_never_calibrated_starts_from_the_nearest(tmp_path, rows):
    some = sixteen_bits()[:rows].assign(system="b200-book")
    found = calibrate(some, "b200-book")
    assert len(found.plans) == rows
    assert found.machine.like == lookup.nearest_system("b200-book")
    assert np.median(np.abs(found.after)) < np.median(np.abs(found.before))
    path = written(tmp_path, chip_lines(found, "rows.csv"))
    assert float(lookup.chip(path).calibrated) == 0.0
    regime, half = bounds_of(path)
    if rows < FEWEST_OF_ANOTHER_CHIP:
        assert (regime, half) == (REGIMES[3].words, pytest.approx(REGIMES[3].half_widths[1]))
    else:
        assert (regime, half) == (REGIMES[0].words, pytest.approx(found.own.dense_16_bit, rel=1e-3))
    np.testing.assert_allclose(errors_of(some[:1], path), found.after[:1], rtol=1e-9)


def test_a_calibrated_file_goes_on_from_itself(few, tmp_path):
    rows, first = few
    path = tmp_path / "mine.toml"
    lines = [*chip_lines(first, "rows.csv"), "young = 0.123"]
    path.write_text("\n".join(lines), encoding="utf-8")
    again = calibrate(rows, str(path))
    assert again.alone.value == pytest.approx(1.0, abs=0.02)
    assert np.median(np.abs(again.before)) < 0.5 * np.median(np.abs(first.before))
    kept = lookup.chip(written(tmp_path, chip_lines(again, "rows.csv")))
    assert float(kept.young) == 0.123
    assert float(kept.matmul) == again.fields["matmul"]


def test_rows_of_one_configuration_count_once(few):
    rows, once = few
    often = calibrate(pd.concat([rows, rows.assign(id=rows["id"] + "-2")]), SYSTEM)
    assert (len(often.rows), len(often.plans)) == (6, 3)
    assert often.factor == once.factor
    assert often.own == once.own
    np.testing.assert_array_equal(often.apart, np.tile(once.apart, 2))


def test_of_too_many_plans_some_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "MOST_PLANS", 3)
    found = calibrate(made(tmp_path, dense()[:8], 1.2), SYSTEM)
    assert len(found.plans) == 3
    assert len(found.rows) >= 3
    assert found.alone.low < 1.2 < found.alone.high


# ---- What rows say of themselves ----------------------------------------------------------------

FEW = (2, 3, 5, 12)


def left_out(errors):
    """Return the errors of values against the mean of the others."""
    rest = (np.sum(errors) - errors) / (len(errors) - 1.0)
    return errors - rest


@pytest.mark.parametrize("rows", FEW)
def test_an_interval_covers_what_it_says_of_normal_errors(rows):
    draws = np.random.default_rng(rows).normal(0.0, 0.2, (1500, rows + 1))
    inside = [
        abs(one[-1] - np.mean(one[:-1])) < own_half_width(left_out(one[:-1]), 0.0) for one in draws
    ]
    assert 100.0 * np.mean(inside) == pytest.approx(LEVEL, abs=4.0)


def test_it_covers_the_other_runs_of_a_source():
    """Plans of one source, chip and kind, some taken as one's own: most others lie inside."""
    found = packaged_answers().dropna(subset="error")
    plans = found.groupby(["source", "chip", "regime", "time"])["error"].median().map(np.log1p)
    groups = [
        (errors.to_numpy(), REGIMES[place].words)
        for place in range(3)
        for key, errors in plans.groupby(["source", "chip", "regime"])
        if key[2] == REGIMES[place].words and len(errors) > 2 * max(FEW)
    ]
    assert len(groups) > 5
    widths = {one.words: within for one, within in zip(REGIMES, WITHIN_SOURCE, strict=False)}
    draw = np.random.default_rng(1)
    for rows in FEW:
        shares = []
        for errors, regime in groups:
            for _ in range(40):
                mixed = draw.permutation(errors)
                own, others = mixed[:rows], mixed[rows:]
                half = own_half_width(left_out(own), widths[regime])
                shares.append(np.mean(np.abs(others - np.mean(own)) < half))
        assert 100.0 * np.mean(shares) >= LEVEL


def test_it_is_no_narrower_than_errors_nor_than_runs_of_a_software():
    errors = np.array([0.3, -0.2, 0.1, 0.25])
    assert own_half_width(errors, 0.085) > np.quantile(np.abs(errors), LEVEL / 100.0)
    assert own_half_width(errors / 100.0, 0.085) == 0.085
    assert own_half_width(errors[:2], 0.085) > own_half_width(np.tile(errors[:2], 9), 0.085)


def test_kinds_with_too_few_plans_have_none():
    errors, kinds = np.array([0.2, -0.3, 0.4, 0.1]), np.array([0.0, 0.0, 1.0, 0.0])
    found = own_half_widths(errors, kinds, 3)
    assert found == (own_half_width(errors[kinds == 0.0], WITHIN_SOURCE[0]), 0.0, 0.0)
    assert own_half_widths(errors, kinds, 4) == (0.0, 0.0, 0.0)
