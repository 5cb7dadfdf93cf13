"""A searched estimator of one's own prints, draws and explains, whatever its records are called."""

import dataclasses
import sys
import types
from typing import Any

import numpy as np
import pytest
from daily import daily
from refusals import refused
from rich.console import Console

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.views import plots
from jaxroof.views.text import elasticities, tables
from jaxroof.views.text import every_plan as splits
from jaxroof.views.text import explain as explained
from jaxroof.views.text import sweep as words
from jaxroof.views.text.explain import best_sentence, explain_sentences
from jaxroof.views.text.plan import plan_words

COUNT, AMOUNT = 16, 4e9


@dataclasses.dataclass(frozen=True)
class Names:
    """What the records of an estimator are called, and what they leave out."""

    split: tuple[str, str] = ("inner", "outer")
    placement: str = ""  # a field that places the first of the split
    objective: str = "time"
    need: str = "buffer"  # none where nothing limits the plans
    machine: str = "network"
    parts: bool = True  # of the objective
    verdicts: bool = True  # of the report: whether the need fits
    resources: bool = True  # what rates and latencies stand for
    more: bool = False  # the objective is what more of is better

    @property
    def plan(self) -> tuple[str, ...]:
        return (*self.split, self.placement) if self.placement else self.split


MUTATIONS = {
    "other names": Names(),
    "placed": Names(placement="near"),
    "training's names": Names(split=("tensor", "data"), placement="fast_tensor", machine="system"),
    "training's need": Names(need="memory", objective="step_time"),
    "no parts of the time": Names(parts=False),
    "no verdicts": Names(verdicts=False),
    "no resources": Names(resources=False),
    "nothing limits": Names(need=""),
    "more is better": Names(objective="rate", more=True, parts=False),
}


def record(name: str, fields: dict[str, Any]) -> Any:
    """Return a record with fields: quantities, or kinds of records that may be missing."""
    kinds = {n: float if isinstance(f, dataclasses.Field) else f for n, f in fields.items()}
    defaults = {n: f for n, f in fields.items() if isinstance(f, dataclasses.Field)}
    missing = {n: None for n, kind in kinds.items() if isinstance(kind, types.UnionType)}
    return jr.record(type(name, (), {"__annotations__": kinds, **defaults, **missing}))


