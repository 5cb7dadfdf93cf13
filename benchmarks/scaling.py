"""What do more processes and more devices give?

1. A table of one plan of GPT-3 1T on 2 million machines, written to a Zarr store by 1 and by 2
   worker processes of a local cluster, in chunks. The rate is that between a quarter and all of the
   points, when every worker has begun.
2. Every 1D plan of GPT-3 1T at six cluster sizes on 128 x 128 machines, compiled, warm, the best of
   some rounds, on 1, 2 and 8 forced host devices; winners are compared with those of one device.

An efficiency is the speed-up over one, divided by the processes or devices, or by the cores where
there are fewer of them. Other work on the machine lowers it, so its load is printed, and beside it
the processor's seconds for the same work, which should stay as they are.

Run: ``python benchmarks/scaling.py``; ``--quick`` for fewer points and rounds. The last line is
JSON.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
from one_plan import sweep_of

WORKERS, DEVICES = (1, 2), (1, 2, 8)
SIZES, SIDE, AGREE = [512, 1024, 2048, 4096, 8192, 16384], 128, 1e-12
CHUNKS = 32


def cores() -> int:
    return len(os.sched_getaffinity(0))


def worker_rate(count: int, points: int) -> dict[str, float]:
    """Return the points a second of some workers."""
    import jaxroof as jr

    seen: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as home:
        sweep = pathlib.Path(home, "sweep.toml")
        text = sweep_of(hbm_bandwidth=CHUNKS, slow_bandwidth=points // CHUNKS)
        sweep.write_text(text, encoding="utf-8")
        jr.run(
            sweep,
            lambda done, total: seen.append((time.perf_counter(), done)),
            output=pathlib.Path(home, "map.zarr"),
            chunk=points // CHUNKS,
            cluster=jr.Cluster(workers=count),
        )
    begun = next(some for some in seen if some[1] >= seen[-1][1] / 4)
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    processor = sum(some.ru_utime + some.ru_stime for some in used)
    return {"rate": (seen[-1][1] - begun[1]) / (seen[-1][0] - begun[0]), "processor": processor}


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
    start = time.process_time()
    seconds = min(timed()[0] for _ in range(rounds))
    processor = (time.process_time() - start) / rounds
    found = {"first": first, "seconds": seconds, "processor": processor}
    return {**found, "winners": winners.ravel().tolist()}


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
    worked = {n: in_process("workers", n, points) for n in WORKERS}
    for n, run in worked.items():
        efficiency = run["rate"] / worked[1]["rate"] / min(n, cores())
        found[f"workers {n}"] = {**run, "efficiency": efficiency}
        print(
            f"  {n} workers: {run['rate']:,.0f} points/s, efficiency {100 * efficiency:.0f} %,",
            end="",
        )
        print(f" {run['processor']:.1f} s of processors with start-up")
    runs = {n: in_process("devices", n, rounds) for n in DEVICES}
    for n, run in runs.items():
        efficiency = runs[1]["seconds"] / run["seconds"] / min(n, cores())
        apart = float(np.max(np.abs(np.divide(run["winners"], runs[1]["winners"]) - 1.0)))
        assert apart <= AGREE, (n, apart)
        kept = {name: run[name] for name in ("seconds", "processor")}
        found[f"devices {n}"] = {**kept, "efficiency": efficiency}
        print(f"  {n} devices: {1e3 * run['seconds']:,.0f} ms", end=", ")
        print(f"efficiency {100 * efficiency:.0f} %, {1e3 * run['processor']:,.0f} ms", end=" ")
        print(f"of processors, winners apart by {apart:.1e}")
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
