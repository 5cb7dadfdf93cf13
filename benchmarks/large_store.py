"""How much memory and how many files does a sweep of 10 billion points take?

A table of one plan of GPT-3 1T over three rates of its machine is written to a Zarr store, and a
fresh process opens it and reduces it slab by slab: least, mean and largest step time. Both are
processes of their own, so that each has its own peak of memory. A thinned run stands for the whole,
in chunks as large as those of 10 billion points: memory is that of a piece of a chunk and of the
record of chunks, so what 10 billion points take is computed from what is measured: bytes and
seconds a point, files and bytes of the record a chunk.

Run: ``python benchmarks/large_store.py``; ``--points 1e9`` for more; ``--folder`` for another disk.
The last line is JSON.
"""

import argparse
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

from one_plan import sweep_of

WHOLE = 10**10
LIMIT = 2e9  # bytes of memory
SIDE = 1000  # values of the two axes that every chunk has


def peak() -> float:
    """Return the largest memory of this process in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write(sweep: str, store: str, chunk: str) -> dict[str, Any]:
    import jaxroof as jr

    start = time.perf_counter()
    jr.run(sweep, output=store, chunk=int(chunk))
    return {"seconds": time.perf_counter() - start, "peak": peak()}


def reduce(sweep: str, store: str, chunk: str) -> dict[str, Any]:
    import numpy as np

    import jaxroof as jr

    start = time.perf_counter()
    data = jr.read(store)
    opened, time_of = time.perf_counter() - start, data["step_time"]
    least, largest, total = np.inf, -np.inf, 0.0
    for number in range(time_of.shape[0]):
        values = time_of[number].values
        least, largest = min(least, values.min()), max(largest, values.max())
        total += float(values.sum())
    found = {"least": float(least), "mean": total / time_of.size, "largest": float(largest)}
    return {"seconds": time.perf_counter() - start, "opened": opened, "peak": peak(), **found}


def in_process(act: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--act", act, *arguments], stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--points", type=float, default=1e8)
    asked.add_argument("--folder", default=None)
    asked.add_argument("--act", nargs=4)
    given = asked.parse_args()
    if given.act:
        act, *arguments = given.act
        print(json.dumps({"write": write, "reduce": reduce}[act](*arguments)))
        return
    from jaxroof.config.sweep_file import job_of_file
    from jaxroof.engine.runs.chunked_sweep import chunk_layout

    with tempfile.TemporaryDirectory(dir=given.folder) as home:
        sweep, store = pathlib.Path(home, "sweep.toml"), pathlib.Path(home, "map.zarr")

        def layout_of(points: float, chunk: int | None = None) -> Any:
            first = math.ceil(points / SIDE**2)
            text = sweep_of(matrix_flops=first, hbm_bandwidth=SIDE, slow_bandwidth=SIDE)
            sweep.write_text(text, encoding="utf-8")
            return chunk_layout(job_of_file(str(sweep), False), chunk)

        whole = layout_of(WHOLE)
        chunk = math.prod(whole.chunk.values())
        thinned = layout_of(given.points, chunk)
        points, chunks = math.prod(thinned.sizes.values()), thinned.count
        wrote = in_process("write", str(sweep), str(store), str(chunk))
        read = in_process("reduce", str(sweep), str(store), str(chunk))
        files = [file for file in store.rglob("*") if file.is_file()]
        record = (store / ".jaxroof" / "finished.jsonl").stat().st_size
        size = sum(file.stat().st_size for file in files)
        folders = {file.parent for file in files if file.name[0].isdigit()}
        per_chunk = sum(
            len([f for f in folder.iterdir() if f.name[0].isdigit()]) == chunks
            for folder in folders
        )
    piece = math.prod(thinned.inner.values())
    print(
        f"{points:,} points in {chunks:,} chunks of {math.prod(thinned.chunk.values()):,},", end=""
    )
    print(f" in pieces of {piece:,}")
    print(f"  written in {wrote['seconds']:.0f} s, {points / wrote['seconds']:,.0f} points/s")
    print(
        f"  peak memory {wrote['peak'] / 1e6:,.0f} MB to write, {read['peak'] / 1e6:,.0f} to reduce"
    )
    print(f"  opened in {read['opened']:.2f} s, reduced in {read['seconds']:.1f} s:", end=" ")
    print(f"{read['least']:.4g}, {read['mean']:.4g}, {read['largest']:.4g} s a step")
    print(f"  {len(files):,} files, {size / 1e6:,.0f} MB, {per_chunk} of them for every chunk")
    times = WHOLE / points
    of_whole = {
        "points": WHOLE,
        "chunks": whole.count,
        "files": whole.count * per_chunk + len(files) - chunks * per_chunk,
        "bytes": size * times,
        "record": record / chunks * whole.count,
        "hours": wrote["seconds"] * times / 3600,
        "hours_to_reduce": read["seconds"] * times / 3600,
    }
    print(f"{WHOLE:,} points would be {whole.count:,} chunks of {chunk:,}:", end=" ")
    print(f"{of_whole['files']:,} files,")
    print(f"  {of_whole['bytes'] / 1e9:,.0f} GB, a record of {of_whole['record'] / 1e6:,.1f} MB,")
    print(
        f"  {of_whole['hours']:,.1f} h in one process, {of_whole['hours_to_reduce']:,.1f} h more",
        end="",
    )
    print(" to reduce")
    most = max(wrote["peak"], read["peak"])
    print(
        f"peak memory {most / 1e9:.2f} GB of {LIMIT / 1e9:.0f}: {'ok' if most < LIMIT else 'over'}"
    )
    about = {
        "points": points,
        "chunks": chunks,
        "pieces": piece,
        "files": len(files),
        "bytes": size,
    }
    found = {
        **about,
        "files_of_each_chunk": per_chunk,
        "peak": most,
        "write": wrote,
        "reduce": read,
    }
    print(json.dumps({**found, "whole": of_whole}))


if __name__ == "__main__":
    main()
