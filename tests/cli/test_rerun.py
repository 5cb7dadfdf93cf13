"""The command that answers a stored question again: identical, how far off, or why not."""

import importlib
import itertools
import json
import pathlib

import click
import h5py
import pytest
from daily import daily

import jaxroof as jr
from jaxroof.cli import stored_question
from jaxroof.io import stored_format


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
        "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 64 --margin 10% -o b.json",
        "layers --estimator unfused --model gpt3 --system a100-unfused --plan tp=4 -o b.json",
        "roofline --op matmul --system tpu-v5e --shape B=256,D=4096,F=16384 -o b.nc",
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
def test_what_a_command_wrote_is_asked_again_by_its_options(line, jaxroof):
    assert jaxroof(line).code in (0, 1)
    said = jaxroof(f"rerun {line.rpartition(' ')[2]}")
    assert said.code == 0, said.err
    assert "Identical: " in said.words


SCHEDULE = "schedule --model llama3-8b --system h100-nvs8 --plan tp=2,pp=4 --batch 8"


MADE: dict[str, str] = {}  # command line: the file that it writes, asked once for all tests here


def made(line, jaxroof, tmp_path):
    """Return what the JSON file of a command holds."""
    if line not in MADE:
        assert jaxroof(f"{line} -o known.json").code in (0, 1)
        MADE[line] = (tmp_path / "known.json").read_text(encoding="utf-8")
        for file in tmp_path.iterdir():
            file.unlink()
    return json.loads(MADE[line])


@pytest.fixture
def stranger(jaxroof, tmp_path):
    """A file of a command, to which a stranger gives attributes, and whose checksums are gone."""
    whole = made(f"{SCHEDULE} --trace known.csv", jaxroof, tmp_path)
    for name in (stored_format.QUESTION, stored_format.RESULTS):
        del whole["attrs"][name]

    def written(changes: dict[str, object]) -> pathlib.Path:
        attrs = {k: v for k, v in {**whole["attrs"], **changes}.items() if v is not None}
        path = tmp_path / "stranger.json"
        path.write_text(json.dumps({**whole, "attrs": attrs}), encoding="utf-8")
        return path

    return written


OWN = {"command": "schedule", "model_name": "llama3-8b", "system_name": "h100-nvs8"}
OWN |= {"plan_text": "tp=2,pp=4", "batch": "8"}


@pytest.mark.parametrize("trace", ["", " --trace out.csv", " --trace out.csv -o other.nc"])
def test_a_history_writes_nothing(trace, stranger, jaxroof, tmp_path):
    line = f"2026-01-01T00:00:00Z: jaxroof {SCHEDULE}{trace}"
    file = stranger({"history": line, "arguments": None})
    said = jaxroof(f"rerun {file}")
    assert said.code == 2
    assert "cannot be answered again from a file" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["stranger.json"]
    said = jaxroof(f"rerun {stranger({'history': line})}")
    assert said.code == 0, said.err
    assert "Identical: " in said.words
    assert [path.name for path in tmp_path.iterdir()] == ["stranger.json"]


DAMAGED_ARGUMENTS = [
    *(json.dumps({**OWN, name: "out.csv"}) for name in stored_question.OUTPUTS),
    *(json.dumps({**OWN, "command": name}) for name in ("run", "app", "plot", "rerun", "os", 3)),
    *(json.dumps({**OWN, "batch": value}) for value in ({}, [[8]])),
    json.dumps({**OWN, "trust": True}),
    json.dumps({**OWN, "--trace": "out.csv"}),
    *("", "{", "[]", "3", "null", "[" * 100_000, json.dumps(f"jaxroof {SCHEDULE}")),
]


@pytest.mark.parametrize("arguments", DAMAGED_ARGUMENTS, ids=lambda text: text[-40:])
def test_options_that_are_no_question_are_refused(arguments, stranger, jaxroof, tmp_path):
    said = jaxroof(f"rerun {stranger({'arguments': arguments})}")
    assert said.code == 2
    assert "question: its arguments are damaged; expected those of jaxroof" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["stranger.json"]


@pytest.mark.parametrize(("changes", "said"), [
    ({"model_name": None}, "Missing option '--model'"), ({"batch": 8}, "Identical: "),
    ({"batch": "none"}, "--batch: expected whole numbers from 1 to 1e9, given 'none'"),
    ({"batch": 1.5}, "--batch: expected whole numbers from 1 to 1e9, given '1.5'"),
    ({"batch": float("inf")}, "--batch: expected whole numbers from 1 to 1e9, given 'inf'"),
    ({"sequence": "x"}, "--sequence: expected whole numbers"),
    ({"sets": ["model.layers=1e9"]}, "at most 4096"),
    ({"first": "0.5"}, "first: no such field"),
])  # fmt: skip
def test_options_of_a_file_are_checked_as_those_of_a_user(changes, said, stranger, jaxroof):
    ended = jaxroof(f"rerun {stranger({'arguments': json.dumps({**OWN, **changes})})}")
    assert said in ended.err + ended.words
    assert len(ended.err.splitlines()) == (ended.code == 2)


@pytest.mark.parametrize("name", stored_question.COMMANDS)
def test_every_option_that_writes_is_an_output(name):
    """Else a file that somebody else made could name where its answer goes."""
    command = importlib.import_module(f"jaxroof.cli.commands.{name}").command
    files = {o.name for o in command.params if "FILE" in o.make_metavar(click.Context(command))}
    assert files <= {*stored_question.OUTPUTS, "file", "uncertain", "measured"}  # the last are read
    assert "output" in files
    flags = {o.name for o in command.params if o.expose_value and getattr(o, "is_flag", False)}
    assert flags <= {*stored_question.OUTPUTS, "in_place", "frontier"}  # of the question


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


@pytest.mark.parametrize(("name", "said"), [
    ("none.nc", "none.nc: no such file"),
    ("a.csv", "a.csv: a table does not say what was asked; expected .nc, .json or .zarr"),
    ("a.toml", "cannot tell the kind of file"),
])  # fmt: skip
def test_a_file_that_holds_no_question_is_one_line(name, said, jaxroof):
    found = jaxroof(f"rerun {name}")
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


NAMES, TEXTS = ["inputs", "changes", "recipe"], ["{", "3", "[[1]]", '{"plan.pipeline": {}}', "null"]


@pytest.mark.parametrize(("name", "text"), daily(itertools.product(NAMES, TEXTS), 0, 8, 12))
def test_a_picture_of_damaged_attributes_is_one_line(name, text, jaxroof, tmp_path):
    line = "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 8"
    whole = made(line, jaxroof, tmp_path)
    whole["attrs"][name] = text
    (tmp_path / "fit.json").write_text(json.dumps(whole), encoding="utf-8")
    for command in ("plot fit.json -o a.svg", "rerun fit.json", "report fit.json -o a.html"):
        said = jaxroof(command)
        assert said.code in (0, 2)
        assert len(said.err.splitlines()) == 1
        assert said.code == 0 or "damaged" in said.err or "another program changed it" in said.err


@pytest.mark.parametrize("value", daily([[], {}, [1, "a"], None, 3], 2, 4))
def test_a_report_of_a_question_that_is_no_text_says_what_it_can(value, stranger, jaxroof):
    ended = jaxroof(f"report {stranger({'question': value})} -o a.html")
    assert ended.code == 0, ended.err
