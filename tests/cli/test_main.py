"""The command line as a person meets it: what it prints, what it writes, how it ends."""

import contextlib
import csv
import dataclasses
import inspect
import io
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import click
import numpy as np
import pytest
from command_line import Said, last_words
from daily import daily
from places import ROOT

import jaxroof as jr
from jaxroof import catalog, cli, estimators
from jaxroof.analyses import legal_plans as commands
from jaxroof.analyses import one_plan
from jaxroof.catalog import needs
from jaxroof.cli import printing
from jaxroof.config import sweep_file as runs
from jaxroof.errors import InputError
from jaxroof.io import formats as store
from jaxroof.missing import lacking
from jaxroof.settings import variants

MACHINE = "--estimator published --model gpt3-1t --system h200-nvs4"
HUGE = "9" * 400  # more than a float holds
QUESTION = f"{MACHINE} --gpus 2048 --batch 4096"
HEADLINE = f"search {QUESTION} --split 1d"
PLAN = [
    "data", "tensor", "context", "pipeline", "microbatch", "panels", "fast_data", "fast_tensor",
    "fast_context", "fast_pipeline",
]  # fmt: skip
COMMANDS = (
    "search", "compare", "pareto", "layers", "roofline", "evaluate", "run", "plot", "list", "show",
)  # fmt: skip
INTERRUPT = 130

SWEEP = """
estimator = "published"
model = "gpt3-1t"
system = "h200-nvs4"
plan = {{ gpus = {gpus}, global_batch = 4096 }}
[axes]
"system.hbm_capacity" = ["{capacity}", "141 GB"]
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160", **more}


def clean(line: str, folder: pathlib.Path, **more: str) -> Said:
    """Run a command line in a process of its own, warnings errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "jaxroof", *shlex.split(line)],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def rows(said: Said) -> list[list[str]]:
    """Return the cells of the lines below a table's rule, to the first empty line."""
    lines = said.out.splitlines()
    rule = next(i for i, line in enumerate(lines) if set(line.strip()) == {"─"})
    below = [line.split() for line in lines[rule + 1 :]]
    ends = next(i for i, cells in enumerate(below) if not cells or not cells[0][0].isdigit())
    return below[:ends]


def table(path: pathlib.Path) -> tuple[list[str], list[list[str]]]:
    with open(path, encoding="utf-8", newline="") as stream:
        header, *lines = csv.reader(stream)
    return header, lines


def question(**changes):
    given = {"gpus": 2048, "global_batch": 4096, **changes}
    return jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("h200-nvs4"), **given)


@pytest.fixture(scope="module")
def surveyed():
    return jr.survey(jr.published, question())


# ---- Each command, from a clean process ---------------------------------------------------------


def test_the_study_prints_its_best_plans(jaxroof):
    said = jaxroof(HEADLINE)
    assert (said.code, said.err) == (0, "")
    assert "Best of the 184 plans that fit: dp 16 tp 4 pp 32 mb 1, 39.98 s a step" in said.words
    assert "throughput 102.5 sequence/s, 124.6 GB of 141 GB (88 %)." in said.words
    assert len(rows(said)) == 5
    assert rows(said)[0][:7] == ["1", "16", "4", "32", "1", "4x1x1", "39.98"]


def test_layers_say_where_the_ranks_are(jaxroof):
    said = jaxroof(f"layers {MACHINE} --plan dp=64,tp=4,pp=8,microbatch=1")
    assert (said.code, said.err) == (0, "")
    assert "4 of the 4 tensor ranks share an NVLink domain" in said.words


def test_sweep_from_a_clean_process(tmp_path):
    said = clean(f"run {ROOT / 'sweeps' / 'gpt3_one_plan.toml'} -o plan.nc", tmp_path)
    assert said.code == 0
    assert re.fullmatch(r"[\d.]+ s, wrote plan.nc", last_words(said.err))
    assert "Fastest: 39.98 s a step" in said.words
    assert [path.name for path in tmp_path.iterdir()] == ["plan.nc"]
    assert jr.read(tmp_path / "plan.nc").sizes == {"microbatch": 4, "split": 3}


@pytest.mark.parametrize("kind", ["models", "mlps"])
def test_list_has_a_line_for_every_entry(kind, jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "")
    said = jaxroof(f"list {kind} --all")
    assert (said.code, said.err) == (0, "")
    kinds = ("architectures", "models") if kind == "models" else (kind,)
    names = [name for one in kinds for name in catalog.names(one)]
    first = [line.split()[0] for line in said.out.splitlines() if line]
    assert [word for word in first if word in names] == names  # families have a heading
    few = jaxroof(f"list {kind}").out
    assert kind == "mlps" or ("of single studies" in few and "gpt3-1t" not in few)


