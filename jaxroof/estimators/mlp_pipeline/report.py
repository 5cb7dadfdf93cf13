"""What an MLP's training step results in."""

from typing import Any

from jaxroof.records import Number, quantity, record


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
