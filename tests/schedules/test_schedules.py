"""Schedules are legal, idle and hold what their papers say, and run as events run."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from event_simulator import Pipeline, Ran, simulate
from refusals import refused
from schedule_figures import in_flight

from jaxroof.errors import InputError
from jaxroof.schedules import NAMES, build, clock, published, table
from jaxroof.schedules.table import BACKWARD, FORWARD, IDLE, WEIGHT, Schedule

PLAIN = ("gpipe", "1f1b-greedy", "1f1b", "zb-h1")
CASES = [  # name, devices, microbatches, chunks
    *((name, p, m, 1) for name in PLAIN for p in (1, 2, 3, 5) for m in (1, 2, 4, 5, 8)),
    *(("interleaved", p, p * g, v) for p in (1, 2, 4) for g in (1, 2, 3) for v in (2, 3)),
    *(("dualpipe", p, m, 1) for p in (2, 4, 6) for m in (2 * p, 2 * p + 2, 3 * p)),
]
UNEVEN = [  # one of each, small enough for plain Python, large enough for every phase
    ("gpipe", 4, 6, 1), ("1f1b-greedy", 4, 9, 1), ("1f1b", 4, 7, 1), ("interleaved", 3, 6, 3),
    ("zb-h1", 4, 7, 1), ("dualpipe", 6, 14, 1),
]  # fmt: skip
COURSE = jax.jit(clock.visit_times)
MOST = (96, 6, 10)  # timesteps, devices and classes that every case is padded to: one program
LANES = 4
CELLS = ("kind", "stage", "microbatch", "handed")  # the arrays of a table


one_of_each = pytest.mark.parametrize("case", UNEVEN, ids=lambda case: case[0])


def groups(schedule: Schedule) -> list[list[list[table.Visit]]]:
    """Return each device's visits in order, those that run together in one list."""
    cells = np.stack([schedule.kind, schedule.stage, schedule.microbatch], axis=-1)
    every: list[list[list[table.Visit]]] = []
    for device in range(schedule.devices):
        found: dict[int, list[table.Visit]] = {}
        for t in np.flatnonzero(schedule.kind[:, device]):
            kind, stage, k = cells[t, device].tolist()
            found.setdefault(int(schedule.handed[t, device]), []).append((kind, stage, k))
        every.append(list(found.values()))
    return every


def events(schedule: Schedule, seconds: np.ndarray, send: np.ndarray, blocking: bool) -> Ran:
    """Run a schedule in the event simulator: seconds [kinds, stages], send [stages]."""
    lengths, links = seconds.tolist(), send.tolist()
    pipeline = Pipeline(
        schedule.device.tolist(),
        schedule.after.tolist(),
        lambda kind, stage: lengths[kind - 1][stage],
        links,
        blocking,
    )
    return simulate(pipeline, groups(schedule))


def padded(schedule: Schedule) -> Schedule:
    """Return a schedule with idle timesteps and idle devices up to the size that all share."""
    more = ((0, MOST[0] - schedule.timesteps), (0, MOST[1] - schedule.devices))
    cells = {name: np.pad(getattr(schedule, name), more) for name in CELLS}
    return dataclasses.replace(schedule, **cells)


def timed(schedule: Schedule, costs: clock.Costs) -> clock.VisitTimes:
    """Return the course of a padded schedule; costs [classes, devices, lanes]."""
    more = ((0, MOST[2] - len(costs.seconds)), (0, 0), (0, 0))
    wide = clock.Costs(*(np.pad(np.asarray(cost), more) for cost in costs))
    return COURSE(table.work(schedule), table.source(schedule), wide)


# ---- (a) Legal, as published ---------------------------------------------------------------------


def test_schedules_are_legal_and_hold_and_idle_as_published():
    """Every visit once, after what it needs; microbatches in flight; the bubble."""
    for case in CASES:
        name, _, microbatches, _ = case
        schedule = build(*case)
        assert table.checked(schedule) is schedule
        kinds = 3 if schedule.split else 2
        held = kinds * schedule.stages * microbatches // (2 if name == "dualpipe" else 1)
        assert np.sum(schedule.kind != IDLE) == held, case
        waits = table.source(schedule) // schedule.devices
        assert np.all(waits < np.arange(schedule.timesteps)[:, None]), case
        assert table.in_flight(schedule).tolist() == in_flight(*case).tolist(), case
        idles_as_published(case)


