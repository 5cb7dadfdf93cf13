"""Traces: the published events one by one, files that viewers open, pictures that people read."""

import collections
import csv
import gzip
import itertools
import json
import math

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.text import Text
from places import GOLDEN
from refusals import refused

import jaxroof as jr
from jaxroof.engine.grid.question import resolve
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.io.traces import COLOURS, is_trace, side_by_side
from jaxroof.records import checked
from jaxroof.views import plots
from jaxroof.views.plots.trace import LOOKS
from jaxroof.views.trace_blocks import rows, shares, span

FOLDER = GOLDEN / "distir"
RTOL = 1e-12  # our sums may differ in order
PLAN = ("data", "tensor", "pipeline", "microbatches")
TRANSFORMER = {
    "model": "gpt3", "system": "b200-nvs8", "gpus": 16, "global_batch": 16, "plan.data": 1,
    "plan.tensor": 4, "plan.pipeline": 4, "plan.microbatch": 2, "plan.fast_tensor": 4,
}  # fmt: skip


def mlp(layers, width, batch, plan, system="distir-a", profile="distir-a", **more):
    """Return the settings of a square MLP and its split."""
    sizes = {"model.layers": layers, "model.hidden": width, "global_batch": batch}
    degrees = {f"plan.{name}": degree for name, degree in zip(PLAN, plan, strict=True)}
    return {**sizes, **degrees, "system": system, "profile": profile, **more}


def golden(name):
    with gzip.open(FOLDER / f"{name}.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


INDEX = golden("trace_index.csv")


def asked(row):
    degrees = ("dp_degree", "hp_degree", "pp_degree", "num_microbatches")
    plan = [int(row[name]) for name in degrees]
    return mlp(int(row["num_hidden_layers"]), int(row["hidden_dim"]), int(row["batch_size"]), plan)


SMALL = mlp(8, 512, 256, (2, 2, 2, 4))


@pytest.fixture(scope="module")
def small():
    return jr.trace("pipeline", SMALL)


@pytest.fixture(scope="module")
def visits():
    return {
        name: jr.trace("published", TRANSFORMER, schedule=name, sends=sends)
        for name, sends in (("1f1b", "blocking"), ("interleaved", "overlapped"))
    }


def seconds(trace, *kinds):
    return float(trace.duration.where(trace.kind.isin(kinds), 0.0).sum())


# ---- The published traces -----------------------------------------------------------------------


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["trace"])
def test_published_traces_event_by_event(row):
    found, expected = jr.trace("pipeline", asked(row)), golden(row["trace"])
    assert found.name.values.tolist() == [event["name"] for event in expected]
    assert found.device.values.tolist() == [int(event["device"]) for event in expected]
    for field, column in (("start", "start_s"), ("duration", "dur_s")):
        published = [float(event[column]) for event in expected]
        np.testing.assert_allclose(found[field], published, rtol=RTOL, atol=0.0)
    assert found.sizes["event"] == int(row["num_trace_events"])
    assert span(found) == pytest.approx(float(row["running_time_s"]), rel=RTOL)
    spent = seconds(found, "send", "all-reduce")
    assert spent == pytest.approx(float(row["comm_device_seconds"]), rel=1e-11)
    assert float(found.duration.sum()) == pytest.approx(
        float(row["total_device_seconds"]), rel=1e-11
    )


COLD = ("distir-a", "distir-a-cold")
B = ("distir-b", "distir-b")
OTHERS = [  # system and profile, layers, width, batch, plan, bytes of an element, step time [s]
    (COLD, (64, 8192, 8192, (1, 1, 1, 1)), 4, 8192 / 3725.9179555393866),
    (COLD, (64, 8192, 8192, (1, 2, 1, 1)), 4, 8192 / 7189.391772456083),
    (COLD, (64, 8192, 8192, (1, 1, 4, 8)), 4, 8192 / 7728.3203473113745),
    (COLD, (64, 8192, 8192, (4, 2, 2, 2)), 4, 8192 / 29694.906941447574),
    (B, (8, 512, 64, (2, 2, 2, 4)), 4, 0.002162212577523811),
    (B, (16, 8192, 256, (2, 2, 2, 4)), 2, 0.21180266733104774),
]
UNEVEN = [  # widths of input, inside and output, batch, plan, step time [s], events
    ((1024, 512, 256), 512, (2, 1, 4, 8), 4.9421352959999966e-05, 912),
    ((512, 1024, 256), 256, (1, 4, 2, 4), 4.695354026666665e-05, 896),
]


