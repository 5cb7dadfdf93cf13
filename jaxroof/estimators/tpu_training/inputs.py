"""Inputs of a training step under MaxText: model, machine with its chip, software and plan.

Source: docs/models/networks.md, sections 9 and 10.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.system import System
from jaxroof.catalog.tpu import TpuChip
from jaxroof.errors import refusal
from jaxroof.estimators.tpu_training.slices import AXES, SHAPES, shape_word
from jaxroof.estimators.whole_run.operation import Operated
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record, with_named_absences


class Policy(NamedTuple):
    """What a remat policy keeps for the backward pass: shares of outputs of products."""

    qkv: float = 0.0
    context: float = 0.0
    out: float = 0.0
    up: float = 0.0


POLICIES = {  # from the leanest; ``custom`` is what the software's own shares say
    "full": Policy(),
    "save_out_proj": Policy(out=1.0),
    "save_qkv_proj": Policy(qkv=1.0),
    "save_dot_except_mlp": Policy(qkv=1.0, out=1.0),
    "save_dot_with_context_except_mlp": Policy(qkv=1.0, context=1.0, out=1.0),
    "minimal": Policy(qkv=1.0, out=1.0, up=1.0),
    "minimal_with_context": Policy(qkv=1.0, context=1.0, out=1.0, up=1.0),
}
REMAT = (*POLICIES, "custom")


def _degree(doc: str, symbol: str, label: str) -> Number:
    most = BOUNDS["whole"]
    return quantity("1", doc, whole=True, most=most, default=1.0, symbol=symbol, label=label)


def _word(doc: str, words: tuple[str, ...], default: float, **more: str) -> Number:
    bound = float(len(words) - 1)
    flags: dict[str, Any] = {"flags": words, **more}
    return quantity("1", doc, whole=True, zero=True, most=bound, default=default, **flags)


def _axes(degree: str, symbol: str) -> Number:
    doc = f"Whole physical axes that the {degree} degree takes; none: a part of one."
    return _word(doc, AXES, 0.0, symbol=symbol, label=f"axes of {degree}")


@record
class TpuPlan:
    """A split of a training step over slices of a torus, and what it computes again.

    slices x fsdp x tensor x context x data x expert is the number of devices.
    """

    slices: Number = _degree("Slices, joined by the data-centre network.", "slices", "slices")
    slice: Number = _word(
        "Shape of a slice, in chips.", tuple(map(shape_word, SHAPES)), 0.0, symbol="slice"
    )
    fsdp: Number = _degree("Devices that share weights inside a slice.", "fsdp", "fsdp")
    data: Number = _degree("Replicas inside a slice.", "dp", "data")
    tensor: Number = _degree("Tensor-parallel degree.", "tp", "tensor")
    context: Number = _degree("Context-parallel degree.", "cp", "context")
    expert: Number = _degree("Expert-parallel degree; not priced above 1.", "ep", "expert")
    tensor_axes: Number = _axes("tensor", "tpx")
    context_axes: Number = _axes("context", "cpx")
    data_axes: Number = _axes("data", "dpx")
    dcn_fsdp: Number = quantity(
        "1",
        "Whether weights are shared over slices too (1), or every slice has a copy (0).",
        whole=True,
        zero=True,
        most=1.0,
        default=0.0,
        symbol="dcnfsdp",
        label="fsdp over slices",
    )
    microbatches: Number = _degree("Steps of gradient accumulation.", "ga", "accumulation")
    remat: Number = _word("What is kept for the backward pass.", REMAT, 0.0, symbol="remat")


def _flag(doc: str, default: float = 0.0) -> Number:
    return quantity("1", doc, zero=True, most=1.0, default=default)


def _bytes(doc: str, default: float) -> Number:
    return quantity("B", doc, zero=True, default=default)


@record
class MaxText:
    """What MaxText does in a step; flags are 1 or 0, or a share between."""

    int8: Number = _flag("Whether products of layers have inputs of 8-bit integers.")
    fp8: Number = _flag("Whether they have inputs of 8-bit floats.")
    keep_qkv: Number = _flag("Under remat=custom: share of queries, keys and values kept.")
    keep_context: Number = _flag("The same of the output of attention.")
    keep_out: Number = _flag("The same of its projection.")
    keep_up: Number = _flag("The same of the first products of MLPs and experts.")
    on_host: Number = _flag("Share of what is kept that lies in the memory of the host.")
    attention_block: Number = quantity("token", "Block of the attention kernel.", default=512.0)
    capacity: Number = quantity("1", "Rows of an expert over its even share.", default=1.0)
    dropping: Number = _flag("Whether experts drop what exceeds their capacity.")
    weight_bytes: Number = _bytes("Bytes of one weight as it is stored.", 4.0)
    moment_bytes: Number = _bytes("Bytes of both moments of a weight.", 8.0)
    vocabulary_tiling: Number = quantity("1", "Parts in which the loss is computed.", default=1.0)
    sharpness: Number = quantity(
        "1", "Power by which work hides the gathers of weights.", default=1.75
    )
    tensor_visible: Number = _flag("Share of tensor messages that products do not hide.", 0.196)
    slice_growth: Number = quantity(
        "1", "Loss of speed a doubling of the slices.", zero=True, default=0.0125
    )
    grouped: Number = _flag("Grouped products against plain ones.", 0.848)
    permute: Number = _bytes("Bytes a routed number for its permutation.", 10.0)
    expert_rows: Number = quantity(
        "1", "Rows that one expert's last tile is worth.", zero=True, default=64.0
    )
    cast: Number = _bytes("Bytes moved for a number that is cast.", 6.0)
    loss_bytes: Number = _bytes("Bytes moved for a logit in the loss.", 24.0)


@record
class TpuInputs(Operated):
    """A training step under MaxText: model, machine, chips, batch, software and plan.

    ``gpus`` is the number of chips; a chip may be two devices, which the plan's degrees count.
    """

    model: Architecture
    system: System
    gpus: Number | None = quantity("1", "Chips to split over.", whole=True, default=None)
    global_batch: Number = quantity("sequence", "Sequences of one optimizer step.", whole=True)
    software: MaxText = MaxText()
    plan: TpuPlan | None = None


def chips_of(inputs: TpuInputs) -> Number:
    """Return the number of chips, which every answer needs."""
    assert inputs.gpus is not None  # an absent number raises its own name
    return inputs.gpus


def chip_of(inputs: TpuInputs) -> TpuChip:
    """Return what MaxText gets of the chip of a system.

    Raises: InputError for a system without it.
    """
    if inputs.system.tpu is None:
        said = "not given, so that there is no step time; expected a torus by name, such as tpu-v5p"
        raise refusal("system.tpu", said)
    return with_named_absences(inputs.system.tpu, "system.tpu.")