HELD = [  # name, devices, microbatches, chunks, expected by device, source
    ("gpipe", 3, 5, 1, [5, 5, 5], "Narayanan 2021, section 2.2.1: all M"),
    ("1f1b", 4, 8, 1, [4, 3, 2, 1], "Narayanan 2021, section 2.2.1: P at most"),
    ("1f1b-greedy", 4, 8, 1, [7, 5, 3, 1], "sheet section 4: min(M, 2 (P - i) - 1)"),
    ("interleaved", 4, 8, 2, [11, 9, 7, 5], "Korthikanti 2022: P v (1 + (P - 1) / (P v)) at first"),
    ("zb-h1", 4, 8, 1, [4, 4, 4, 4], "Qi 2023, section 2.3: as 1F1B's first device, on all"),
    ("dualpipe", 8, 20, 1, [9] * 8, "DeepSeek-V3, Table 2: P + 1"),
]


@pytest.mark.parametrize(("name", "p", "m", "v", "expected", "source"), HELD)
def test_microbatches_in_flight_in_numbers(name, p, m, v, expected, source):
    assert table.in_flight(build(name, p, m, v)).tolist() == expected, source


def test_standard_and_greedy_1f1b_take_the_timesteps_of_gpipe():
    for name, p, m in itertools.product(("gpipe", "1f1b", "1f1b-greedy"), (1, 2, 5), (1, 8)):
        assert build(name, p, m).timesteps == 2 * (m + p - 1)


def test_a_schedule_is_built_once_and_nobody_changes_it():
    schedule = build("1f1b", 4, 8)
    assert build("1f1b", 4, 8) is schedule
    with pytest.raises(ValueError, match="read-only"):
        schedule.kind[0, 0] = BACKWARD


# ---- (b) The closed forms of the sheet -----------------------------------------------------------


def greedily(devices: int, microbatches: int) -> list[list[tuple[int, int]]]:
    """Return kind and microbatch by timestep and device, each device choosing what is ready.

    Source: fact sheet distir_model, section 4, the rule in words.
    """
    made: set[tuple[int, int, int]] = set()
    last = [BACKWARD] * devices
    rows: list[list[tuple[int, int]]] = []
    while len(made) < 2 * devices * microbatches:
        row = []
        for i in range(devices):
            ready = {}
            for k in reversed(range(microbatches)):
                if (FORWARD, i, k) not in made and (i == 0 or (FORWARD, i - 1, k) in made):
                    ready[FORWARD] = k
                behind = (BACKWARD, i + 1, k) if i + 1 < devices else (FORWARD, i, k)
                if (BACKWARD, i, k) not in made and {behind, (FORWARD, i, k)} <= made:
                    ready[BACKWARD] = k
            wanted = [FORWARD, BACKWARD] if last[i] == BACKWARD else [BACKWARD, FORWARD]
            kind = next((one for one in wanted if one in ready), IDLE)
            row.append((kind, ready.get(kind, 0)))
        made |= {(kind, i, k) for i, (kind, k) in enumerate(row) if kind != IDLE}
        last = [kind or before for (kind, _), before in zip(row, last, strict=True)]
        rows.append(row)
    return rows


@pytest.mark.parametrize("devices", [2, 3, 5])
def test_the_greedy_table_is_what_greedy_devices_do(devices):
    for microbatches in (1, 2, 5, 8, 12):
        schedule = build("1f1b-greedy", devices, microbatches)
        cells = np.stack([schedule.kind, schedule.microbatch], axis=-1)
        assert np.array_equal(cells, greedily(devices, microbatches))


# ---- (c) Bubbles ---------------------------------------------------------------------------------

