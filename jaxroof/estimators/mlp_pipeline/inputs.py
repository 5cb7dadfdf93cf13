"""What an MLP's training step is computed from."""

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
