"""The results of a whole training run.

Source: docs/models/whole_run.md, sections 6 to 10.
"""

from jaxroof.records import Number, quantity, record

LOW, HIGH = 0.53, 0.99  # of the predicted speed: 80 % of the families of published runs
MEDIAN = 0.76  # of them


def _bar(doc: str, words: str) -> Number:
    return quantity("s", doc, part_of="wall_time", words=words, label=words)


def _maybe(unit: str, doc: str, **more: str) -> Number | None:
    """Declare a result that is there where its prices or watts are known."""
    found: Number | None = quantity(unit, doc, default=None, **more)  # type: ignore[arg-type]
    return found


@record
class RunReport:
    """What a whole run takes; the bars ``wall_*`` sum to ``wall_time``.

    ``cost``, ``energy``, ``carbon`` and watts are left out where nothing says them.
    """

    wall_days: Number = quantity("day", "Days of the whole run, stops included.", words="days")
    wall_days_low: Number = quantity(
        "day", "The same at 0.99 of the predicted speed, as the best published runs."
    )
    wall_days_high: Number = quantity(
        "day", "The same at 0.53 of the predicted speed, as the slowest published runs."
    )
    gpu_hours: Number = quantity("h", "Accelerators times hours of the run, without spares.")
    goodput: Number = quantity(
        "1", "Share of the time of the run that trains, the rest being stops.", better="higher"
    )
    save_interval: Number = quantity("s", "Training between two saves.")
    failures: Number = quantity("1", "Interruptions of the run.")
    spares: Number = quantity("1", "Nodes that stand by.")
    spare_short: Number = quantity("1", "Share of the interruptions that find no spare.")
    cost: Number | None = _maybe("USD", "Dollars of the run: rent if given, else all it owns.")
    energy: Number | None = _maybe("J", "Energy of the run at the meter.")
    carbon: Number | None = _maybe("kg", "Carbon of that energy.")
    peak_site_watts: Number | None = _maybe("W", "Most power at the meter, spares included.")
    wall_time: Number = quantity("s", "Time of the whole run, stops included.")
    wall_compute: Number = _bar("Arithmetic.", "arithmetic")
    wall_memory: Number = _bar("Element-wise kernels.", "element-wise kernels")
    wall_recompute: Number = _bar("What is computed again.", "recomputation")
    wall_imbalance: Number = _bar("Uneven stages, slow chips, launches.", "uneven stages")
    wall_tensor: Number = _bar("Tensor, context and expert messages.", "messages")
    wall_bubble: Number = _bar("Pipeline bubble.", "bubble")
    wall_pipeline: Number = _bar("Sends between stages.", "sends between stages")
    wall_data: Number = _bar("Data-parallel messages.", "data-parallel messages")
    wall_update: Number = _bar("Update of the parameters.", "update")
    wall_slow: Number = _bar(
        "Slow chips, and what runs miss of the speed.", "slower than predicted"
    )
    wall_saves: Number = _bar("Saves.", "saves")
    wall_lost: Number = _bar("Work done again after failures.", "work done again")
    wall_restarts: Number = _bar("Restarts.", "restarts")
    wall_spares: Number = _bar("Waits for a spare.", "waits for a spare")
    wall_planned: Number = _bar("Planned stops.", "planned stops")
    wall_evictions: Number = _bar("Evictions of slow chips.", "evictions")
    wall_evaluation: Number = _bar("Evaluations.", "evaluations")
    wall_corruption: Number = _bar("Work lost to corrupt data.", "corruption")
    wall_disk: Number = _bar("Work since the last save on disk.", "older saves")


@record
class RunDetails(RunReport):
    """The same, and what it follows from."""

    steps: Number = quantity("1", "Optimizer steps.")
    ideal_days: Number = quantity("day", "Steps times the healthy step, nothing else.")
    mtbf: Number = quantity("s", "Mean time between interruptions of the job.")
    state_bytes: Number = quantity("B", "Bytes of a save.")
    save_stop: Number = quantity("s", "What training stops for at a save.")
    write_time: Number = quantity("s", "Time to write a save.")
    restart: Number = quantity("s", "From a failure to training again, mean.")
    spare_wait: Number = quantity("s", "Wait of a failure for a spare, mean.")
    saves: Number = quantity("1", "Saves of the run.")
    chip_watts: Number | None = _maybe("W", "What a chip draws in a step, mean.")
    site_watts: Number | None = _maybe("W", "Mean power at the meter.")
    joules_per_token: Number | None = _maybe("J/token", "Energy of one token.")
    cost_owned: Number | None = _maybe("USD", "Dollars of machines that are owned.")
    cost_rented: Number | None = _maybe("USD", "Dollars of machines that are rented.")
    cost_energy: Number | None = _maybe("USD", "Energy at the tariff.")
    dollars_per_token: Number | None = _maybe("USD/token", "Cost of one token.")
    embodied_carbon: Number = quantity("kg", "Carbon of making what is used, for the time of use.")
