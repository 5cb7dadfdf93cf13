"""One question, one answer: by validate, calibrate, shell, Python, sweep file, rows and page."""

import collections
import csv
import dataclasses
import functools
import json
import shlex

import numpy as np
import pandas as pd
import pytest

import jaxroof as jr
from jaxroof import catalog
from jaxroof.analyses.fastest_plans import NoPlanFits
from jaxroof.app.answers import plans as page
from jaxroof.app.answers import share
from jaxroof.app.state import START, with_change, with_choice
from jaxroof.catalog import lookup
from jaxroof.errors import InputError
from jaxroof.estimators.training.software import Framework
from jaxroof.estimators.training.step import training
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.scores import packaged_answers
from jaxroof.validation.steps.sources import packaged
from jaxroof.validation.steps.step_rows import step_row

# ---- Measured rows ------------------------------------------------------------------------------

MOVED = ("system", "precision")  # texts that an axis has as points
OF_MODEL = ("attention", "mlp", "embeddings")  # choices that a model of the catalogue brings
SIZES = ("layers", "hidden", "feedforward", "heads", "kv_heads", "head_size", "vocabulary")
RESULTS = {"step_time": "time", "step_time_low": "low", "step_time_high": "high"}


@functools.cache
def measured():
    """Return one packaged row of every configuration, as validate answers it."""
    every = [one for some in packaged_answers().values() for one in some if one.step is not None]
    return list({frozenset(one.step.settings.items()): one for one in every}.values())


def alike(answers, extra=lambda one: ()):
    """Yield answers whose settings differ in numbers and in points of an axis alone."""
    apart = collections.defaultdict(list)
    for one in answers:
        said = {
            name: value if isinstance(value, str) and name not in MOVED else ""
            for name, value in one.step.settings.items()
        }
        apart[frozenset(said.items()), extra(one)].append(one)
    for (_, more), some in apart.items():
        yield more, some


def asked_together(some, leave_out=(), **more):
    """Return what jr.evaluate answers to rows, each a point of one axis."""
    first = some[0].step.settings
    fixed = {k: v for k, v in first.items() if isinstance(v, str) and k not in MOVED}
    moved = {k: [one.step.settings[k] for one in some] for k in first if k not in fixed}
    moved = {k: v for k, v in moved.items() if k not in leave_out}
    fixed = {k: v for k, v in fixed.items() if k not in leave_out}
    return jr.evaluate("training", fixed, axes={"row": moved}, **more)


def assert_same(data, some):
    for result, field in RESULTS.items():
        found = np.broadcast_to(data[result].values, len(some))
        expected = [getattr(one, field) for one in some]
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=result)


def test_every_measured_row_is_a_question_that_anybody_can_ask():
    """What validate prints of a row is what jr.evaluate answers to the inputs of the row."""
    assert len(measured()) > 1300
    for _, some in alike(measured()):
        assert_same(asked_together(some), some)


@functools.cache
def by_sizes():
    """Return the models of the catalogue by their sizes and choices."""
    found = {}
    for name in catalog.names("architectures"):
        model, choices = lookup.architecture_with_choices(name)
        sizes = tuple(float(getattr(model, size)) for size in (*SIZES, "experts", "mtp_layers"))
        found[sizes, tuple(choices[key] for key in OF_MODEL)] = name
    return found


def name_of(one):
    """Return the model of the catalogue that a row ran, empty if there is none."""
    settings = one.step.settings
    sizes = tuple(settings[f"model.{size}"] for size in (*SIZES, "experts", "mtp_layers"))
    return by_sizes().get((sizes, tuple(settings[key] for key in OF_MODEL)), "")


def test_rows_of_models_of_the_catalogue_are_answered_by_name():
    """A model by its name has the time that a row has whose columns state its sizes."""
    named = [(name, some) for name, some in alike(measured(), name_of) if name]
    assert {"deepseek-v3", "llama3-8b", "llama3.1-405b", "mixtral-8x22b"} <= {n for n, _ in named}
    assert sum(len(some) for _, some in named) > 200
    for name, some in named:
        stated = [k for k in some[0].step.settings if k.startswith("model.") or k in OF_MODEL]
        stated.remove("model.sequence")
        assert_same(asked_together(some, stated, model=name), some)


