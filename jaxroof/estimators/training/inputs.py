"""Inputs of a training step of a model of today."""

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.chip import SharedConstants
from jaxroof.catalog.system import System
from jaxroof.estimators.training.memory_inputs import (
    Activations,
    Buffers,
    StateSizes,
    exchange_field,
)
from jaxroof.estimators.training.software import Framework
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record, units

_PARTS = {"states": StateSizes, "activations": Activations, "buffers": Buffers}
SHORTHAND = {  # of paths of a training step: numbers that may stand without their record
    "sequence": "model.sequence",
    **{name: f"{part}.{name}" for part, kind in _PARTS.items() for name in units(kind)},
}


@record
class TrainingPlan:
    """A split of a training step over accelerators, and what it shards, recomputes and offloads.

    The product of the data, tensor, context and pipeline degrees is the number of accelerators.
    """

    data: Number = quantity(
        "1", "Data-parallel degree.", whole=True, default=1.0, symbol="dp", label="data"
    )
    tensor: Number = quantity(
        "1", "Tensor-parallel degree.", whole=True, default=1.0, symbol="tp", label="tensor"
    )
    context: Number = quantity(
        "1", "Context-parallel degree.", whole=True, default=1.0, symbol="cp", label="context"
    )
    exchange: Number = exchange_field()
    pipeline: Number = quantity(
        "1",
        "Pipeline stages.",
        whole=True,
        most=BOUNDS["layers"],
        default=1.0,
        symbol="pp",
        label="pipeline",
    )
    interleave: Number = quantity(
        "1",
        "Chunks of layers on a rank.",
        whole=True,
        most=BOUNDS["layers"],
        default=1.0,
        symbol="vp",
        label="interleave",
    )
    expert: Number = quantity(
        "1", "Expert-parallel degree.", whole=True, default=1.0, symbol="ep", label="expert"
    )
    expert_tensor: Number = quantity(
        "1",
        "Tensor-parallel degree inside an expert.",
        whole=True,
        default=1.0,
        symbol="etp",
        label="expert tensor",
    )
    sequence_parallel: Number = quantity(
        "1",
        "Whether tensor ranks share the tokens between products (1 or 0).",
        whole=True,
        zero=True,
        most=1.0,
        default=1.0,
        symbol="sp",
        label="sequence parallelism",
    )
    microbatch: Number = quantity(
        "sequence",
        "Sequences of a microbatch on a rank.",
        whole=True,
        default=1.0,
        symbol="mb",
        label="microbatch",
    )
    zero_stage: Number = quantity(
        "1",
        "ZeRO stage: 1 shards the optimizer over replicas, 2 gradients too, 3 weights too.",
        whole=True,
        zero=True,
        most=3.0,
        default=1.0,
        symbol="zero",
        label="ZeRO stage",
    )
    recompute: Number = quantity(
        "1",
        "What is computed again: 0 nothing, 1 the parts of a layer that the recipe selects, 2 all.",
        whole=True,
        zero=True,
        most=2.0,
        default=0.0,
        symbol="rc",
        label="recomputation",
    )
    offload_optimizer: Number = quantity(
        "1",
        "Whether the optimizer states lie in host memory (1 or 0).",
        whole=True,
        zero=True,
        most=1.0,
        default=0.0,
        symbol="off",
        label="offload",
    )


@record
class StageInputs:
    """A training step as its memory has it: model, machine, cluster, batch and plan.

    ``gpus`` is the number of accelerators for a search; a given plan uses the product of its
    degrees. The tokens of a sequence are ``model.sequence``.
    """

    model: Architecture
    system: System
    gpus: Number | None = quantity("1", "Accelerators to split over.", whole=True, default=None)
    global_batch: Number = quantity("sequence", "Sequences of one optimizer step.", whole=True)
    microbatch_group: Number = quantity(
        "1",
        "Microbatches that go through one chunk together; 0 is the pipeline degree.",
        whole=True,
        zero=True,
        default=0.0,
    )
    early_forward: Number = quantity(
        "1",
        "Forward passes more in flight, 1 if expert exchanges overlap.",
        whole=True,
        zero=True,
        default=0.0,
    )
    states: StateSizes = StateSizes()
    activations: Activations = Activations()
    buffers: Buffers = Buffers()
    plan: TrainingPlan | None = None


@record
class TrainingInputs(StageInputs):
    """A training step: model, machine with its chip, cluster, batch, plan and software.

    ``gpus`` is the number of accelerators for a search; a given plan uses the product of its
    degrees. The tokens of a sequence are ``model.sequence``. ``system.chip`` is what training gets
    of the machine; a system that is given by name has that of its catalogue entry.
    """

    training_tokens: Number | None = quantity(
        "token", "Tokens of the whole training, where not those of the model's.", default=None
    )
    software: Framework = Framework()
    shared: SharedConstants = SharedConstants()
