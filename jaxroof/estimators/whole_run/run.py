"""A whole run from its healthy step: the estimator ``whole_run``, and what ``training`` adds.

Source: docs/models/whole_run.md, sections 3 to 10.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.dependence import has_value
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.whole_run.operation import Operation
from jaxroof.estimators.whole_run.report import HIGH, LOW, RunDetails, RunReport
from jaxroof.formulas import whole_run as formulas
from jaxroof.formulas.arithmetic import ceiling, larger
from jaxroof.formulas.whole_run import DAY, HOUR, YEAR, Saves, Segment, Spares
from jaxroof.records import Number, quantity, record, value_or
from jaxroof.units import show

BUSY = ("compute", "memory", "recompute", "imbalance")  # parts of a step in which chips work
WAITING = ("tensor", "bubble", "pipeline", "data", "update")
NODE_GPUS = 8.0  # of a system that says none
HOST_WATTS, SWITCH_WATTS = 1450.0, 930.0  # of a node of eight H100, of a system that says none
SPARE_SHARE = 100.0  # nodes for each of which one spare stands by, and one more in all


class Run(NamedTuple):
    """A run without what interrupts it."""

    tokens: Number
    batch: Number
    sequence: Number
    gpus: Number
    parameters: Number
    parts: Mapping[str, Number]  # of a step [s]: those of BUSY and WAITING


def with_node(inputs: Any) -> Any:
    """Return the inputs of a step with the usual node where their machine names none.

    On an axis of machines a number that one of them lacks is lost to all.
    """
    node = _node_gpus(inputs.operation, inputs.system)
    machine = dataclasses.replace(inputs.system, **_node_watts(inputs.system, node))
    operation = dataclasses.replace(inputs.operation, node_gpus=node)
    return dataclasses.replace(inputs, operation=operation, system=machine)


def _node_gpus(op: Operation, machine: System) -> Number:
    return value_or(op.node_gpus, value_or(machine.host, NODE_GPUS))


def _node_watts(machine: System, node_gpus: Number) -> dict[str, Number]:
    """Return the watts of a node's host and switches."""
    usual = {"host_watts": HOST_WATTS, "switch_watts": SWITCH_WATTS}
    return {
        name: value_or(getattr(machine, name), watts * node_gpus / NODE_GPUS)
        for name, watts in usual.items()
    }


class Interrupted(NamedTuple):
    """A job's failures, saves and restarts, and a segment between two saves."""

    nodes: Number
    node_gpus: Number
    spare_nodes: Number
    mtbf: Number
    save: Saves
    restart: Number
    spare: Spares
    segment: Segment
    extra: Mapping[str, Number]  # shares of the time of segments

    @property
    def goodput(self) -> Number:
        """Return the share of the wall time that trains: work / (time (1 + extra))."""
        return self.segment.work / (self.segment.time * (1.0 + sum(self.extra.values())))


def interrupted(run: Run, op: Operation, machine: System) -> Interrupted:
    """Return how a job fails, saves and starts again.

    Raises: InputError for a given interval between saves that the store does not allow.
    """
    gpus, node_gpus = run.gpus, _node_gpus(op, machine)
    nodes = gpus / node_gpus
    spare_nodes = value_or(op.spare_nodes, ceiling(nodes, SPARE_SHARE) + 1.0)
    rate = formulas.failure_rate(
        gpus, op.chip_mtbf, node_gpus, op.node_rate, op.switch_gpus, op.switch_rate,
        op.software_rate,
    )  # fmt: skip
    save = formulas.saves(
        run.parameters, op.bytes_per_parameter, value_or(op.writers, gpus), op.copy_rate,
        op.store_rate, op.writer_rate, op.hidden, op.barrier, op.memory_share, op.memory_rate,
    )  # fmt: skip
    spare = formulas.spares(spare_nodes, rate, op.repair_share, op.repair_time)
    restart, mtbf = plain_restart(op, gpus) + save.read + spare.wait, 1.0 / rate
    interval = _interval(op, save, mtbf)
    segment = formulas.segment(interval, save.stop, restart, mtbf)
    evictions = gpus * op.straggler_rate
    lost = op.corruption_delay + restart + interval / 2.0
    extra = {
        "planned": op.planned_rate * op.planned_time,
        "evictions": evictions * (op.start + save.read),
        "evaluation": op.evaluation_time / op.evaluation_interval,
        "corruption": op.corruption_rate * lost,
        "disk": rate * (1.0 - op.memory_share) * op.disk_interval / 2.0,
    }
    return Interrupted(nodes, node_gpus, spare_nodes, mtbf, save, restart, spare, segment, extra)


def plain_restart(op: Operation, gpus: Number) -> Number:
    """Return the seconds of a restart without the read and the wait: as given, or of its parts."""
    given = value_or(op.restart, None)
    if given is not None:
        return given
    detect = formulas.detection(op.error_detect, op.hang_share, op.hang_timeout)
    return detect + op.replace + op.start + op.start_per_gpu * gpus + op.warmup