WHOLE = {"gpipe", "1f1b", "1f1b-greedy", "interleaved"}  # whose backward is one visit
PAPERS = {  # in the letters of the papers, B the input gradient, for M >= P, W <= F <= B
    "gpipe": lambda p, f, b, w, v: (p - 1) * (f + b + w),
    "1f1b": lambda p, f, b, w, v: (p - 1) * (f + b + w),
    "1f1b-greedy": lambda p, f, b, w, v: (p - 1) * (f + b + w),
    "interleaved": lambda p, f, b, w, v: (p - 1) * (f / v + (b + w) / v),
    "zb-h1": lambda p, f, b, w, v: (p - 1) * (f + b - w),
    "dualpipe": lambda p, f, b, w, v: (p / 2 - 1) * ((f + b + w) + (b + w) - 3 * w),
}


def visit_seconds(name: str, times: np.ndarray, chunks: int) -> np.ndarray:
    """Return [kinds, lanes] seconds of a visit from those of a device, [kinds, lanes]."""
    forward, backward, weight = times
    if name in WHOLE:
        backward, weight = backward + weight, 0.0 * weight
    return np.stack([forward, backward, weight]) / (chunks if name == "interleaved" else 1)


def uniform(schedule: Schedule, each: np.ndarray) -> clock.Costs:
    """Return the costs of stages that are alike and of sends that are free."""
    classes = np.concatenate([np.zeros((1, LANES)), np.tile(each, (schedule.chunks, 1))])
    seconds = np.repeat(classes[:, None], schedule.devices, axis=1)
    return clock.Costs(seconds, 0.0 * seconds, 0.0 * seconds)


def idles_as_published(case):
    """As the papers print it where that holds (lanes 0, 1), as documented beyond (lanes 2, 3)."""
    name, devices, microbatches, chunks = case
    schedule = padded(build(*case))
    times = np.array([[1.0, 0.7, 1.0, 0.3], [1.0, 1.3, 0.4, 0.9], [1.0, 0.5, 0.6, 1.7]])
    each = visit_seconds(name, times, chunks)
    course = timed(schedule, uniform(schedule, each))
    idle = np.max(course.clock, axis=0) - microbatches * np.sum(times, axis=0)
    sizes = (float(devices), float(microbatches))
    ours = published.bubble(name, *sizes, *times, float(chunks))
    np.testing.assert_allclose(idle, ours, rtol=0, atol=1e-12 * np.max(course.clock))
    if microbatches >= devices:
        papers = PAPERS[name](devices, *times[:, :2], chunks)
        np.testing.assert_allclose(idle[:2], papers, rtol=0, atol=1e-12 * np.max(course.clock))


ROWS = [  # name, devices, microbatches, chunks, F, B, W, expected [s], source
    ("gpipe", 4, 8, 1, 1.0, 1.0, 1.0, 9.0, "Huang 2018, section 2.3: (P - 1) (F + B + W)"),
    ("1f1b", 4, 8, 1, 1.0, 1.0, 1.0, 9.0, "Narayanan 2021, section 2.2.1"),
    ("interleaved", 4, 8, 2, 1.0, 1.0, 1.0, 4.5, "Narayanan 2021, section 2.2.2: by v"),
    ("zb-h1", 4, 8, 1, 1.0, 1.0, 1.0, 3.0, "Qi 2023, section 2.3: (P - 1) (F + B - W)"),
    ("dualpipe", 8, 20, 1, 1.0, 1.0, 1.0, 6.0, "DeepSeek-V3, Table 2: 3 (3 + 2 - 3)"),
    ("dualpipe", 8, 20, 1, 1.0, 1.5, 0.5, 10.5, "DeepSeek-V3, Table 2: 3 (3 + 2 - 1.5)"),
]


@pytest.mark.parametrize(("name", "p", "m", "v", "f", "b", "w", "expected", "source"), ROWS)
def test_bubbles_in_numbers(name, p, m, v, f, b, w, expected, source):
    bubble = float(published.bubble(name, float(p), float(m), f, b, w, float(v)))
    assert bubble == pytest.approx(expected, rel=1e-12), source
    schedule = build(name, p, m, v)
    each = visit_seconds(name, np.array([[f], [b], [w]]), v)
    ran = events(schedule, np.tile(each, schedule.stages), np.zeros(schedule.stages), False)
    assert max(ran.clock) - m * (f + b + w) == pytest.approx(expected, rel=1e-12), source


