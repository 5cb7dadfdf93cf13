"""One thing has one name, in every command that prints it."""

import re
from pathlib import Path
from typing import Any

import pytest

import jaxroof as jr
from jaxroof.config.uncertainty_file import read_uncertain

SWEEPS = Path(jr.__file__).parents[1] / "sweeps" / "uncertain"


def test_a_plan_of_the_study_names_each_field_that_differs_once(jaxroof: Any) -> None:
    said = jaxroof(
        "search --estimator published --model gpt3 --system b200-nvs8 --gpus 64 --batch 64"
        " --mine tp=8"
    )
    sentence = re.search(r"It has (.*?), and spends", said.words)
    assert sentence is not None, said.out
    named = re.findall(r"((?:fast )?\w+) \d+ instead of \d+", sentence[1])
    assert len(named) == len({*named}) > 1, sentence[1]
    assert any(name.startswith("fast ") for name in named), sentence[1]


def test_what_the_default_estimator_does_not_read_is_told_alike_in_every_run() -> None:
    """Of several wrong inputs the first by name is told, whatever the order of a set."""
    wrong = read_uncertain(SWEEPS / "efficiencies.toml")["distributions"]
    asked: dict[str, Any] = {"model": "llama3-8b", "system": "h100-nvs8", "gpus": 8}
    for order in (sorted(wrong), sorted(wrong)[::-1]):
        drawn = {path: wrong[path] for path in order}
        with pytest.raises(jr.InputError, match=r"^system\.fast_efficiency: does not enter"):
            jr.uncertain("training", distributions=drawn, samples=4, global_batch=8, **asked)


def test_a_file_of_ranges_is_there_for_the_default_estimator(jaxroof: Any, tmp_path: Path) -> None:
    written = (SWEEPS / "training.toml").read_text(encoding="utf-8")
    (tmp_path / "few.toml").write_text(re.sub(r"samples = \d+", "samples = 8", written))
    said = jaxroof(
        "search --model llama3-8b --system h100-nvs8 --gpus 8 --batch 8"
        " --where tp<=2,pp=1,off=0,mb=1 --uncertain few.toml"
    )
    assert (said.code, said.err) == (0, "")
    assert "Measure system.chip.matmul first" in said.words
