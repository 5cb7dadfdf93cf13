"""Collectives on machines: measured medians, choices that stay, what is refused."""

import csv
import gzip

import fabrics
import numpy as np
import pytest
from places import GOLDEN, ROOT
from refusals import refused

from jaxroof.analyses.collective import collective, read_sizes
from jaxroof.analyses.collective_machine import SICK

MIB = 2.0**20
SAMPLE = str(GOLDEN / "networks" / "nccl_tests_sample.txt")
PRESETS = {"a100_sxm": "dgx-a100-pod", "h100_sxm": "dgx-h100-pod", "h200_sxm": "hgx-h200",
           "b200_sxm": "dgx-b200-pod", "b300_sxm": "hgx-b300", "gb200": "gb200-nvl72",
           "gb300": "gb300-nvl72"}  # fmt: skip
OPS = {one: one for one in ("all_gather", "reduce_scatter", "all_reduce")}
OPS |= {"allgather": "all_gather", "reducescatter": "reduce_scatter", "allreduce": "all_reduce"}
OPS |= {"alltoall": "all_to_all"}
LONE = 14.5 / 17.6  # what one rank of a node of Perlmutter gets of its rate (measured)
H100 = {"system": "dgx-h100-pod", "op": "all_reduce", "gpus": 64, "sizes": "1MiB"}


# ---- Measured -----------------------------------------------------------------------------------


def errors(rows, machine, gpus, seconds, size="size_bytes", settings=None, **more):
    """Return the size and |predicted / measured - 1| of every row, mode best at the preset."""
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault(
            (machine(row), OPS[row["op"]], gpus(row), row.get("stride", 1)), []
        ).append(row)
    found = []
    for (system, op, count, stride), own in groups.items():
        sizes = sorted({float(row[size]) for row in own})
        asked = {"gpus": count, "stride": stride, "sizes": sizes, "mode": "best"}
        changed = settings(own[0]) if settings else None
        data = collective(system, op, **asked, settings=changed, **more)
        times = dict(zip(sizes, data.time.values, strict=True))
        found += [
            (float(row[size]), abs(times[float(row[size])] / seconds(row) - 1)) for row in own
        ]
    return np.array(found)


def micro(row):
    return float(row["time_us"]) * 1e-6


def median(found, low, high):
    return float(np.median(found[(found[:, 0] >= low) & (found[:, 0] < high), 1]))


BANDS = ((0.0, MIB), (MIB, 64 * MIB), (64 * MIB, np.inf))
KINDS = [  # operations, medians of the sheet by band, with half a unit of their last digit
    (("all_gather", "reduce_scatter", "all_reduce"), (0.0435, 0.1095, 0.0405)),
    (("alltoall",), (0.155, 0.175, 0.105)),
]


@pytest.mark.parametrize(("ops", "medians"), KINDS)
def test_medians_in_a_node(ops, medians):
    rows = [r for r in fabrics.rows("measured") if r["source"] == "aiconfigurator-core NCCL tables"]
    rows = [row for row in rows if row["op"] in ops]
    found = errors(rows, lambda row: PRESETS[row["system"]], lambda row: int(row["gpus"]), micro)
    for (low, high), most in zip(BANDS, medians, strict=True):
        assert median(found, low, high) < most