@pytest.mark.parametrize(("profile", "sizes", "element", "expected"), OTHERS)
def test_other_profiles_end_when_they_should(profile, sizes, element, expected):
    """Golden rows of published_grid.csv and head_mlp_grid.csv."""
    found = jr.trace("pipeline", mlp(*sizes, *profile, element=element))
    assert span(found) == pytest.approx(expected, rel=RTOL)


@pytest.mark.parametrize(("widths", "batch", "plan", "expected", "count"), UNEVEN)
def test_all_forward_first_and_uneven_widths(widths, batch, plan, expected, count):
    """The last two rows of gpipe.csv."""
    sizes = dict(
        zip(("model.input_width", "model.hidden", "model.output_width"), widths, strict=True)
    )
    found = jr.trace("pipeline", {**mlp(8, 1, batch, plan), **sizes}, order="gpipe")
    assert span(found) == pytest.approx(expected, rel=RTOL)
    assert found.sizes["event"] == count


def test_posted_sends_and_hidden_sums_end_with_the_estimator():
    """The right versions of every quirk, whose program is not the published one."""
    setting = mlp(8, 512, 256, (2, 2, 2, 4), "h200-nvs8", "physical")
    found, pipeline = jr.trace("pipeline", setting), estimator("pipeline")
    inputs, recipe = resolve(pipeline, {**setting, "most_stages": 2, "most_timesteps": 16})[:2]
    step_time = jax.jit(lambda inputs: pipeline.evaluate(inputs, recipe).step_time)  # no memory
    assert span(found) == pytest.approx(float(step_time(checked(inputs))), rel=RTOL)
    assert "send" not in found.kind


# ---- Laws of every trace ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several(small, visits):
    cold = jr.trace("pipeline", mlp(8, 512, 256, (1, 2, 2, 4), *COLD))
    later = jr.trace("pipeline", mlp(8, 512, 256, (2, 1, 4, 2), *B))
    right = jr.trace("pipeline", mlp(8, 512, 256, (2, 2, 2, 4), "h200-nvs8", "physical"))
    return {"A": small, "cold": cold, "B": later, "physical": right, **visits}


NAMES = ("A", "cold", "B", "physical", "1f1b", "interleaved")


