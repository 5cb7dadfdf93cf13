"""How fast is the search of every plan that serves DeepSeek-V3 on 64 GB200, on 256 machines?

Every legal plan, stages too, on 16 bandwidths of HBM x 16 of the fast links, under limits on both
times. An evaluation is a pair of a plan and a machine: its accelerator-seconds, and its limits.

1. The best plan of each machine: the first call (compilation) and later ones; and of one machine.
2. Beside it NumPy: the estimator's own formulas broadcast over a sample of plans x all machines.
3. Beside it a Python loop: the same formulas in scalars, written here from their page.
4. The frontier of five systems from the shell, and the imports of what it needs alone.

Run: ``python benchmarks/serving_speed.py``; ``--quick`` for fewer machines and rounds. The last
line is JSON.
"""

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jaxroof.engine.search.candidates import list_plans
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.estimators.serving.inputs import ServingInputs, ServingPlan
from jaxroof.estimators.serving.serving import serving
from jaxroof.records import leaves, replace_at, with_named_absences

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = {"model": "deepseek-v3", "system": "gb200-nvl72", "gpus": 64, "prompt": 4096}
SETTINGS |= {"output": 1024, "ttft": 2.0, "tpot": 0.03, "precision": "fp8"}
WHERE = "pp<=8"  # stages are tried where a rule names them
FIELDS = serving.plan_fields
PATHS = ("system.hbm_bandwidth", "system.fast_bandwidth")
SAMPLE, PIECE = 2048, 64  # plans that NumPy broadcasts, and those of one array: its fastest
MACHINES = 3  # whose winners are compared with those of a search of one machine
FIVE = "h100-nvs8,h200-141-sxm,b200-180-sxm,gb200-nvl72,mi355x"
FRONTIER = ("serve", "--model", "llama3-70b", "--system", FIVE, "--gpus", "16", "--input", "4096")
FRONTIER += ("--output", "1024", "--ttft", "2s", "--frontier", "--quiet")
IMPORTS = "import click, numpy, xarray"
AGREE = 1e-12


def smax(x: float, y: float) -> float:
    """Return the smooth maximum of two numbers."""
    x, y = x + 1e-30, y + 1e-30
    most = max(x, y)
    return most * ((x / most) ** 4 + (y / most) ** 4) ** 0.25


