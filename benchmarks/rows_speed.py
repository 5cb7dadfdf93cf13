"""How many rows of a table does an estimator answer in a second?

1. The training estimator, 20 results and more a row, on parsed columns: jaxroof's chunks, a Python
   loop that calls the same estimator, jitted, row by row, and the same program called once on
   columns that ``numpy.loadtxt`` has read. Answers are compared.
2. The numbers of the file read alone: by jaxroof, by ``numpy.loadtxt`` and by Python's csv module.
3. The command from end to end: read and answered; and written too.
4. The peak memory of the command, on a file and on one eight times as long.

Run: ``python benchmarks/rows_speed.py``; ``--quick`` for fewer rows. The last line is JSON.
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxroof as jr
from jaxroof.analyses.rows.columns import Faults, RowProblem, read_columns, shared_of
from jaxroof.analyses.rows.evaluate import evaluate_file
from jaxroof.cli.process import start
from jaxroof.engine.grid.compiled import evaluate_jit
from jaxroof.engine.runs.row_stream import LAST, RowChunk, stream_rows
from jaxroof.io.csv_blocks import open_rows
from jaxroof.records import get_at
from jaxroof.structure import results

SHARED = {"model": "gpt3-1t", "system": "b200-nvs8"}
HEADINGS = [
    "global_batch",
    "plan.data",
    "plan.tensor",
    "plan.pipeline",
    "plan.microbatch",
    "plan.fast_tensor",
    "system.hbm_bandwidth [GB/s]",
    "system.slow_bandwidth [GB/s]",
]
LOOP = 2000  # rows of the loop: each takes as long
AGREE = 1e-12


def write_rows(path: Path, count: int) -> None:
    """Write a file of plans on machines, all numbers drawn by chance."""
    chance = np.random.default_rng(5)
    degrees = [2.0 ** chance.integers(0, most, count) for most in (6, 4, 6, 2)]
    rates = [np.round(chance.uniform(*ends, count), 3) for ends in ((500, 16000), (10, 400))]
    columns = [np.full(count, 4096.0), *degrees, np.minimum(degrees[1], 8), *rates]
    lines = map(",".join, zip(*(map(repr, column.tolist()) for column in columns), strict=True))
    path.write_text("\n".join([",".join(HEADINGS), *lines]) + "\n")


def parsed(path: Path, count: int) -> list[RowChunk]:
    """Return a file's rows as chunks that can be asked: what is left after reading."""
    columns = read_columns(jr.published, HEADINGS)
    shared = shared_of(jr.published, SHARED, columns)
    asked = RowProblem(jr.published, columns, shared)
    chunks = []
    with open_rows(path) as file:
        while (block := file.take(LAST)) is not None:
            chunks.append(asked.chunk(block.cells, len(block.lines), Faults()))
    if sum(chunk.size for chunk in chunks) != count:
        raise SystemExit("rows were lost")
    return chunks


def inputs_at(chunk: RowChunk, row: int) -> Any:
    """Return the inputs of one row, every number by itself."""
    inputs = chunk.groups[0].inputs
    return jax.tree.map(lambda leaf: np.float64(leaf[row] if np.ndim(leaf) else leaf), inputs)


