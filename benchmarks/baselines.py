"""Two independent baselines of the transformer training step with a 1D (tensor) split.

`plain_step_time` evaluates one plan on one machine with scalar Python floats and cached layers;
`numpy_step_times` broadcasts many plans over many machines.  Both follow the fact sheet of the
transformer model (sections 3 to 10 and the quirks of section 12) and share only its operation
table.  Everything is SI: seconds, bytes, FLOP.  Plans are expected to be legal (`enumerate_1d`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

ELEMENT_BYTES = 2
MASK_BYTES = 1
OPTIMIZER_WEIGHT_COPIES = 6
COLLECTIVES_PER_DIRECTION = 4
TIE_WINDOW = 1e-12
CHUNK_ELEMENTS = 1 << 15
BLOCK_ELEMENTS = 1 << 21


class Model(NamedTuple):
    """Shape of a transformer, fact sheet section 2.1."""

    layers: int
    hidden: int
    feedforward: int
    heads: int
    sequence: int


class System(NamedTuple):
    """One machine, or many where a field is an array [machines], fact sheet section 2.2."""

    matrix_flops: Any
    vector_flops: Any
    matrix_efficiency: Any
    launch_latency: Any
    hbm_bandwidth: Any
    hbm_capacity: Any
    fast_domain: Any
    fast_bandwidth: Any
    fast_efficiency: Any
    fast_latency: Any
    slow_bandwidth: Any
    slow_efficiency: Any
    slow_latency: Any
    nics: Any


class Plan(NamedTuple):
    """One parallel plan, or many where every field is an array [plans], fact sheet section 1."""

    data: Any
    tensor: Any
    pipeline: Any
    microbatch: Any
    fast_data: Any
    fast_tensor: Any
    fast_pipeline: Any


Plans = Plan | Mapping[str, np.ndarray]  # arrays [plans]


class Work(NamedTuple):
    """FLOP by class and bytes moved in one direction of an operation."""

    matrix_flops: Any
    vector_flops: Any
    moved: Any


class Operation(NamedTuple):
    """One kind of operation of a layer, its number per layer and its memory per instance."""

    copies: int
    forward: Work
    backward: Work
    activations: Any
    weights: Any


class Layer(NamedTuple):
    """Times and memory of one layer for one microbatch, fact sheet section 6."""

    forward: float
    backward: float
    compute: float
    exposed_memory: float
    communication: float
    flops: float
    weights: float
    activations: float


# ---- Operation table, shared: integers or arrays [plans, 1] -------------------------------------


def linear(tokens: Any, inputs: Any, outputs: Any) -> Operation:
    """Matrix product with an inputs x outputs weight shard, fact sheet section 5.1."""
    moved = tokens * inputs + tokens * outputs + inputs * outputs
    forward = tokens * outputs * (2 * inputs - 1)
    backward = tokens * inputs * (2 * outputs - 1) + inputs * outputs * (2 * tokens - 1)
    return Operation(
        1,
        Work(forward, 0, ELEMENT_BYTES * moved),
        Work(backward, 0, ELEMENT_BYTES * 2 * moved),
        ELEMENT_BYTES * tokens * inputs,
        ELEMENT_BYTES * inputs * outputs,
    )


def bias(copies: int, rows: Any, width: Any) -> Operation:
    """Bias addition, fact sheet section 5.3."""
    work = Work(0, rows * width, ELEMENT_BYTES * (rows * width + width))
    return Operation(copies, work, work, 0, ELEMENT_BYTES * width)


def gelu(elements: Any) -> Operation:
    """Activation function, fact sheet section 5.4."""
    size = ELEMENT_BYTES * elements
    forward, backward = Work(0, 8 * elements, 2 * size), Work(0, 13 * elements, 3 * size)
    return Operation(1, forward, backward, size, 0)


def dropout(copies: int, elements: Any) -> Operation:
    """Dropout with a stored mask, fact sheet section 5.5."""
    mask = MASK_BYTES * elements
    work = Work(0, elements, 2 * ELEMENT_BYTES * elements + mask)
    return Operation(copies, work, work, mask, 0)


def layer_norm(copies: int, rows: Any, hidden: int) -> Operation:
    """Layer normalisation of the local rows, fact sheet section 5.6."""
    elements = rows * hidden
    moved_forward = ELEMENT_BYTES * (2 * elements + 2 * rows + 2 * hidden)
    moved_backward = ELEMENT_BYTES * (5 * elements + 2 * hidden)
    return Operation(
        copies,
        Work(0, 9 * elements, moved_forward),
        Work(0, 8 * elements + 4 * rows * (hidden - 1), moved_backward),
        ELEMENT_BYTES * elements,
        ELEMENT_BYTES * 2 * hidden,
    )


def attention(matrices: Any, sequence: int, width: int) -> Operation:
    """Fused attention over `matrices` = microbatch x local heads, fact sheet section 5.8."""
    rows = matrices * sequence
    scores, values = rows * sequence, rows * width
    to_scores = scores * (2 * width - 1)
    to_values = values * (2 * sequence - 1)
    softmax_forward = 2 * scores + rows * (sequence - 1)
    softmax_backward = 3 * scores + rows * (sequence - 1)
    stored = ELEMENT_BYTES * (4 * values + 2 * rows)
    return Operation(
        1,
        Work(to_scores + to_values, softmax_forward + scores, ELEMENT_BYTES * (4 * values + rows)),
        Work(
            2 * to_scores + 3 * to_values,
            softmax_backward + softmax_forward + 2 * scores,
            ELEMENT_BYTES * 4 * values + stored,
        ),
        stored,
        0,
    )


def operations(model: Model, tensor: Any, microbatch: Any) -> tuple[Operation, ...]:
    """All operations of one layer, equal ones merged as copies, fact sheet section 6."""
    hidden, feedforward = model.hidden, model.feedforward // tensor
    tokens = microbatch * model.sequence
    rows = microbatch * (model.sequence // tensor)
    return (
        linear(tokens, hidden, feedforward),
        bias(1, tokens, feedforward),
        gelu(tokens * feedforward),
        dropout(1, tokens * feedforward),
        linear(tokens, feedforward, hidden),
        bias(2, tokens, hidden),
        dropout(2, rows * hidden),
        layer_norm(2, rows, hidden),
        linear(tokens, hidden, 3 * hidden // tensor),
        attention(microbatch * (model.heads // tensor), model.sequence, hidden // model.heads),
        linear(tokens, hidden // tensor, hidden),
    )


# ---- Plain Python -------------------------------------------------------------------------------


cached_operations = lru_cache(maxsize=4096)(operations)


def plain_collective(system: System, volume: float, group: int, fast: int) -> float:
    """Time of a reduce-scatter or all-gather, fact sheet section 4."""
    if volume == 0 or group == 1:
        return 0.0
    fast_rate = system.fast_bandwidth * system.fast_efficiency
    slow_rate = system.slow_bandwidth * system.slow_efficiency
    sent = volume * (group - 1) / group
    domains = group // fast
    if fast == 1:
        return system.slow_latency * (group - 1) + sent / slow_rate
    if domains == 1:
        return system.fast_latency * (group - 1) + sent / fast_rate
    transfer = max(sent / (system.nics * fast * slow_rate), sent / fast_rate)
    hops = system.slow_latency * (domains - 1) + system.fast_latency * (group - domains)
    return transfer + hops


@lru_cache(maxsize=65536)
def plain_layer(
    model: Model, system: System, tensor: int, microbatch: int, fast_tensor: int
) -> Layer:
    """Cached times and memory of one layer, fact sheet sections 3 and 6."""
    matrix_rate = system.matrix_efficiency * system.matrix_flops
    vector_rate = system.matrix_efficiency * system.vector_flops
    ratio = system.matrix_flops / system.vector_flops
    roofs = [0.0, 0.0]
    total_compute = exposed = flops = weights = activations = 0.0
    for operation in cached_operations(model, tensor, microbatch):
        copies = operation.copies
        for direction, work in enumerate((operation.forward, operation.backward)):
            busy = work.matrix_flops / matrix_rate + work.vector_flops / vector_rate
            compute = system.launch_latency + busy
            memory = work.moved / system.hbm_bandwidth
            roofs[direction] += copies * max(compute, memory)
            total_compute += copies * compute
            exposed += copies * max(memory - compute, 0.0)
            inflation = ratio if work.matrix_flops else 1.0  # section 12, Q11
            flops += copies * (work.matrix_flops + inflation * work.vector_flops)
        weights += copies * operation.weights
        activations += copies * operation.activations
    volume = ELEMENT_BYTES * microbatch * model.sequence * model.hidden
    collective = plain_collective(system, volume, tensor, fast_tensor)
    communication = COLLECTIVES_PER_DIRECTION * collective
    forward, backward = (roof + communication for roof in roofs)
    totals = (total_compute, exposed, 2 * communication, flops, weights, activations)
    return Layer(forward, backward, *totals)


def plain_data(system: System, layer: Layer, plan: Plan, stage: int) -> float:
    """Exposed gradient and weight synchronisation of a step, fact sheet section 7."""
    sync = plain_collective(system, layer.weights, plan.data, plan.fast_data)
    late = max(sync - layer.forward, 0.0) + max(sync - layer.backward, 0.0)
    return 2 * sync + late * (stage - 1)


def plain_transfer(model: Model, system: System, plan: Plan) -> float:
    """Mean time to pass one microbatch to the next stage, fact sheet section 8."""
    rows = plan.microbatch * (model.sequence // plan.tensor)
    volume = ELEMENT_BYTES * rows * model.hidden
    if plan.pipeline == 1 or volume == 0:
        return 0.0
    if plan.fast_pipeline == 1:
        slow_rate = system.slow_bandwidth * system.slow_efficiency
        return system.slow_latency + volume / slow_rate
    links = plan.pipeline - 1
    slow_links = int(plan.pipeline / plan.fast_pipeline - 1)
    fast_rate = system.fast_bandwidth * system.fast_efficiency
    return (links - slow_links) / links * (system.fast_latency + volume / fast_rate)


def plain_terms(model: Model, system: System, global_batch: int, plan: Plan) -> tuple:
    """Layer, layer passes and the times and memories of a step, fact sheet section 9."""
    layer = plain_layer(model, system, plan.tensor, plan.microbatch, plan.fast_tensor)
    microbatches = global_batch // plan.data // plan.microbatch
    stage = model.layers // plan.pipeline
    passes = microbatches * stage
    pipeline = 2 * microbatches * plain_transfer(model, system, plan)
    busy = (layer.forward + layer.backward) * passes + pipeline
    bubble = (plan.pipeline - 1) * busy / microbatches
    data = plain_data(system, layer, plan, stage)
    weights = layer.weights * stage
    optimizer = OPTIMIZER_WEIGHT_COPIES * weights / plan.data
    activations = layer.activations * stage * min(microbatches, plan.pipeline)
    return layer, passes, busy, bubble, data, pipeline, weights, optimizer, activations


def plain_step_time(
    model: Model, system: System, global_batch: int, plan: Plan
) -> tuple[float, float]:
    """Step time and memory of one plan on one machine, fact sheet section 9."""
    terms = plain_terms(model, system, global_batch, plan)
    _, _, busy, bubble, data, _, weights, optimizer, activations = terms
    return busy + bubble + data, 2 * weights + optimizer + activations


def plain_report(model: Model, system: System, global_batch: int, plan: Plan) -> dict[str, float]:
    """Step time and memory with all their components, fact sheet section 9."""
    terms = plain_terms(model, system, global_batch, plan)
    layer, passes, busy, bubble, data, pipeline, weights, optimizer, activations = terms
    return {
        "step_time": busy + bubble + data,
        "memory": 2 * weights + optimizer + activations,
        "memory_weights": weights,
        "memory_gradients": weights,
        "memory_optimizer": optimizer,
        "memory_activations": activations,
        "time_compute": layer.compute * passes,
        "time_memory": layer.exposed_memory * passes,
        "time_tensor": layer.communication * passes,
        "time_data": data,
        "time_pipeline": pipeline,
        "time_bubble": bubble,
        "flops": layer.flops * passes,
    }


# ---- NumPy broadcasting: plans [plans, 1] against machines [1, machines] ------------------------


def stack_plans(plans: Sequence[Plan]) -> Plan:
    """One `Plan` of integer arrays [plans] from a list of plans."""
    table = np.asarray(plans, dtype=np.int64).reshape(-1, len(Plan._fields))
    return Plan(*table.T)


def plan_columns(plans: Plans) -> Plan:
    """Float64 columns [plans, 1], exact below 2**53 and safe from integer overflow."""
    plans = Plan(**plans) if isinstance(plans, Mapping) else plans
    return Plan(*(np.asarray(field, dtype=np.float64).reshape(-1, 1) for field in plans))


def machine_rows(system: System) -> System:
    """Float64 rows [1, machines], or [1, 1] for a field that all machines share."""
    return System(*(np.asarray(field, dtype=np.float64).reshape(1, -1) for field in system))


def machine_count(system: System) -> int:
    """Number of machines described by a system whose fields may be arrays."""
    return np.broadcast(*(np.atleast_1d(field) for field in system)).size


def numpy_roofline(copies: int, work: Work, system: System) -> np.ndarray:
    """Roofline time [plans, machines] of `copies` equal operations, fact sheet section 3."""
    matrix_rate = system.matrix_efficiency * system.matrix_flops
    vector_rate = system.matrix_efficiency * system.vector_flops
    compute = copies * system.launch_latency
    if np.ndim(work.matrix_flops):
        compute = compute + copies * work.matrix_flops * (1 / matrix_rate)
    if np.ndim(work.vector_flops):
        compute = compute + copies * work.vector_flops * (1 / vector_rate)
    return np.maximum(compute, copies * work.moved * (1 / system.hbm_bandwidth))


def numpy_collective(system: System, volume: Any, group: Any, fast: Any) -> np.ndarray:
    """Time [plans, machines] of a reduce-scatter or all-gather, fact sheet section 4."""
    domains = group // fast
    all_slow = fast == 1
    two_tiers = ~all_slow & (domains > 1)
    active = (volume > 0) & (group > 1)
    sent = active * volume * (group - 1) / group
    slow_hops = active * np.where(all_slow, group - 1, np.where(two_tiers, domains - 1, 0))
    fast_hops = active * np.where(all_slow, 0, np.where(two_tiers, group - domains, group - 1))
    slow_sent = np.where(all_slow, sent, np.where(two_tiers, sent / fast, 0))
    fast_sent = np.where(all_slow, 0, sent)
    slow_rate = system.slow_bandwidth * system.slow_efficiency
    fast_rate = system.fast_bandwidth * system.fast_efficiency
    slow_time = slow_sent * (1 / slow_rate)
    if np.any(system.nics != 1):
        slow_time = slow_time / np.where(two_tiers, system.nics, 1)
    transfer = np.maximum(slow_time, fast_sent * (1 / fast_rate))
    return transfer + (slow_hops * system.slow_latency + fast_hops * system.fast_latency)


def numpy_transfer(model: Model, system: System, plan: Plan) -> np.ndarray:
    """Mean time [plans, machines] to pass a microbatch onwards, fact sheet section 8."""
    volume = ELEMENT_BYTES * plan.microbatch * (model.sequence // plan.tensor) * model.hidden
    active = (plan.pipeline > 1) & (volume > 0)
    links = np.maximum(plan.pipeline - 1, 1)
    fast_share = (links - np.trunc(plan.pipeline / plan.fast_pipeline - 1)) / links
    fast_share = active * np.where(plan.fast_pipeline > 1, fast_share, 0)
    slow_share = active * (plan.fast_pipeline == 1)
    slow_rate = system.slow_bandwidth * system.slow_efficiency
    fast_rate = system.fast_bandwidth * system.fast_efficiency
    slow = slow_share * system.slow_latency + slow_share * volume * (1 / slow_rate)
    return slow + (fast_share * system.fast_latency + fast_share * volume * (1 / fast_rate))


def numpy_chunk(model: Model, system: System, global_batch: int, plan: Plan) -> np.ndarray:
    """Step times of one chunk of plan columns on all machine rows, fact sheet section 9."""
    table = operations(model, plan.tensor, plan.microbatch)
    volume = ELEMENT_BYTES * plan.microbatch * model.sequence * model.hidden
    collective = numpy_collective(system, volume, plan.tensor, plan.fast_tensor)
    forward = backward = COLLECTIVES_PER_DIRECTION * collective
    for operation in table:
        forward = forward + numpy_roofline(operation.copies, operation.forward, system)
        backward = backward + numpy_roofline(operation.copies, operation.backward, system)
    weights = sum(operation.copies * operation.weights for operation in table)
    stage = model.layers // plan.pipeline
    microbatches = global_batch // plan.data // plan.microbatch
    sync = numpy_collective(system, weights, plan.data, plan.fast_data)
    late = np.maximum(sync - forward, 0) + np.maximum(sync - backward, 0)
    one_microbatch = (forward + backward) * stage + 2 * numpy_transfer(model, system, plan)
    return one_microbatch * (microbatches + plan.pipeline - 1) + 2 * sync + late * (stage - 1)


def numpy_step_times(model: Model, system: System, global_batch: int, plans: Plans) -> np.ndarray:
    """Step times [plans, machines], computed in chunks of plans, fact sheet section 9."""
    columns, rows, machines = plan_columns(plans), machine_rows(system), machine_count(system)
    times = np.empty((len(columns.data), machines))
    chunk = max(1, CHUNK_ELEMENTS // machines)
    for start in range(0, len(times), chunk):
        part = Plan(*(field[start : start + chunk] for field in columns))
        times[start : start + chunk] = numpy_chunk(model, rows, global_batch, part)
    return times


def numpy_memory(model: Model, global_batch: int, plans: Plans) -> np.ndarray:
    """Memory [plans] in bytes, the same on every machine, fact sheet section 9."""
    plan = plan_columns(plans)
    table = operations(model, plan.tensor, plan.microbatch)
    stage = model.layers // plan.pipeline
    in_flight = np.minimum(global_batch // plan.data // plan.microbatch, plan.pipeline)
    weights = stage * sum(operation.copies * operation.weights for operation in table)
    activations = sum(operation.copies * operation.activations for operation in table)
    optimizer = OPTIMIZER_WEIGHT_COPIES * weights / plan.data
    return (2 * weights + optimizer + activations * stage * in_flight)[:, 0]


def numpy_best(
    model: Model, system: System, global_batch: int, plans: Plans
) -> tuple[np.ndarray, np.ndarray]:
    """Fastest plan that fits on each machine and its time, or -1 and infinity (section 10)."""
    machines = machine_count(system)
    memory = numpy_memory(model, global_batch, plans)[:, None]
    index, best = np.full(machines, -1), np.full(machines, np.inf)
    block = max(1, BLOCK_ELEMENTS // max(1, len(memory)))
    for start in range(0, machines if len(memory) else 0, block):
        part = slice(start, start + block)
        some = System(*(field if np.size(field) == 1 else field[part] for field in system))
        times = numpy_step_times(model, some, global_batch, plans)
        np.copyto(times, np.inf, where=memory > some.hbm_capacity)
        first = np.argmax(times <= times.min(axis=0) * (1 + TIE_WINDOW), axis=0)
        best[part] = np.take_along_axis(times, first[None], axis=0)[0]
        index[part] = np.where(np.isfinite(best[part]), first, -1)
    return index, best


# ---- Search space -------------------------------------------------------------------------------


def divisors(number: int) -> list[int]:
    """Ascending positive divisors."""
    small = [k for k in range(1, int(number**0.5) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def fast_splits(
    data: int, tensor: int, pipeline: int, fast_domain: int
) -> Iterator[tuple[int, int, int]]:
    """Ways (data, tensor, pipeline) to fill one fast domain, fact sheet section 10."""
    if data * tensor * pipeline <= fast_domain:
        yield data, tensor, pipeline
        return
    for fast_tensor in divisors(gcd(tensor, fast_domain)):
        for fast_data in divisors(gcd(data, fast_domain // fast_tensor)):
            fast_pipeline = fast_domain // fast_tensor // fast_data
            if pipeline % fast_pipeline == 0:
                yield fast_data, fast_tensor, fast_pipeline


def enumerate_1d(model: Model, gpus: int, global_batch: int, fast_domain: int) -> list[Plan]:
    """All legal plans in lexicographic order, fact sheet section 10."""
    plans = []
    for tensor in divisors(gcd(gpus, gcd(model.heads, model.hidden))):
        if 3 * model.hidden // tensor < 128:
            continue
        for pipeline in divisors(gcd(gpus // tensor, model.layers)):
            data = gpus // tensor // pipeline
            if global_batch % data:
                continue
            splits = list(fast_splits(data, tensor, pipeline, fast_domain))
            for microbatch in divisors(global_batch // data):
                if microbatch * model.sequence % tensor == 0:
                    plans += [Plan(data, tensor, pipeline, microbatch, *fast) for fast in splits]
    return sorted(plans)