def plain_step(given: Any, plan: Any, batch: float, chunk: float) -> float:
    """Return the seconds of a step of a model with latent attention, in 8 bits."""
    m, s, u, work = given.model, given.system, given.software, given.workload
    ranks, stages = plan.tensor * plan.data, plan.pipeline
    routed, key = m.layers - m.first_dense_layers, m.nope_size + m.rope_size
    rate, hbm = s.fp8_flops * u.matrix, s.hbm_bandwidth * u.hbm
    tokens = (batch + chunk) / (plan.data * stages)
    cached, inner = m.kv_rank + m.rope_size, 3.0 * m.hidden
    weights = m.hidden * m.q_rank + m.q_rank * m.heads * key + m.hidden * cached
    weights += m.kv_rank * m.heads * (m.nope_size + m.value_size)
    weights += m.heads * m.value_size * m.hidden
    product = smax(2.0 * (tokens + u.tile) / rate, 1.0 / hbm) / plan.tensor
    own, scores = batch / (plan.data * stages), s.matrix_flops * u.attend * plan.tensor
    seen = work.prompt + work.output / 2.0
    read = own * seen * cached * given.precision.cache_width / (s.hbm_bandwidth * u.cache)
    cache = smax(read, own * seen * 2.0 * m.heads * (m.kv_rank + cached) / scores)
    pairs = chunk / (plan.data * stages) * work.prompt / 2.0
    prompts = pairs * 2.0 * m.heads * (key + m.value_size) / scores
    every = tokens * plan.data
    alpha = -math.log1p(-m.active_experts / m.experts)
    more = math.log1p(alpha * u.skew * max(every - 1.0, 0.0)) / u.skew
    met = -m.experts * math.expm1(-alpha * min(every, 1.0) - more)
    each = inner * m.expert_feedforward / ranks * (1.0 + plan.whole * (u.imbalance - 1.0))
    computed = 2.0 * (every * m.active_experts + u.tile * met) * each / rate
    experts = smax(computed, met * each / hbm)
    wide = m.active_experts * m.expert_feedforward + m.shared_feedforward
    wide = m.first_dense_layers * m.feedforward + routed * wide
    vectors = m.layers * u.elementwise * m.hidden + 3.0 * wide / plan.tensor
    inside, moved = min(plan.tensor, s.fast_domain), 2.0 * tokens * m.hidden
    reduced = 2.0 * (inside - 1.0) / inside * moved / (s.fast_bandwidth * u.link)
    reduced += u.hop * math.log2(inside)  # 64 of them are in one domain
    exchanged = 0.0
    if plan.data > 1.0:
        near = 3.0 * tokens * m.hidden * m.active_experts * (ranks - 1.0) / ranks
        exchanged = 2.0 * u.exchange_latency + smax(0.0, near / (s.fast_bandwidth * u.exchange))
    layers = m.layers * (weights * product + cache + prompts + u.layer + u.latent_layer)
    layers += inner * product * (
        m.first_dense_layers * m.feedforward + routed * m.shared_feedforward
    ) + routed * (experts + exchanged + u.expert_layer)
    layers += 2.0 * tokens * vectors / hbm
    layers += (m.layers + m.first_dense_layers + routed * (plan.data == 1.0)) * reduced
    heads = own + min(chunk, 1.0) + u.tile
    head = smax(2.0 * heads / (s.matrix_flops * u.matrix), 2.0 / hbm)
    device = layers * math.ceil(m.layers / stages) * stages / m.layers
    device += head * m.hidden * m.vocabulary / plan.tensor
    sent = u.hop + moved / plan.tensor / (s.fast_bandwidth * u.link) if stages > 1.0 else 0.0
    host = smax(device, m.layers * u.host_layer) + stages * u.host_step
    return host + stages * sent + u.request * batch / plan.data


def plain_time(given: Any, plan: Any) -> float:
    """Return the accelerator-seconds of a request, prompts in the steps of answers."""
    work, later = given.workload, given.workload.output - 1.0
    plain = plain_step(given, plan, plan.batch, 0.0)
    both = plain_step(given, plan, plan.batch, plan.chunk)
    chunks = plan.batch * work.prompt / (later * plan.chunk)
    count = plan.tensor * plan.data * plan.pipeline
    return count * later * (plain + chunks * (both - plain)) / plan.batch


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the seconds of a call, those of all its cores, and its result."""
    start, busy = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - start, time.process_time() - busy, found


def times(inputs: ServingInputs) -> np.ndarray:
    """Return the accelerator-seconds of plans x machines, every part at every pair."""
    parts = serving.evaluate_parts(inputs, serving.recipe)
    return np.asarray(
        serving.result("accelerator_time", with_named_absences(inputs), serving.recipe, parts)
    )


def at(inputs: ServingInputs, values: Any) -> ServingInputs:
    """Return inputs at rates of the machine."""
    for path, value in zip(PATHS, values, strict=True):
        inputs = replace_at(inputs, path, value)
    return inputs


def from_shell(*words: str) -> tuple[float, float]:
    """Return the seconds of a process, and those of its cores."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, check=True, capture_output=True)
    after, seconds = os.times(), time.perf_counter() - start
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system


def with_numpy(question: SearchProblem, plans: np.ndarray, machines: np.ndarray) -> np.ndarray:
    """Return the accelerator-seconds of plans x machines, broadcast in pieces."""
    wide = at(question.inputs, machines.T[:, None, :])
    pieces = [plans[i : i + PIECE].T[:, :, None] for i in range(0, len(plans), PIECE)]
    given = [ServingPlan(**dict(zip(FIELDS, piece, strict=True))) for piece in pieces]
    return np.concatenate([times(dataclasses.replace(wide, plan=plan)) for plan in given])


