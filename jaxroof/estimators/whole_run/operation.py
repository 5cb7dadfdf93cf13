"""How a training run is operated: what fails, what is saved, what is paid.

Source: docs/models/whole_run.md, section 1.
"""

from jaxroof.formulas.whole_run import DAY, HOUR
from jaxroof.records import Number, quantity, record, units

KWH = 3.6e6  # [J]


def _seconds(doc: str, default: float, zero: bool = True) -> Number:
    return quantity("s", doc, zero=zero, default=default)


def _rate(doc: str) -> Number:
    return quantity("1/s", doc, zero=True, default=0.0)


def _share(doc: str, default: float, zero: bool = True, needs: str = "") -> Number:
    return quantity("1", doc, zero=zero, most=1.0, default=default, needs=needs)


def _speed(doc: str, default: float) -> Number:
    return quantity("B/s", doc, default=default)


def _count(doc: str, default: float | None = None, zero: bool = False) -> Number:
    return quantity("1", doc, default=default, zero=zero)


@record
class Operation:
    """What a run meets beside its steps: failures, saves, spares, power and prices.

    Of most numbers the default is usual; ``price`` or ``rent`` brings dollars. Those below
    ``grid`` are for files that know more: at their defaults they do nothing, or what is usual.
    Host and switch watts belong to the system: ``system.host_watts``, ``system.switch_watts``.
    """

    realised: Number = _share(
        "Speed that the run reaches of the predicted one; published runs 0.53 to 0.99.",
        1.0,
        zero=False,
    )
    chip_mtbf: Number = quantity(
        "s",
        "Time of one chip between interruptions of the job, of all causes.",
        least=100.0 * HOUR,
        default=50e3 * HOUR,
    )
    store_rate: Number = _speed("Rate of the store of saves, in all.", 2e11)
    barrier: Number = _seconds("What a save stops training for, beside the copy to hosts.", 5.0)
    restart: Number | None = quantity(
        "s",
        "From a failure to training again, without the read and the wait for a spare; of its "
        "parts unless given.",
        zero=True,
        default=None,
    )
    spare_nodes: Number | None = _count(
        "Nodes that stand by; 1 % of the nodes and one more unless given.", zero=True
    )
    repair_time: Number = _seconds("Until a node is back from repair.", 24.0 * HOUR)
    busy_share: Number = _share("What a busy chip draws of its rated power.", 0.97)
    wait_share: Number = _share("What a chip that waits for others draws of it.", 0.41)
    idle_share: Number = _share("What a chip draws of it while nothing runs.", 0.2)
    pue: Number = quantity(
        "1", "Power of the site over that of its machines.", least=1.0, default=1.2
    )
    rent: Number | None = quantity(  # at most 360 $/h: a plain 2 was meant an hour
        "USD/s", "Rent of one chip, power included.", most=0.1, default=None
    )
    price: Number | None = quantity(
        "USD", "Price of one chip with its share of all else.", default=None
    )
    years: Number = quantity("year", "Years over which the price is paid back.", default=4.0)
    interest: Number = quantity(
        "1/year", "Interest a year on it.", zero=True, most=1.0, default=0.10
    )
    tariff: Number = quantity(
        "USD/J",
        "Price of energy, of machines that are owned.",
        zero=True,
        most=1e-5,  # 36 $/kWh
        default=0.08 / KWH,
    )
    grid: Number = quantity(  # at most 3.6 kg/kWh
        "kg/J", "Carbon of the grid's energy.", zero=True, most=1e-6, default=0.435 / KWH
    )

    node_gpus: Number | None = _count("Chips of a node; those of the system's host, else 8.")
    node_rate: Number = _rate("Further failures of a node.")
    switch_gpus: Number = _count("Chips of a switch.", 64.0)
    switch_rate: Number = _rate("Further failures of a switch.")
    software_rate: Number = _rate("Further failures of the job.")
    straggler_rate: Number = _rate("How often a chip turns slow.")
    straggler_find: Number = _seconds("Until it is found and evicted.", HOUR)
    straggler_slowdown: Number = _share("By what it slows the job until then.", 0.1)
    bytes_per_parameter: Number = quantity("B", "Bytes of a save, a parameter.", default=14.0)
    writers: Number | None = _count("Chips that hold distinct state; all unless given.")
    copy_rate: Number = _speed("Rate of a writer's copy to its host.", 20e9)
    writer_rate: Number = _speed("Rate of a writer on the way to the store.", 2e9)
    hidden: Number = _share("Share of the write that goes on beside training.", 1.0)
    error_detect: Number = _seconds("From a crash to the stop.", 30.0)
    hang_share: Number = _share("Interruptions that hang rather than crash.", 0.15)
    hang_timeout: Number = _seconds("Until a hang is noticed.", 600.0)
    replace: Number = _seconds("Until a spare stands in for a node.", 120.0)
    start: Number = _seconds("Start of containers, communicators and graphs.", 180.0)
    start_per_gpu: Number = _seconds("Growth of it with every chip.", 0.0)
    warmup: Number = _seconds("Slow first steps after a start.", 60.0)
    repair_share: Number = _share("Interruptions that take a node away.", 0.75)
    planned_rate: Number = _rate("Planned stops, after a save.")
    planned_time: Number = _seconds("What one takes.", 600.0)
    evaluation_time: Number = _seconds("One evaluation during training.", 0.0)
    evaluation_interval: Number = _seconds("Training between two.", HOUR, zero=False)
    corruption_rate: Number = _rate("Silent corruptions of data.")
    corruption_delay: Number = _seconds("Until one is found.", 6.0 * HOUR)
    memory_share: Number = _share("Failures restored from the memory of neighbours.", 0.0)
    memory_rate: Number = _speed("Rate of a writer on that way.", 2e9)
    disk_interval: Number = quantity(
        "s",
        "Time between saves on disk, where saves go to memory.",
        zero=True,
        default=0.0,
        needs="memory_share",
    )
    save_interval: Number | None = quantity(
        "s", "Work between saves; the best unless given.", default=None
    )
    power_limit: Number = _share("Limit of a chip's power, of its rated one.", 1.0, zero=False)
    rate_at_limit: Number = _share("Share of the rate that the limit leaves.", 1.0, zero=False)
    fans: Number = quantity("1", "Fans, of a node's power.", zero=True, default=0.0)
    conversion: Number = _share("Power behind the supply over that before it.", 0.97, zero=False)
    residual: Number = _share("Value left after the years, of the price.", 0.0)
    upkeep: Number = quantity("1/year", "Upkeep a year, of the price.", zero=True, default=0.03)
    people: Number = quantity("USD/s", "People, while the run lasts.", zero=True, default=0.0)
    storage_price: Number = quantity("USD/B s", "Price of stored saves.", zero=True, default=0.0)
    kept_saves: Number = _count("Saves that are kept.", 3.0, zero=True)
    embodied: Number = quantity("kg", "Carbon of making a chip.", zero=True, default=164.0)
    embodied_node: Number = quantity(
        "kg", "The same of a node beside its chips.", zero=True, default=1500.0
    )
    life: Number = _seconds("Time over which it is written off.", 5.0 * 365.25 * DAY, zero=False)


@record
class Operated:
    """A training step of which the whole run may be asked."""

    training_tokens: Number | None = quantity(
        "token", "Tokens of the whole training, where not those of the model's.", default=None
    )
    operation: Operation | None = None


_EVERY = [*units(Operation)]
FOR_FILES = frozenset(_EVERY[_EVERY.index("grid") + 1 :])  # fields that few people give