def made(names: Names) -> jr.Estimator:
    """Return an estimator of jobs that are shared out: more servers are faster, and further."""

    def resource(what: str) -> dict[str, str]:
        return {"resource": what} if names.resources else {}

    plan = record("Plan", {n: jr.quantity("1", f"Field {n}.", whole=True) for n in names.plan})
    machine = record(
        "Machine",
        {
            "pace": jr.quantity("B/s", "Bytes a second of one.", **resource("pace")),
            "delay": jr.quantity("s", "Delay of one.", **resource("delay")),
            "room": jr.quantity("B", "Room of one.", **resource("capacity")),
        },
    )
    inputs = record(
        "Inputs",
        {
            "amount": jr.quantity("B", "Bytes of the job."),
            "count": jr.quantity("1", "Servers.", whole=True),
            names.machine: machine,
            "plan": plan | None,
        },
    )
    part = {"part_of": names.objective} if names.parts else {}
    results = {
        names.objective: jr.quantity("B/s", "Bytes a second.", better="higher")
        if names.more
        else jr.quantity("s", "Time of the job."),
        "moving": jr.quantity("s", "Time of bytes.", words="bytes that move", **part),
        "waiting": jr.quantity("s", "Time of delays.", **part),
    }
    if names.need:
        results[names.need] = jr.quantity("B", "Room that one takes.", **resource("capacity"))
    if names.verdicts and names.need:
        results[f"{names.need}_fits"] = jr.quantity("1", "It fits.")
    if names.verdicts:
        results["feasible"] = jr.quantity("1", "Every verdict holds.")
    report = record("Report", results)

    def limit(asked: Any) -> Any:
        return getattr(asked, names.machine).room

    def step(asked: Any, recipe: Any) -> Any:
        near, far = (getattr(asked.plan, name) for name in names.split)
        inside = getattr(asked.plan, names.placement) if names.placement else near
        given = getattr(asked, names.machine)
        moving, waiting = asked.amount / (near * given.pace), given.delay * (near / inside + far)
        need = asked.amount / far
        fits = need <= limit(asked) if names.need else need > 0.0
        time = moving + waiting
        found = {names.objective: asked.amount / time if names.more else time}
        found |= {"moving": moving, "waiting": waiting, names.need: need}
        found |= {f"{names.need}_fits": fits, "feasible": fits}
        return report(**{name: found[name] for name in results})

    def candidates(asked: Any, recipe: Any) -> jr.Candidates:
        count = int(asked.count)
        degrees = np.array([n for n in range(1, count + 1) if count % n == 0])
        near, inside = (a.ravel() for a in np.meshgrid(degrees, degrees, indexing="ij"))
        held = near % inside == 0 if names.placement else inside == 1
        columns = {names.split[0]: near, names.split[1]: count // near, names.placement: inside}
        return jr.Candidates(
            {n: columns[n][held] for n in names.plan}, {"even": count - len(degrees)}
        )

    return jr.Estimator(
        name="jobs",
        inputs=inputs,
        plan=plan,
        step=step,
        candidates=candidates,
        structural=("count",),
        objective=names.objective,
        need=names.need,
        limit=limit if names.need else None,
        placement=(names.placement,) if names.placement else (),
        machine=names.machine,
        example=lambda: inputs(
            amount=AMOUNT,
            count=float(COUNT),
            **{names.machine: machine(pace=1e9, delay=0.01, room=1e9)},
        ),
    )


@pytest.fixture(params=MUTATIONS, ids=lambda name: name.replace(" ", "-"))
def names(request):
    return MUTATIONS[request.param]


def printed(*shown: Any) -> str:
    """Return what tables and sentences look like."""
    page = Console(width=200, force_terminal=False)
    with page.capture() as told:
        for one in shown:
            page.print(one, soft_wrap=isinstance(one, str), markup=False, highlight=False)
    return told.get()


def page_of(data: Any) -> str:
    """Return what `run` prints of a grid."""
    grid = [tables.grid_table(data)] if data.sizes else []
    return printed(*grid, *words.sweep_sentences(data))


# ---- Every question -----------------------------------------------------------------------------


def test_a_search_names_its_plan_in_the_sentence_and_in_the_table(names):
    own = made(names)
    room = f"{names.machine}.room"
    data = jr.search(own, own.example(), axes={room: ["100 MB", "1 GB", "8 GB"]})
    said = page_of(data)
    best = data.isel({"room": 2})
    degrees = " ".join(f"{name} {int(best.data_vars[name])}" for name in names.split)
    assert plan_words(best) == degrees
    assert said.count(degrees) >= 2  # a row, and the sentence
    assert ("Most: " if names.more else "Fastest: ") in said
    if names.need:
        assert "nothing fits" in said
        assert "the smallest needs 250 MB" in said
        assert "Missing there: 150 MB at room 100 MB" in said
        assert data.reason.attrs["flag_meanings"] == f"fits {names.need} no_legal_plan"
        assert data.reason.values.tolist() == [1, 0, 0]
        assert float(data[f"{names.need}_least"][0]) == AMOUNT / COUNT
    if names.placement:
        assert int(best.data_vars[names.placement]) == int(best.data_vars[names.split[0]])


def test_every_question_is_answered_or_refused_in_a_line(names):
    own = made(names)
    asked = own.example()
    assert jr.survey(own, asked).feasible.dtype == bool
    listed = jr.plans(own, asked)
    said = printed(splits.plan_table(listed), *splits.plan_sentences(listed))
    assert "Best: " in said
    assert "plans tried" in said
    slopes = jr.elasticities(own, asked, axes={"amount": ["1 GB", "4 GB"]})
    assert printed(elasticities.binding_table(slopes), elasticities.binding_sentence(slopes))
    moved = jr.response(own, asked)
    assert set(moved.parameter.values) <= {f"{names.machine}.{n}" for n in ("pace", "delay")}
    if names.need:
        assert {names.need, f"{names.need}_limit"} <= set(jr.pareto(own, asked))
    else:
        with pytest.raises(InputError, match="jobs: its plans need nothing; use search"):
            jr.pareto(own, asked)


def test_it_is_explained(names):
    own = made(names)
    if names.more or not names.resources:
        with pytest.raises(InputError, match=r"^explain: jobs: .*; expected "):
            jr.explain(own.example(), estimator=own)
        return
    found = jr.explain(own.example(), estimator=own)
    total = float(found.best[names.objective])
    assert sum(found.limits.values()) == pytest.approx(total, rel=1e-12)
    said = printed(best_sentence(found), *explain_sentences(found))
    assert plan_words(found.best) in said
    assert "What binds: " in said
    table = printed(explained.binding_table(found.operations))
    assert ("bytes that move" in table) == names.parts
    assert (
        printed(explained.slopes_table(found.elasticities), explained.steps_table(found.steps))
        if (names.need)
        else True
    )


@pytest.mark.parametrize("which", daily(MUTATIONS, 7))
def test_pictures_are_drawn(which):
    names = MUTATIONS[which]
    own = made(names)
    asked, machine = own.example(), names.machine
    pace = {f"{machine}.pace": [1e8, 1e9, 1e10]}
    drawn = [
        jr.search(own, asked, axes=pace),
        jr.search(own, asked, axes={**pace, f"{machine}.room": ["100 MB", "1 GB", "8 GB"]}),
        jr.plans(own, asked).assign_attrs(answer="plans"),
        jr.elasticities(own, asked),
        jr.response(own, asked),
    ]
    drawn += [jr.pareto(own, asked)] if names.need else []
    figures = [plots.draw(data) for data in drawn]
    for figure in figures:
        figure.draw_without_rendering()
    bars = figures[0]
    told = " ".join(text.get_text() for text in bars.axes[0].texts)
    assert any(name.replace("_", " ") in told for name in names.split)
    labels = {text.get_text() for legend in bars.legends for text in legend.get_texts()}
    assert ("bytes that move" in labels) == names.parts
    title = figures[-1].get_suptitle() if names.need else ""
    assert "memory" not in title or names.need == "memory"


@pytest.mark.parametrize("ending", [".nc", ".json", ".zarr"])
def test_a_file_read_back_prints_the_same(ending, tmp_path):
    for names in (MUTATIONS["placed"], MUTATIONS["more is better"]):
        own = made(names)
        axes = {f"{names.machine}.room": ["100 MB", "1 GB", "8 GB"]}
        data = jr.search(own, own.example(), axes=axes)
        path = tmp_path / f"{names.objective}{ending}"
        jr.write(data, path)
        assert page_of(jr.read(path).load()) == page_of(data)


# ---- The command line ---------------------------------------------------------------------------

SWEEPS = {
    "one point": "",
    "one axis": '"MACHINE.room" = ["100 MB", "1 GB", "8 GB"]',
    "two axes": '"MACHINE.room" = ["100 MB", "1 GB"]\n"MACHINE.pace" = [1e9, 2e9]',
    "nothing fits": '"MACHINE.room" = ["1 kB", "2 kB"]',
}


@pytest.fixture
def sweep(monkeypatch, tmp_path):
    """Write a sweep file over an estimator that stands in a module."""

    def write(names: Names, axes: str, more: str = "") -> str:
        module = types.ModuleType("jobs_of_ours")
        module.estimator = made(names)
        monkeypatch.setitem(sys.modules, "jobs_of_ours", module)
        text = 'title = "jobs"\nestimator = "jobs_of_ours:estimator"\n' + more + "\n[inputs]\n"
        text += f'amount = "4 GB"\ncount = 16\n[inputs.{names.machine}]\n'
        text += 'pace = "1 GB/s"\ndelay = "10 ms"\nroom = "1 GB"\n[axes]\n'
        path = tmp_path / "jobs.toml"
        path.write_text(text + axes.replace("MACHINE", names.machine))
        return str(path)

    return write


@pytest.mark.parametrize("case", SWEEPS)
@pytest.mark.parametrize(
    "which", ["placed", "training's names", "nothing limits", "more is better"]
)
def test_run_prints_every_sweep(case, which, sweep, jaxroof):
    names = MUTATIONS[which]
    said = jaxroof(f"run {sweep(names, SWEEPS[case])}")
    unfit = case == "nothing fits" and names.need
    assert said.code == (1 if unfit else 0), said.err
    assert "Traceback" not in said.err
    assert ("No plan fits at 2 of 2 points" if unfit else names.split[0]) in said.words


@pytest.mark.parametrize("answer", ["plans", "elasticities"])
def test_run_and_plot_answer_other_questions(answer, sweep, jaxroof):
    path = sweep(MUTATIONS["placed"], "amount = [1e9, 2e9]", f'answer = "{answer}"')
    said = jaxroof(f"run {path}")
    assert said.code == 0, said.err
    assert "inner" in said.out
    if answer == "plans":
        assert jaxroof(f"plot {path} -o made.png").code in (0, None)


def two_gpus() -> jr.Inputs:
    return jr.Inputs(model=jr.model("gpt3"), system=jr.system("a100-nvs4"), gpus=64.0)


# ---- What cannot be answered --------------------------------------------------------------------


def changed(**more: Any) -> jr.Estimator:
    return dataclasses.replace(made(Names()), **more)


def bare(asked: Any, recipe: Any) -> Any:
    return {"inner": [1], "outer": [16]}


def short(asked: Any, recipe: Any) -> jr.Candidates:
    return jr.Candidates({"inner": np.array([1])}, {})


def misspelt(asked: Any, recipe: Any) -> jr.Candidates:
    return jr.Candidates({"iner": np.array([1]), "outer": np.array([16])}, {})


def uneven(asked: Any, recipe: Any) -> jr.Candidates:
    return jr.Candidates({"inner": np.array([1]), "outer": np.array([8, 16])}, {})


def reading(asked: Any, recipe: Any) -> jr.Candidates:
    return jr.Candidates({"inner": np.array([int(asked.amount)]), "outer": np.array([1])}, {})


def reads_no_plan(asked: Any, recipe: Any, *, ring: Any) -> Any:
    return ring


BROKEN = {
    "jobs: has no plans to search; use tabulate": {"candidates": None},
    "objective: none given; expected a result: time, moving, waiting, buffer": {"objective": ""},
    "objective: tim: no such result. Did you mean 'time'?": {"objective": "tim"},
    "jobs: need: bufer: no such result. Did you mean 'buffer'?": {"need": "bufer"},
    "jobs: placement: iner: no such plan field. Did you mean 'inner'?": {"placement": ("iner",)},
    "jobs: part ring: ring: no such plan field; expected one of inner, outer.": {
        "parts": {"ring": reads_no_plan}
    },
    "jobs: candidates: a dict; expected jaxroof.Candidates(plans, refused)": {"candidates": bare},
    "jobs: candidates: no column for outer; expected one for each plan field: inner, outer": {
        "candidates": short
    },
    "jobs: candidates: column: iner: no such plan field. Did you mean 'inner'?": {
        "candidates": misspelt
    },
    "jobs: need without limit; expected both, or neither": {"limit": None},
    "jobs: limit without need; expected both, or neither": {"need": ""},
    "jobs: candidates: columns differ in length": {"candidates": uneven},
    "amount: the candidates read it, and the estimator does not say so; expected it among "
    "structural": {"candidates": reading},
}


@pytest.mark.parametrize("text", BROKEN)
def test_an_estimator_that_contradicts_itself_is_told_in_a_line(text):
    own = changed(**BROKEN[text])
    assert refused(jr.search, own, own.example()).startswith(text)


def test_a_report_that_is_no_record_is_told_in_a_line():
    own = changed(step=lambda asked, recipe: {"time": asked.plan.inner, "buffer": asked.amount})
    with pytest.raises(InputError, match="its step returns a dict; expected a record"):
        jr.search(own, own.example())


def branching(asked: Any, recipe: Any) -> Any:
    return made(Names()).step(asked, recipe) if asked.amount > 0 else None


def reading_a_value(asked: Any, recipe: Any) -> Any:
    return made(Names()).step(asked, recipe) if float(asked.plan.inner) else None


@pytest.mark.parametrize("step", [branching, reading_a_value])
@pytest.mark.parametrize("ask", [jr.search, jr.survey, jr.plans, jr.tabulate, jr.elasticities])
def test_a_branch_on_a_number_is_told_with_its_place(step, ask):
    own = changed(step=step)
    planned = dataclasses.replace(own.example(), plan=own.plan(inner=4.0, outer=4.0))
    line = step.__code__.co_firstlineno + 1
    with pytest.raises(InputError) as refused:
        ask(own, planned)
    said = str(refused.value)
    assert said.startswith(f"jobs: test_own_estimators.py, line {line}: a branch on a number")
    assert "jnp.where" in said
    assert "\n" not in said


def test_a_branch_is_told_where_a_number_is_missing_too():
    own = changed(step=branching, structural=("count", "amount"))
    network = own.example().network
    bare = {name: jr.quantity("1", f"The {name}.", default=None) for name in ("amount", "count")}
    inputs = record("Inputs", {**bare, "network": type(network), "plan": own.plan | None})
    with pytest.raises(InputError, match="amount: not given"):
        jr.search(dataclasses.replace(own, inputs=inputs), inputs(network=network, count=4.0))


def test_what_stands_where_the_inputs_belong_is_told():
    own = made(Names())
    with pytest.raises(InputError, match=r"^explain: an estimator where the inputs belong; exp"):
        jr.explain(own, own.example())
    with pytest.raises(InputError, match=r"^jobs: inputs: a jaxroof\.\S+Inputs; expected a \S+"):
        jr.search(own, two_gpus())


def test_a_wrong_axis_is_told_before_what_is_missing():
    with pytest.raises(InputError, match=r"^amont: no such field of Inputs. Did you mean 'amount'"):
        jr.evaluate(made(Names()), {"count": 4}, axes={"amont": [1e9]})
    with pytest.raises(InputError, match=r"^network.rom: no such field of Machine. Did you mean "):
        jr.evaluate(made(Names()), {"count": 4, "network.rom": 1})


DECLARED = [  # fields of a record, what is said of it
    ({"link": jr.quantity("GB/s", "A link.")}, "Chip.link: unit 'GB/s' is not SI; expected 'B/s'"),
    ({"wait": jr.quantity("sec", "A wait.")}, "Chip.wait: unit 'sec' is not SI; expected FLOP, B"),
    ({"none": jr.quantity("", "Nothing.")}, "Chip.none: unit '' is not SI; expected FLOP, B, s"),
    ({"rate": float}, "Chip.rate: a plain number; expected quantity(unit, sentence)"),
    ({"rate": dataclasses.field(default=4.0)}, "Chip.rate: a plain number; expected quantity("),
]


@pytest.mark.parametrize(("fields", "said"), DECLARED)
def test_a_number_of_a_record_needs_a_unit_that_is_known(fields, said):
    assert refused(record, "Chip", fields).startswith(said)


@pytest.mark.parametrize("unit", ["1", "s/B", "FLOP/s h/USD", "kg/m2", "token/s", "day", "W"])
def test_si_prices_and_what_is_counted_are_units(unit):
    assert record("Chip", {"size": jr.quantity(unit, "A size.")})


def test_the_machine_is_where_the_estimator_says():
    own = changed(machine="nowhere")
    every = set(jr.elasticities(own, own.example()).parameter.values)
    assert every == {"amount", "network.pace", "network.delay", "network.room"}
    there = set(jr.elasticities(made(Names()), own.example()).parameter.values)
    assert there == every - {"amount"}