@pytest.mark.parametrize("name", NAMES)
def test_a_device_does_one_thing_at_a_time(name, several):
    trace = several[name]
    for device in np.unique(trace.device):
        own = trace.isel(event=trace.device.values == device)
        ends = (own.start + own.duration).values
        assert (own.start.values[1:] >= ends[:-1] * (1.0 - 1e-15)).all()
        assert (own.duration >= 0.0).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_microbatch_goes_forward_and_back_through_every_stage(name, several):
    trace = several[name]
    done = collections.defaultdict(list)
    fields = ("phase", "replica", "tensor", "stage", "microbatch", "start", "duration")
    work = trace.isel(event=~trace.kind.isin(["send"]).values)
    for phase, *place, start, duration in zip(
        *(work[f].values.tolist() for f in fields), strict=True
    ):
        done[phase, *place].append((start, start + duration))
    begins = {visit: min(times)[0] for visit, times in done.items()}
    ends = {visit: max(times)[1] for visit, times in done.items()}
    forwards = [visit for visit in done if visit[0] == "forward"]
    stages = {visit[3] for visit in forwards}
    many = {visit[4] for visit in forwards}
    ranks = len({visit[1:3] for visit in forwards})
    assert len(forwards) == len(stages) * len(many) * ranks
    for _, *rank, stage, microbatch in forwards:
        back = ("backward", *rank, stage, microbatch)
        ahead = ("forward", *rank, stage + 1, microbatch)
        assert begins[back] >= ends["forward", *rank, stage, microbatch] * (1.0 - 1e-15)
        if ahead in begins:
            assert begins[ahead] >= ends["forward", *rank, stage, microbatch] * (1.0 - 1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_the_devices_time_make_a_whole(name, several):
    found = shares(several[name])
    assert sum(found.values()) == pytest.approx(1.0, rel=RTOL)
    assert 0.0 < found["idle"] < 1.0


@pytest.mark.parametrize(("name", "sends"), [("1f1b", "blocking"), ("interleaved", "overlapped")])
def test_a_transformers_trace_ends_with_its_step(name, sends, visits):
    step = jr.schedule(TRANSFORMER, schedules=name, sends=sends, estimator="published")
    assert span(visits[name]) == pytest.approx(step.step_time.item(), rel=RTOL)
    bubble = [row.idle for row in rows(visits[name])]
    np.testing.assert_allclose(bubble, step.bubble.isel(schedule=0), rtol=1e-9)


# ---- Files --------------------------------------------------------------------------------------


def check_format(text):
    """Check a text against the rules of the Trace Event Format; return its complete events."""
    whole = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert whole["displayTimeUnit"] in ("ms", "ns")
    assert isinstance(whole["traceEvents"], list)
    complete, named, sorted_by = [], {}, {}
    for event in whole["traceEvents"]:
        assert event["ph"] in ("X", "M")
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        if event["ph"] == "X":
            for key in ("ts", "dur"):
                assert type(event[key]) in (int, float)
                assert math.isfinite(event[key])
                assert event[key] >= 0
            assert isinstance(event["cat"], str)
            assert event["cname"] in COLOURS.values()
            assert {"kind", "phase"} <= set(event["args"])
            complete.append(event)
        elif event["name"] == "thread_sort_index":
            sorted_by[event["pid"], event["tid"]] = event["args"]["sort_index"]
        else:
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            place = (event["name"], event["pid"])
            named[(*place, event["tid"]) if event["name"] == "thread_name" else place] = event
    tracks = collections.defaultdict(list)
    for event in complete:
        tracks[event["pid"], event["tid"]].append(event)
    for track, events in tracks.items():
        assert ("thread_name", *track) in named
        assert ("process_name", track[0]) in named
        assert track in sorted_by
        for one, after in itertools.pairwise(events):
            assert after["ts"] >= one["ts"]
            assert after["ts"] >= (one["ts"] + one["dur"]) * (1.0 - 1e-15)
    assert len({event["args"]["name"] for key, event in named.items() if key[0] != "process_name"})
    return complete


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_in_json_is_what_viewers_open(name, several, tmp_path):
    jr.write(several[name], tmp_path / "trace.json")
    events = check_format((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert len(events) == several[name].sizes["event"]
    assert {event["pid"] for event in events} == {0}
    assert events[0]["args"]["kind"] == events[0]["cat"] == several[name].kind.values[0]


def test_tracks_are_named_by_device_and_place(small, visits, tmp_path):
    jr.write(small, tmp_path / "mlp.json")
    jr.write(visits["interleaved"], tmp_path / "transformer.json")

    def names(name):
        events = json.loads((tmp_path / name).read_text())["traceEvents"]
        return [event["args"]["name"] for event in events if event["name"] == "thread_name"]

    assert names("mlp.json")[:4] == [
        "device 1 (replica 0, tensor 0, stage 0)",
        "device 2 (replica 0, tensor 0, stage 1)",
        "device 3 (replica 0, tensor 1, stage 0)",
        "device 4 (replica 0, tensor 1, stage 1)",
    ]
    assert names("transformer.json")[0] == "device 1 (stages 0, 4)"


@pytest.mark.parametrize("ending", [".json", ".nc", ".zarr", ".csv"])
@pytest.mark.parametrize("name", ["A", "cold", "interleaved"])
def test_a_trace_comes_back_as_it_went(name, ending, several, tmp_path):
    jr.write(several[name], tmp_path / f"trace{ending}")
    back = jr.read(tmp_path / f"trace{ending}")
    held = several[name].drop_attrs(deep=False) if ending == ".csv" else several[name]
    xr.testing.assert_identical(back.load(), held)


def test_published_tables_and_events_of_others_are_traces(tmp_path):
    text = gzip.decompress((FOLDER / "trace_d1h1p4m4_l8.csv.gz").read_bytes())
    (tmp_path / "trace.csv").write_bytes(text)
    table = jr.read(tmp_path / "trace.csv")
    assert is_trace(table)
    assert set(table.kind.values.tolist()) == {"forward", "backward", "send"}
    assert (table.stage == -1).all()
    event = {"name": "step", "ph": "X", "ts": 1.5, "dur": 2, "pid": 7, "tid": 3}
    (tmp_path / "other.json").write_text(json.dumps([event, {**event, "ts": 4, "pid": 8}]))
    other = jr.read(tmp_path / "other.json")
    assert other.start.values.tolist() == [1.5e-6, 4e-6]
    assert other.schedule.values.tolist() == ["process 7", "process 8"]
    assert other.kind.values.tolist() == ["other", "other"]


EVENT = {"name": "a", "ph": "X", "ts": 1, "dur": 1, "pid": 0, "tid": 1}
DAMAGED = [
    {"traceEvents": []},
    {"traceEvents": [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "x"}}]},
    *({"traceEvents": [{**EVENT, key: value}]} for key, value in [
        ("ts", "soon"), ("ts", -1), ("dur", -1), ("dur", None), ("dur", 1e400), ("tid", "first"),
        ("tid", 2**70), ("args", 3), ("ph", None),
    ]),
    *({"traceEvents": [{k: v for k, v in EVENT.items() if k != key}]} for key in ("name", "ts")),
]  # fmt: skip


@pytest.mark.parametrize("whole", DAMAGED, ids=range(len(DAMAGED)))
def test_events_that_are_damaged_are_one_line(whole, tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(whole))
    with pytest.raises(InputError, match=r"trace.json: not a .json file that jaxroof wrote"):
        jr.read(tmp_path / "trace.json")


@pytest.mark.parametrize(
    "row", ["0,Send,1,soon,1.0", "0,Send,1,1.0", "0,Send,x,1.0,1.0", "0,S,1,-1,1"]
)
def test_a_table_that_is_damaged_is_one_line(row, tmp_path):
    (tmp_path / "trace.csv").write_text(f"seq,name,device,start_s,dur_s\n{row}\n")
    with pytest.raises(InputError, match=r"trace.csv: not a .csv file that jaxroof wrote"):
        jr.read(tmp_path / "trace.csv")


def test_several_traces_are_several_processes(small, visits, tmp_path):
    both = side_by_side(visits)
    jr.write(both, tmp_path / "both.json")
    events = check_format((tmp_path / "both.json").read_text())
    assert {event["pid"] for event in events} == {0, 1}
    back = jr.read(tmp_path / "both.json")
    xr.testing.assert_identical(back, both)
    assert list(dict.fromkeys(back.schedule.values.tolist())) == ["1f1b", "interleaved"]
    listed = side_by_side(visits.values())
    assert listed.schedule.values.tolist() == both.schedule.values.tolist()
    assert back.attrs["title"] == "96 layers on 4 stages, 8 microbatches"
    twice = side_by_side([small, small])
    assert twice.schedule.values[[0, -1]].tolist() == ["1: 1f1b-greedy", "2: 1f1b-greedy"]


# ---- Pictures -----------------------------------------------------------------------------------


def words(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def rectangles(axes):
    (drawn,) = (found for found in axes.collections if isinstance(found, PolyCollection))
    boxes = [path.get_extents() for path in drawn.get_paths()]
    colours = [tuple(colour) for colour in drawn.get_facecolors()]
    return list(zip(boxes, colours, strict=True))


def test_a_picture_shows_visits_messages_and_what_idles(small):
    figure = plots.draw(small)
    (axes,) = figure.axes
    drawn = rectangles(axes)
    for kind in ("forward", "backward", "send", "all-reduce"):
        colour = to_rgba(LOOKS[kind])
        wide = sum(box.width for box, own in drawn if own == colour)
        own = seconds(small, kind) / 4  # four devices do the same
        inside = seconds(small.where(small.phase == kind, drop=True), "all-reduce") / 4
        assert wide == pytest.approx(1e6 * (own + inside), rel=1e-9), kind
    said = words(figure)
    assert {"forward", "backward", "send", "all-reduce", "idle"} <= set(said)
    assert [said.count(str(microbatch)) for microbatch in range(4)] == [4, 4, 4, 4]
    assert "stage 0\ndevices 1, 3, 5, 7" in said
    assert any("19 us, 17 % of it idle" in text for text in said)
    assert len(set(LOOKS.values())) == len(LOOKS)


def test_schedules_share_one_axis_of_time(visits):
    figure = plots.timeline(visits)
    above, below = figure.axes
    assert above.get_xlim() == below.get_xlim()
    longest = max(map(span, visits.values()))
    assert above.get_xlim() == (0.0, pytest.approx(longest))
    assert above.get_title(loc="left").startswith("1f1b: ")
    assert below.get_title(loc="left").startswith("interleaved: ")
    said = " ".join(words(figure))
    assert "paler: a device's later stages" in said
    assert next(text.get_text() for text in below.get_yticklabels()) == "stages 0, 4"


def test_a_file_of_events_is_drawn_by_itself(small, jaxroof, tmp_path):
    jr.write(small, tmp_path / "trace.json")
    assert jaxroof("plot trace.json").code == 0
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_no_trace_has_no_timeline(small):
    with pytest.raises(InputError, match="timeline: needs the dimension 'event'"):
        plots.timeline(xr.Dataset({"start": ("row", [0.0])}))
    with pytest.raises(InputError, match="needs: stage: no such variable"):
        plots.timeline(small.drop_vars("stage"))
    with pytest.raises(InputError, match="timeline: no event of the data takes any time"):
        plots.timeline(small.isel(event=slice(0)))
    with pytest.raises(InputError, match="traces: none given"):
        plots.timeline([])


# ---- What is refused ----------------------------------------------------------------------------

REFUSED = [
    ("pipelines", SMALL, "no such estimator. Did you mean 'pipeline'"),
    ("pipeline", {**SMALL, "plan.pipeline": 3},
     "plan: pipeline=3: not legal; expected stages that divide the 8 layers"),
    ("pipeline", {**SMALL, "plan.pipelines": 3}, "plan.pipelines: no such field"),
    ("pipeline", {k: v for k, v in SMALL.items() if "plan" not in k}, "plan: missing"),
    ("pipeline", {**SMALL, "plan.data": np.ones(2)}, "plan.data: a trace is of one configuration"),
    ("pipeline", {**SMALL, "plan.data": -1}, "plan.data: expected a whole number above 0"),
    ("published", {**TRANSFORMER, "schedule": "dualpipes"}, "Did you mean 'dualpipe'"),
    ("published", {**TRANSFORMER, "chunks": 0}, "chunks: expected a whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "setting", "said"), REFUSED)
def test_what_cannot_be_traced_is_one_line(estimator, setting, said):
    assert said in refused(jr.trace, estimator, setting)


# ---- The command --------------------------------------------------------------------------------

COMMAND = "trace --model mlp-xs --system distir-a --plan dp=2,tp=2,pp=2,m=4 --batch 256"


def test_a_command_writes_draws_and_says(small, jaxroof, tmp_path):
    said = jaxroof(f"{COMMAND} --profile distir-a -o trace.json")
    assert said.code == 0
    assert "928 events on 8 devices; step time 19 us; idle 17.3 %" in said.words
    written = jr.read(tmp_path / "trace.json")
    for name in small.data_vars:
        np.testing.assert_array_equal(written[name], small[name])
    both = jaxroof(f"{COMMAND} --profile distir-b --schedule gpipe,1f1b -o both.csv")
    assert both.code == 0
    assert both.words.startswith("gpipe 936 events")
    assert set(jr.read(tmp_path / "both.csv").schedule.values.tolist()) == {"gpipe", "1f1b"}


@pytest.mark.parametrize(("more", "words"), [
    ("--schedule gpip -o a.json", "--schedule: gpip: no such schedule of an MLP. Did you mean"),
    ("--schedule gpipe,gpipe -o a.json", "--schedule: gpipe: given twice"),
    ("--profile distir-c -o a.json", "profile: distir-c: no such Profile. Did you mean"),
    ("--set order=gpipe -o a.json", "--set: order: has an option; expected it in --schedule alone"),
    ("-o a.txt", "a.txt: cannot tell the kind of file"),
])  # fmt: skip
def test_what_a_command_refuses_is_one_line(more, words, jaxroof):
    said = jaxroof(f"{COMMAND} {more}")
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1
