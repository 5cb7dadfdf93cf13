"""Files of measured runs: what is read, and what is said of a damaged one."""

from pathlib import Path

import pytest

from jaxroof.errors import InputError
from jaxroof.validation.measured_rows import (
    COLUMNS,
    Row,
    count,
    options,
    read_table,
)
from jaxroof.validation.memory.capacities import capacity
from jaxroof.validation.memory.sources import SOURCES, packaged, packed_bytes

HEAD = "row_id,layers,hidden,system,gpus"
GOOD = "a,2,64,H100 80GB,8"


def read(folder: Path, text: str | bytes) -> str:
    """Return what is said of a file with a content."""
    path = folder / "rows.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as refused:
        read_table(path)
    said = str(refused.value)
    assert "\n" not in said
    assert said.startswith(str(path))
    return said.removeprefix(str(path)).removeprefix(": ")


DAMAGED = [
    ("", "no header; expected a CSV file"),
    (HEAD, "no rows; expected a measured run a line"),
    (f"{HEAD}\n{GOOD}\n{GOOD}", "line 3: row_id: 'a' is line 2 too; expected a name of the row"),
    (f"{HEAD}\n,2,64,H100 80GB,8", "line 2: row_id: blank; expected a name of the row"),
    (f"{HEAD}\n{GOOD},9", "line 2: the row has 6 cells; expected the 5 of line 1"),
    (f"{HEAD}\na,2", "line 2: hidden: no cell, the row has 2 cells; expected the 5 of line 1"),
    (f"{HEAD},gpus\n{GOOD},8", "line 1: gpus: twice; expected each column of the schema once"),
    (f"{HEAD},\n{GOOD},8", "line 1: a column without a name; expected each column of the schema"),
    (f"{HEAD},precison\n{GOOD},BF16", "line 1: precison: no such column. Did you mean 'precision'"),
    ("row_id,layers,hidden,gpus\na,2,64,8", "line 1: system: missing; expected accelerator"),
    (
        "name,age\nx,3",
        "line 1: row_id, layers, hidden, system, gpus: missing; expected the columns",
    ),
    (f'{HEAD}\n"a,2,64,H100 80GB,8', "line 2: a quote is never closed; expected quotes around"),
    (f"{HEAD}\n".encode() + b"\xff\xfe,2,64,H100,8", "line 2: not UTF-8 text; expected a CSV file"),
    (HEAD.encode() + b"\0\n", "line 1: not UTF-8 text; expected a CSV file"),
]


@pytest.mark.parametrize(("text", "said"), DAMAGED)
def test_a_damaged_file_is_one_line(text: str | bytes, said: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).startswith(said)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.csv: no such file$"):
        read_table(tmp_path / "none.csv")


def test_columns_beside_the_schema_are_carried_along(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"{HEAD},colour\n{GOOD},blue\n", encoding="utf-8")
    table = read_table(tmp_path / "rows.csv")
    assert table.unknown == ("colour",)
    assert table.rows[0].cells["colour"] == "blue"


WRONG = [
    ("", "layers: blank; expected transformer layers"),
    ("x", "layers: not a number above 0, given 'x'; expected transformer layers"),
    ("nan", "layers: not a number above 0, given 'nan'; "),
    ("inf", "layers: not a number above 0, given 'inf'; "),
    ("-2", "layers: not a number above 0, given '-2'; "),
    ("0", "layers: not a number above 0, given '0'; "),
    ("1e300", "layers: not a number above 0, given '1e300'; "),
    ("1.5", "layers: not a whole number, given 1.5; expected transformer layers"),
]


@pytest.mark.parametrize(("cell", "said"), WRONG)
def test_a_wrong_cell_is_named(cell: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        count(Row(2, {"layers": cell} if cell else {}), "layers")
    assert str(refused.value).startswith(said)


def test_whole_numbers_may_have_a_point() -> None:
    assert count(Row(2, {"dp": "8.0"}), "dp") == 8.0


def test_an_option_with_two_values_is_refused() -> None:
    with pytest.raises(InputError, match=r"^settings: tp: two values"):
        options(Row(2, {"settings": "tp=2; tp=4"}))


SYSTEMS = [  # what rows call a system, what it reports [GB], rounded
    ("DGX H100 80GB", 85.5),
    ("H100 95GiB (8 per node)", 102.0),
    ("H100 96GB HBM2e 2.4 TB/s, 500W limit (Grand Teton, 8 per node, 400 Gb/s per GPU)", 96.0),
    ("A100 40GB", 42.9),
    ("V100-SXM2 32GB", 34.4),
    ("B200-SXM (1 node, 8 GPUs)", 192.3),
    ("GB200", 198.7),
    ("H200 (8 per node, 400 Gb/s CX-7 per GPU)", 150.8),
    ("DGX-H100", 85.5),
]


@pytest.mark.parametrize(("system", "expected"), SYSTEMS)
def test_the_memory_of_an_accelerator_is_what_it_reports(system: str, expected: float) -> None:
    assert round(capacity(Row(2, {"system": system})) / 1e9, 1) == expected


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("A100 (8 per node)", "system: A100 comes with 40 GB, 80 GB; expected one of them"),
        ("TPU v5e", "system: 'TPU v5e' names no accelerator that is known; expected one that"),
    ],
)
def test_a_system_that_leaves_its_memory_open_is_refused(system: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        capacity(Row(2, {"system": system}))
    assert str(refused.value).startswith(said)


def test_the_packaged_rows_are_all_there_and_small() -> None:
    rows = {name: len(packaged(name).rows) for name in SOURCES}
    assert rows == {
        "megatron_lm_ci_memory": 494,
        "simumax_b200": 23,
        "bigscience_2021_logs": 127,
        "bigscience_a100": 64,
        "torchtitan_logs": 19,
        "torchtitan": 29,
        "llm_foundry_mpt": 216,
    }
    assert packed_bytes() < 45_000
    for name in SOURCES:
        assert set(packaged(name).columns) <= set(COLUMNS)


def test_a_source_that_there_is_not_has_a_nearest_name() -> None:
    with pytest.raises(InputError, match=r"^--source: simumax: no such source.*'simumax_b200'"):
        packaged("simumax")