def test_the_published_bubble_of_dualpipe_is_that_of_results_that_come_together():
    """Handed on one by one, results of a pair that is no pair, devices would wait less."""
    schedule = padded(build("dualpipe", 6, 14))
    costs = uniform(schedule, np.ones((3, LANES)))
    alone = np.broadcast_to(np.arange(schedule.timesteps)[:, None], schedule.kind.shape)
    one_by_one = timed(dataclasses.replace(schedule, handed=alone), costs)
    assert float(np.max(timed(schedule, costs).clock)) == 3.0 * 14 + 2.0 * 2.0
    assert float(np.max(one_by_one.clock)) == 3.0 * 14 + 2.0


# ---- (d) Against events --------------------------------------------------------------------------


def places(schedule: Schedule) -> dict[table.Visit, tuple[int, int]]:
    """Return the timestep and the device of every visit."""
    cells = np.stack([schedule.kind, schedule.stage, schedule.microbatch], axis=-1)
    found = np.argwhere(schedule.kind != IDLE).tolist()
    return {tuple(cells[t, device].tolist()): (t, device) for t, device in found}


@one_of_each
@pytest.mark.parametrize("blocking", [False, True])
def test_the_clock_is_that_of_an_event_simulator(case, blocking):
    """Whatever stages and sends take: every start, every end, every device's clock."""
    schedule = padded(build(*case))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        shape = (3, schedule.stages, LANES)
        # whole numbers among them, so that events tie
        seconds = np.where(rng.random(shape) < 0.5, rng.integers(1, 4, shape), rng.random(shape))
        send = rng.random(shape[1:]) * rng.integers(0, 2, shape[1:])
        costs = clock.stage_costs(schedule, *seconds, send, blocking=blocking)
        course = timed(schedule, costs)
        for lane in range(LANES):
            ran = events(build(*case), seconds[..., lane], send[..., lane], blocking)
            at = tuple(np.array([places(schedule)[visit] for visit in ran.start]).T)
            for ours, theirs in ((course.start, ran.start), (course.end, ran.end)):
                found = np.asarray(ours)[*at, lane]
                np.testing.assert_allclose(found, list(theirs.values()), rtol=1e-12, atol=1e-12)
            clocks = np.asarray(course.clock)[: len(ran.clock), lane]
            np.testing.assert_allclose(clocks, ran.clock, rtol=1e-12)


def test_the_event_simulator_tells_of_orders_that_wait_for_each_other():
    pipeline = Pipeline([0, 1], [1, -1], lambda kind, stage: 1.0, [0.0, 0.0])
    with pytest.raises(RuntimeError, match="wait for ever"):
        simulate(pipeline, [[[(2, 0, 0)], [(1, 0, 0)]], [[(1, 1, 0)], [(2, 1, 0)]]])


# ---- (e) What is refused -------------------------------------------------------------------------


def edited(schedule: Schedule, cell: tuple[int, int], other: tuple[int, int]) -> Schedule:
    """Return a schedule with two cells exchanged."""
    arrays = {name: getattr(schedule, name).copy() for name in CELLS[:3]}
    for array in arrays.values():
        array[cell], array[other] = array[other], array[cell]
    return dataclasses.replace(schedule, **arrays)


@one_of_each
def test_a_visit_before_what_it_needs_is_refused_by_name(case):
    """On every device: its first backward in the place of that microbatch's forward."""
    schedule = build(*case)
    found = places(schedule)
    for device in range(schedule.devices):
        t = int(np.argmax(schedule.kind[:, device] == BACKWARD))
        stage, k = int(schedule.stage[t, device]), int(schedule.microbatch[t, device])
        mutant = edited(schedule, (t, device), found[FORWARD, stage, k])
        with pytest.raises(
            InputError, match=rf"of microbatch {k} in stage {stage} at timestep \d+"
        ):
            table.checked(mutant)