def looped(chunk: RowChunk, count: int) -> list[float]:
    """Return the step times of some rows: a call of the jitted estimator and all results each."""
    found = []
    for row in range(count):
        report = evaluate_jit(jr.published, jr.published.recipe, inputs_at(chunk, row))
        values = {name: value.item() for name, value in results(report).items()}
        found.append(values["step_time"])
    return found


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and what it returned."""
    begun = time.perf_counter()
    found = call()
    return time.perf_counter() - begun, found


def line(what: str, seconds: float, rows: int) -> float:
    """Print one figure; return rows a second."""
    print(f"{what:<52}{seconds:9.3f} s {rows / seconds:14,.0f} rows/s", flush=True)
    return rows / seconds


def evaluation(path: Path, count: int, rounds: int) -> dict[str, float]:
    """Compare the three ways to answer rows that are read already."""
    chunks = parsed(path, count)

    def ours() -> list[np.ndarray]:
        return [answers.columns["step_time"] for answers in stream_rows(jr.published, chunks)]

    def whole() -> np.ndarray:
        """All rows at once: the fields that vary are columns of what numpy read."""
        group = chunks[0].groups[0]
        moved = {p: np.concatenate([get_at(c.groups[0].inputs, p) for c in chunks]) for p in PATHS}
        inputs = group.inputs
        for field, column in moved.items():
            inputs = jr.replace_at(inputs, field, column)
        report = evaluate_jit(jr.published, jr.published.recipe, inputs)
        return {name: np.asarray(value) for name, value in results(report).items()}["step_time"]

    found, other, few = np.concatenate(ours()), whole(), min(count, LOOP)
    alone = np.array(looped(chunks[0], few))
    worst = max(np.max(np.abs(found / other - 1)), np.max(np.abs(found[:few] / alone - 1)))
    if not worst <= AGREE:
        raise SystemExit(f"the answers differ: {worst}")
    seconds = statistics.median(timed(ours)[0] for _ in range(rounds))
    figures = {"rows_per_second": line("evaluate: jaxroof, by chunks", seconds, count)}
    seconds = statistics.median(timed(whole)[0] for _ in range(rounds))
    figures["once_rows_per_second"] = line("evaluate: one call on all rows", seconds, count)
    seconds, _ = timed(lambda: looped(chunks[0], few))
    figures["loop_rows_per_second"] = line(
        "evaluate: Python loop, a jitted call a row", seconds, few
    )
    figures["ratio_to_loop"] = figures["rows_per_second"] / figures["loop_rows_per_second"]
    return figures


PATHS = [heading.partition(" ")[0] for heading in HEADINGS]


def reading(path: Path, count: int) -> dict[str, float]:
    """Compare ways to get the numbers of a file."""

    def by_csv() -> np.ndarray:
        with open(path, newline="") as stream:
            rows = csv.reader(stream)
            next(rows)
            return np.array([[float(cell) for cell in row] for row in rows])

    def by_numpy() -> np.ndarray:
        return np.loadtxt(path, delimiter=",", skiprows=1)

    seconds, chunks = timed(lambda: parsed(path, count))
    figures = {"read_rows_per_second": line("read and check: jaxroof", seconds, count)}
    seconds, array = timed(by_numpy)
    figures["loadtxt_rows_per_second"] = line("read: numpy.loadtxt", seconds, count)
    mine = get_at(chunks[0].groups[0].inputs, "plan.data")
    if not np.array_equal(mine, array[: len(mine), 1]):
        raise SystemExit("the numbers read differ")
    seconds, _ = timed(by_csv)
    figures["csv_rows_per_second"] = line("read: Python's csv, cell by cell", seconds, count)
    return figures


def whole_file(path: Path, count: int) -> dict[str, float]:
    """Time all of a command but its start, its programs compiled."""
    target = path.with_name("answers.csv")
    evaluate_file(jr.published, path, settings=SHARED)
    seconds, _ = timed(lambda: evaluate_file(jr.published, path, settings=SHARED))
    figures = {"answered_rows_per_second": line("read and answer", seconds, count)}
    seconds, _ = timed(lambda: evaluate_file(jr.published, path, target, SHARED))
    figures["end_to_end_rows_per_second"] = line("read, answer and write", seconds, count)
    size = target.stat().st_size
    print(f"{size / 1e6:.0f} MB written, {size / seconds / 1e6:.0f} MB/s", flush=True)
    return figures


def peak_of(path: Path) -> float:
    """Return the most memory that a process held that answers a file and writes it [B]."""
    command = [sys.executable, __file__, "--file", str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def answer(path: Path) -> None:
    """Answer one file, and print the most memory that it took [B]."""
    evaluate_file(jr.published, path, path.with_name("answers.csv"), SHARED)
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a started process begins at what its parent held
        (peak,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        print(int(peak.split()[1]) * 1024)
    else:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    start()
    if asked.file:
        answer(asked.file)
        return
    count = 1 << 17 if asked.quick else 1 << 20
    with tempfile.TemporaryDirectory() as folder:
        path, short = Path(folder, "rows.csv"), Path(folder, "short.csv")
        write_rows(path, count)
        write_rows(short, count // 8)
        print(f"{count:,} rows of {len(HEADINGS)} columns, {path.stat().st_size / 1e6:.0f} MB")
        print(f"{os.cpu_count()} cores, {jax.devices()[0].device_kind}")
        figures = evaluation(path, count, 3 if asked.quick else 7)
        figures |= reading(path, count) | whole_file(path, count)
        peaks = [peak_of(some) for some in (short, path)]
        print(f"peak memory: {peaks[0] / 1e6:.0f} MB of {count // 8:,} rows, ", end="")
        print(f"{peaks[1] / 1e6:.0f} MB of {count:,}")
    print(json.dumps({"rows": count, **figures, "peak_memory_bytes": peaks[1]}))


if __name__ == "__main__":
    main()
