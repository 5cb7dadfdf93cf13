"""The command collective, and calibrate of nccl-tests: what they print, write and draw."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from places import GOLDEN

from jaxroof.analyses.collective import collective

SAMPLE = GOLDEN / "networks" / "nccl_tests_sample.txt"
ASKED = "collective --system dgx-h100-pod --gpus 64 --op all_reduce --sizes 1KiB:8GiB:4"


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_a_table_fits_80_columns(jaxroof):
    said = jaxroof(ASKED)
    assert said.code == 0
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "all_reduce over 64 accelerators of dgx-h100-pod"
    assert lines[1].startswith("22.83 ms at 4 GiB by nvls_tree bulk: 370.4 GB/s of bus bandwidth")
    assert "tier 1" in said.out
    assert "Not shown at this width" in said.words
    only = jaxroof(f"{ASKED} --quiet")
    assert only.out.splitlines()[0].split()[:3] == ["time", "algbw", "busbw"]


def test_a_tapered_spine_binds_an_exchange(jaxroof):
    asked = "collective --system dgx-h100-pod --gpus 1024 --op alltoall --sizes 1GiB --quiet"
    plain, taper = jaxroof(asked), jaxroof(f"{asked} --set tiers.2.oversubscription=4")
    assert " tier 1" in plain.out
    assert " tier 2" in taper.out


def test_a_torus_has_its_own_words(jaxroof):
    said = jaxroof(
        "collective --system tpu-v5p --slice 4x4x8 --axes 0,1 --op all_gather --sizes 1MiB:1GiB:4"
    )
    assert "all_gather over 16 accelerators of tpu-v5p" in said.out
    assert "the links bind" in said.out
    assert "Axes 0 and 1 wrap around." in said.out


def test_a_measured_file_is_laid_beside(jaxroof, tmp_path):
    said = jaxroof(f"collective --system dgx-h100-pod --measured {SAMPLE}")
    assert "Predicted over measured, medians (sizes): 0.90 from 1 to 64 MiB (2)" in said.words
    assert "The machine does what the model says." in said.words
    text = SAMPLE.read_text()
    cut = tmp_path / "cut.log"
    cut.write_text(text[: text.index("467.63")])
    said = jaxroof(f"collective --system dgx-h100-pod --measured {cut}")
    assert "1 line was cut off in the file, and dropped." in said.words
    half = re.sub(r" (38.52|181.40|4018.20) ", lambda found: f" {2 * float(found[1]):.2f} ", text)
    cut.write_text(half)
    said = jaxroof(f"collective --system dgx-h100-pod --measured {cut}")
    assert "half of the rails unused" in said.words


def test_files_hold_what_is_printed(jaxroof, tmp_path):
    data = collective("dgx-h100-pod", "all_reduce", gpus=64, sizes="1KiB:8GiB:4")
    for name in ("a.csv", "a.json", "a.nc", "a.png", "a.svg"):
        assert jaxroof(f"{ASKED} -o {name}").code == 0
    rows = (tmp_path / "a.csv").read_text().splitlines()
    assert len(rows) == 1 + data.sizes["size"]
    assert "time_nvls_tree_bulk" in rows[0]
    printed = json.loads(jaxroof(f"{ASKED} --json").out)
    assert printed["data_vars"] == json.loads((tmp_path / "a.json").read_text())["data_vars"]
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as stored:
        np.testing.assert_array_equal(stored.time.values, data.time.values)
    assert jaxroof("report a.nc -o a.html").code == 0
    assert "22.83 ms at 4 GiB" in (tmp_path / "a.html").read_text()
    assert jaxroof("plot a.nc -o b.png").code == 0
    assert jaxroof("rerun a.nc").code == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("collective --system dgx-h100-pod --op all_reduce --sizes 1KiB --gpus 1.5", "--gpus"),
        ("collective --system dgx-h100-pod --op all_reduce --sizes 1KiB --gpus 0", "--gpus"),
        (f"{ASKED} --stride 0", "--stride"),
        (f"{ASKED} --set tiers.2.oversubscription=0.5", "tiers.2.oversubscription"),
        (f"{ASKED} --algorithm nvls", "needs a group inside one fast domain"),
        (f"{ASKED} -o x.doc", "cannot tell the kind of file"),
        (f"{ASKED} --measured none.log", "cannot be read"),
        ("collective --system h20 --gpus 1 --op reduce --sizes 1 -o x.png", "nothing is sent"),
    ],
)
def test_wrong_input_is_one_line(jaxroof, line, said):
    ended = jaxroof(line)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_neither_jax_nor_arrays_slow_a_start():
    script = (
        "import sys\nfrom jaxroof.cli import main\n"
        "try:\n    main({words!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "assert 'jax' not in sys.modules\nassert {arrays} or 'numpy' not in sys.modules\n"
    )
    for words, arrays in ((ASKED.split(), True), (["collective", "--help"], False)):
        code = script.format(words=words, arrays=arrays)
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr


# ---- calibrate ----------------------------------------------------------------------------------


def log_of(times, sizes, ranks):
    """Return the output of nccl-tests of an all-reduce that took such times."""
    text = SAMPLE.read_text()
    first, tail = text.index("#  Rank  0"), text.index("#\n#    ")
    line = text[first:].split("\n")[0]
    named = "".join(f"{line.replace('Rank  0', f'Rank {rank:2d}')}\n" for rank in range(ranks))
    half = "{0:7.2f} {1:6.2f} {2:6.2f} 0"
    rows = ""
    for size, time in zip(sizes, times, strict=True):
        rate = size / time / 1e9
        part = half.format(time * 1e6, rate, 2 * rate * (ranks - 1) / ranks)
        rows += f"{int(size):12d} {int(size) // 4:12d} float sum -1 {part} {part}\n"
    return text[:first] + named + text[tail : text.index("     1048576  ")] + rows


def test_calibrate_finds_the_constants_of_a_fabric(jaxroof, tmp_path):
    told = {"tiers.1.efficiency": 0.7, "library.nvls_latency": "80 us"}
    asked = {"op": "all_reduce", "gpus": 64, "sizes": "1KiB:8GiB:2"}
    data = collective("dgx-h100-pod", **asked, settings=told)
    noise = np.exp(0.03 * np.random.default_rng(0).standard_normal(data.sizes["size"]))
    text = log_of(data.time.values * noise, data["size"].values, 64)
    (tmp_path / "runs.log").write_text(text)
    said = jaxroof("calibrate runs.log --system dgx-h100-pod -o mine.toml")
    assert said.code == 0, said.err
    assert re.search(
        r"24 sizes of all_reduce over 64 on dgx-h100-pod: median error 2\d", said.words
    )
    mine = collective("mine.toml", **asked)
    np.testing.assert_allclose(mine.time.values, data.time.values, rtol=0.04)
    assert list(mine.algorithm.values) == list(data.algorithm.values)
    found = json.loads(jaxroof("calibrate runs.log --system dgx-h100-pod --json").out)
    fitted = found["constants"]["tiers.1.efficiency"]
    low, high = fitted["interval_80"]
    assert low < fitted["fitted"] < high
    assert fitted["fitted"] == pytest.approx(0.7, rel=0.03)
    again = jaxroof("calibrate runs.log --system mine.toml -o further.toml")
    assert again.code == 0, again.err
    step = jaxroof("search --model llama3-8b --system mine.toml --gpus 64 --batch 64 --top 1")
    assert step.code == 0, step.err


def test_calibrate_refuses_a_file_that_tells_nothing(jaxroof, tmp_path):
    (tmp_path / "empty.log").write_text("nothing\n")
    ended = jaxroof("calibrate empty.log --system dgx-h100-pod")
    assert (ended.code, "no line of data" in ended.err) == (2, True)
    (tmp_path / "other.log").write_text(SAMPLE.read_text().replace("all_reduce", "gather"))
    ended = jaxroof("calibrate other.log --system dgx-h100-pod")
    assert (ended.code, "expected a predicted operation" in ended.err) == (2, True)
