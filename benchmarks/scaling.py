"""What do more processes and more devices give?

1. A table of one plan of GPT-3 1T on 2 million machines, written to a Zarr store by 1 and by 2 worker
   processes of a local cluster, in chunks. The rate is that between a quarter and all of the points,
   when every worker has begun.
2. Every 1D plan of GPT-3 1T at two cluster sizes on 64 x 64 machines, compiled, warm, the best of
   some rounds, on 1, 2 and 8 forced host devices; winners are compared with those of one device.

An efficiency is the speed-up over one, divided by the processes or devices, or by the cores where
there are fewer of them. Other work on the machine lowers it: its load is printed.

Run: ``python benchmarks/scaling.py``; ``--quick`` for fewer points and rounds. The last line is JSON.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

WORKERS, DEVICES = (1, 2), (1, 2, 8)
SIZES, SIDE, AGREE = [1024, 4096], 64, 1e-12
CHUNKS = 32
SWEEP = """\
title = "GPT-3 1T on B200: one plan on many machines"
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
[plan]
global_batch = 4096
data = 32
tensor = 8
pipeline = 64
microbatch = 1
[axes]
"system.hbm_bandwidth" = {{ from = "2 TB/s", to = "16 TB/s", count = {chunks} }}
"system.slow_bandwidth" = {{ from = "25 GB/s", to = "400 GB/s", count = {points} }}
"""


def cores() -> int:
    return len(os.sched_getaffinity(0))


def worker_rate(count: int, points: int) -> dict[str, float]:
    """Return the points a second of some workers."""
    import jaxroof as jr

    seen: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as home:
        sweep = pathlib.Path(home, "sweep.toml")
        sweep.write_text(SWEEP.format(chunks=CHUNKS, points=points // CHUNKS), encoding="utf-8")
        jr.run(
            sweep,
            lambda done, total: seen.append((time.perf_counter(), done)),
            output=pathlib.Path(home, "map.zarr"),
            chunk=points // CHUNKS,
            cluster=jr.Cluster(workers=count),
        )
    begun = next(some for some in seen if some[1] >= seen[-1][1] / 4)
    return {"rate": (seen[-1][1] - begun[1]) / (seen[-1][0] - begun[0])}


def device_time(count: int, rounds: int) -> dict[str, Any]:
    """Return the seconds of a search on all devices of this process, and its winners' times."""
    import jax

    import jaxroof as jr

    assert jax.device_count() == count
    system = jr.system("b200-nvs8")
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=system, global_batch=4096)
    axes = {
        "gpus": SIZES,
        "system.slow_bandwidth": np.linspace(10e9, 400e9, SIDE),
        "system.hbm_bandwidth": np.linspace(500e9, 16e12, SIDE),
    }

    def timed() -> tuple[float, Any]:
        start = time.perf_counter()
        found = jr.search(jr.published, inputs, axes=axes, executor="jax")
        return time.perf_counter() - start, found.step_time.values

    first, winners = timed()
    seconds = min(timed()[0] for _ in range(rounds))
    return {"first": first, "seconds": seconds, "winners": winners.ravel().tolist()}


def in_process(act: str, count: int, size: int) -> dict[str, Any]:
    flag = f"--xla_force_host_platform_device_count={count}" if act == "devices" else ""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    done = subprocess.run(
        [sys.executable, __file__, "--act", act, str(count), str(size)],
        stdout=subprocess.PIPE,
        env={**os.environ, "XLA_FLAGS": flags},
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--act", nargs=3)
    given = asked.parse_args()
    if given.act:
        act, count, size = given.act[0], int(given.act[1]), int(given.act[2])
        print(json.dumps((worker_rate if act == "workers" else device_time)(count, size)))
        return
    points, rounds = (500_000, 3) if given.quick else (2_000_000, 7)
    print(f"{cores()} cores, load {os.getloadavg()[0]:.1f}")
    found: dict[str, Any] = {"cores": cores(), "load": os.getloadavg()[0]}
    rates = {n: in_process("workers", n, points)["rate"] for n in WORKERS}
    for n, rate in rates.items():
        efficiency = rate / rates[1] / min(n, cores())
        found[f"workers {n}"] = {"rate": rate, "efficiency": efficiency}
        print(f"  {n} workers: {rate:,.0f} points/s, efficiency {100 * efficiency:.0f} %")
    runs = {n: in_process("devices", n, rounds) for n in DEVICES}
    for n, run in runs.items():
        efficiency = runs[1]["seconds"] / run["seconds"] / min(n, cores())
        apart = float(np.max(np.abs(np.divide(run["winners"], runs[1]["winners"]) - 1.0)))
        assert apart <= AGREE, (n, apart)
        found[f"devices {n}"] = {"seconds": run["seconds"], "efficiency": efficiency}
        print(f"  {n} devices: {1e3 * run['seconds']:,.0f} ms", end=", ")
        print(f"efficiency {100 * efficiency:.0f} %, winners apart by {apart:.1e}")
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