@one_of_each
def test_orders_that_wait_for_each_other_are_those_that_the_event_simulator_cannot_run(case):
    """Two groups of a device exchanged, here and there: what runs for one runs for the other."""
    schedule, rng = build(*case), np.random.default_rng(6)
    outcomes = set()
    for _ in range(12):
        order = groups(schedule)
        mine = order[rng.integers(schedule.devices)]
        at = int(rng.integers(len(mine) - 1))
        other = min(at + int(rng.integers(1, 4)), len(mine) - 1)
        mine[at], mine[other] = mine[other], mine[at]
        outcomes.add(runs := laid_out(schedule, order))
        assert runs == simulated(schedule, order)
    assert outcomes == {True, False}


def laid_out(schedule: Schedule, order: list[list[list[table.Visit]]]) -> bool:
    """Return whether an order finds its timesteps, and with them is legal."""
    parts = (schedule.name, schedule.microbatches, schedule.device, schedule.after)
    try:
        found = table.scheduled(*parts, [[tuple(group) for group in one] for one in order])
    except InputError:
        return False
    return table.checked(found) is found


def simulated(schedule: Schedule, order: list[list[list[table.Visit]]]) -> bool:
    links = [0.0] * schedule.stages
    alike = Pipeline(schedule.device.tolist(), schedule.after.tolist(), lambda *_: 1.0, links)
    try:
        simulate(alike, order)
    except RuntimeError:
        return False
    return True


def test_a_visit_that_is_lost_is_refused_by_name():
    schedule = build("zb-h1", 3, 4)
    t, device = np.argwhere(schedule.kind == WEIGHT)[0]
    kind = schedule.kind.copy()
    k, kind[t, device] = schedule.microbatch[t, device], IDLE
    with pytest.raises(InputError, match=f"weight gradient of microbatch {k} in stage {device} is"):
        table.checked(dataclasses.replace(schedule, kind=kind))


def test_a_visit_that_comes_twice_is_refused_by_name():
    schedule = build("1f1b", 3, 4)
    microbatch = schedule.microbatch.copy()
    microbatch[1, 0] = 0
    with pytest.raises(InputError, match="the forward of microbatch 0 in stage 0 at timestep 0"):
        table.checked(dataclasses.replace(schedule, microbatch=microbatch))


def test_orders_that_wait_for_each_other_are_refused():
    orders = [[((2, 0, 0),), ((1, 0, 0),)], [((1, 1, 0),), ((2, 1, 0),)]]
    with pytest.raises(InputError, match="device 0 waits for ever at the backward of mic"):
        table.scheduled("mine", 1, np.array([0, 1]), np.array([1, -1]), orders)


REFUSED = [  # what is asked for, what is said
    (("1f1", 4, 8), "1f1: no such schedule. Did you mean '1f1b'?"),
    (("1f1b", 0, 8), "1f1b: devices: expected a whole number from 1, given 0"),
    (("gpipe", 4, 2.5), "gpipe: microbatches: expected a whole number from 1, given 2.5"),
    (("interleaved", 4, 8, float("nan")), "interleaved: chunks: expected a whole number from 1, "),
    (
        ("1f1b", 4, 8, 2),
        "1f1b: chunks: not a choice of this schedule, given 2; expected 1, or the ",
    ),
    (("interleaved", 4, 6, 2), "microbatches: expected a multiple of the 4 devices, given 6"),
    (("interleaved", 4, 8), "chunks: expected 2 stages a device or more, given 1; one is the "),
    (("dualpipe", 3, 8), "dualpipe: devices: expected an even number, one half to either route, "),
    (("dualpipe", 4, 6), "microbatches: expected an even number from 8, two a device, given 6"),
    (("dualpipe", 4, 9), "microbatches: expected an even number from 8, two a device, given 9"),
]


@pytest.mark.parametrize(("asked", "said"), REFUSED, ids=[str(asked) for asked, _ in REFUSED])
def test_what_a_schedule_does_not_allow_is_refused_in_one_line(asked, said):
    assert said in refused(build, *asked)


def test_published_figures_are_of_schedules_that_are_there():
    with pytest.raises(InputError, match="no such schedule"):
        published.bubble("zb-h2", 4, 8, 1.0, 1.0, 1.0)


def test_every_schedule_is_tested():
    assert {name for name, *_ in CASES} == {name for name, *_ in UNEVEN} == set(NAMES)