def test_list_says_what_each_system_can_answer(jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    said = jaxroof("list systems --all")
    assert (said.code, said.err) == (0, "")
    head, *rows = said.out.partition("\n\n")[0].splitlines()
    assert all(len(line) <= 88 for line in (head, *rows))  # "limits" too
    assert head.split()[-1] == "answers"
    told = {row.split()[0]: row[head.index("answers") :].split(", ") for row in rows}
    assert sorted(told) == sorted(catalog.names("systems"))
    few = jaxroof("list systems").out.partition("\n\n")[0].splitlines()[1:]
    assert [row.split()[0] for row in few] == [n for n in told if n in {r.split()[0] for r in few}]
    assert 20 <= len(few) <= 30
    assert all("training" in row for row in few[:12])
    assert told["h100-sxm5"] == ["training", "published", "roofline", "limits"]
    assert told["h100-nvs8"][:2] == ["training", "published"]
    assert told["tpu-v5p"] == ["training", "roofline", "torus"]
    assert told["rtx-4090"] == ["roofline", "limits"]
    for name, answers in told.items():
        lacks = needs.lacking("published", name, ())
        assert ("published" in answers) == (lacks == []), name


OF_ALL = "--estimator published --model gpt3-1t --system rtx-4090"
LACK = [  # command line, the start of what is said
    *(f"{name} {OF_ALL} --gpus 2048 --batch 4096" for name in ("search", "pareto", "compare")),
    f"layers {OF_ALL} --plan tp=4",
    "run sweep.toml",
]


@pytest.mark.parametrize("line", LACK)
def test_all_that_a_system_lacks_is_told_at_once(line, jaxroof, tmp_path):
    sweep = SWEEP.format(gpus=2048, capacity="80 GB").replace("h200-nvs4", "rtx-4090")
    (tmp_path / "sweep.toml").write_text(sweep)
    said = jaxroof(line)
    assert (said.code, said.out) == (2, "")
    for field in ("fast_domain", "fast_bandwidth", "fast_latency", "slow_bandwidth"):
        assert f"system.{field}" in said.err
    assert "such as 'a100-nvs4'" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("estimator", needs.NEEDS)
def test_what_is_declared_is_what_a_run_demands(estimator):
    asked = estimators.estimator(estimator)
    bare = jr.System(matrix_flops=1e15, hbm_bandwidth=1e12)
    inputs = dataclasses.replace(asked.example(), system=bare)
    searched = asked.candidates is not None
    demanded = [
        {number.path.removeprefix("system.") for number in lacking(asked, inputs, recipe, searched)}
        for recipe in variants(asked.recipe)
    ]
    assert demanded[0] == set(needs.NEEDS[estimator])
    if estimator != "matmul":  # which asks more where its operands or its unit are elsewhere
        assert set().union(*demanded) == demanded[0]


UNPLACED = jr.Plan(data=2.0, tensor=4.0, pipeline=8.0, microbatch=1.0)
IN_PYTHON = {
    "search": lambda inputs: jr.search(jr.published, inputs),
    "survey": lambda inputs: jr.survey(jr.published, inputs),
    "plans": lambda inputs: jr.plans(jr.published, inputs),
    "pareto": lambda inputs: jr.pareto(jr.published, inputs),
    "elasticities": lambda inputs: jr.elasticities(jr.published, inputs),
    "explain": jr.explain,
    "tabulate": lambda inputs: jr.tabulate(jr.published, inputs),
    "layers": jr.layers,
    "schedule": jr.schedule,
    "evaluate": lambda inputs: jr.evaluate("published", dict(vars(inputs))),
}


@pytest.mark.parametrize("question", IN_PYTHON)
def test_all_that_a_system_lacks_is_told_in_python(question):
    system = jr.system("rtx-4090", vector_flops="82.58 TFLOP/s")
    inputs = jr.Inputs(
        model=jr.model("gpt3"), system=system, gpus=64.0, global_batch=64.0, plan=UNPLACED
    )
    with pytest.raises(InputError) as caught:
        IN_PYTHON[question](inputs)
    said = str(caught.value)
    for field in (
        "fast_domain",
        "fast_bandwidth",
        "fast_latency",
        "slow_bandwidth",
        "hbm_capacity",
    ):
        assert f"system.{field}" in said, said
    assert "system.vector_flops" not in said
    assert "not given, and published needs them; expected a value each, or a system that" in said
    assert said.endswith("gives them, such as 'a100-nvs4'")


def test_fast_domains_that_no_split_fills_are_told_with_the_remedy(jaxroof):
    line = (
        "search --estimator published --model gpt3-1t --system gb200-nvl72 --gpus 2048 --batch 4096"
    )
    said = jaxroof(line)
    assert (said.code, said.out) == (2, "")
    remedy = "system.fast_domain=64"
    assert f"expected another number, {remedy}, another batch" in said.err
    assert jaxroof(f"{line} --set {remedy}").code == 0


def test_show_prints_the_entry_and_its_source(jaxroof):
    said = jaxroof("show h200-nvs8")
    assert (said.code, said.err) == (0, "")
    for key, value in catalog.describe("systems", "h200-nvs8").items():
        assert key in said.words
        if isinstance(value, str):
            assert " ".join(value.split()) in said.words


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_names_every_option(command, jaxroof):
    said = jaxroof(f"{command} -h")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: jaxroof {command}".rstrip())
    if command:
        for parameter in cli.cli.get_command(click.Context(cli.cli), command).params:
            hidden = getattr(parameter, "hidden", False)
            assert hidden or {*parameter.opts} & {*said.out.split(), parameter.name}
    else:
        assert all(f"  {name}" in said.out for name in COMMANDS)


def test_alone_it_prints_its_help_with_a_line_for_each_command(jaxroof):
    said = jaxroof("")
    assert (said.code, said.err) == (0, "")
    assert said.out == jaxroof("--help").out
    lines = {line.split()[0]: line for line in said.out.splitlines() if line.startswith("  ")}
    for name in cli.cli.list_commands(click.Context(cli.cli)):
        assert len(lines[name].split()) > 3, name
        assert "..." not in lines[name], "the whole of it fits an ordinary terminal"


def test_list_alone_names_the_kinds(jaxroof):
    said = jaxroof("list")
    assert (said.code, said.err) == (0, "")
    kinds = {line.split()[0]: line.split()[1].strip(":") for line in said.out.splitlines()[:-1]}
    assert kinds == {
        **{kind: str(len(catalog.names(kind))) for kind in catalog.OTHERS},
        "models": str(sum(len(catalog.names(kind)) for kind in catalog.MODELS)),
        "estimators": str(len(estimators.names())),
    }
    assert "jaxroof list systems" in said.words


@pytest.mark.parametrize("file", ["sweeps/gpt3_hbm.toml", "sweeps/design/gpt3_1t.toml"])
def test_show_says_that_a_file_asks_something(file, jaxroof):
    said = jaxroof(f"show {ROOT / file}")
    assert said.code == 2
    assert "a question, not an entry; expected jaxroof run" in said.err


ENTRIES = [  # a file of one's own, what is shown of it
    ("base = 'b200-nvs8'\nhbm_capacity = '288 GB'", ["hbm_capacity 288 GB", "over b200-nvs8"]),
    ("base = 'gpt3'\nlayers = 48", ["layers 48", "heads 96"]),
    ("base = 'mlp-xs'\nlayers = 3", ["layers 3"]),
    ("matrix_flops = '1 PFLOP/s'\nhbm_bandwidth = '3 TB/s'", ["matrix_flops 1 PFLOP/s"]),
]


@pytest.mark.parametrize(("text", "shown"), ENTRIES, ids=[text for text, _ in ENTRIES])
def test_show_prints_an_entry_of_one_s_own(text, shown, jaxroof, tmp_path):
    (tmp_path / "mine.toml").write_text(text)
    said = jaxroof("show mine.toml")
    assert (said.code, said.err) == (0, "")
    assert all(words in said.words for words in shown)
    (tmp_path / "mine.toml").write_text(f"{text}\nlayerz = 1")
    wrong = jaxroof("show mine.toml")
    assert wrong.code == 2
    assert "mine.toml: layerz: no such field" in wrong.err


def test_show_says_what_a_file_lacks_for_a_training_step(jaxroof, tmp_path):
    (tmp_path / "mine.toml").write_text("matrix_flops = '1 PFLOP/s'\nfast_domain = 8")
    shown = jaxroof("show mine.toml")
    assert shown.code == 2
    assert "a training step needs hbm_bandwidth, vector_flops, hbm_capacity, fast_b" in shown.err
    assert "which this system lacks; add them to mine.toml, such as hbm_bandwidth = '" in shown.err
    (tmp_path / "mine.toml").write_text("matrix_flops = '1 PFLOP/s'\nhbm_bandwidth = '3 TB/s'")
    shown = jaxroof("show mine.toml")
    assert shown.code == 0
    assert "mine.toml: a training step needs vector_flops" in shown.words


def test_a_note_of_the_base_is_told_to_be_of_the_base(jaxroof, tmp_path):
    (tmp_path / "mine.toml").write_text("base = 'h100-sxm'\nvector_flops = '100 TFLOP/s'")
    assert "note Of h100-sxm as published: For a training step" in jaxroof("show mine.toml").words


def test_counts_are_shown_with_what_they_are_of(jaxroof):
    assert "host 8 accelerators" in jaxroof("show h100-sxm").words
    fields = dataclasses.fields(jr.System)
    per = {"nics", "nics_per_node"}  # interfaces, of which an accelerator may have a share
    assert set(printing.COUNTED) == {f.name for f in fields if f.metadata.get("whole")} | per


def test_version_is_one_line(jaxroof):
    said = jaxroof("--version")
    assert (said.code, said.err) == (0, "")
    assert re.fullmatch(r"jaxroof, version \S+\n", said.out)


LIGHT = [
    "--help", "search --help", "run --help", "list", "list models", "list estimators", "show gpt3",
    "list nothing",
]  # fmt: skip
LEAN = ["show training", "show deepseek-v3"]


RESULTS = ["layers --model llama3-8b --system h100-nvs8 --plan tp=8"]


@pytest.fixture(scope="module")
def imported() -> list[set[str]]:
    """Return what one process has imported after light, then lean commands, then results."""
    code = f"""
import contextlib, io, sys
from jaxroof import cli
for lines in {[LIGHT, LEAN, RESULTS]!r}:
    for line in lines:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                cli.main(line.split())
            except SystemExit:
                pass
    print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    return [{*line.split()} for line in done.stdout.splitlines()]


def test_help_and_list_import_no_arrays(imported):
    """Help, lists, entries and their refusals come before jax or numpy could be imported."""
    assert not imported[0] & {"jax", "numpy", "xarray", "pandas", "h5py", "rich"}


def test_estimators_and_sizes_are_shown_without_datasets(imported):
    assert not imported[1] & {"jax", "xarray", "pandas", "h5py"}


def test_results_import_no_arrays_of_dask(imported):
    """Xarray would import them for the first variable, where dask is installed."""
    assert not imported[2] & {"dask.array"}
    assert "xarray" in imported[2]


# ---- Search -------------------------------------------------------------------------------------


def test_several_sizes_print_a_line_each_and_say_where_nothing_fits(jaxroof):
    said = jaxroof(f"search {MACHINE} --gpus 8,1024,2048,4096 --batch 4096")
    assert (said.code, said.err) == (0, "")
    first, *found = rows(said)
    assert " ".join(first).startswith("8 - - - - - nothing fits")
    assert [row[0] for row in found] == ["1,024", "2,048", "4,096"]
    assert [float(row[8]) for row in found] == [54.676, 102.46, 182.59]
    assert "On 8: nothing fits: the leanest plan" in said.words


NOTHING = [  # question, what is said, by hand: 12 bytes of optimizer state for 1 T parameters
    ("--gpus 8 --batch 4096", "Nothing fits: the leanest plan"),
    ("--gpus 8,16 --batch 4096", "On 16: nothing fits"),
    ("--gpus 2048 --batch 4096 --set system.hbm_capacity='1 GB'", "Nothing fits"),
]


@pytest.mark.parametrize(("asked", "sentence"), NOTHING)
def test_no_plan_ends_with_status_one(asked, sentence, jaxroof):
    said = jaxroof(f"search {MACHINE} {asked}")
    assert (said.code, said.err) == (1, "")
    assert sentence in said.words


def test_the_plans_printed_are_written(jaxroof, tmp_path):
    said = jaxroof(f"search {QUESTION} --top 3 -o best.csv")
    header, lines = table(tmp_path / "best.csv")
    written = [[row[header.index(f)] for f in ("data", "tensor", "pipeline")] for row in lines]
    assert written == [row[1:4] for row in rows(said)]
    assert len(written) == 3


MINE = [  # plan, what is said of it
    ("tp=4,pp=32,dp=16,microbatch=1", "Yours: dp 16 tp 4 pp 32", "the best of the 184 plans"),
    ("tp=4", "Yours: dp 16 tp 4 pp 32", "the best of the 184 plans"),
    ("tp=8,pp=8", "Yours: dp 32 tp 8 pp 8", "place 12 of the 184 plans that fit, 20 % slower"),
    ("tensor=8,pipeline=8", "Yours: dp 32 tp 8 pp 8", "place 12 of the 184 plans that fit"),
    ("tp=1,pp=1", "Yours: dp 2048 tp 1 pp 1", "it does not fit: it needs"),
    ("tp=4,pp=32,mb=2", "Yours: dp 16 tp 4 pp 32 mb 2", "more than the 141 GB there are"),
]


@pytest.mark.parametrize(("plan", "who", "place"), MINE)
def test_own_plan_is_placed_among_all(plan, who, place, jaxroof):
    said = jaxroof(f"search {QUESTION} --mine {plan}")
    assert (said.code, said.err) == (0, "")
    assert who in said.words
    assert place in said.words


NOT_ALLOWED = [  # plan, why
    ("tp=7", "tp=7 is one of the tensor degrees that do not divide the heads; the model has 160"),
    ("tp=64", "tp=64 is one of the tensor degrees that do not divide the heads; the model has 160"),
    ("pp=256", "pp=256 is one of the pipeline degrees that do not divide the layers; the model"),
    ("dp=3", "dp=3 is one of the data degrees that do not divide the batch; the batch is 4096"),
    ("tp=7,pp=8", "tp x pp = 56 does not divide 2048 gpus"),
    ("tp=8,pp=8,microbatch=3", "the batch is 4096 sequences"),
    ("tp=8,pp=8,fast_tp=3", "none of the 1,810 legal plans has these fields"),
]


@pytest.mark.parametrize(("plan", "why"), NOT_ALLOWED)
def test_own_plan_that_is_not_allowed_is_told_why_behind_the_best(plan, why, jaxroof):
    best = jaxroof(f"search {QUESTION}")
    said = jaxroof(f"search {QUESTION} --mine {plan}")
    assert (said.code, said.err) == (2, "")
    assert said.out.startswith(best.out)
    assert said.words.rpartition("Yours is not allowed: ")[2].count(why) == 1


def test_own_plan_that_does_not_fit_is_placed_best(jaxroof):
    line = (
        "search --estimator published "
        "--model gpt3 --system h200-nvs8 --gpus 512 --batch 1024 --mine tp=8,pp=8,mb=1"
    )
    for capacity in ("141 GB", "25 GB"):
        said = jaxroof(f"{line} --set system.hbm_capacity='{capacity}'")
        assert "Yours: dp 8 tp 8 pp 8 mb 1 (8x1x1), 9.107 s a step" in said.words
    assert "but it does not fit" in said.words


def test_own_plan_that_does_not_divide_one_of_the_sizes_is_told_there(jaxroof):
    said = jaxroof(f"search {MACHINE} --gpus 2048,32 --batch 4096 --mine tp=8,pp=8")
    assert (said.code, said.err) == (0, "")
    assert "On 2,048: Yours: dp 32 tp 8 pp 8" in said.words
    assert "On 32: Yours is not allowed: tp x pp = 64 does not divide 32 gpus." in said.words
    said = jaxroof(f"search {MACHINE} --gpus 1024,2048 --batch 4096 --mine tp=8,pp=8")
    assert said.code == 0
    assert "On 1,024: Yours: dp 16 tp 8 pp 8" in said.words
    assert "On 2,048: Yours: dp 32 tp 8 pp 8" in said.words


WHERE = [  # constraints, the same on the columns of the survey
    ("tensor<=8", lambda d: d.tensor <= 8),
    ("tp<=8,pp=4", lambda d: (d.tensor <= 8) & (d.pipeline == 4)),
    ("fast_tp=1", lambda d: d.fast_tensor == 1),
    (" microbatch != 1 , data > 64", lambda d: (d.microbatch != 1) & (d["data"] > 64)),
]


@pytest.mark.parametrize(("where", "same"), daily(WHERE, 1, 2, 3), ids=[w for w, _ in WHERE])
def test_constraints_keep_the_plans_they_describe(where, same, jaxroof, surveyed, tmp_path):
    said = jaxroof(f"search {QUESTION} --where '{where}' --verbose -o some.nc")
    kept = surveyed.isel(plan=np.flatnonzero(same(surveyed).values))
    assert said.code == (0 if kept.feasible.any() else 1)
    assert f"{kept.sizes['plan']:,} legal plans with" in said.words
    assert f"Your constraints dropped {1810 - kept.sizes['plan']:,} plans." in said.words
    found = jr.read(tmp_path / "some.nc")
    assert (int(found.plans_legal), bool(same(found).all())) == (kept.sizes["plan"], True)
    fits = kept.step_time.values[kept.feasible.values]
    assert int(found.plans_feasible) == len(fits)
    if len(fits):
        assert float(found.step_time[0]) == fits.min()


OBJECTIVES = [("step_time", "min"), ("memory", "min"), ("throughput", "max"), ("mfu", "max")]


@pytest.mark.parametrize(("objective", "best"), OBJECTIVES)
def test_objective_is_improved_in_its_own_direction(objective, best, jaxroof, surveyed, tmp_path):
    assert jaxroof(f"search {QUESTION} --objective {objective} -o best.json").code == 0
    found = jr.read(tmp_path / "best.json")[objective].values
    every = surveyed[objective].values[surveyed.feasible.values]
    assert found[0] == getattr(every, best)()
    assert list(found) == sorted(found, reverse=best == "max")


def test_plans_close_to_the_best_are_counted(jaxroof):
    said = jaxroof(f"search {QUESTION}").words
    other = "One other plan is within 2 %; the leanest, dp 8 tp 4 pp 64 mb 1 (4x1x1), uses 108.9 GB"
    assert other in said


SETS = [  # options, what changes
    ("--set system.hbm_capacity='282 GB'", "of 282 GB ("),
    ("--set system.hbm_capacity=1e12", "of 1 TB ("),
    ("--set system.hbm_usable='50 %'", "of 70.5 GB ("),
    ("--set model.layers=64", "dp 16 tp 4 pp 32 mb 1, 20.22 s"),
    ("--set system.nics=2 --set attention=unfused", ": dp "),
    ("--set precision.optimizer=4", "(86 %)."),
]


@pytest.mark.parametrize(("options", "sentence"), SETS)
def test_set_changes_a_field(options, sentence, jaxroof):
    said = jaxroof(f"search {QUESTION} {options}")
    assert (said.code, said.err) == (0, "")
    assert sentence in said.words


def test_a_format_brings_its_own_peak(jaxroof, tmp_path):
    assert jaxroof(f"search {QUESTION} --format fp8 --top 1 -o fp8.json").code == 0
    faster = jr.search(
        jr.published, jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("h200-nvs4", "fp8")),
        gpus=2048, global_batch=4096,
    )  # fmt: skip
    found = jr.read(tmp_path / "fp8.json")
    assert float(found.step_time[0]) == pytest.approx(float(faster.step_time), rel=1e-12)
    assert float(found.step_time[0]) < 30


# ---- Layers and sweeps --------------------------------------------------------------------------


def test_the_total_of_a_layer_is_the_sum_of_its_rows(jaxroof, tmp_path):
    said = jaxroof(f"layers {MACHINE} --plan dp=16,tp=4,pp=32,microbatch=1 -o layer.json")
    assert (said.code, said.err) == (0, "wrote layer.json\n")
    data = jr.read(tmp_path / "layer.json")
    total = next(line for line in said.out.splitlines() if line.split()[:1] == ["total"])
    numbers = [float(n.replace(",", "")) for n in re.findall(r"[\d.,]+(?:e[+-]?\d+)?", total)]
    pairs = [("flops", 1e9), ("traffic", 1e6), ("message", 1e6), ("compute", 1e-6)]
    pairs += [("memory", 1e-6), ("tensor", 1e-6), ("time", 1e-6)]
    expected = [
        float(data[f"{field}_{way}"].sum()) / scale
        for field, scale in pairs
        for way in ("forward", "backward")
    ]
    assert numbers == pytest.approx([*expected, float(data.kept.sum()) / 1e6], rel=2e-3)
    for way in ("forward", "backward"):
        assert f"{float(data[f'time_{way}'].sum()) * 1e3:.4g} ms {way}" in said.words


def test_layers_in_a_csv_file_have_a_row_an_operation(jaxroof, tmp_path):
    said = jaxroof(f"layers {MACHINE} --plan tp=4 -o layer.csv")
    header, lines = table(tmp_path / "layer.csv")
    assert header[0] == "operation"
    assert all(f" {row[0]} " in said.out for row in lines)


RUNS = [  # gpus, capacity, status, what is said
    (2048, "80 GB", 0, "2 points, 3,620 combinations of plan and point weighed"),
    (2048, "1 GB", 0, "No plan fits at 1 of 2 points; the smallest needs 42.27 GB."),
    (8, "80 GB", 1, "No plan fits at 2 of 2 points"),
    (7, "80 GB", 1, "at 2 of them no plan is legal"),
]


@pytest.mark.parametrize(("gpus", "capacity", "status", "sentence"), RUNS)
def test_a_run_ends_with_one_where_no_point_has_a_plan(
    gpus, capacity, status, sentence, jaxroof, tmp_path
):
    (tmp_path / "sweep.toml").write_text(SWEEP.format(gpus=gpus, capacity=capacity))
    said = jaxroof("run sweep.toml")
    assert said.code == status
    assert sentence in said.words
    assert re.fullmatch(r"[\d.]+ s\n", said.err)


def test_a_table_over_a_grid_names_its_unit(jaxroof, tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP.format(gpus=2048, capacity="80 GB"))
    assert "Time of one optimizer step [s]" in jaxroof("run sweep.toml").words


def test_a_whole_number_on_an_axis_is_printed_to_its_last_digit(jaxroof, tmp_path):
    text = SWEEP.format(gpus=2048, capacity="80 GB").partition("[axes]")[0]
    (tmp_path / "sweep.toml").write_text(f"{text}[axes]\ngpus = [16384, 98304]\n")
    said = jaxroof("run sweep.toml").words.replace(",", "")
    assert "16384" in said
    assert "98304" in said


def test_a_title_is_printed_as_written(jaxroof, tmp_path):
    title = "[bold] GPT-3 [/nothing] at 2 [TB/s]"
    text = f'title = "{title}"\n' + SWEEP.format(gpus=2048, capacity="80 GB")
    (tmp_path / "sweep.toml").write_text(text)
    assert title in jaxroof("run sweep.toml").words


# ---- Bad input ----------------------------------------------------------------------------------

BAD = [  # arguments, a part of the one line
    # commands and options
    ("searhc", "No such command 'searhc'. Did you mean 'search'?"),
    ("bogus", "No such command 'bogus'"),
    ("--bogus", "No such option '--bogus'"),
    ("search", "Missing option '--model'"),
    ("search --estimator published --model gpt3-1t", "Missing option '--system'"),
    (f"search {QUESTION} --gpu 1", "No such option '--gpu'"),
    (f"search {QUESTION} --tpo 1", "'--top'"),
    (f"search {QUESTION} extra", "unexpected extra argument (extra)"),
    # model, system, format
    (
        "search --estimator published --model gpt3-1 --system h200-nvs4 --gpus 8 --batch 8",
        "gpt3-1: no such model. Did you mean 'gpt3-1t'?",
    ),
    (
        "search --estimator published --model gpt3 --system h200 --gpus 8 --batch 8",
        "h200: no such system; expected one of h200-nvs4, h200-nvs8, h200-nvs64",
    ),
    (
        "search --estimator published --model '' --system h200-nvs4 --gpus 8 --batch 8",
        "'': no such model",
    ),
    (
        "search --estimator published --model my.toml --system h200-nvs4 --gpus 8 --batch 8",
        "my.toml: no such file; expected a TOML file of one model",
    ),
    (
        "search --estimator published --model ./ --system h200-nvs4 --gpus 8 --batch 8",
        "./: a directory",
    ),
    (
        "search --estimator published --model empty.toml --system h200-nvs4 --gpus 8 --batch 8",
        "empty.toml: layers, hidden, feedforward, heads, sequence: missing",
    ),
    (f"search {QUESTION} --format fp9", "fp9: no such number format with a peak. Did you mean"),
    (f"search {QUESTION} --split 2d", "split: 2d: no such Split; expected one of 1d"),
    (
        "search --estimator published --model gpt3 --system '' --gpus 8 --batch 8",
        "'': no such system",
    ),
    # numbers
    (f"search {MACHINE} --gpus 0 --batch 8", "--gpus: expected whole numbers from 1 to 1e9"),
    (f"search {MACHINE} --gpus -8 --batch 8", "given '-8'"),
    (f"search {MACHINE} --gpus 8 --batch x", "whole numbers from 1 to 1e9, given 'x'"),
    (f"search {QUESTION} --top 0", "top: expected a whole number from 1 to 1,000,000, given 0"),
    (f"search {QUESTION} --top x", "Invalid value for '--top': 'x' is not a valid integer"),
    (f"search {QUESTION} --mine tp={HUGE}", "--mine: tp: not a finite number, given '999"),
    (f"search {QUESTION} --set model.layers={HUGE}", "model.layers: not a finite number"),
    (f"search {QUESTION} --where tensor={HUGE * 11}", "tensor: expected a whole number of at most"),
    (f"layers {MACHINE} --plan tp={HUGE}", "--plan: tp: not a finite number, given '999"),
    # constraints, objectives
    (f"search {QUESTION} --where tensr=8", "where: tensr: no such plan field. Did you mean"),
    (f"search {QUESTION} --where tensor", "where: 'tensor' is not a constraint; expected FIELD"),
    (f"search {QUESTION} --where 'tensor<=x'", "where: tensor: 'x' is not a whole number"),
    (f"search {QUESTION} --where 'tensor<=8.5'", "'8.5' is not a whole number"),
    (f"search {QUESTION} --where 'tensor<=-1'", "'-1' is not a whole number"),
    (f"search {QUESTION} --objective stp_time", "Did you mean 'step_time'?"),
    (f"search {QUESTION} --objective feasible", "objective: feasible: no such result"),
    # one's own plan
    (f"search {QUESTION} --mine tp", "--mine: expected FIELD=NUMBER, such as tp=8, given 'tp'"),
    (f"search {QUESTION} --mine tpp=8", "--mine: tpp: no such plan field. Did you mean 'tp'?"),
    (f"search {QUESTION} --mine tp=0", "--mine: tp: expected whole numbers from 1"),
    (f"search {QUESTION} --mine tp=8,pp=8,dp=8", "dp x tp x pp = 512; expected the 2048"),
    # settings
    (f"search {QUESTION} --set nope", "--set: expected PATH=VALUE, given 'nope'"),
    (f"search {QUESTION} --set =4", "--set: expected PATH=VALUE, given '=4'"),
    (f"search {QUESTION} --set hbm_capacity=1", "Did you mean 'system.hbm_capacity'?"),
    (f"search {QUESTION} --set system.hbm_capacity=big", "expected B under any prefix"),
    (f"search {QUESTION} --set system=5", "system: given twice; expected it in --system alone"),
    (f"search {QUESTION} --set plan.tensor=2", "plan"),
    (f"search {QUESTION} --set gpus=8", "gpus"),
    (f"search {QUESTION} --set attention=fuse", "no such Attention. Did you mean 'fused'?"),
    # files
    (f"search {QUESTION} -o plans.xlsx", "plans.xlsx: cannot tell the kind of file from '.xlsx'"),
    (
        f"search {QUESTION} -o plans",
        "expected a name that ends in .png, .svg, .pdf, .nc, .csv, .json",
    ),
    (f"search {QUESTION} -o no/plans.csv", "no/plans.csv: no such directory, given 'no'"),
    (f"search {QUESTION} -o folder.csv", "folder.csv: is a directory; expected the name of a file"),
    # layers
    (f"layers {MACHINE}", "Missing option '--plan'"),
    (f"layers {MACHINE} --plan x", "--plan: expected FIELD=NUMBER, such as tp=8, given 'x'"),
    (f"layers {MACHINE} --plan tp=7", "--plan: tp=7 is one of the tensor degrees that do not"),
    (f"layers {MACHINE} --plan tp=4,fast_tp=3", "placements that do not divide their groups"),
    # sweeps
    ("run", "Missing argument 'FILE.toml'"),
    ("run nothing.toml", "nothing.toml: no such file"),
    ("run .", ".: cannot be read: Is a directory"),
    ("run damaged.toml", "damaged.toml: not valid TOML"),
    ("run empty.toml", "empty.toml: model: missing; expected a name of the catalogue"),
    # the catalogue
    ("list model", "model: no such part of the catalogue. Did you mean 'models'?"),
    ("show b200-nv8", "b200-nv8: no such model, system or estimator. Did you mean 'b200-nvs8'?"),
    ("show nothing.toml", "nothing.toml: no such file"),
    ("show empty.toml", "empty.toml: neither an entry (a model, a system, an MLP) nor a question"),
    ("show damaged.toml", "damaged.toml: not valid TOML"),
    ("show ''", "'': no such model, system or estimator; expected one of gpt3"),
]


@pytest.mark.parametrize(("line", "fragment"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_one_line_and_status_two(line, fragment, jaxroof, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "damaged.toml").write_bytes(b"\xff\xfe\x00 = ")
    (tmp_path / "sweep.toml").write_text(SWEEP.format(gpus=2048, capacity="80 GB"))
    before = sorted(tmp_path.iterdir())
    said = jaxroof(line)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("jaxroof: ")
    assert said.err.count("\n") == 1
    assert fragment in said.err
    assert sorted(tmp_path.iterdir()) == before


ARGUMENTS = sorted(  # of every public function, none of which is a field of the inputs
    {
        name
        for function in map(jr.__getattr__, jr.__all__)
        if inspect.isfunction(function)
        for name in inspect.signature(function).parameters
    }
    - {*PLAN, "global_batch", "sequence"}  # of jr.fit, and fields of the others
)
SETTING = {  # commands that take settings, none of which is an argument of the function behind
    "search": f"search {QUESTION}",
    "uncertain": f"search {QUESTION} --uncertain ranges.toml",
    "compare": f"compare {QUESTION}",
    "pareto": f"pareto {QUESTION}",
    "explain": f"explain {QUESTION}",
    "schedule": f"schedule {MACHINE} --batch 4096 --plan dp=64,tp=4,pp=8",
    "layers": f"layers {MACHINE} --plan tp=4",
    "trace": "trace --model mlp-xs --system distir-a --plan pp=2 -o trace.json",
    "evaluate": "evaluate published rows.csv",
    "roofline": "roofline --op matmul --shape B=1,D=8,F=8 --system tpu-v5e",
}


@pytest.mark.parametrize("command", daily([*SETTING, "run"], 0, 5, 6, 10))
def test_no_setting_is_taken_for_an_argument(command, jaxroof, tmp_path):
    """What --set or [set] names is a field or a choice, whatever the arguments of functions are."""
    columns = "model,system,gpus,global_batch,dp,tp,pp,microbatch"
    row = "gpt3-1t,h200-nvs4,2048,4096,64,4,8,1"
    (tmp_path / "rows.csv").write_text(f"{columns}\n{row}\n")
    ranges = '[distributions]\n"system.matrix_efficiency" = ["70 %", "90 %"]\n'
    (tmp_path / "ranges.toml").write_text(ranges)
    sweep = SWEEP.format(gpus=2048, capacity="80 GB")
    assert {"top", "where", "objective", "axes", "inputs", "recipe", "estimator", "span"} <= {
        *ARGUMENTS
    }
    for name in ARGUMENTS:
        (tmp_path / "sweep.toml").write_text(f"{sweep}[set]\n{name} = 1\n")
        said = jaxroof(
            "run sweep.toml" if command == "run" else f"{SETTING[command]} --set {name}=1"
        )
        assert (said.code, said.out) == (2, ""), name
        assert said.err.startswith("jaxroof: "), said.err
        assert said.err.count("\n") == 1, said.err
        assert name in said.err


def test_bad_input_from_a_clean_process_shows_no_traceback(tmp_path):
    said = clean(
        "search --estimator published --model gpt4 --system h200-nvs4 --gpus 8 --batch 8", tmp_path
    )
    assert said == Said(2, "", "jaxroof: gpt4: no such model. Did you mean 'gpt3'?\n")


UNTOUCHED = [  # what goes wrong before a result is there
    f"search {QUESTION} --where x -o old.csv",
    f"search {QUESTION} --mine tpp=8 -o old.csv",
    f"search {QUESTION} --mine tp=8,pp=8,dp=8 -o old.csv",
    f"layers {MACHINE} --plan tp=7 -o old.csv",
    "run empty.toml -o old.csv",
]


@pytest.mark.parametrize("line", UNTOUCHED)
def test_an_older_result_outlives_bad_input(line, jaxroof, tmp_path):
    (tmp_path / "old.csv").write_text("old\n")
    (tmp_path / "empty.toml").write_text("")
    assert jaxroof(line).code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.toml", "old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old\n"


# ---- Interruptions ------------------------------------------------------------------------------

INTERRUPTED = [  # where Ctrl-C comes, in what
    (commands, "one_machine", f"search {QUESTION} -o out.csv"),
    (one_plan, "layers", f"layers {MACHINE} --plan tp=4 -o out.csv"),
    (runs, "run", "run sweep.toml -o out.csv"),
    (store.pd.DataFrame, "to_csv", f"search {QUESTION} -o out.csv"),
    (catalog, "describe", "list models"),
]


@pytest.mark.parametrize(("home", "name", "line"), INTERRUPTED, ids=lambda v: str(v)[:30])
def test_an_interrupt_says_one_line_and_leaves_nothing(
    home, name, line, jaxroof, monkeypatch, tmp_path
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    (tmp_path / "sweep.toml").write_text(SWEEP.format(gpus=2048, capacity="80 GB"))
    monkeypatch.setattr(home, name, interrupted)
    said = jaxroof(line)
    assert (said.code, said.out) == (INTERRUPT, "")
    # the first line ends the one on which the terminal shows ^C
    assert said.err.strip() == INTERRUPTED_LINE
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


LONG = """
estimator = "started:published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { gpus = 16384, global_batch = 4096, split = "1d" }
[axes]
"system.hbm_bandwidth" = { from = "500 GB/s", to = "16 TB/s", count = 1500 }
"system.slow_bandwidth" = { from = "10 GB/s", to = "1000 GB/s", count = 1500 }
"""
STARTED = "import pathlib\nfrom jaxroof import published\npathlib.Path('started').touch()\n"


INTERRUPTED_LINE = "jaxroof: interrupted: nothing half-written was left behind"


@contextlib.contextmanager
def long_run(folder: pathlib.Path, started: str):
    """Run two million points, and end them if nothing else does."""
    (folder / "long.toml").write_text(LONG)
    (folder / "started.py").write_text(started)
    asked = [sys.executable, "-B", "-m", "jaxroof", "run", "long.toml", "-o", "map.nc", "--trust"]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(asked, cwd=folder, env=environment(), **piped) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
@pytest.mark.parametrize(("wait", "again"), daily([(0.7, None), (0.3, 0.0005)], 1))
def test_ctrl_c_ends_a_large_run(wait, again, tmp_path):
    """In the middle, and pressed twice within a millisecond."""
    with long_run(tmp_path, STARTED) as running:
        limit = time.monotonic() + 60
        while not (tmp_path / "started").exists() and time.monotonic() < limit:
            time.sleep(0.02)
        time.sleep(wait)
        running.send_signal(signal.SIGINT)
        if again is not None:
            time.sleep(again)
            running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=40)
    assert (running.returncode, out) == (INTERRUPT, ""), err
    assert last_words(err) == INTERRUPTED_LINE
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.toml", "started", "started.py"]


OTHER = """
import signal, jaxroof.engine.search.driver as driver
from jaxroof import published

def best_plans(*_):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("std::exception") from None

driver.best_plans = best_plans
import jaxroof.engine.search.search as search
search.best_plans = best_plans
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of a terminal")
def test_ctrl_c_is_no_error_of_a_library(tmp_path):
    with long_run(tmp_path, OTHER) as running:
        out, err = running.communicate(timeout=40)
    assert (running.returncode, out) == (INTERRUPT, ""), err
    assert last_words(err) == INTERRUPTED_LINE
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.toml", "started.py"]


# ---- What is on the other side of the pipe ------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="a shell's pipe")
@pytest.mark.parametrize(
    "line",
    ["list systems", pytest.param(f"layers {MACHINE} --plan tp=4", marks=pytest.mark.slow)],
)
def test_a_reader_that_leaves_is_no_error(line, tmp_path):
    asked = [sys.executable, "-m", "jaxroof", *shlex.split(line)]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(asked, cwd=tmp_path, env=environment(), **piped) as running:
        running.stdout.close()
        said = running.stderr.read()
    # as other tools do: done in time, or ended by the closed pipe without a word
    assert running.returncode in (0, -signal.SIGPIPE)
    assert said == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_a_full_output_is_one_line(tmp_path):
    asked = [sys.executable, "-m", "jaxroof", "list", "systems"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            asked, cwd=tmp_path, env=environment(), check=False,
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_unicode_gets_what_it_can_print(jaxroof, monkeypatch, tmp_path):
    text = 'title = "Größe"\n' + SWEEP.format(gpus=2048, capacity="80 GB")
    (tmp_path / "sweep.toml").write_text(text, encoding="utf-8")
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii", write_through=True))
    said = jaxroof("run sweep.toml")
    assert (said.code, "Traceback" in said.err) == (0, False)
    assert b"2 points" in printed.getvalue()


# ---- One's own plan where little or nothing fits ------------------------------------------------


def test_own_plan_is_told_how_much_it_lacks_where_nothing_fits(jaxroof):
    said = jaxroof(
        "search --estimator published "
        "--model gpt3 --system a100-nvs8 --gpus 8 --batch 8 --mine tp=8,pp=1"
    )
    assert (said.code, said.err) == (1, "")
    assert "Yours: dp 1 tp 8 pp 1 mb 1 (8x1x1)" in said.words
    assert (
        "but it does not fit: it needs 368.6 GB, 288.6 GB more than the 80 GB there are."
        in said.words
    )


def test_own_plan_that_the_constraints_drop_is_told_so(jaxroof):
    line = "search --estimator published --model gpt3 --system b200-nvs8 --gpus 256 --batch 256"
    said = jaxroof(f"{line} --where tp<=4 --mine tp=8,pp=4")
    assert (said.code, said.err) == (2, "")
    assert "none of the 464 legal plans that --where leaves has these fields" in said.words
