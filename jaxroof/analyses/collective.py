"""How long one collective takes, by which algorithm, and beside what nccl-tests measured.

Source: docs/models/networks.md, sections 1 to 6.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.collective_machine import Machine, Slice, machine, torus_slice
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.formulas import collectives as formulas
from jaxroof.formulas import tori
from jaxroof.formulas.collectives import CANDIDATES, Lane, Method, Op, Protocol
from jaxroof.io.nccl_tests import Series, our_name, read_tests
from jaxroof.units import parse

MODES = ("tuned", "best")
READ_ALONE = ("scatter", "gather")  # operations that nccl-tests measures and no formula has
MOST_SIZES, LARGEST = 10_000, 1e18
ABOUT = {  # result: unit, meaning
    "time": ("s", "Time of the collective"),
    "algbw": ("B/s", "Algorithm bandwidth: the buffer over the time"),
    "busbw": ("B/s", "Bus bandwidth: that of the algorithm times the operation's factor"),
    "algorithm": ("", "Algorithm that runs"),
    "protocol": ("", "Protocol that runs: low latency, or bulk"),
    "bound": ("", "What takes the time: latency, or the tier whose transfers do"),
    "candidate_time": ("s", "Time by each algorithm that exists here"),
    "spread": ("1", "Share of the prediction within which nine in ten measured times lie"),
    "measured_time": ("s", "Measured time"),
    "measured_busbw": ("B/s", "Measured bus bandwidth"),
    "ratio": ("1", "Predicted over measured time"),
}
BANDS = (2.0**20, 2.0**26)  # between small, middle and large buffers [B]
# nine in ten measured times lie within this share of the prediction, by band: of gathers,
# scatters and reductions, and of exchanges; in one fast domain, and over several
ERRORS = {
    (False, False): (0.12, 0.30, 0.15),
    (False, True): (0.37, 0.24, 0.39),
    (True, False): (0.30, 0.30, 0.30),
    (True, True): (0.40, 0.40, 0.40),
}
Name = tuple[Method, Protocol]


class Asked(NamedTuple):
    """A checked question over tiers."""

    op: Op
    gpus: int
    stride: int
    sizes: np.ndarray
    mode: str
    algorithm: str | None


def collective(
    system: str,
    op: str | None = None,
    *,
    gpus: int | None = None,
    stride: int | None = None,
    sizes: str | Sequence[float] | None = None,
    mode: str | None = None,
    algorithm: str | None = None,
    in_place: bool = False,
    measured: str | None = None,
    slice_shape: str | None = None,
    axes: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return the time of one collective at every size, and of each algorithm that exists.

    Arguments are those of the command `jaxroof collective`; ``measured`` is a file of nccl-tests,
    which gives what is left out of operation, GPUs and sizes; ``settings`` are fields of the system
    by path, such as ``tiers.2.oversubscription``.
    Raises: InputError for what does not exist, is out of range, or contradicts the file.

    >>> data = collective("dgx-h100-pod", "all_reduce", gpus=8, sizes="1KiB,1GiB")
    >>> [str(name) for name in data.algorithm.values], str(data.bound.values[1])
    (['ring', 'nvls'], 'tier 0 switch')
    """
    tests = [] if measured is None else read_tests(measured)
    name = _op_name(op, tests, measured)
    test = None if measured is None else _test_of(tests, name, gpus, measured)
    asked_sizes = _sizes(sizes, test, in_place)
    if slice_shape is not None or axes is not None:
        given = {"--gpus": gpus, "--stride": stride, "--mode": mode, "--algorithm": algorithm}
        found = torus_slice(system, slice_shape, axes, given, dict(settings or {}))
        data = _over_torus(found, name, asked_sizes)
        ranks = found.devices
    else:
        chosen = _checked_op(name, Op)
        ranks = _ranks(gpus, test)
        step = _whole("--stride", 1 if stride is None else stride)
        asked = Asked(chosen, ranks, step, asked_sizes, mode or "tuned", algorithm)
        data = _over_tiers(machine(system, dict(settings or {}), in_place), asked)
    if test is not None:
        if test.ranks and test.ranks != ranks:
            said = f"measured over {test.ranks} ranks; expected {ranks}, those of the question"
            raise refusal(str(measured), said)
        data = _beside(data, test, in_place)
    data.attrs |= {"question": "collective", "gpus": ranks, "system": system, "op": name}
    data.attrs["title"] = f"{name} over {ranks:,} accelerators of {system}"
    for one in data.variables:
        if one in ABOUT:
            unit, words = ABOUT[str(one)]
            data[one].attrs = {"units": unit, "long_name": words} if unit else {"long_name": words}
    return data


# ---- Over tiers ---------------------------------------------------------------------------------