def _interval(op: Operation, save: Saves, mtbf: Number) -> Number:
    """Return the work between saves: the best, no shorter than a write takes, or the given."""
    given = value_or(op.save_interval, None)
    if given is None:
        return larger(mtbf * formulas.best_share(save.stop / mtbf), save.floor)
    if has_value(given) and has_value(save.floor):
        short = np.asarray(given < save.floor)
        if short.any():
            least = show(float(f"{float(np.max(save.floor)):.4g}"), "s")
            said = "below what the store needs to write one"
            raise refusal("operation.save_interval", f"{said}; expected at least {least}")
    return given


def of_run(run: Run, op: Operation, machine: System) -> dict[str, Any]:
    """Return every result of a run by name: those of RunDetails.

    wall = steps step slowdown / (realised goodput)
    """
    job = interrupted(run, op, machine)
    capped = {n: run.parts[n] / op.rate_at_limit for n in BUSY}
    parts = {**capped, **{n: run.parts[n] for n in WAITING}}
    steps = formulas.run_steps(run.tokens, run.batch, run.sequence)
    ideal = steps * sum(parts.values())
    slowdown = formulas.straggler_slowdown(
        run.gpus, op.straggler_rate, op.straggler_find, op.straggler_slowdown
    )
    useful = ideal * slowdown / op.realised
    wall = useful / job.goodput
    bars = _bars(
        job, {name: steps * part for name, part in parts.items()}, useful, op.realised, slowdown
    )
    days, energy = wall / DAY, dict[str, Number]()
    if value_or(machine.chip_watts, None) is not None or _is_owned(op):
        energy = _energy(run, op, machine, job, parts, useful, wall, bars)
    return {
        "wall_days": days,
        "wall_days_low": days * op.realised / HIGH,
        "wall_days_high": days * op.realised / LOW,
        "gpu_hours": wall * run.gpus / HOUR,
        "goodput": job.goodput,
        "save_interval": job.segment.work,
        "failures": wall / job.mtbf,
        "spares": job.spare_nodes,
        "spare_short": job.spare.short,
        "wall_time": wall,
        **bars,
        "steps": steps,
        "ideal_days": ideal / DAY,
        "mtbf": job.mtbf,
        "state_bytes": job.save.state,
        "save_stop": job.save.stop,
        "write_time": job.save.write,
        "restart": job.restart,
        "spare_wait": job.spare.wait,
        "saves": useful / job.segment.work,
        **energy,
        **_paid(run, op, job, wall, energy),
    }


def _bars(
    job: Interrupted,
    parts: Mapping[str, Number],
    useful: Number,
    realised: Number,
    slowdown: Number,
) -> dict[str, Number]:
    """Return where the wall time goes; the bars sum to it."""
    segments = useful / job.segment.work
    waits = job.spare.wait / job.restart
    restarts = segments * job.segment.restarts
    stops = {name: segments * job.segment.time * share for name, share in job.extra.items()}
    bars = {
        **parts,
        "slow": useful * (1.0 - realised / slowdown),
        "saves": segments * job.segment.saved,
        "lost": segments * job.segment.lost,
        "restarts": restarts * (1.0 - waits),
        "spares": restarts * waits,
        **stops,
    }
    return {f"wall_{name}": seconds for name, seconds in bars.items()}


def _is_owned(op: Operation) -> bool:
    """Return whether dollars are those of machines that are bought, which need their energy."""
    return value_or(op.price, None) is not None and value_or(op.rent, None) is None


def _paid(
    run: Run, op: Operation, job: Interrupted, wall: Number, energy: Mapping[str, Number]
) -> dict[str, Any]:
    """Return dollars and the carbon of what was made, as far as energy and prices are known."""
    rent, price = value_or(op.rent, None), value_or(op.price, None)
    made = (job.nodes + job.spare_nodes) * op.embodied_node
    paid = run.gpus + job.spare_nodes * job.node_gpus
    found: dict[str, Any] = {"embodied_carbon": (paid * op.embodied + made) * wall / op.life}
    beside = op.people * wall + op.storage_price * job.save.state * op.kept_saves * wall
    if price is not None and energy:
        found["cost_energy"] = energy["energy"] * op.tariff
        capital = formulas.capital_rate(price, op.years, op.interest, op.residual)
        owned = paid * (capital + op.upkeep * price / YEAR) * wall
        found["cost_owned"] = owned + found["cost_energy"] + beside
    if rent is not None:
        found["cost_rented"] = paid * rent * wall + beside
    cost = found.get("cost_rented", found.get("cost_owned"))
    if cost is not None:
        found |= {"cost": cost, "dollars_per_token": cost / run.tokens}
    return found


