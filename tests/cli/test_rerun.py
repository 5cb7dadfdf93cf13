"""The command that answers a stored question again: identical, how far off, or why not."""

import json

import h5py
import pytest

import jaxroof as jr
from jaxroof.cli.actions import rerun


@pytest.fixture
def path(tmp_path):
    data = jr.evaluate("matmul", batch=8, hidden=64, feedforward=64, system="tpu-v5e")
    jr.write(data, tmp_path / "a.nc")
    return tmp_path / "a.nc"


def test_an_identical_result_says_so(path, jaxroof):
    said = jaxroof(f"rerun {path}")
    assert said.code == 0, said.err
    assert "Identical: " in said.words
    assert "Versions" not in said.words


@pytest.mark.parametrize(
    "line",
    [
        "compare --model llama3-8b --gpus 8 --batch 64 --system h100-nvs8,h200-141-sxm -o b.json",
        "layers --model llama3-8b --system h100-nvs8 --plan dp=8 -o b.nc",
        pytest.param(
            "pareto --model llama3-8b --system h100-nvs8 --gpus 8 --batch 64 --where off=0 -o b.nc",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 8 -o b.nc",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_a_command_wrote_is_asked_again_by_its_line(line, jaxroof):
    assert jaxroof(line).code in (0, 1)
    said = jaxroof(f"rerun {line.rpartition(' ')[2]}")
    assert said.code == 0, said.err
    assert "Identical: " in said.words


def test_a_line_that_runs_the_code_of_others_is_not_run():
    for line in ("jaxroof run a.toml --trust", "rm a.toml", "jaxroof app", "jaxroof 'run", ""):
        assert not rerun._can_run(line), line


def test_a_difference_and_the_version_that_changed_are_named(path, jaxroof):
    data = jr.read(path)
    versions = {**json.loads(data.attrs["versions"]), "numpy": "2.0.0"}
    first = next(name for name, v in data.data_vars.items() if v.dtype.kind == "f")
    changed = data.assign({first: data[first] * 1.01}).assign_attrs(versions=json.dumps(versions))
    jr.write(changed, path.parent / "b.json")
    said = jaxroof("rerun b.json")
    assert said.code == 1, said.err
    assert f"{first}: by up to 0.0099 of its value, at 1 points." in said.words
    assert "numpy 2.0.0 then" in said.words


def test_results_that_another_program_changed_are_told(path, jaxroof):
    first = next(n for n, v in jr.read(path).data_vars.items() if v.dtype.kind == "f")
    with h5py.File(path, "a") as file:
        file[first][...] = 3.0
    said = jaxroof(f"rerun {path}")
    assert said.code == 1
    assert "another program changed them" in said.words


def test_a_question_that_another_program_changed_is_refused(path, jaxroof):
    with h5py.File(path, "a") as file:
        file.attrs["inputs"] = '{"rows": 8.0}'
    said = jaxroof(f"rerun {path}")
    assert said.code == 2
    assert "question: not as it was written: another program changed it" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.nc", "none.nc: no such file"),
        ("a.csv", "a.csv: a table does not say what was asked; expected .nc, .json or .zarr"),
        ("a.toml", "cannot tell the kind of file"),
    ],
)
def test_a_file_that_holds_no_question_is_one_line(name, said, jaxroof):
    found = jaxroof(f"rerun {name}")
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1