def _over_tiers(found: Machine, asked: Asked) -> xr.Dataset:
    """Return every candidate's time, and the one that runs."""
    notes = found.check_group(asked.gpus, asked.stride)
    spread = formulas.spread_over(found.sizes, float(asked.gpus), float(asked.stride))
    if asked.mode not in MODES:
        raise unknown("--mode", asked.mode, "mode", MODES)
    if asked.algorithm is not None and asked.mode == "best":
        raise refusal("--algorithm", "beside --mode best, which looks at all; expected one of them")
    names, able = _candidates(found, asked, spread)

    def lanes(tiers: Any, library: Any, every: Sequence[Name]) -> list[Lane]:
        return [formulas.lane(asked.op, *name, spread, tiers, library) for name in every]

    here = lanes(found.tiers, found.library, names)
    times = np.stack([_along(lane.time(asked.sizes), asked.sizes) for lane in here])
    judged = here
    if asked.mode == "tuned":  # the table that the library was made with
        judged = lanes(*found.reference, names)
    judges = [lane.time(asked.sizes) for lane in judged]
    runs = _along(formulas.first_least(judges, able), asked.sizes).astype(int)
    at = np.arange(len(asked.sizes))
    lanes_of = zip(names, here, strict=True)
    bounds = np.stack([_bounds(asked.op, name, lane, asked.sizes) for name, lane in lanes_of])
    time = times[runs, at]
    factor = float(formulas.FACTORS[asked.op](float(asked.gpus)))
    data = xr.Dataset(
        {
            **_rates(time, asked.sizes, factor),
            "algorithm": ("size", np.array([m.value for m, _ in names])[runs]),
            "protocol": ("size", np.array([p.value for _, p in names])[runs]),
            "bound": ("size", np.where(time > 0.0, bounds[runs, at], "-")),
            "spread": ("size", _spread(asked, bool(spread.outer))),
            "candidate_time": (("size", "candidate"), times.T),
        },
        {"size": _size(asked.sizes), "candidate": [_called(name) for name in names]},
    )
    data.attrs |= {"mode": asked.algorithm or asked.mode, "stride": asked.stride, "factor": factor}
    data.attrs["notes"] = json.dumps([*notes, *found.notes(spread)])
    return data


def _candidates(found: Machine, asked: Asked, spread: Any) -> tuple[list[Name], list[bool]]:
    """Return the algorithms that exist here, and which of them the choice is among."""
    reductions = [tier.reduction for tier in found.tiers]
    methods = formulas.ALGORITHMS[asked.op]
    there = [n for n in CANDIDATES[asked.op] if bool(methods[n[0]].exists(spread, reductions))]
    if asked.algorithm is None:
        return there, [True] * len(there)
    wanted, protocol = _named(asked.op, asked.algorithm)
    way = methods[wanted]
    if not bool(way.exists(spread, reductions)):
        raise refusal("--algorithm", f"{wanted.value}: {_why_not(wanted, found, asked)}")
    named = [(wanted, one) for one in Protocol if protocol in (None, one)]
    named = [name for name in named if name[1] is Protocol.BULK or not way.bulk_alone]
    names = [*there, *(name for name in named if name not in there)]
    return names, [name in named for name in names]


def _named(op: Op, text: str) -> tuple[Method, Protocol | None]:
    """Return the algorithm and the protocol of a text such as ``tree`` or ``tree low``."""
    word, _, protocol = text.strip().partition(" ")
    own = {method.value: method for method in formulas.ALGORITHMS[op]}
    every = [method.value for method in Method]
    if word not in every:
        raise unknown("--algorithm", word, "algorithm", every)
    if word not in own:
        said = f"{word}: no algorithm of {op.value}; expected one of {', '.join(own)}"
        raise refusal("--algorithm", said)
    if not protocol:
        return own[word], None
    protocols = [one.value for one in Protocol]
    if protocol not in protocols:
        raise unknown("--algorithm", protocol, "protocol", protocols)
    if protocol == "low" and formulas.ALGORITHMS[op][own[word]].bulk_alone:
        raise refusal("--algorithm", f"{text}: {word} runs in bulk alone; expected '{word}'")
    return own[word], Protocol(protocol)


def _why_not(method: Method, found: Machine, asked: Asked) -> str:
    """Return why an algorithm does not exist for a group on a machine."""
    domain = f"{float(found.sizes[0]):.12g}"
    adds = "and links whose switches add (tiers.{}.reduction above 0)"
    return {
        Method.NVLS: f"needs a group inside one fast domain, of 2 to {domain} accelerators, "
        + adds.format(0),
        Method.NVLS_TREE: f"needs a group over several fast domains of {domain}, several of it in "
        f"each, {adds.format(0)}",
        Method.SHARP: f"needs a group over several fast domains of {domain}, "
        + adds.format("1, and of every further tier in use,"),
        Method.PAT: "needs a group of one accelerator a fast domain, over several of them",
    }.get(method, f"needs a group inside one fast domain of {domain} accelerators")


