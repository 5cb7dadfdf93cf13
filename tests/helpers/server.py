"""A small server of a model of the catalogue: no batch of training, no sequence, two limits."""

from typing import Any

import numpy as np

import jaxroof as jr
from jaxroof.catalog.lookup import architecture_with_choices, labelled_system


@jr.record
class Work:
    """What every user asks."""

    output: float = jr.quantity("token", "Tokens of an answer.", default=1024.0)


@jr.record
class Bounds:
    """What may not be exceeded."""

    token: float | None = jr.quantity("s", "Time of each further token.", default=None)


@jr.record
class Plan:
    """The width of a replica, and its sequences at a time."""

    tensor: float = jr.quantity("1", "Ranks of a replica.", whole=True, symbol="tp")
    batch: float = jr.quantity("1", "Sequences of a replica.", whole=True, symbol="b")


@jr.record
class Inputs:
    """A model that is served."""

    model: jr.Architecture
    system: jr.System
    gpus: float | None = jr.quantity("1", "Accelerators.", whole=True, default=None)
    workload: Work = Work()
    limits: Bounds = Bounds()
    plan: Plan | None = None


@jr.record
class Report:
    """What an answer takes."""

    accelerator_time: float = jr.quantity(
        "s", "Accelerator time of an answer.", headline=True, words="accelerator time"
    )
    time_read: float = jr.quantity("s", "Weights.", part_of="accelerator_time", words="weights")
    time_sums: float = jr.quantity("s", "Messages.", part_of="accelerator_time", words="messages")
    token: float = jr.quantity("s", "Time of each further token.", words="a token")
    rate: float = jr.quantity("token/s", "Tokens a second.", better="higher", headline=True)
    memory: float = jr.quantity("B", "Memory of one accelerator.", resource="capacity")


def reading(inputs: Inputs, recipe: Any, *, tensor: Any) -> Any:
    """Return the time in which the weights are read."""
    return _weights(inputs) / (tensor * inputs.system.hbm_bandwidth)


def _weights(inputs: Inputs) -> Any:
    return 24.0 * inputs.model.layers * inputs.model.hidden**2


def step(inputs: Inputs, recipe: Any, *, reading: Any) -> Report:
    """Return what an answer takes."""
    plan, system = inputs.plan, inputs.system
    assert plan is not None
    sums = (plan.tensor - 1.0) * plan.batch * inputs.model.hidden / system.fast_bandwidth
    memory = _weights(inputs) / plan.tensor + 1e9 * plan.batch / plan.tensor
    shares = plan.tensor * inputs.workload.output / plan.batch
    return Report(
        accelerator_time=(reading + sums) * shares,
        time_read=reading * shares,
        time_sums=sums * shares,
        token=reading + sums,
        rate=plan.batch / (reading + sums) * inputs.gpus / plan.tensor,
        memory=memory,
    )


def candidates(inputs: Inputs, recipe: Any) -> jr.Candidates:
    """Return every width that divides the accelerators, with powers of two of sequences."""
    widths = 2 ** np.arange(int(inputs.gpus).bit_length())
    tensor, batch = (c.ravel() for c in np.meshgrid(widths, 2 ** np.arange(8), indexing="ij"))
    legal = tensor <= inputs.model.heads
    plans = {"tensor": tensor[legal], "batch": batch[legal]}
    return jr.Candidates(plans, {"heads": int((~legal).sum())})


def named(name: str) -> Any:
    """Return a model without the choices of a training step."""
    return architecture_with_choices(name)[0]


def example() -> Inputs:
    """Return Llama 3 8B on eight H100."""
    model = named("llama3-8b")
    plan = Plan(tensor=2.0, batch=8.0)
    return Inputs(model=model, system=labelled_system("h100-nvs8"), gpus=8.0, plan=plan)


estimator = jr.Estimator(
    name="server",
    about="Which width and batch answer at the least accelerator time?",
    inputs=Inputs,
    plan=Plan,
    parts={"reading": reading},
    step=step,
    candidates=candidates,
    structural=("gpus", "model"),
    objective="accelerator_time",
    limits=(jr.Limit("memory", "system.hbm_capacity"), jr.Limit("token", "limits.token")),
    names={"model": named, "system": labelled_system},
    reasons=lambda recipe: {"heads": "more ranks than heads"},
    example=example,
)
