"""Inputs of a server: model, machine, numbers' formats, software, load, limits and plan.

Source: docs/models/serving.md, sections 2, 6, 7 and 8.
"""

from typing import ClassVar

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.catalog.system import System
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record

LARGEST = 8192.0  # batch that a search tries
MOST_TPOT = 10.0  # [s]; a bare number was meant in ms where it is larger
FORMATS = ("bf16", "fp8", "fp4", "mxfp4-16", "mxfp4-8")  # mxfp4-R: multiplied at R bits


def _degree(doc: str, symbol: str, label: str) -> Number:
    most = BOUNDS["whole"]
    return quantity("1", doc, whole=True, most=most, default=1.0, symbol=symbol, label=label)


def _batch() -> Number:
    doc, most = "Sequences that a replica decodes at once.", BOUNDS["whole"]
    return quantity("sequence", doc, most=most, default=None, symbol="batch", label="batch")


def _chunk(doc: str) -> Number:
    return quantity("token", doc, most=BOUNDS["whole"], default=None, symbol="chunk", label="chunk")


def _format(doc: str) -> Number:
    last = len(FORMATS) - 1.0
    return quantity("1", doc, whole=True, zero=True, most=last, default=0.0, flags=FORMATS)


@record
class Split:
    """A replica of tensor x data x pipeline accelerators, and how its experts lie over them."""

    tensor: Number = _degree("Tensor-parallel degree.", "tp", "tensor")
    data: Number = _degree("Data-parallel degree of attention; experts span all.", "dp", "data")
    pipeline: Number = _degree("Pipeline stages.", "pp", "pipeline")
    whole: Number = quantity(
        "1", "Whether a rank has whole experts (expert parallelism, 1) or a slice of each (0).",
        whole=True, zero=True, most=1.0, default=0.0, symbol="ep", label="whole experts",
    )  # fmt: skip

    @property
    def accelerators(self) -> Number:
        """Return the accelerators of a replica, n = t D p."""
        return self.tensor * self.data * self.pipeline


@record
class ServingPlan(Split):
    """A replica that decodes a batch, and takes prompts a chunk at a time."""

    batch: Number = _batch()
    chunk: Number = _chunk("Prompt tokens of a step that has some, over all attention ranks.")


@record
class PrefillPlan(Split):
    """A replica that takes prompts alone, and is busy for a share of the time."""

    chunk: Number = _chunk("Prompt tokens of a step, over all attention ranks.")
    busy: Number = quantity(
        "1", "Tenths of the time that it is busy.", whole=True, most=9.0, default=None,
        flags=("0", *(f"0.{tenth}" for tenth in range(1, 10))),
    )  # fmt: skip

    @property
    def share(self) -> Number:
        """Return the share of the time that it is busy."""
        return self.busy / 10.0


@record
class DecodePlan(Split):
    """A replica that decodes alone."""

    batch: Number = _batch()
    chunk: ClassVar[float] = 0.0  # of prompts


@record
class Workload:
    """What is asked of a server: lengths, hits of its prefix cache, speculation, arrivals."""

    prompt: Number = quantity("token", "Tokens of a prompt, the mean.", default=None)
    output: Number = quantity("token", "Tokens of an answer, the mean.", least=2.0, default=None)
    hit: Number = quantity(
        "1", "Share of a prompt that the prefix cache holds.", zero=True, most=1.0, default=0.0
    )
    drafts: Number = quantity("token", "Tokens drafted for a step.", zero=True, default=0.0)
    acceptance: Number = quantity(
        "1", "Chance that a drafted token is taken.", zero=True, most=1.0, default=0.0
    )
    draft_share: Number = quantity(
        "1", "Time of one pass of the drafter over a decode step.", zero=True, default=0.0
    )
    variation: Number = quantity(
        "1", "Spread of arrivals: 1 by chance, 0 evenly paced.", zero=True, default=1.0
    )

    @property
    def new(self) -> Number:
        """Return the tokens of a prompt that the prefix cache lacks, nu = (1 - h) I."""
        return (1.0 - self.hit) * self.prompt

    @property
    def slowed(self) -> Number:
        """Return the time of a decode step with its drafts over one without, 1 + g draft_share."""
        return 1.0 + self.drafts * self.draft_share


@record
class ServingLimits:
    """What an answer may take, and the load that all accelerators must carry; None: no limit."""

    ttft: Number = quantity("s", "Most time to the first token.", default=None)
    tpot: Number = quantity(
        "s", "Most time an output token after the first.", most=MOST_TPOT, default=None
    )
    load: Number = quantity("request/s", "Requests that arrive a second.", default=None)


@record
class Precision:
    """Formats of weights by their place in FORMATS, and the width of a cached number.

    attention: projections of attention; mlp: dense, shared and routed MLPs. Head and embedding are
    in 16 bits.
    """

    attention_format: Number = _format("Format of attention's weights.")
    mlp_format: Number = _format("Format of the weights of MLPs.")
    cache_width: Number = quantity("B", "Bytes of a number in the cache.", default=2.0)


@record
class ServingInputs:
    """A server of a model on a machine.

    ``watts`` and ``rent`` are of one accelerator, for the energy and the dollars of a token.
    """

    model: Architecture
    system: System
    gpus: Number | None = quantity(
        "1", "Number of accelerators.", whole=True, most=BOUNDS["whole"], default=None
    )
    workload: Workload = Workload()
    limits: ServingLimits = ServingLimits()
    precision: Precision = Precision()
    software: ServingSoftware = ServingSoftware()
    watts: Number | None = quantity(
        "W", "Mean power of one accelerator; three quarters of its rated power if not given.",
        default=None,
    )  # fmt: skip
    rent: Number | None = quantity("USD/s", "Rent of one accelerator.", default=None)
    plan: ServingPlan | None = None


@record
class PrefillInputs(ServingInputs):
    """A pool of a model on a machine that takes prompts."""

    plan: PrefillPlan | None = None  # type: ignore[assignment]


@record
class DecodeInputs(ServingInputs):
    """A pool of a model on a machine that decodes."""

    plan: DecodePlan | None = None  # type: ignore[assignment]