def _spread(asked: Asked, outer: bool) -> np.ndarray:
    """Return how far measured times lie from predicted ones; NaN of what was never measured."""
    if asked.op not in (*formulas.COPIED, Op.ALL_REDUCE, Op.ALL_TO_ALL):
        return np.full(asked.sizes.shape, np.nan)
    errors = np.array(ERRORS[outer, asked.op is Op.ALL_TO_ALL])
    return errors[np.searchsorted(BANDS, asked.sizes, side="right")]


def _bounds(op: Op, name: Name, lane: Lane, sizes: np.ndarray) -> np.ndarray:
    """Return what takes the time at every size: latency, or the tier whose transfers do."""
    tier = int(np.argmax([float(seconds) for seconds in lane.tiers]))
    switched = formulas.ALGORITHMS[op][name[0]].switched[tier]
    words = f"tier {tier}{' switch' * switched}{' cap' * bool(lane.capped[tier])}"
    slow = lane.sent(sizes) < 0.5 * lane.time(sizes)
    return np.where(slow, "latency", words)


# ---- Over a torus -------------------------------------------------------------------------------


def _over_torus(found: Slice, op: str, sizes: np.ndarray) -> xr.Dataset:
    """Return the time over whole axes of a slice."""
    _checked_op(op, tori.TORUS)
    time = _along(found.time(op, sizes), sizes)
    latency = _along(found.time(op, np.full(sizes.shape, 1e-30)), sizes)
    factor = 1.0
    if op != "permute":
        factor = float(formulas.FACTORS[Op(op)](float(found.devices)))
    bound = np.where(time - latency < 0.5 * time, "latency", "links")
    data = xr.Dataset(
        {
            **_rates(time, sizes, factor),
            "algorithm": ("size", np.full(sizes.shape, "torus")),
            "protocol": ("size", np.full(sizes.shape, "-")),
            "bound": ("size", np.where(time > 0.0, bound, "-")),
            "spread": ("size", np.full(sizes.shape, np.nan)),
        },
        {"size": _size(sizes)},
    )
    data.attrs |= {"mode": "torus", "factor": factor, "notes": json.dumps([found.words])}
    return data


# ---- What is typed ------------------------------------------------------------------------------


def _op_name(op: str | None, tests: Sequence[Series], file: str | None) -> str:
    """Return the operation that is asked about: that of the file, where no other is given."""
    if op is not None:
        return our_name(op)
    there = sorted({test.op for test in tests if test.op})
    if file is None:
        raise refusal("--op", f"missing; expected one of {', '.join(one.value for one in Op)}")
    if len(there) != 1:
        said = f"tests of {', '.join(there)}" if there else "does not say of which operation it is"
        raise refusal(file, f"{said}; expected --op")
    return there[0]


def _checked_op(name: str, known: Any) -> Any:
    """Return an operation that formulas have."""
    options = [one.value if isinstance(one, Op) else one for one in known]
    if name in READ_ALONE:
        raise refusal(
            "--op", f"{name}: measured by nccl-tests, but not predicted; expected {options[0]}"
        )
    if name not in options:
        raise unknown("--op", name, "operation", options)
    return Op(name) if known is Op else name


def _test_of(tests: Sequence[Series], op: str, gpus: int | None, file: str) -> Series:
    """Return the test of an operation in a file, of so many GPUs where there are several."""
    own = [test for test in tests if test.op in (op, "")]
    if not own:
        there = ", ".join(dict.fromkeys(test.op for test in tests))
        raise refusal(file, f"no test of {op}; there are tests of {there}")
    same = [test for test in own if gpus is None or test.ranks in (0, gpus)]
    if not same:
        ranks = ", ".join(str(test.ranks) for test in own)
        raise refusal(file, f"measured over {ranks} ranks; expected {gpus}, as --gpus says")
    points = tuple(itertools.chain.from_iterable(test.points for test in same))
    if len({test.ranks for test in same}) > 1:
        said = f"tests over {', '.join(str(test.ranks) for test in same)} ranks"
        raise refusal(file, f"{said}; expected --gpus with one of them")
    return same[0]._replace(points=points, dropped=sum(test.dropped for test in same))


def _ranks(gpus: int | None, test: Series | None) -> int:
    if gpus is not None:
        return _whole("--gpus", gpus)
    if test is None or not test.ranks:
        raise refusal("--gpus", "missing; expected the accelerators of the group")
    return test.ranks


def _whole(option: str, value: float) -> int:
    if not (1 <= value < math.inf and float(value).is_integer()):
        raise refusal(option, f"expected a whole number of at least 1, given {shown(value)}")
    return int(value)


