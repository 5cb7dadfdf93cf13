"""One question, one answer: by validate, calibrate, shell, Python, sweep file, rows and page."""

import collections
import csv
import dataclasses
import functools
import itertools
import json
import shlex

import numpy as np
import pandas as pd
import pytest
from daily import daily

import jaxroof as jr
from jaxroof import catalog
from jaxroof.analyses.training_plans import NoPlanFits
from jaxroof.app import plans as page
from jaxroof.app.state import START, with_change, with_choice
from jaxroof.app.tabs import share
from jaxroof.catalog import lookup
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.step import training
from jaxroof.records import replace_at
from jaxroof.validation.rows import taken
from jaxroof.validation.sources import packaged_rows
from jaxroof.validation.steps import step_answers

# ---- Measured rows ------------------------------------------------------------------------------

OF_MODEL = ("attention", "mlp", "embeddings")  # choices that a model of the catalogue brings
SIZES = ("layers", "hidden", "feedforward", "heads", "kv_heads", "head_size", "vocabulary")
RESULTS = {"step_time": "time", "step_time_low": "low", "step_time_high": "high"}


@functools.cache
def by_sizes():
    """Return the models of the catalogue by their sizes and choices."""
    found = {}
    for name in catalog.names("architectures"):
        model, choices = lookup.architecture_with_choices(name)
        sizes = tuple(float(getattr(model, size)) for size in (*SIZES, "experts", "mtp_layers"))
        found[sizes, tuple(choices[key] for key in OF_MODEL)] = name
    return found


@pytest.mark.slow  # of all packaged rows; a model as a record is the one by name daily: catalog/
def test_rows_of_models_of_the_catalogue_are_answered_by_name():
    """A model by its name has the time that a row has whose columns state its sizes."""
    rows = packaged_rows("steps")
    found, seen = step_answers(rows), collections.Counter()
    for places, inputs, recipe in rows.groups:
        if not isinstance(inputs.plan, TrainingPlan):  # of a torus
            continue
        sizes = [getattr(inputs.model, size) for size in (*SIZES, "experts", "mtp_layers")]
        choices = tuple(getattr(recipe, key).value for key in OF_MODEL)
        lines = list(zip(*(np.broadcast_to(size, len(places)) for size in sizes), strict=True))
        names = np.array([by_sizes().get((line, choices), "") for line in lines])
        for name in {*names.tolist()} - {""}:
            here = np.flatnonzero(names == name)
            some = taken(RowGroup(places, inputs, recipe), here)
            model = replace_at(lookup.architecture(name), "sequence", some.inputs.model.sequence)
            report = training.evaluate(replace_at(some.inputs, "model", model), recipe)
            for result, column in RESULTS.items():
                np.testing.assert_allclose(
                    np.broadcast_to(getattr(report, result), len(here)),
                    found[column].to_numpy()[some.rows],
                    rtol=1e-12,
                    err_msg=name,
                )
            seen[name] += len(here)
    # rows of latent attention have another head size
    some = {"llama3-8b", "llama3.1-405b", "mixtral-8x22b", "gpt-oss-120b"}
    assert {*some, "nemotron-3-nano-30b-a3b"} <= {*seen}
    assert seen.total() > 200


# ---- Calibration --------------------------------------------------------------------------------

USER = """\
id,model,global_batch,tp,dp,pp,vp,mb,precision{more},#measured_step_time_s
r1,llama3-8b,256,2,32,1,1,1,{precision}{year},4.1
r2,llama3-8b,256,2,16,2,4,1,{precision}{year},4.3
"""
OWN_PLANS = {
    "r1": "dp=32,tp=2,cp=1,pp=1,vp=1,sp=1,mb=1,zero=1,rc=0,off=0",
    "r2": "dp=16,tp=2,cp=1,pp=2,vp=4,sp=1,mb=1,zero=1,rc=0,off=0",
}


@pytest.mark.parametrize(
    ("year", "precision"), daily(itertools.product(["", "2024.2"], ["bf16", "fp8"]), 3)
)
def test_a_calibrated_file_gives_what_calibrate_printed(year, precision, jaxroof, tmp_path):
    """A search and jr.evaluate with the file, asked as calibrate says, have its fitted seconds."""
    more, cell = (",software.year", f",{year}") if year else ("", "")
    text = USER.format(more=more, precision=precision, year=cell)
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    said = jaxroof("calibrate runs.csv --system h100-nvs8 -o mine.toml --json")
    assert said.code == 0, said.err
    fitted = json.loads(said.out)
    rows = csv.DictReader(text.splitlines())
    settings = [*fitted["asked_software"], f"precision={precision}"]
    assert (len(settings) > 1) == bool(year)
    sets = " ".join(f"--set {one}" for one in settings)
    for row, error in zip(rows, fitted["error_fit_percent"], strict=True):
        seconds = float(row["#measured_step_time_s"]) * (1.0 + error / 100.0)
        own = OWN_PLANS[row["id"]]
        question = f"--model llama3-8b --system mine.toml --gpus 64 --batch 256 {sets}"
        said = jaxroof(f"search {question} --mine {own} --where tp=2,cp=1,off=0 --json")
        assert said.code == 0, said.err
        found = json.loads(said.out)["data_vars"]["own"]["data"]
        assert found == pytest.approx(seconds, rel=1e-9)
        again = jr.evaluate(
            "training",
            {"model": "llama3-8b", "system": str(tmp_path / "mine.toml"), "global_batch": 256},
            **dict(one.split("=") for one in (*settings, *own.split(","))),
        )
        assert float(again.step_time) == pytest.approx(seconds, rel=1e-9)