def _energy(
    run: Run,
    op: Operation,
    machine: System,
    job: Interrupted,
    parts: Mapping[str, Number],
    useful: Number,
    wall: Number,
    bars: Mapping[str, Number],
) -> dict[str, Number]:
    """Return power and energy: chips that are busy, that wait for others, and that are idle."""
    host, switch = _node_watts(machine, job.node_gpus).values()

    def site(chip: Number, nodes: Number) -> Number:
        rest = (op.fans, op.conversion, op.pue)
        return formulas.site_watts(chip, nodes, job.node_gpus, host, switch, *rest)

    shares = (op.busy_share, op.wait_share, op.idle_share)
    busy, waiting, idle = (
        formulas.chip_watts(machine.chip_watts, share, op.power_limit) for share in shares
    )
    works, waits = (sum(parts[name] for name in some) for some in (BUSY, WAITING))
    mean = formulas.mean_watts(busy, waiting, works, waits)
    trains = useful + bars["wall_lost"] + bars["wall_evaluation"]
    rests = wall - trains - bars["wall_saves"]
    spare = site(idle, job.spare_nodes)
    energy = (
        site(mean, job.nodes) * trains
        + site(waiting, job.nodes) * bars["wall_saves"]
        + site(idle, job.nodes) * rests
        + spare * wall
    )
    return {
        "energy": energy,
        "carbon": energy * op.grid,
        "chip_watts": mean,
        "site_watts": energy / wall,
        "peak_site_watts": site(busy, job.nodes) + spare,
        "joules_per_token": energy / run.tokens,
    }


def run_results(run: Run, op: Operation, machine: System) -> dict[str, Any]:
    """Return the results of a run that a training step reports: those of RunReport."""
    found = of_run(run, op, machine)
    return {name: value for name, value in found.items() if name in RunReport.__dataclass_fields__}


def with_run(
    kind: Any,
    report: Any,
    inputs: Any,
    tokens: Number,
    gpus: Number,
    parameters: Number,
    **more: Any,
) -> Any:
    """Return a step's report with what its whole run takes, as a record of ``kind``.

    ``more`` are parts of the step that its report has under other names, or has not.
    """
    parts = {n: more.get(n, getattr(report, f"time_{n}", 0.0)) for n in (*BUSY, *WAITING)}
    run = Run(tokens, inputs.global_batch, inputs.model.sequence, gpus, parameters, parts)
    return kind(**vars(report), **run_results(run, inputs.operation, inputs.system))


# ---- The estimator ------------------------------------------------------------------------------


def _part(doc: str) -> Number:
    return quantity("s", doc, zero=True, default=0.0)


@record
class RunInputs:
    """A run by the parts of its healthy step, wherever they come from, and how it is operated."""

    system: System
    tokens: Number = quantity("token", "Tokens of the whole run.")
    batch: Number = quantity("sequence", "Sequences of one optimizer step.")
    sequence: Number = quantity("token", "Tokens of one sequence.")
    gpus: Number = quantity("1", "Accelerators that train.")
    parameters: Number = quantity("1", "Parameters of the model, all of them.")
    time_compute: Number = quantity("s", "Seconds of a step: arithmetic, or all of it.")
    time_memory: Number = _part("Element-wise kernels.")
    time_recompute: Number = _part("What is computed again.")
    time_imbalance: Number = _part("Uneven stages, slow chips, launches.")
    time_tensor: Number = _part("Tensor, context and expert messages.")
    time_bubble: Number = _part("Pipeline bubble.")
    time_pipeline: Number = _part("Sends between stages.")
    time_data: Number = _part("Data-parallel messages.")
    time_update: Number = _part("Update of the parameters.")
    operation: Operation = Operation()


def step(inputs: RunInputs, _: Any) -> RunDetails:
    """Return the results of a whole run."""
    parts = {name: getattr(inputs, f"time_{name}") for name in (*BUSY, *WAITING)}
    run = Run(
        inputs.tokens, inputs.batch, inputs.sequence, inputs.gpus, inputs.parameters, parts
    )  # fmt: skip
    return RunDetails(**of_run(run, inputs.operation, inputs.system))


def example() -> RunInputs:
    """Return Llama 3.1 405B on 16,384 H100, its step by hand."""
    return RunInputs(
        system=named.system("h100-nvs8"),
        tokens=15.6e12, batch=2048.0, sequence=8192.0, gpus=16384.0, parameters=405.9e9,
        time_compute=5.0, time_tensor=0.8, time_bubble=0.4, time_data=0.2,
        operation=Operation(price=31250.0),
    )  # fmt: skip


whole_run = Estimator(
    name="whole_run",
    about=QUESTIONS["whole_run"],
    inputs=RunInputs,
    step=step,
    names={"system": named.system},
    example=example,
)