def test_an_axis_of_machines_leaves_each_its_number_formats():
    """A machine without 4-bit products beside one that has them changes neither."""
    asked = {"model": "llama3-8b", "global_batch": 64, "plan.data": 8, "plan.tensor": 2}
    pairs = [("a100-80-sxm", "bf16"), ("h100-nvs8", "fp8"), ("gb200-nvl72", "nvfp4")]
    systems, formats = map(list, zip(*pairs, strict=True))
    both = jr.evaluate("training", asked, axes={"m": {"system": systems, "precision": formats}})
    alone = [jr.evaluate("training", asked, system=s, precision=p) for s, p in pairs]
    times = [float(one.step_time) for one in alone]
    np.testing.assert_allclose(both.step_time.values, times, rtol=1e-12)


def test_an_axis_may_have_one_number_format():
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64, "plan.data": 8}
    one = jr.evaluate("training", asked, axes={"precision": ["fp8"]})
    assert float(one.step_time[0]) == float(
        jr.evaluate("training", asked, precision="fp8").step_time
    )


# ---- Calibration --------------------------------------------------------------------------------

USER = """\
row_id,source,model,layers,hidden,ffn,heads,kv_heads,vocab,seq,system,gpus,precision,tp,pp,vp,\
gbs,mbs,date_version,measured_step_time_s
r1,megatron-core,Llama 3 8B,{model},H100 80GB,64,{precision},2,1,,256,1,{date},4.1
r2,megatron-core,Llama 3 8B,{model},H100 80GB,64,{precision},2,2,4,256,1,{date},4.3
"""
LLAMA3_8B = "32,4096,14336,32,8,128256,8192"
OWN_PLANS = {
    "r1": "dp=32,tp=2,cp=1,pp=1,vp=1,sp=1,mb=1,zero=1,rc=0,off=0",
    "r2": "dp=16,tp=2,cp=1,pp=2,vp=4,sp=1,mb=1,zero=1,rc=0,off=0",
}


@pytest.mark.parametrize("precision", ["BF16", "FP8"])
@pytest.mark.parametrize("date", ["", "24.03"])
def test_a_calibrated_file_gives_what_calibrate_printed(date, precision, jaxroof, tmp_path):
    """A search and jr.evaluate with the file, asked as calibrate says, have its fitted seconds."""
    text = USER.format(model=LLAMA3_8B, date=date, precision=precision)
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    said = jaxroof("calibrate runs.csv --system h100-nvs8 -o mine.toml --json")
    assert said.code == 0, said.err
    fitted = json.loads(said.out)
    rows = csv.DictReader(text.splitlines())
    settings = [*fitted["asked_software"], f"precision={precision.lower()}"]
    assert (len(settings) > 1) == bool(date)
    sets = " ".join(f"--set {one}" for one in settings)
    for row, error in zip(rows, fitted["error_fit_percent"], strict=True):
        seconds = float(row["measured_step_time_s"]) * (1.0 + error / 100.0)
        own = OWN_PLANS[row["row_id"]]
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


def test_a_row_without_a_date_is_of_the_software_of_a_question():
    row = next(one for one in packaged("nemo_releases").rows if "date_version" in one.cells)
    blank = Row(2, {name: cell for name, cell in row.cells.items() if name != "date_version"})
    assert step_row(blank).settings["software.year"] == Framework().year
    assert step_row(row).settings["software.year"] < Framework().year


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
    "page": of_the_page,
    "shell": of_the_shell,
    "Python": of_python,
    "sweep file": of_a_sweep_file,
}


def in_rows(state, best):
    """Return the answer of a table of rows to the plan that a search found."""
    line = {**dict(state.changes), **dict(state.choices)}
    line |= {"model": state.model, "system": state.system, "global_batch": state.batch}
    line |= {field: int(best[field]) for field in training.plan_fields}
    return jr.evaluate_rows(training, pd.DataFrame([line]), precision=state.precision).iloc[0]


@pytest.mark.parametrize("seed", range(20))
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