def test_medians_on_perlmutter():
    """908 rows of 2 to 512 GPUs, lone ranks at their measured rate: 7.6 %; 3.9 % from 64 MiB on."""
    with gzip.open(ROOT / "notebooks" / "nccl_perlmutter.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["stride"] = 4 // int(row["gpus_per_node"]) if int(row["num_nodes"]) > 1 else 1

    def lone(row):
        share = 0.70 * LONE if row["gpus_per_node"] == "1" else 0.70
        return {f"tiers.{level}.efficiency": share for level in (1, 2, 3)}

    found = errors(
        rows,
        lambda row: "perlmutter-a100",
        lambda row: int(row["num_nodes"]) * int(row["gpus_per_node"]),
        lambda row: 0.5e-6 * (float(row["time_o"]) + float(row["time_i"])),
        "size",
        lone,
    )
    assert len(found) == 908
    assert median(found, 0.0, np.inf) < 0.0765
    for (low, high), most in zip(BANDS, (0.105, 0.145, 0.0395), strict=True):
        assert median(found, low, high) < most


def test_medians_of_others():
    """CoreWeave's 64 H100 and its racks, Azure's nodes, Ironwood's all-gathers without wraps."""
    rows = fabrics.rows("measured")
    weave = [r for r in rows if r["source"] == "CoreWeave nccl-tests" and r["gpus"] == "64"]
    found = errors(weave, lambda row: "dgx-h100-pod", lambda row: 64, micro)
    assert median(found, 0.0, np.inf) < 0.0265
    azure = [r for r in rows if r["source"] == "Azure AI benchmarking guide"]
    found = errors(azure, lambda row: "dgx-h100-pod", lambda row: 8, micro, in_place=True)
    assert median(found, *BANDS[1]) < 0.115
    assert median(found, *BANDS[2]) < 0.0375
    racks = [r for r in rows if r["system"] == "gb200 nvl72" and r["gpus"] in ("72", "144")]
    racks = [r for r in racks if r["source"] == "CoreWeave nccl-tests"]
    found = errors(racks, lambda row: "gb200-nvl72", lambda row: int(row["gpus"]), micro)
    assert median(found, 0.0, np.inf) < 0.125
    iron = [r for r in rows if r["source"] == "Ironwood microbenchmarks"]
    sizes = sorted(float(row["size_bytes"]) for row in iron)
    data = collective("tpu-v7", "all_gather", slice_shape="2x2x1", sizes=sizes)
    times = dict(zip(sizes, data.time.values, strict=True))
    off = [abs(times[float(row["size_bytes"])] / micro(row) - 1) for row in iron]
    assert len(off) == 5
    assert np.median(off) < 0.0075


# ---- Choices ------------------------------------------------------------------------------------


def test_a_choice_does_not_depend_on_the_machines_rates():
    asked = {"system": "dgx-h100-pod", "op": "all_reduce", "gpus": 8, "sizes": "1KiB:8GiB:4"}
    plain = collective(**asked)
    changes = {"tiers.0.bandwidth": "50 GB/s", "tiers.0.hop_low": "30 us", "library.base": "1 us"}
    slow = collective(**asked, settings=changes)
    assert list(plain.algorithm.values) == list(slow.algorithm.values)
    best = collective(**asked, mode="best", settings=changes)
    assert (best.time.values <= slow.time.values).all()
    assert (best.time.values < slow.time.values).any()


def test_tuned_is_the_best_at_its_reference():
    for row in fabrics.rows("presets"):
        for gpus in (8, 48):
            asked = {"system": row["preset"], "gpus": gpus, "sizes": "256:8GiB:8"}
            changes = {f"tiers.{k}.oversubscription": 1 for k in range(4)}
            for op in ("all_reduce", "all_gather", "all_to_all", "broadcast"):
                found = [
                    collective(**asked, op=op, mode=m, settings=changes) for m in ("tuned", "best")
                ]
                np.testing.assert_array_equal(found[0].time.values, found[1].time.values)


def test_tuned_times_are_convex_in_reciprocal_rates_and_the_best_are_not():
    """Between two rates 1 / R the best lies above its chord: slopes and design must not take it."""
    reciprocal = np.linspace(1.0, 10.0, 40) / 450e9
    asked = {"system": "dgx-h100-pod", "op": "all_reduce", "gpus": 8, "sizes": "4MiB"}
    bends = {}
    for mode in ("tuned", "best"):
        found = [
            collective(**asked, mode=mode, settings={"tiers.0.bandwidth": 1.0 / float(r)})
            for r in reciprocal
        ]
        times = np.array([float(data.time[0]) for data in found])
        bends[mode] = np.diff(times, 2) / times[1:-1]
    assert bends["tuned"].min() > -1e-12
    assert bends["best"].min() < -1e-4


def test_one_algorithm_is_that_of_its_name():
    tree = collective(**H100, algorithm="tree")
    low = collective(**H100, algorithm="tree low")
    assert tree.algorithm.values.tolist() == ["tree"]
    assert float(low.time[0]) == float(low.candidate_time.sel(candidate="tree low")[0])
    ladder = collective(**H100, algorithm="ladder bulk")
    assert "ladder bulk" in ladder.candidate.values
    assert float(ladder.time[0]) == float(ladder.candidate_time.sel(candidate="ladder bulk")[0])


def test_bounds_say_what_takes_the_time():
    data = collective("dgx-h100-pod", "all_reduce", gpus=8, sizes="1KiB,1GiB")
    assert data.bound.values.tolist() == ["latency", "tier 0 switch"]
    capped = collective("dgx-h100-pod", "all_gather", gpus=8, sizes="1GiB", algorithm="ring low")
    assert capped.bound.values.tolist() == ["tier 0 cap"]
    spine = collective("taper-2-h100", "all_to_all", gpus=2048, sizes="1GiB")
    assert spine.bound.values.tolist() == ["tier 2"]


def test_in_place_copies_nothing():
    asked = {"system": "dgx-h100-pod", "op": "all_gather", "gpus": 8, "sizes": "1GiB"}
    outside, inside = collective(**asked), collective(**asked, in_place=True)
    copied = 2.0**30 / (8 * 684e9)
    assert float(outside.time[0] - inside.time[0]) == pytest.approx(copied, rel=1e-9)


def test_large_groups_of_racks_say_what_was_measured():
    asked = {"system": "gb200-nvl72", "op": "all_reduce", "gpus": 1440, "sizes": "1GiB"}
    assert SICK in collective(**asked).attrs["notes"]
    assert SICK not in collective(**asked, settings={"tiers.1.health": 0.5}).attrs["notes"]


def test_a_system_file_is_its_own_reference(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "Mine"\nsource = "here"\nbase = "h100-nvs8"\n[[tiers]]\n[[tiers]]\nsize = 32\n'
        "[[tiers]]\noversubscription = 4\n"
    )
    data = collective(str(path), "all_to_all", gpus=64, sizes="1GiB")
    assert data.bound.values.tolist() == ["tier 2"]


# ---- Measured files -----------------------------------------------------------------------------


def test_a_file_gives_operation_ranks_and_sizes():
    data = collective("dgx-h100-pod", measured=SAMPLE)
    assert (data.attrs["op"], data.attrs["gpus"]) == ("all_reduce", 8)
    assert data["size"].values.tolist() == [MIB, 32 * MIB, 1024 * MIB]
    np.testing.assert_allclose(data.measured_time.values, [38.52e-6, 181.4e-6, 4018.2e-6])
    np.testing.assert_allclose(data.ratio.values, data.time.values / data.measured_time.values)
    inside = collective("dgx-h100-pod", measured=SAMPLE, in_place=True)
    np.testing.assert_allclose(inside.measured_time.values[0], 38.11e-6)


REFUSED = [  # changes of H100, a part of what is said
    ({"system": "dgx-h100-pad"}, "Did you mean 'dgx-h100-pod'?"),
    ({"system": "h100-nvs8"}, "no tiers of links; expected a fabric such as dgx-h100-pod"),
    ({"system": "tpu-v5p"}, "a torus; expected --slice and --axes"),
    ({"op": "all_reduse"}, "Did you mean 'all_reduce'?"),
    ({"op": "scatter"}, "measured by nccl-tests, but not predicted"),
    ({"op": None}, "--op: missing"),
    ({"gpus": None}, "--gpus: missing"),
    ({"gpus": 1.5}, "--gpus: expected a whole number of at least 1, given 1.5"),
    ({"gpus": float("nan")}, "--gpus: expected a whole number"),
    ({"stride": 0}, "--stride: expected a whole number"),
    ({"sizes": None}, "--sizes: missing"),
    ({"sizes": ""}, "empty"),
    ({"sizes": "-1"}, "expected from 0 to 1e+18 B"),
    ({"sizes": "nan"}, "--sizes"),
    ({"sizes": "2e18"}, "expected from 0 to 1e+18 B"),
    ({"sizes": "8,4"}, "not rising"),
    ({"sizes": "8KiB:1KiB:2"}, "an end not below it"),
    ({"sizes": "1:8GiB:1"}, "expected one above 1"),
    ({"sizes": "1:8GiB"}, "expected start:end:factor"),
    ({"sizes": "1:1e18:1.001"}, "expected at most 10,000"),
    ({"mode": "fastest"}, "no such mode"),
    ({"mode": "best", "algorithm": "ring"}, "beside --mode best"),
    ({"algorithm": "tre"}, "Did you mean 'tree'?"),
    ({"algorithm": "tree lo"}, "Did you mean 'low'?"),
    ({"algorithm": "nvls"}, "nvls: needs a group inside one fast domain, of 2 to 8"),
    ({"algorithm": "nvls_tree low"}, "runs in bulk alone"),
    ({"algorithm": "sharp"}, "links whose switches add (tiers.1"),
    ({"algorithm": "pat"}, "pat: no algorithm of all_reduce; expected one of ring, tree"),
    ({"algorithm": "pat", "op": "all_gather"}, "one accelerator a fast domain"),
    ({"algorithm": "one_shot"}, "needs a group inside one fast domain of 8"),
    ({"settings": {"tiers.1.oversubscription": 0.5}}, "of at least 1"),
    ({"settings": {"tiers.1.size": 4}}, "tiers.1.size"),
    ({"settings": {"tiers.1.health": 1.5}}, "at most 1"),
    ({"settings": {"tiers.1.health": 0}}, "tiers.1.health"),
    ({"settings": {"tiers.0.reduction": 2}}, "at most 1"),
    ({"settings": {"tiers.1.mesh": -1}}, "of at least 0"),
    ({"settings": {"tiers.1.hop": -1}}, "of at least 0"),
    ({"settings": {"tiers.1.hopp": 1}}, "Did you mean 'tiers.1.hop'?"),
    ({"settings": {"tiers.3.size": 32, "tiers.2.size": 32, "tiers.1.size": 32}}, "outermost tier"),
    ({"slice_shape": "4x4x4", "gpus": None}, "is no torus"),
    ({"measured": SAMPLE}, "measured over 8 ranks; expected 64"),
    ({"measured": SAMPLE, "op": "all_gather"}, "no test of all_gather; there are tests"),
    ({"measured": SAMPLE, "gpus": 8, "sizes": "1KiB"}, "no such size there"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), REFUSED, ids=[said[:24] for _, said in REFUSED])
def test_what_has_no_answer_is_refused_in_a_line(change, said):
    assert said in refused(collective, **{**H100, **change})


TORUS = {"system": "tpu-v5p", "op": "all_gather", "sizes": "1MiB", "slice_shape": "4x4x8"}
REFUSED_TORI = [
    ({"slice_shape": None, "axes": "0"}, "--slice: missing"),
    ({"slice_shape": "5x5x5"}, "no slice of tpu-v5p; the nearest: 4x4x8"),
    ({"slice_shape": "4x4"}, "no slice of tpu-v5p"),
    ({"slice_shape": "4xax8"}, "expected sides such as"),
    ({"axes": "0,0"}, "0: used twice"),
    ({"axes": "3"}, "expected axes from 0 to 2"),
    ({"gpus": 16}, "--gpus: not on a torus"),
    ({"mode": "best"}, "--mode: not on a torus"),
    ({"op": "broadcast"}, "no such operation"),
    ({"settings": {"tiers.1.size": 2}}, "tiers.1.size"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED_TORI, ids=[s[:24] for _, s in REFUSED_TORI])
def test_what_no_torus_has_is_refused_in_a_line(change, said):
    assert said in refused(collective, **{**TORUS, **change})


def test_a_stride_that_does_not_divide_is_said():
    data = collective(**{**H100, "gpus": 16}, stride=3)
    assert "do not divide" in data.attrs["notes"]


def test_sizes_end_where_they_are_told_to():
    assert len(read_sizes("1KiB:8GiB:2")) == 24
    assert read_sizes("1:10:3").tolist() == [1.0, 3.0, 9.0]


def test_the_page_has_the_rates_of_tori():
    """Links a chip of an all-to-all over a whole slice, plain and twisted: ten numbers."""
    page = (ROOT / "docs" / "collectives.md").read_text(encoding="utf-8")
    for row in fabrics.rows("torus_twist"):
        cells = next(line for line in page.splitlines() if line.startswith(f"| {row['shape']} |"))
        column = 3 if float(row["twisted"]) else 2
        assert float(cells.split("|")[column]) == pytest.approx(
            float(row["out_rate_in_links"]), abs=5e-4
        )