# ---- Twenty questions ---------------------------------------------------------------------------

FORMATS = {"ampere": ("bf16",), "hopper": ("bf16", "fp8")}  # of other chips: all
MACHINES = {
    system: catalog.canonical("chips", chip)
    for chip in catalog.names("chips")
    for system in catalog.describe("chips", chip)["systems"]
}
MODELS = [
    name for name in catalog.names("architectures") if lookup.architecture(name).vocabulary > 0
]
CHOICES = {
    "attention_kernel": ("cudnn", "flash", "unfused"),
    "cross_entropy": ("fused", "native", "vocabulary_parallel"),
    "selective": ("light", "core_attn", "mlp"),
}
NUMBERS = {
    "software.year": (2023.5, 2024.8, 2025.9, 2026.9),
    "software.tensor_overlap": (0.0, 1.0),
    "software.host": (0.0, 0.6, 1.0),
    "system.hbm_bandwidth": (2.5e12, 4e12),
    "system.slow_bandwidth": (12.5e9, 1e11),
}


def drawn(seed):
    """Return a question of the page, drawn over models, machines, formats, software and rules."""
    draw = np.random.default_rng(seed)

    def one(values):
        return list(values)[draw.integers(len(values))]

    system = one(MACHINES)
    state = dataclasses.replace(
        START,
        model=one(MODELS),
        system=system,
        gpus=one((8, 16, 64, 512)),
        batch=one((64, 512)),
        precision=one(FORMATS.get(MACHINES[system], ("bf16", "fp8", "mxfp8", "nvfp4"))),
        where=one(("off=0,zero<=1", "tp<=4,off=0,zero=1", "off=0,zero=3,rc<=1")),
    )
    for path in draw.permutation(list(NUMBERS))[: draw.integers(3)].tolist():
        state = with_change(state, path, one(NUMBERS[path]))
    for name in draw.permutation(list(CHOICES))[: draw.integers(3)].tolist():
        state = with_choice(state, name, one(CHOICES[name]))
    return state


def of_the_page(state, jaxroof, tmp_path):
    try:
        return page.best_plans(state, 1).isel(plan=0)
    except NoPlanFits:
        return None


def of_the_shell(state, jaxroof, tmp_path):
    words = shlex.split(share.command(state))[1:]
    said = jaxroof(shlex.join([*words, "--top", "1", "-o", "shell.json"]))
    if said.code == 2:
        raise InputError(said.err)
    if said.code:
        assert "No plan fits" in said.out
        return None
    return jr.read(tmp_path / "shell.json").isel(plan=0)


def of_python(state, jaxroof, tmp_path):
    settings = {**dict(state.changes), **dict(state.choices), "precision": state.precision}
    names = {"model": state.model, "system": state.system, "where": state.where}
    found = jr.search(
        "training", settings=settings, gpus=state.gpus, global_batch=state.batch, top=1, **names
    )
    return found if bool(found.feasible) else None


def of_a_sweep_file(state, jaxroof, tmp_path):
    path = tmp_path / "asked.toml"
    path.write_text(share.sweep_file(state), encoding="utf-8")
    found = jr.run(path).isel(rank=0)
    return found if bool(found.feasible) else None


ROADS = {
    "page": of_the_page, "shell": of_the_shell, "Python": of_python, "sweep file": of_a_sweep_file,
}  # fmt: skip


def in_rows(state, best):
    """Return the answer of a table of rows to the plan that a search found."""
    line = {**dict(state.changes), **dict(state.choices)}
    line |= {"model": state.model, "system": state.system, "global_batch": state.batch}
    line |= {field: int(best[field]) for field in training.plan_fields}
    return jr.evaluate_rows(training, pd.DataFrame([line]), precision=state.precision).iloc[0]


@pytest.mark.parametrize("seed", daily(range(20), 2, 3, 8, 19))
def test_one_question_has_one_answer(seed, jaxroof, tmp_path):
    """Twenty questions, each by page, shell, Python, sweep file and a table of rows."""
    state = drawn(seed)
    found = {road: ask(state, jaxroof, tmp_path) for road, ask in ROADS.items()}
    best = found["page"]
    if best is None:
        assert not [road for road, one in found.items() if one is not None], state
        return
    for road, one in found.items():
        assert one is not None, (road, state)
        for field in ("step_time", "memory", "step_time_high"):
            assert float(one[field]) == pytest.approx(float(best[field]), rel=1e-12), (road, state)
    row = in_rows(state, best)
    for field in ("step_time", "memory"):
        assert row[field] == pytest.approx(float(best[field]), rel=1e-12), ("rows", state)


@pytest.mark.parametrize("road", ROADS)
def test_a_number_without_effect_is_refused_everywhere(road, jaxroof, tmp_path):
    state = with_change(dataclasses.replace(START, gpus=64), "model.window", 1024.0)
    with pytest.raises(InputError, match=r"without effect while model\.windowed_layers is 0"):
        ROADS[road](state, jaxroof, tmp_path)
