"""How fast are whole sweeps, and how far is the library from hand-written C?

1. Every 1D plan of GPT-3 1T at 13 cluster sizes on 64 x 64 machines (82.8 million evaluations):
   jaxroof, numpy broadcasting and a C loop over the same grid, in turn, winners compared. The C
   loop (``sweep_limit.c``) is compiled at the start; it is given FLOP, bytes and messages of the
   distinct rows and the numbers of each plan, fills its tables of seconds inside the timed call and
   keeps the minimum and its plan: the practical limit of evaluating every plan on these cores.
2. The study's maps over all sizes, warm: bandwidth x capacity and FLOP x capacity (1D), and
   bandwidth x capacity with SUMMA.
3. The 1D maps from the shell, file written, with an empty and with a filled compile cache, beside
   the imports of jax and xarray.
4. The peak memory of 2, in processes of their own.

Run: ``python benchmarks/sweep_speed.py``; ``--quick`` for fewer rounds; ``--growth`` for time and
memory against plans and machines. The last line is JSON.
"""

import argparse
import ctypes
import functools
import itertools
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
from typing import Any, NamedTuple

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import baselines

import jaxroof as jr
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import check_search

HERE = Path(__file__).resolve().parent
SIZES = [2**k for k in range(2, 15)]
BATCH = 4096
FAST_DOMAIN = 8
MODEL = "gpt3-1t"
SYSTEM = "b200-nvs8"
HBM = np.linspace(500e9, 16e12, 64)
SLOW = np.linspace(10e9, 400e9, 64)
EVERYTHING_FITS = "1 PB"
AGREE = 1e-12
COMPILE = ["gcc", "-x", "c++", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]
COMPILE += ["-fopenmp", "-shared", "-fPIC"]
WIDTHS = (2, 4, 8)  # vectors of machines in the registers of the C loop: the fastest is taken
GROWTH_EVALUATIONS = 3e10  # cases of the table of growth that are larger are left out
SWEEP = """\
title = "GPT-3 1T on B200 at every size"
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { global_batch = 4096, split = "1d" }
"""


# ---- What is swept ------------------------------------------------------------------------------


def inputs_of(**changes: Any) -> Any:
    """Return the study's model on the study's machine."""
    return jr.Inputs(model=jr.model(MODEL), system=jr.system(SYSTEM, **changes), global_batch=BATCH)


def capacity_map() -> dict[str, Any]:
    """Return the axes of the study's bandwidth x capacity map, at all sizes."""
    return {
        "gpus": SIZES,
        "system.hbm_capacity": np.linspace(80e9, 1000e9, 32),
        "system.hbm_bandwidth": np.linspace(500e9, 16e12, 28),
    }


def between(field: str, names: list[str], counts: list[int]) -> np.ndarray:
    """Return values of a field that lead from one system to the next, each system once."""
    ends = [float(getattr(jr.system(name), field)) for name in names]
    pairs = zip(itertools.pairwise(ends), counts, strict=True)
    parts = [np.linspace(*pair, count)[:-1] for pair, count in pairs]
    parts.append(np.array(ends[-1:]))
    return np.concatenate(parts)


@functools.cache  # so that the look-ups of systems are not timed with the search
def flops_map() -> dict[str, Any]:
    """Return the axes of the study's FLOP x capacity map, at all sizes."""
    names = ["a100-nvs8", "h200-nvs8", "b200-nvs8", "b200-next"]
    return {
        "gpus": SIZES,
        "hbm": {f"system.hbm_{f}": between(f"hbm_{f}", names, [4] * 3) for f in MOVED_HBM},
        "rate": {f"system.{f}": between(f, names, [8] * 3) for f in MOVED_RATES},
    }


MOVED_HBM = ("capacity", "bandwidth")
MOVED_RATES = ("matrix_flops", "vector_flops")


def mapped(axes: dict[str, Any], split: str) -> SearchResult:
    """Return the winners of one of the study's maps."""
    return best_plans(check_search(jr.published, inputs_of(), axes=axes, settings={"split": split}))


