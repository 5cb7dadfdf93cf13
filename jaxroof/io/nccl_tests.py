"""What nccl-tests and rccl-tests print, as text or JSON: tests of an operation, size by size."""

import json
import math
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jaxroof.errors import InputError, refusal, shown

LARGEST = 256e6  # bytes of a file
PREFIX = re.compile(
    r"^\s*(?:\[[^\]\s]*\d+,\d+\]<std\w+>:|\d+:(?=[\s#]|$))"
)  # of mpirun, of srun -l
START = re.compile(r"#\s*Collective test starting:\s*(\S+)")
SETTINGS = re.compile(r"#\s*nThread\b")
RANK = re.compile(r"#\s+Rank\s+(\d+)\b")
BARE = (11, 12, 13)  # fields of a line in a file without its header
HALF = ("time", "algbw", "busbw", "#wrong")
OPS = {"alltoall": "all_to_all"}  # its name there, and ours


class Half(NamedTuple):
    """What was measured out of place, or in place."""

    time: float  # [s]
    bus: float  # [B/s]


class Point(NamedTuple):
    """One size of a test."""

    size: float  # [B]
    out_of_place: Half | None
    in_place: Half | None


class Series(NamedTuple):
    """One test of a file; ``op`` is empty and ``ranks`` 0 where the file does not say."""

    op: str
    ranks: int
    points: tuple[Point, ...]
    dropped: int = 0  # lines that were cut


def read_tests(file: str) -> list[Series]:
    """Return the tests of a file that have a size.

    Raises: InputError for a file that cannot be read, that has no line of data, that measures the
    time of the CPU, or whose processes each ran alone.
    """
    path = pathlib.Path(file)
    try:
        if path.stat().st_size > LARGEST:
            raise refusal(file, f"larger than {LARGEST / 1e6:.0f} MB; expected nccl-tests' output")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise refusal(file, f"cannot be read: {error.strerror}") from None
    try:
        return _json(text) if text.lstrip().startswith("{") else _text(text)
    except InputError as error:
        raise refusal(file, str(error)) from None


def our_name(name: str) -> str:
    """Return the name of an operation by that of its program.

    >>> our_name("alltoall_perf"), our_name("all-reduce")
    ('all_to_all', 'all_reduce')
    """
    plain = name.rpartition("/")[2].removesuffix("_perf").replace("-", "_")
    return OPS.get(plain, plain)


# ---- Text ---------------------------------------------------------------------------------------


class _Reading:
    """One test while its lines are read."""

    def __init__(self, op: str = "") -> None:
        self.op, self.dropped = op, 0
        self.ranks: list[int] = []
        self.names: list[str] = []
        self.points: list[Point] = []

    def test(self) -> Series:
        """Return what was read."""
        if self.ranks.count(0) > 1:
            said = "several lines 'Rank  0': built without MPI, so that every process ran alone"
            raise InputError(f"{said}; expected one test over all ranks")
        return Series(self.op, len(self.ranks), tuple(self.points), self.dropped)


def _text(text: str) -> list[Series]:
    tests, like = [_Reading()], ""
    for line in map(_without_prefix, text.splitlines()):
        now, started = tests[-1], START.match(line)
        if started or (SETTINGS.match(line) and (now.points or now.names or not now.op)):
            tests.append(_Reading(our_name(started[1]) if started else ""))
        elif line.startswith("#"):
            _read_comment(now, line)
        elif line[:1].isdigit() and line.split()[0].isdigit():
            like = like or line
            point = _point(now.names, line.split())
            now.dropped += point is None
            if point is not None and point.size > 0.0:
                now.points.append(point)
    found = [test for test in (one.test() for one in tests) if test.points]
    if not found:
        said = f"; the first that looked like one: {shown(like)}" if like else ""
        raise InputError(f"no line of data of nccl-tests{said}")
    return found


def _without_prefix(line: str) -> str:
    return PREFIX.sub("", line, count=1).strip()


def _read_comment(now: _Reading, line: str) -> None:
    rank, words = RANK.match(line), line[1:].split()
    if rank:
        now.ranks.append(int(rank[1]))
    elif {"size", "count"} <= {*words}:
        if "cputime" in words:
            raise InputError("column cputime: no wall time; expected a run without -C 1")
        # the date and the clock of a stamp are two fields
        now.names = [n for word in words for n in [word] * (1 + (word == "timestamp"))]


def _point(names: Sequence[str], fields: Sequence[str]) -> Point | None:
    """Return what a line says, None if it is cut or of another kind."""
    if len(fields) < 2 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    if not names:
        if len(fields) not in BARE:
            return None
        names = [*["-"] * (len(fields) - 2 * len(HALF)), *HALF, *HALF]
    starts = [place for place, name in enumerate(names) if name == "time"]
    stamps = sum(name == "timestamp" for name in names)
    half = len(names) - stamps - starts[-1] if starts else 0
    try:
        if len(fields) == len(names):
            halves = [_half(names, fields, start) for start in starts]
        elif len(fields) == len(names) - half and len(starts) > 1:
            halves = [None, _half(names, fields, starts[0])]
        else:
            return None
    except ValueError:
        return None
    return Point(float(fields[0]), *[*halves, None][:2])


def _half(names: Sequence[str], fields: Sequence[str], start: int) -> Half | None:
    """Return the time and the bus bandwidth of the half that begins at a field."""
    time, bus = float(fields[start]), float(fields[names.index("busbw", start)])
    return Half(time * 1e-6, bus * 1e9) if math.isfinite(time) and time > 0.0 else None


# ---- JSON ---------------------------------------------------------------------------------------


def _json(text: str) -> list[Series]:
    """Return the test of a file of ``-J``; its environment is the user's own and never read."""
    try:
        data = json.loads(text)
        results = data["results"]
        config, args = data.get("config", {}), data.get("args") or [""]
        devices, counts = config.get("devices", []), (config.get("nthreads"), config.get("ngpus"))
        ranks = len(devices) * math.prod(int(count or 1) for count in counts)
        points = [*_json_points(results)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not the JSON of nccl-tests, or cut off: {shown(str(error))}") from None
    if not points:
        raise InputError("no result in the JSON of nccl-tests")
    return [Series(our_name(str(args[0])), ranks, tuple(points))]


def _json_points(results: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    for one in results:
        halves = [_json_half(one.get(name)) for name in ("out_of_place", "in_place")]
        if float(one["size"]) > 0.0 and any(halves):
            yield Point(float(one["size"]), *halves)


def _json_half(half: Mapping[str, Any] | None) -> Half | None:
    if half is None:
        return None
    if "time" not in half:
        raise InputError("cpu_time: no wall time; expected a run without -C 1")
    time = float(half["time"])
    return Half(time * 1e-6, float(half["bus_bw"]) * 1e9) if math.isfinite(time) else None
