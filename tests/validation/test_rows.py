"""Files of measured runs: what is read, and what is said of a damaged one."""

from pathlib import Path

import pandas as pd
import pytest
from daily import daily
from places import packed_bytes
from refusals import refused

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.validation.rows import NOTES, rows_of, table_of
from jaxroof.validation.sources import packaged, sources
from jaxroof.validation.steps import step_answers

HEAD = "id,model,system,plan.tensor,global_batch,#measured_step_time_s"
GOOD = "a,llama3-8b,h100-nvs8,2,8,1.5"
DAMAGED = [
    ("", "no header; expected a CSV file"),
    (HEAD, "no rows; expected a measured run a line"),
    (f"{HEAD}\n{GOOD}\n{GOOD}", "line 3: id: 'a' is line 2 too; expected a name of the row"),
    (f"{HEAD}\n{GOOD},9", "line 2: the row has 7 cells; expected the 6 of line 1"),
    (f"{HEAD}\na,2", "line 2: system: no cell, the row has 2 cells; expected the 6 of line 1"),
    (f"{HEAD},id\n{GOOD},8", "line 1: id: twice; expected each column once"),
    ("row_id,hidden\na,2", "line 1: row_id: rows in the words of their source; expected inputs"),
    (f'{HEAD}\n"a,2,64,H100 80GB,8', "line 2: a quote is never closed; expected quotes around"),
    (f"{HEAD}\n".encode() + b"\xff\xfe,2,64,H100,8", "line 2: not UTF-8 text; expected a CSV file"),
]


@pytest.mark.parametrize(("text", "said"), DAMAGED)
def test_a_damaged_file_is_one_line(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert refused(table_of, path).startswith(f"{path}: {said}")


def asked(changes: dict[str, str]) -> pd.DataFrame:
    cells = dict(zip(HEAD.split(","), GOOD.split(","), strict=True)) | changes
    return table_of(pd.DataFrame([cells, {**cells, **changes, "id": "b", "plan.tensor": 1}]))


def test_columns_are_those_of_evaluate() -> None:
    found = step_answers(rows_of(asked({})))
    assert found["time"].notna().all()
    with pytest.raises(InputError, match=r"plan\.tensr: no such input of training\. Did you"):
        rows_of(asked({"plan.tensr": "2"}))
    with pytest.raises(InputError, match="model: missing"):
        rows_of(asked({}).drop(columns="model"))


WRONG = [
    ("plan.tensor", "x", "plan.tensor: not a finite number, given 'x'"),
    ("plan.tensor", "", "plan.tensor: an empty cell; expected a value"),
    ("model", "llama", "model: llama: no such architecture. Did you mean"),
    ("#measured_step_time_s", "-1", "#measured_step_time_s: not a number above 0, given '-1'"),
    ("#measured_step_time_s", "x", "#measured_step_time_s: not a number above 0, given 'x'"),
]


@pytest.mark.parametrize(("column", "cell", "said"), WRONG)
def test_a_wrong_cell_is_the_reason_of_its_row(column: str, cell: str, said: str) -> None:
    frame = asked({})
    frame.loc[frame.index[0], column] = cell
    first, second = step_answers(rows_of(frame))["reason"]
    assert first.startswith(said)
    assert second == ""


def test_the_packaged_rows_are_all_there_and_small() -> None:
    rows = {name: len(packaged("memory", name)) for name in sources("memory")}
    assert rows == {
        "megatron_lm_ci_memory": 494,
        "simumax_b200": 23,
        "bigscience_2021_logs": 127,
        "bigscience_a100": 64,
        "torchtitan_logs": 19,
        "torchtitan": 29,
        "llm_foundry_mpt": 216,
    }
    assert packed_bytes("memory") < 25_000
    assert packed_bytes("steps") < 45_000
    for of in ("memory", "steps"):
        for name in sources(of):
            notes = [n for n in packaged(of, name).columns if n == "id" or n.startswith("#")]
            assert set(notes) <= set(NOTES)


@pytest.mark.parametrize(
    "name", daily(["mt_nlg_a100", "simumax_b200", "megatron_bridge_moe"], 0, 1)
)
def test_packaged_rows_are_a_file_of_evaluate(name: str) -> None:
    """What validate answers to a row, a table of rows of the estimator answers."""
    frame = packaged("steps", name)
    public = jr.evaluate_rows("training", frame, keep_going=True)
    ours = step_answers(rows_of(frame))
    assert (public["step_time"].isna().to_numpy() == ours["time"].isna().to_numpy()).all()
    assert ours["time"].to_numpy() == pytest.approx(
        public["step_time"].to_numpy(), rel=1e-12, nan_ok=True
    )


def test_a_source_that_there_is_not_has_a_nearest_name() -> None:
    with pytest.raises(InputError, match=r"^--source: simumax: no such source.*'simumax_b200'"):
        packaged("memory", "simumax")