MAPS: dict[str, Callable[[], SearchResult]] = {
    "map": lambda: mapped(capacity_map(), "1d"),
    "flops_map": lambda: mapped(flops_map(), "1d"),
    "summa": lambda: mapped(capacity_map(), "summa"),
}


# ---- The C loop ---------------------------------------------------------------------------------


class Limit(NamedTuple):
    """What the C loop is given, machine-independent, and the plans of each size in its order."""

    plans: list[baselines.Plan]  # columns [plan] of each size
    arrays: dict[str, np.ndarray]


PLAN = np.dtype([(f, "f8") for f in ("passes", "sends", "layers")] + [(f, "i4") for f in "rtds"])


def distinct(*columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the distinct rows of some columns, and the row of each plan."""
    rows, number = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return (*rows.T, number.reshape(-1))


def messages(system: Any, volume: np.ndarray, group: np.ndarray, fast: np.ndarray) -> np.ndarray:
    """Return what each collective costs: times 1 / slow rate, at the fast rate, in hops."""
    fast_rate = system.fast_bandwidth * system.fast_efficiency
    domains = group // fast
    sent = np.where(group > 1, volume * (group - 1) / group, 0.0)
    wide = np.where(fast == 1, sent, np.where(domains > 1, sent / (system.nics * fast), 0.0))
    near = np.where(fast == 1, 0.0, sent / fast_rate)
    slow_hops = np.where(fast == 1, group - 1, domains - 1)
    fast_hops = np.where(fast == 1, 0, group - domains)
    hops = slow_hops * system.slow_latency + fast_hops * system.fast_latency
    return np.ascontiguousarray(np.stack([wide, near, np.where(group > 1, hops, 0.0)], axis=1))


def works(model: Any, system: Any, tensor: np.ndarray, microbatch: np.ndarray) -> list[np.ndarray]:
    """Return seconds that no bandwidth moves and bytes [row, operation, 2], forward, backward."""
    matrix = system.matrix_efficiency * system.matrix_flops
    vector = system.matrix_efficiency * system.vector_flops
    table = baselines.operations(model, tensor, microbatch)
    directions = []
    for direction in ("forward", "backward"):
        columns = []
        for operation in table:
            work = getattr(operation, direction)
            busy = work.matrix_flops / matrix + work.vector_flops / vector
            seconds = operation.copies * (system.launch_latency + busy)
            columns.append(np.stack([seconds, operation.copies * work.moved], axis=-1))
        directions.append(np.ascontiguousarray(np.stack(columns, axis=1).astype(np.float64)))
    return directions


def limit(model: baselines.Model, system: Any) -> Limit:
    """Return the C loop's plans, leanest first, and all that it may know without a machine."""
    sizes = []
    for gpus in SIZES:
        some = baselines.stack_plans(baselines.enumerate_1d(model, gpus, BATCH, FAST_DOMAIN))
        order = np.argsort(baselines.numpy_memory(model, BATCH, some), kind="stable")
        sizes.append(baselines.Plan(*(field[order] for field in some)))
    plan = baselines.Plan(*(np.concatenate(column) for column in zip(*sizes, strict=True)))

    tensor, microbatch, row = distinct(plan.tensor, plan.microbatch)
    forward, backward = works(model, system, tensor.astype(float), microbatch.astype(float))
    group, size, fast, tensors = distinct(plan.tensor, plan.microbatch, plan.fast_tensor)
    volume = baselines.ELEMENT_BYTES * size * model.sequence * model.hidden
    tensor_messages = baselines.COLLECTIVES_PER_DIRECTION * messages(system, volume, group, fast)
    ranks, group, fast, datas = distinct(plan.tensor, plan.data, plan.fast_data)
    table = baselines.operations(model, ranks, np.ones_like(ranks))
    weights = sum(operation.copies * operation.weights for operation in table)
    ranks, size, near, sends = distinct(plan.tensor, plan.microbatch, plan.fast_pipeline > 1)
    moved = baselines.ELEMENT_BYTES * size * (model.sequence // ranks) * model.hidden
    fast_rate = system.fast_bandwidth * system.fast_efficiency
    send_messages = np.stack(
        [
            np.where(near, 0.0, moved),
            np.where(near, moved / fast_rate, 0.0),
            np.where(near, system.fast_latency, system.slow_latency),
        ],
        axis=1,
    )
    table = np.empty(len(row), PLAN)
    microbatches = BATCH // plan.data // plan.microbatch
    idle = (plan.pipeline - 1) / microbatches
    links = np.maximum(plan.pipeline - 1, 1)
    share = np.where(
        plan.fast_pipeline > 1, (links - (plan.pipeline // plan.fast_pipeline - 1)) / links, 1.0
    )
    stage = model.layers // plan.pipeline
    table["passes"] = microbatches * stage * (1 + idle)
    table["sends"] = np.where(plan.pipeline > 1, 2 * microbatches * share, 0.0) * (1 + idle)
    table["layers"] = stage - 1
    table["r"], table["t"], table["d"], table["s"] = row, tensors, datas, sends
    starts = np.concatenate([[0], np.cumsum([len(some.data) for some in sizes])])
    return Limit(
        sizes,
        {
            "starts": starts.astype(np.int32),
            "plans": table,
            "forward": forward,
            "backward": backward,
            "tensor": tensor_messages,
            "data": messages(system, weights, group, fast),
            "send": np.ascontiguousarray(send_messages),
            "hbm": HBM,
            "inverse": 1.0 / (SLOW * system.slow_efficiency),
        },
    )


def compiled(folder: str, wide: int) -> Any:
    """Return the C function, compiled for this machine."""
    target = os.path.join(folder, f"limit{wide}.so")
    source = str(HERE / "sweep_limit.c")
    subprocess.run([*COMPILE, f"-DWIDE={wide}", source, "-o", target], check=True)
    return ctypes.CDLL(target).sweep


def with_c(function: Any, given: Limit) -> tuple[np.ndarray, np.ndarray]:
    """Return the best step times and the plans' numbers [size, bandwidth, slow bandwidth]."""
    arrays = given.arrays
    shape = (len(SIZES), len(HBM), len(SLOW))
    best, winner = np.empty(shape), np.empty(shape)

    def at(name: str) -> ctypes.c_void_p:
        return ctypes.c_void_p(arrays[name].ctypes.data)

    failed = function(
        len(SIZES),
        at("starts"),
        at("plans"),
        *arrays["forward"].shape[:2],
        at("forward"),
        at("backward"),
        *(a for name in ("tensor", "data", "send") for a in (len(arrays[name]), at(name))),
        len(HBM),
        at("hbm"),
        len(SLOW),
        at("inverse"),
        ctypes.c_void_p(best.ctypes.data),
        ctypes.c_void_p(winner.ctypes.data),
    )
    if failed:
        raise SystemExit("the C loop could not run")
    return best, winner


# ---- Agreement ----------------------------------------------------------------------------------


def many_machines(system: Any) -> baselines.System:
    """Return the baselines' machines, the whole grid in one row."""
    fields = {name: float(getattr(system, name)) for name in baselines.System._fields}
    fields["hbm_bandwidth"], fields["slow_bandwidth"] = (
        field.reshape(-1) for field in np.meshgrid(HBM, SLOW, indexing="ij")
    )
    return baselines.System(**fields)


def with_numpy(model: Any, many: baselines.System, plans: list[baselines.Plan]) -> np.ndarray:
    """Return the best step time of each size on every machine, by broadcasting."""
    found = [baselines.numpy_best(model, many, BATCH, some)[1] for some in plans]
    return np.stack(found).reshape(len(SIZES), len(HBM), len(SLOW))


def difference(ours: np.ndarray, other: np.ndarray) -> float:
    """Return the largest relative difference of two searches' times."""
    worst = float(np.max(np.abs(ours / other - 1.0)))
    if not worst <= AGREE:
        raise SystemExit(f"the searches disagree: {worst}")
    return worst


def tied_winners(
    found: SearchResult, winner: np.ndarray, given: Limit, model: Any, many: Any
) -> int:
    """Return on how many machines the C loop names another plan, all of which must tie."""
    fields = baselines.Plan._fields
    number = winner.astype(int)
    unequal = 0
    for n, plans in enumerate(given.plans):
        theirs = np.stack([getattr(plans, f)[number[n]] for f in fields])
        ours = np.stack([found.plans[f][n, ..., 0] for f in fields])
        for a, b in np.argwhere(np.any(theirs != ours, axis=0)):
            one = many._replace(hbm_bandwidth=float(HBM[a]), slow_bandwidth=float(SLOW[b]))
            times = [
                baselines.plain_step_time(model, one, BATCH, baselines.Plan(*map(int, p[:, a, b])))
                for p in (ours, theirs)
            ]
            if abs(times[0][0] / times[1][0] - 1.0) > 2 * AGREE:
                raise SystemExit(f"another winner: {times} at {SIZES[n]}, {HBM[a]}, {SLOW[b]}")
            unequal += 1
    return unequal


# ---- Measurements -------------------------------------------------------------------------------


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return a call's seconds and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def peak_memory() -> int:
    """Return the most memory that this process has held [B]."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a started process begins at what its parent held
        (peak,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def line(what: str, seconds: float, evaluations: float, note: str = "") -> None:
    """Print one figure."""
    rate = f"{evaluations / seconds:.3g} evaluations/s" if evaluations else ""
    print(f"{what:<38}{seconds * 1e3:10.2f} ms  {rate}{note}", flush=True)


def evaluations(quick: bool) -> dict[str, float]:
    """Compare the three searches of every plan on every machine of the grid."""
    inputs = inputs_of(hbm_capacity=EVERYTHING_FITS)
    axes = {"gpus": SIZES, "system.hbm_bandwidth": HBM, "system.slow_bandwidth": SLOW}
    model = baselines.Model(*(int(getattr(inputs.model, f)) for f in baselines.Model._fields))
    many, given = many_machines(inputs.system), limit(model, inputs.system)
    count = sum(len(some.data) for some in given.plans)
    total = count * len(HBM) * len(SLOW)

    calls: dict[str, Callable[[], Any]] = {
        "search": lambda: best_plans(
            check_search(jr.published, inputs, axes=axes, settings={"split": "1d"})
        ),
        "dataset": lambda: jr.search(jr.published, inputs, axes=axes, split="1d"),
        "numpy": lambda: with_numpy(model, many, given.plans),
    }
    with tempfile.TemporaryDirectory() as folder:
        for wide in WIDTHS:
            function = compiled(folder, wide)
            calls[f"c{wide}"] = functools.partial(with_c, function, given)
        times: dict[str, list[float]] = {name: [] for name in calls}
        cores: dict[str, list[float]] = {name: [] for name in calls}
        rounds = 3 if quick else 9
        results: dict[str, Any] = {}
        for name, call in calls.items():
            if name != "numpy":
                results[name] = call()
        for number in range(rounds):  # in turn, so that all see the same machine
            for name, call in calls.items():
                if name != "numpy" or number < (1 if quick else 2):
                    busy = time.process_time()
                    seconds, results[name] = timed(call)
                    times[name].append(seconds)
                    cores[name].append(time.process_time() - busy)
    busy = {name: min(taken) for name, taken in cores.items()}
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    fastest = min((name for name in calls if name.startswith("c")), key=middle.__getitem__)

    found = results["search"]
    if found.combinations != total:
        raise SystemExit(f"the searches differ in plans: {found.combinations} and {total}")
    ours = found.objective[..., 0]
    worst = max(
        difference(ours, results["numpy"]),
        difference(ours, results["dataset"]["step_time"].values),
        *(difference(ours, results[name][0]) for name in calls if name.startswith("c")),
    )
    unequal = tied_winners(found, results[fastest][1], given, model, many)
    print(f"{count:,} plans of {len(SIZES)} sizes x {len(HBM)} x {len(SLOW)} machines = {total:,}")
    line("jaxroof, best plans", middle["search"], total)
    line("jaxroof, whole dataset", middle["dataset"], total)
    line("numpy broadcasting", middle["numpy"], total)
    for wide in WIDTHS:
        line(f"C, {wide} vectors in registers", middle[f"c{wide}"], total)
    print("evaluations a core-second, least busy round: ", end="")
    print(", ".join(f"{name} {total / taken:.3g}" for name, taken in busy.items()))
    print(f"largest difference {worst:.1e}; another of tied winners on {unequal} of {ours.size:,}")
    return {
        "evaluations_per_second": total / middle["search"],
        "ratio_to_numpy": middle["numpy"] / middle["search"],
        "ratio_to_c": middle[fastest] / middle["search"],
        "c_evaluations_per_second": total / middle[fastest],
        "evaluations_per_core_second": total / busy["search"],
        "ratio_to_c_of_core_seconds": busy[fastest] / busy["search"],
        "dataset_evaluations_per_second": total / middle["dataset"],
    }


def maps(quick: bool) -> dict[str, float]:
    """Time the study's maps, warm."""
    result = {}
    for name, call in MAPS.items():
        cold, found = timed(call)
        rounds = 3 if quick or name == "summa" else 9
        seconds = statistics.median(timed(call)[0] for _ in range(rounds))
        line(
            f"{name.replace('_', ' ')}, warm", seconds, found.combinations, f", first {cold:.2f} s"
        )
        result[f"{name}_warm_seconds"] = seconds
    return result


def sweep_text(axes: dict[str, Any]) -> str:
    """Return the sweep file of a map."""
    lines = ["[axes]"]
    for name, values in axes.items():
        if isinstance(values, dict):
            together = (f"{json.dumps(path)} = {list(map(float, v))}" for path, v in values.items())
            lines.append(f"{name} = {{ {', '.join(together)} }}")
        else:
            lines.append(f"{json.dumps(name)} = {list(map(float, values))}")
    return SWEEP + "\n".join(lines)


def of_a_process(*arguments: str, **environment: str) -> float:
    """Return the seconds of a Python process, as a user starts it."""
    paths = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    given = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "",  # modules are compiled once, as those of users are
        **environment,
    }
    command = [sys.executable, *arguments]
    start = time.perf_counter()
    subprocess.run(command, env=given, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def from_the_shell(quick: bool) -> dict[str, float]:
    """Time `jaxroof run` of the 1D maps, file written, beside the imports of jax and xarray."""
    wanted = {"map": capacity_map(), "flops_map": flops_map()}
    seconds: dict[str, list[float]] = {}
    for _ in range(2 if quick else 5):
        seconds.setdefault("imports", []).append(of_a_process("-c", "import jax, xarray"))
        for name, axes in wanted.items():
            with tempfile.TemporaryDirectory() as folder:
                sweep, target = Path(folder, "sweep.toml"), Path(folder, "map.nc")
                sweep.write_text(sweep_text(axes))
                run = ["-m", "jaxroof", "run", str(sweep), "-o", str(target)]
                for cache in ("cold", "cached"):
                    target.unlink(missing_ok=True)
                    took = of_a_process(*run, JAXROOF_CACHE=str(Path(folder, "cache")))
                    seconds.setdefault(f"{name}_{cache}", []).append(took)
                    if not target.exists():
                        raise SystemExit("the sweep wrote no file")
    middle = {name: statistics.median(some) for name, some in seconds.items()}
    imports = middle.pop("imports")
    line("import jax, xarray", imports, 0)
    result = {"imports_seconds": imports}
    for name, took in middle.items():
        ratio = took / imports
        said = f"{ratio:.2f} times the imports"
        line(f"{name.replace('_', ' ')}, from the shell", took, 0, said)
        result |= {f"{name}_seconds": took, f"{name}_ratio_to_imports": ratio}
    return result


def in_a_process(*arguments: str) -> dict[str, Any]:
    """Return what this script says in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def memories() -> dict[str, float]:
    """Return the peak memory of the maps, each in a process of its own."""
    peaks = {name: in_a_process("--map", name)["peak_memory_bytes"] for name in MAPS}
    print("peak memory: " + ", ".join(f"{n} {p / 1e6:.0f} MB" for n, p in peaks.items()))
    return {"peak_memory_bytes": max(peaks.values())}


# ---- Growth -------------------------------------------------------------------------------------

ONE, SOME, ALL = [256], [256, 1024, 4096, 8192, 16384], SIZES
CASES = {  # split, sizes, batches: from about a thousand plans to a million
    "1d, one size": ("1d", ONE, [BATCH]),
    "1d, 5 sizes": ("1d", SOME, [BATCH]),
    "1d, all sizes": ("1d", ALL, [BATCH]),
    "summa, one size": ("summa", [8192], [BATCH]),
    "summa, all sizes": ("summa", ALL, [BATCH]),
    "summa, 3 batches": ("summa", ALL, [BATCH // 2, BATCH, BATCH * 2]),
}
SIDES = (1, 10, 32, 100, 316, 1000)  # bandwidths, as many of each kind


def case(name: str, side: int, plans_only: bool) -> dict[str, float]:
    """Return plans, warm seconds and peak memory of one case."""
    split, sizes, batches = CASES[name]
    inputs = inputs_of(hbm_capacity=EVERYTHING_FITS)
    axes = {"gpus": sizes, "global_batch": batches}
    if not plans_only:
        axes["system.hbm_bandwidth"] = np.linspace(500e9, 16e12, side)
        axes["system.slow_bandwidth"] = np.linspace(10e9, 400e9, side)

    def call() -> SearchResult:
        return best_plans(check_search(jr.published, inputs, axes=axes, settings={"split": split}))

    cold, found = timed(call)
    seconds = cold if plans_only else timed(call)[0]
    return {
        "plans": int(found.legal.reshape(*found.legal.shape[:2], -1)[..., 0].sum()),
        "seconds": seconds,
        "cold_seconds": cold,
        "peak_memory_bytes": peak_memory(),
    }


def growth() -> dict[str, Any]:
    """Print warm time and peak memory against plans and machines, each case in its own process."""
    rows = []
    print(
        f"{'case':<20}{'plans':>10}{'machines':>10}{'first s':>9}{'warm s':>9}{'1/s':>10}{'MB':>7}"
    )
    for name in CASES:
        plans = in_a_process("--case", name, "--plans-only")["plans"]
        for side in SIDES:
            total = plans * side**2
            if total > GROWTH_EVALUATIONS:
                continue
            found = in_a_process("--case", name, "--side", str(side))
            seconds, peak = found["seconds"], found["peak_memory_bytes"]
            cold = found["cold_seconds"]
            print(
                f"{name:<20}{plans:>10,}{side**2:>10,}{cold:>9.2f}{seconds:>9.3f}"
                f"{total / seconds:>10.2e}{peak / 1e6:>7.0f}",
                flush=True,
            )
            rows.append({"case": name, "machines": side**2, **found})
    return {"growth": rows}


# ---- The command line ---------------------------------------------------------------------------


def main() -> None:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--growth", action="store_true", help="time and memory against size")
    parser.add_argument("--map", choices=MAPS, help=argparse.SUPPRESS)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--side", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--plans-only", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait do not count as busy
    jax.config.update("jax_num_cpu_devices", cores)
    if chosen.map:
        MAPS[chosen.map]()
        print(json.dumps({"peak_memory_bytes": peak_memory()}))
        return
    if chosen.case:
        print(json.dumps(case(chosen.case, chosen.side, chosen.plans_only)))
        return
    result: dict[str, Any] = {}
    for measured in (evaluations, maps, from_the_shell):
        result |= measured(chosen.quick)
    result |= memories()
    if chosen.growth:
        result |= growth()
    print(json.dumps({**result, "cores": cores}))


if __name__ == "__main__":
    main()
