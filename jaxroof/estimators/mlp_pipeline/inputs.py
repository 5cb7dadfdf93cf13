"""What an MLP's training step is computed from, and what it results in."""

from typing import Any

from jaxroof.catalog.models import Mlp
from jaxroof.catalog.system import System
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record


@record
class Law:
    """A linear law of the time of an all-reduce, fitted to measurements of one group size."""

    per_byte: Number = quantity("s/B", "Time of one byte of the message.", zero=True, default=None)
    per_rank: Number = quantity("s", "Time of one rank of the group.", zero=True, default=None)
    constant: Number = quantity("s", "Time of any message.", zero=True, default=None)


NO_LAW = Law()


@record
class Plan:
    """How the step is split: replicas, ranks of a layer, stages, and pieces of the batch."""

    data: Number = quantity("1", "Data-parallel degree.", whole=True, symbol="D", words="dp")
    tensor: Number = quantity("1", "Tensor-parallel degree.", whole=True, symbol="H", words="tp")
    pipeline: Number = quantity(
        "1", "Pipeline stages.", whole=True, most=BOUNDS["layers"], symbol="P", words="pp"
    )
    microbatches: Number = quantity(
        "1", "Microbatches of one replica.", whole=True, symbol="M", words="microbatches"
    )


@record
class Inputs:
    """An MLP's training step: the model, the machine, how many of them, the batch and the plan."""

    model: Mlp
    system: System
    gpus: Number | None = quantity("1", "Accelerators to split over.", whole=True, default=None)
    global_batch: Number = quantity(
        "sample", "Samples of one step.", whole=True, default=8192.0, symbol="B"
    )
    element: Number = quantity("B", "Bytes of one element.", default=4.0)
    optimizer_state: Number = quantity(
        "B", "Bytes of optimizer state for one weight (physical memory).", default=8.0, zero=True
    )
    tensor_sums: Law = NO_LAW  # of sums over the ranks of a layer (network "calibrated")
    data_sums: Law = NO_LAW  # of sums over replicas
    plan: Plan | None = None


@record
class Report:
    """Time, memory and legality of one step under one plan.

    ``feasible`` is the conjunction of the verdicts before it.
    """

    step_time: Number = quantity("s", "Time of one step.", headline=True)
    throughput: Number = quantity(
        "sample/s", "Samples trained on a second.", better="higher", headline=True
    )
    memory: Number = quantity(
        "B", "Most memory that the fullest device holds at once.", resource="capacity"
    )
    communication_overhead: Number = quantity(
        "1", "Share of the busy time of all devices that is communication."
    )
    communication_time: Number = quantity("s", "Communication of all devices, both ends counted.")
    total_time: Number = quantity("s", "Busy time of all devices.")
    idle_share: Number = quantity("1", "Share of the step that stages idle, on average.")
    busy_least: Number = quantity("1", "Share of the step that the idlest stage is busy.")
    busy_most: Number = quantity("1", "Share of the step that the busiest stage is busy.")
    in_flight: Number = quantity("1", "Microbatches that the first stage holds at once.")
    operations: Number = quantity("1", "Operations of the simulated program.")
    events: Number = quantity("1", "Pairs of an operation and a device that it keeps.")
    stages_divide_layers: Any = quantity("1", "Stages divide the layers.")
    data_divides_batch: Any = quantity("1", "Replicas divide the batch.")
    microbatches_divide_batch: Any = quantity("1", "Microbatches divide a replica's batch.")
    tensor_divides_width: Any = quantity("1", "Ranks divide the inner width.")
    tensor_needs_pairs: Any = quantity("1", "Layers that are split come in pairs.")
    layers_enough: Any = quantity("1", "The model has as many layers as the profile needs.")
    microbatches_suit_stages: Any = quantity("1", "Several microbatches with several stages alone.")
    groups_have_costs: Any = quantity("1", "The group that sums has a size the profile knows.")
    weights_have_updates: Any = quantity("1", "The profile can update a stage's weights.")
    program_holds: Any = quantity("1", "The compiled program is large enough for the plan.")
    memory_fits: Any = quantity("1", "Memory is at most the usable capacity.")
    feasible: Any = quantity("1", "Every verdict holds.")
