"""One thing has one name, in every command that prints it."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from daily import daily

import jaxroof as jr
from jaxroof.analyses.training_plans import OF_LAYER
from jaxroof.config.toml_reader import read_uncertain
from jaxroof.estimators.training.details import layer_operations
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.estimators.training.step import training
from jaxroof.records import with_named_absences

SWEEPS = Path(jr.__file__).parents[1] / "sweeps" / "uncertain"


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


def test_a_part_of_a_step_is_called_alike_in_tables_sentences_and_pictures() -> None:
    """The head of a column and the name in a picture are taken from the words of the sentence."""
    fields = [f.metadata for f in dataclasses.fields(TrainingReport)]
    parts = [one for one in fields if one.get("part_of") == "step_time"]
    assert len(parts) > 5
    for one in parts:
        assert one["symbol"][:6] in one["words"], one["words"]
        assert one["label"] in one["words"], one["words"]
    step = {one["words"] for one in parts}
    layer = {words for _, words in OF_LAYER.values()}
    assert {"element-wise kernels", "recomputation"} <= step & layer
    inputs = with_named_absences(training.example())
    operations = {*layer_operations(inputs, training.recipe)}
    same = {"attention", "casts", "tensor messages", "context messages", "expert messages"}
    assert same <= layer & operations


L = "--model llama3-8b --system h100-nvs8"


@pytest.mark.parametrize("name", daily(["zb-h1", "zb_h1"], 1))
@pytest.mark.parametrize("command", [
    f"search {L} --gpus 8 --batch 8 --where tp=1,vp=1 --set schedule=",
    f"fit {L} --plan tp=2,pp=2 --batch 8 --set schedule=",
    f"schedule {L} --plan tp=2,pp=2 --batch 8 --schedule 1f1b,",
])  # fmt: skip
def test_a_schedule_has_one_name_on_every_road(jaxroof: Any, command: str, name: str) -> None:
    """Both spellings of the hyphen are read, and what is said does not differ."""
    said, usual = jaxroof(f"{command}{name}"), jaxroof(f"{command}zb-h1")
    assert (said.code, said.err) == (0, "")
    assert said.out == usual.out


def test_interleaving_asked_as_a_schedule_is_told_to_be_vp(jaxroof: Any) -> None:
    for command in (f"search {L} --gpus 8 --batch 8", f"fit {L} --plan dp=2,pp=2 --batch 8"):
        said = jaxroof(f"{command} --set schedule=interleaved")
        assert said.code == 2
        assert "expected 1f1b, with vp" in said.err


@pytest.mark.parametrize("exchange", daily(["ring", "all-to-all"], 1))
@pytest.mark.parametrize("command", ["layers", "schedule --batch 8", "fit --batch 8"])
def test_a_heading_says_the_exchange_by_its_word_where_there_is_one(
    jaxroof: Any, command: str, exchange: str
) -> None:
    for context in (1, 2):
        plan = f"dp=2,pp=2,cp={context},cx={exchange}"
        head = jaxroof(f"{command} {L} --plan {plan}").out.splitlines()[0]
        assert (f"cx {exchange}" in head) == (context > 1), head
        assert ("cx" in head) == (context > 1), head


def test_the_leanest_of_the_fast_plans_has_no_exchange_without_context_ranks(
    jaxroof: Any,
) -> None:
    said = jaxroof(f"fit {L} --gpus 8 --batch 64").words
    plan = re.search(r"Leanest of those that take at most 10 % longer: (.*?),", said)
    assert plan is not None, said
    assert "cx" not in plan[1], plan[1]


def test_a_hint_on_a_plan_can_be_typed_and_is_legal(jaxroof: Any, monkeypatch: Any) -> None:
    """Every field that is expected instead makes the plan legal, on every road."""
    monkeypatch.setattr("jaxroof.analyses.fit_changes.MOST", 0)  # changes are another question
    for road, plan in (
        (f"schedule {L} --batch 64", {"pp": 2, "dp": 4, "vp": 3}),
        (f"fit {L} --batch 64", {"pp": 2, "dp": 4, "vp": 3, "mb": 1, "zero": 1, "rc": 0}),
        (f"fit {L} --batch 64", {"tp": 3, "dp": 2, "mb": 1, "zero": 1, "rc": 0}),
    ):
        typed = ",".join(f"{name}={value}" for name, value in plan.items())
        hint = jaxroof(f"{road} --plan {typed}").err.partition("; expected ")[2].strip()
        assert hint
        for one in hint.split(" or "):
            name, _, value = one.partition("=")
            changed = ",".join(f"{n}={v}" for n, v in {**plan, name: value}.items())
            rest = f"--plan {changed}" if name in plan else f"--plan {typed} --set {one}"
            assert jaxroof(f"{road} {rest}").code in (0, 1), one


def test_where_no_field_makes_a_plan_use_every_accelerator_their_number_is_the_hint(
    jaxroof: Any,
) -> None:
    said = jaxroof(f"fit {L} --batch 64 --plan tp=4 --gpus 7").err
    assert "expected a multiple of 4 accelerators" in said
    assert "tp=7" not in said


@pytest.mark.parametrize("line", ["gpus = 64", "tp = 8", "global_batch = 64"])
def test_a_setting_at_the_top_of_a_sweep_is_told_its_table(
    jaxroof: Any, tmp_path: Path, line: str
) -> None:
    (tmp_path / "a.toml").write_text(f'model = "llama3-8b"\nsystem = "h100-nvs8"\n{line}\n')
    said = jaxroof("run a.toml")
    assert said.code == 2
    assert "expected it in [plan] or [set]" in said.err


def test_show_says_what_reads_a_file_of_results(jaxroof: Any) -> None:
    said = jaxroof("show x.nc")
    assert said.code == 2
    assert "jaxroof report" in said.err