def _sizes(sizes: str | Sequence[float] | None, test: Series | None, in_place: bool) -> np.ndarray:
    """Return the sizes that are asked about: those of the file, where no others are given."""
    if sizes is None:
        if test is None:
            raise refusal("--sizes", "missing; expected sizes such as 1KiB:8GiB:2")
        return np.unique([point.size for point in test.points])
    return read_sizes(sizes) if isinstance(sizes, str) else _checked_sizes([*map(float, sizes)])


def read_sizes(text: str) -> np.ndarray:
    """Return the sizes of a list, or of ``start:end:factor``, in bytes.

    >>> read_sizes("1KiB:8KiB:2").tolist(), read_sizes("1kB,2MB").tolist()
    ([1024.0, 2048.0, 4096.0, 8192.0], [1000.0, 2000000.0])
    """
    if ":" not in text:
        parts = [part.strip() for part in text.split(",")]
        if parts == [""]:
            raise refusal("--sizes", "empty; expected sizes such as 1KiB:8GiB:2 or 1MiB,1GiB")
        return _checked_sizes([parse(part, "B", "--sizes") for part in parts])
    parts = text.split(":")
    if len(parts) != 3:
        raise refusal(
            "--sizes", f"expected start:end:factor, such as 1KiB:8GiB:2, given {shown(text)}"
        )
    start, end = (parse(part.strip(), "B", "--sizes") for part in parts[:2])
    factor = parse(parts[2].strip(), "1", "--sizes: factor")
    if not factor > 1.0:
        raise refusal("--sizes", f"factor {factor:g}; expected one above 1")
    if not 0.0 < start <= end:
        raise refusal(
            "--sizes", f"expected a start above 0 and an end not below it, given {shown(text)}"
        )
    count = math.floor(math.log(end / start) / math.log(factor) + 1e-9) + 1
    if count > MOST_SIZES:
        raise refusal("--sizes", f"{count:,} sizes; expected at most {MOST_SIZES:,}")
    return _checked_sizes([start * factor**step for step in range(count)])


def _checked_sizes(sizes: Sequence[float]) -> np.ndarray:
    """Return sizes that are there, rising and in range."""
    found = np.array(sizes, np.float64)
    if not 0 < len(found) <= MOST_SIZES:
        raise refusal("--sizes", f"{len(found):,} sizes; expected 1 to {MOST_SIZES:,}")
    wrong = ~((found >= 0.0) & (found <= LARGEST))
    if wrong.any():
        raise refusal("--sizes", f"{found[wrong][0]:g} B; expected from 0 to {LARGEST:g} B")
    if not np.all(np.diff(found) > 0.0):
        raise refusal("--sizes", "not rising; expected each size above the one before it")
    return found


# ---- Beside what was measured -------------------------------------------------------------------


def _beside(data: xr.Dataset, test: Series, in_place: bool) -> xr.Dataset:
    """Return the data with the measured times at their sizes: medians, where a size repeats."""
    own: dict[float, list[Any]] = {}
    for point in test.points:
        halves = (point.out_of_place, point.in_place)
        half = halves[1] if in_place else halves[0] or halves[1]
        if half is not None:
            own.setdefault(point.size, []).append(half)
    sizes = data["size"].values
    if not own.keys() & set(sizes.tolist()):
        raise InputError("--measured: no such size there; expected --sizes with some of its sizes")
    nothing = [np.nan]
    time, bus = (
        np.array([np.median([getattr(h, name) for h in own.get(s, [])] or nothing) for s in sizes])
        for name in ("time", "bus")
    )
    data = data.assign(
        measured_time=("size", time),
        measured_busbw=("size", bus),
        ratio=("size", data.time.values / time),
    )
    data.attrs["dropped"] = test.dropped
    return data


def _rates(time: np.ndarray, sizes: np.ndarray, factor: float) -> dict[str, Any]:
    there = time > 0.0
    rate = np.where(there, sizes, 0.0) / np.where(there, time, 1.0)
    return {"time": ("size", time), "algbw": ("size", rate), "busbw": ("size", rate * factor)}


def _size(sizes: np.ndarray) -> Any:
    return ("size", sizes, {"units": "B", "long_name": "Full buffer, as nccl-tests counts it"})


def _along(values: Any, sizes: np.ndarray) -> np.ndarray:
    return np.array(np.broadcast_to(values, sizes.shape), np.float64)


def _called(name: Name) -> str:
    return f"{name[0].value} {name[1].value}"


def wide(data: xr.Dataset) -> xr.Dataset:
    """Return the data with a column a candidate in place of their dimension, for a CSV file."""
    if "candidate" not in data.dims:
        return data
    columns = {
        f"time_{str(name).replace(' ', '_')}": data.candidate_time.sel(candidate=name, drop=True)
        for name in data.candidate.values
    }
    return data.drop_dims("candidate").assign(columns)
