"""What a command answers, a function of the library answers: by settings, of the default model."""

import re
from pathlib import Path
from typing import Any

import pandas
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.validation.calibration.fit import Calibration
from jaxroof.validation.rows import table_of

PLAN: dict[str, Any] = {
    "model": "llama3-8b", "system": "h100-nvs8", "global_batch": 16, "tp": 2, "pp": 2, "mb": 1
}  # fmt: skip
LONG = {
    {"tp": "plan.tensor", "pp": "plan.pipeline", "mb": "plan.microbatch"}.get(name, name): value
    for name, value in PLAN.items()
}
DOCS = Path(jr.__file__).parents[1] / "docs"


def test_layers_are_of_the_default_estimator() -> None:
    xr.testing.assert_identical(jr.layers(**PLAN), jr.training_layers(LONG))
    xr.testing.assert_identical(jr.layers(settings=PLAN), jr.layers(PLAN))


def test_schedules_are_of_the_default_estimator() -> None:
    names = ["1f1b", "gpipe"]
    found = jr.schedule(**PLAN, schedules=names)
    xr.testing.assert_identical(found, jr.training_schedule(LONG, schedules=names))


def test_the_study_is_asked_by_name_or_by_its_records() -> None:
    asked = {"model": "gpt3", "system": "h200-nvs4", "global_batch": 64, "tp": 4, "mb": 1, "pp": 2}
    record = jr.Inputs(
        model=jr.model("gpt3"),
        system=jr.system("h200-nvs4"),
        global_batch=64.0,
        plan=jr.Plan(data=1.0, tensor=4.0, pipeline=2.0, microbatch=1.0, context=1.0),
    )
    by_name = jr.layers(asked, estimator="published", dp=1, cp=1)
    assert float(by_name.time_forward.sum()) == float(jr.layers(record).time_forward.sum())
    said = "estimator: unfused: has no schedule; expected one that has"
    with pytest.raises(jr.InputError, match=said):
        jr.schedule(asked, estimator="unfused")


def test_settings_may_be_named_wherever_they_are_taken() -> None:
    asked = {**PLAN, "gpus": 4}
    one = jr.evaluate("training", settings=asked)
    xr.testing.assert_identical(one, jr.evaluate("training", asked))
    rows = pandas.DataFrame([{"tp": 2, "pp": 2, "mb": 1, "dp": 1}])
    shared = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 16, "gpus": 4}
    found = jr.evaluate_rows("training", rows, settings=shared)
    assert float(found.step_time[0]) == float(one.step_time)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the file of runs of the page on calibration."""
    page = (DOCS / "howto" / "calibrate.md").read_text(encoding="utf-8")
    text = re.search(r'```csv title="runs.csv"\n(.*?)```', page, re.DOTALL)
    assert text is not None
    (tmp_path / "runs.csv").write_text("".join(text[1].splitlines(True)[:4]), encoding="utf-8")
    return tmp_path / "runs.csv"


def test_calibrate_takes_a_file_or_a_table(runs: Path) -> None:
    found = jr.calibrate(pandas.read_csv(runs).head(2), "a100-80-sxm")
    few = table_of(runs)[:2]
    assert jr.calibrate(few, "a100-80-sxm").fields == found.fields
    assert [one.name for one in found.rows] == ["bigsci-033", "bigsci-052"]


def test_the_chip_of_a_calibration_is_that_of_its_file(
    runs: Path, jaxroof: Any, tmp_path: Path
) -> None:
    jaxroof(f"calibrate {runs} --system a100-80-sxm -o mine.toml")
    found = jr.calibrate(runs, "a100-80-sxm")
    assert isinstance(found, Calibration)
    chip = jr.calibrated_chip(found)
    asked: dict[str, Any] = {"model": "llama3-8b", "global_batch": 16, "where": "tp=1,pp=1,off=0"}
    by_file = jr.fastest_plans(system=str(tmp_path / "mine.toml"), gpus=8, **asked)
    by_chip = jr.fastest_plans(system="a100-80-sxm", gpus=8, chip=chip, **asked)
    for name in ("step_time", "step_time_low", "step_time_high"):
        assert float(by_chip[name][0]) == float(by_file[name][0])