def pairs(
    question: SearchProblem, plans: np.ndarray, machines: np.ndarray
) -> list[tuple[ServingInputs, ServingPlan]]:
    """Return each plan with the next machine, their numbers those of Python."""
    inputs = question.inputs
    for path, _, value in leaves(inputs):
        inputs = replace_at(inputs, path, float(value))
    every = [at(inputs, values) for values in machines.tolist()]
    some = [ServingPlan(**dict(zip(FIELDS, row, strict=True))) for row in plans.tolist()]
    return [(every[i % len(every)], plan) for i, plan in enumerate(some)]


def difference(one: Any, other: Any) -> float:
    """Return the largest relative difference."""
    return float(np.max(np.abs(np.asarray(one) / np.asarray(other) - 1.0)))


def agreement(machines: np.ndarray, found: np.ndarray) -> float:
    """Return the largest difference of some winners from those of a search of one machine."""
    worst = 0.0
    for place in np.linspace(0, len(machines) - 1, MACHINES).astype(int):
        settings = {**SETTINGS, **dict(zip(PATHS, machines[place], strict=True))}
        alone = best_plans(check_search(serving, None, settings=settings, where=WHERE))
        worst = max(worst, difference(found[place], alone.objective))
    return worst


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer machines and rounds")
    few, rounds = (4, 2) if parser.parse_args().quick else (16, 7)
    rates = np.linspace(4e12, 16e12, few), np.linspace(2e11, 2e12, few)
    machines = np.stack(np.meshgrid(*rates, indexing="ij"), axis=-1).reshape(-1, len(PATHS))
    axes = dict(zip(PATHS, rates, strict=True))
    many, one = (
        check_search(serving, None, axes=some, settings=SETTINGS, where=WHERE)
        for some in (axes, None)
    )
    listed = list_plans(serving, one.inputs, one.recipe, one.where).plans
    plans = np.stack([listed[field].astype(float) for field in FIELDS], axis=1)
    some = plans[np.random.default_rng(7).choice(len(plans), SAMPLE, replace=False)]
    loop = pairs(many, some, machines)
    ways: dict[str, tuple[int, Callable[[], Any]]] = {
        "jaxroof": (len(plans) * len(machines), lambda: best_plans(many).objective.reshape(-1)),
        "one_machine": (len(plans), lambda: best_plans(one)),
        "numpy": (SAMPLE * len(machines), lambda: with_numpy(many, some, machines)),
        "loop": (SAMPLE, lambda: [plain_time(*pair) for pair in loop]),
    }
    first = {name: timed(work) for name, (_, work) in ways.items()}
    at_pairs = first["numpy"][2][np.arange(SAMPLE), np.arange(SAMPLE) % len(machines)]
    worst = max(difference(at_pairs, first["loop"][2]), agreement(machines, first["jaxroof"][2]))
    if not worst <= AGREE:
        raise SystemExit(f"the answers differ: {worst}")
    later: dict[str, list[Any]] = {name: [] for name in (*ways, "frontier", "imports")}
    for _ in range(rounds):  # in turn, so that all see the same machine
        for name, (_, work) in ways.items():
            later[name].append(timed(work)[:2])
        later["frontier"].append(from_shell("-m", "jaxroof", *FRONTIER))
        later["imports"].append(from_shell("-c", IMPORTS))
    said: dict[str, Any] = {
        "plans": len(plans),
        "machines": len(machines),
        "cores": len(os.sched_getaffinity(0)),
        "largest_difference": worst,
        "first_seconds": first["jaxroof"][0],
    }
    for name, taken in later.items():
        seconds, busy = np.median(np.array(taken), axis=0).tolist()
        said |= {f"{name}_seconds": seconds, f"{name}_core_seconds": busy}
        if name in ways:
            said[f"{name}_evaluations_per_second"] = ways[name][0] / seconds
    for name in ("numpy", "loop"):
        rates_of = [said[f"{one}_evaluations_per_second"] for one in ("jaxroof", name)]
        said[f"ratio_to_{name}"] = rates_of[0] / rates_of[1]
    said["frontier_to_imports"] = said["frontier_seconds"] / said["imports_seconds"]
    for name, value in said.items():
        print(f"{name:36} {value:,.6g}")
    print(json.dumps(said))


if __name__ == "__main__":
    main()
