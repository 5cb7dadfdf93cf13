"""What nccl-tests prints, in all its forms."""

import json

import pytest
from places import GOLDEN
from refusals import refused

from jaxroof.io.nccl_tests import Half, Point, read_tests

SAMPLE = (GOLDEN / "networks" / "nccl_tests_sample.txt").read_text(encoding="utf-8")
HEAD, DATA = (
    SAMPLE.split("         (us)  (GB/s)  (GB/s)         \n")[0],
    "     1048576        262144",
)
FIRST = Point(1048576.0, Half(38.52e-6, 47.64e9), Half(38.11e-6, 48.15e9))


@pytest.fixture
def tests_of(tmp_path):
    def read(text: str):
        path = tmp_path / "out.log"
        path.write_text(text, encoding="utf-8")
        return read_tests(str(path))

    return read


def test_the_sample_is_read(tests_of):
    (test,) = tests_of(SAMPLE)
    assert (test.op, test.ranks, test.dropped, len(test.points)) == ("all_reduce", 8, 0, 3)
    for ours, theirs in zip(test.points[0][1:], FIRST[1:], strict=True):
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", " 0: ", "[prterun-a-1@1,0]<stdout>:", "0:"])
def test_prefixes_of_launchers_are_taken_off(tests_of, prefix):
    lines = "\n".join(f"{prefix}{line}" for line in SAMPLE.splitlines())
    assert tests_of(lines) == tests_of(SAMPLE)
    noise = "node01:4711:4722 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1]"
    assert tests_of(SAMPLE.replace("\n", f"\n{noise}\n")) == tests_of(SAMPLE)


def reshaped(change) -> str:
    """Return the sample with its header and its lines of data changed, as fields."""
    lines = []
    for line in SAMPLE.splitlines():
        fields = line.split()
        if fields[:2] == ["#", "size"] or (fields and fields[0].isdigit()):
            fields = fields if fields[0] == "#" else ["", *fields]
            line = " ".join(change(fields))
        lines.append(line)
    return "\n".join(lines)


def is_head(fields):
    return fields[0] == "#"


def bit_difference(fields):
    own = "#bitdiff" if is_head(fields) else "0"
    return [*fields[:10], own, *fields[10:], own]


def stamped(fields):
    return [*fields, *(["timestamp"] if is_head(fields) else ["2026-01-02", "10:11:12"])]


def percentiles(fields):
    names = ["i_min", "i_max", "i_p99", "i_cv%"]
    own = names if is_head(fields) else ["1.0", "2.0", "2.0", "3.5"]
    return [*fields[:10], *own, *fields[10:], *own]


def without_root(fields):
    renamed = ["error" if name == "#wrong" else name for name in fields]
    return [*renamed[:5], *renamed[6:]] if is_head(fields) else [*fields[:5], *fields[6:]]


def oldest(fields):
    return [*fields[:4], *fields[6:]]


@pytest.mark.parametrize(
    "change", [bit_difference, stamped, percentiles, without_root, oldest], ids=lambda f: f.__name__
)
def test_columns_go_by_their_names(tests_of, change):
    assert tests_of(reshaped(change))[0].points == tests_of(SAMPLE)[0].points


@pytest.mark.parametrize("change", [lambda fields: fields, stamped], ids=["plain", "stamped"])
def test_a_line_short_by_a_half_has_no_out_of_place_part(tests_of, change):
    def in_place(fields):
        made = change(fields)
        return made if is_head(fields) else [*made[:6], *made[10:]]

    points, whole = tests_of(reshaped(in_place))[0].points, tests_of(SAMPLE)[0].points
    assert [point.in_place for point in points] == [point.in_place for point in whole]
    assert [point.out_of_place for point in points] == [None, None, None]


def test_lines_without_a_header_are_read(tests_of):
    lines = [line for line in SAMPLE.splitlines() if line.strip()[:1].isdigit()]
    (test,) = tests_of("\n".join(lines))
    assert (test.op, test.ranks) == ("", 0)
    assert test.points == tests_of(SAMPLE)[0].points


def test_several_tests_of_a_file_are_apart(tests_of):
    other = SAMPLE.replace("all_reduce_perf", "alltoall_perf")
    found = tests_of(SAMPLE + other)
    assert [(test.op, len(test.points), test.ranks) for test in found] == [
        ("all_reduce", 3, 8),
        ("all_to_all", 3, 8),
    ]
    old = SAMPLE.replace("# Collective test starting: all_reduce_perf\n", "")
    assert [(test.op, test.ranks) for test in tests_of(old + old)] == [("", 8), ("", 8)]


def test_numbers_in_all_their_forms(tests_of):
    text = SAMPLE.replace("4018.20", "1.2e+06").replace("0    38.11", "1.3e+07    38.11")
    points = tests_of(text)[0].points
    assert points[2].out_of_place.time == pytest.approx(1.2)
    assert points[0] == tests_of(SAMPLE)[0].points[0]
    empty = SAMPLE.replace("     1048576        262144", "           0             0")
    assert len(tests_of(empty)[0].points) == 2, "sizes of 0 are skipped"


def test_a_cut_file_says_how_much_was_dropped(tests_of):
    cut = SAMPLE[: SAMPLE.index("184.97")]
    (test,) = tests_of(cut)
    assert (len(test.points), test.dropped) == (1, 1)


def as_json(**changes):
    half = {"time": 38.52, "alg_bw": 27.22, "bus_bw": 47.64, "nwrong": None}
    one = {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "-1"}
    data = {
        "version": 3,
        "args": ["/opt/all_reduce_perf", "-J", "x"],
        "env": {"SECRET": "never shown"},
        "config": {"nthreads": 1, "ngpus": 4, "devices": [{}, {}]},
        "results": [{**one, "out_of_place": half, "in_place": {**half, "time": "nan"}}],
    }
    return json.dumps({**data, **changes})


def test_json_is_read(tests_of):
    (test,) = tests_of(as_json())
    assert (test.op, test.ranks) == ("all_reduce", 8)
    assert test.points[0].out_of_place == pytest.approx(FIRST.out_of_place)
    assert test.points[0].in_place is None


REFUSED = [
    ("nothing here\n", "no line of data of nccl-tests"),
    (
        "# size count type\n  1024 256 float 3.1\n",
        "the first that looked like one: '1024 256 float",
    ),
    (SAMPLE.replace("    time   algbw", " cputime   algbw"), "cputime: no wall time"),
    (SAMPLE.replace("Rank  1", "Rank  0"), "built without MPI"),
    (as_json()[:-40], "not the JSON of nccl-tests, or cut off"),
    (as_json(results=[]), "no result in the JSON"),
    (as_json(config=5), "not the JSON of nccl-tests"),
    ("{}", "not the JSON of nccl-tests"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[said[:20] for _, said in REFUSED])
def test_what_cannot_be_used_is_refused(tests_of, text, said):
    told = refused(tests_of, text)
    assert said in told
    assert "never shown" not in told


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "cannot be read: No such file" in refused(read_tests, str(tmp_path / "none.log"))
