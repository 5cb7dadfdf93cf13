"""A whole training: its arithmetic, its time, and the memory that it needs."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.defaults import counted, value_or
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import counting
from jaxroof.formulas.serving import whole_up
from jaxroof.records import Number, quantity, record

DAY = 86400.0  # seconds
YEAR = 365.0  # days


@record
class RunInputs:
    """A model, the tokens it is trained on, and the machines; amounts given hold as given."""

    system: System
    chips: Number = quantity("1", "Accelerators.", default=1.0, symbol="n")
    parameters: Number = quantity("1", "Parameters that a token meets.", symbol="P")
    tokens: Number = quantity("token", "Tokens of the whole training.", symbol="T")
    utilised: Number = quantity("1", "Share of the peak rate in use.", default=1.0)
    flops_per_token: Number = quantity(
        "FLOP", "Arithmetic of one token; 6 a parameter if not given.", default=None
    )
    flops: Number = quantity(
        "FLOP", "Arithmetic of the whole; that of all tokens if not given.", default=None
    )
    chip_time: Number = quantity(
        "s", "Accelerators times seconds that it took; at the share in use if not given.",
        default=None,
    )  # fmt: skip


@record
class Run:
    """Arithmetic and time of a training."""

    forward_flops_per_token: Number = quantity("FLOP", "Arithmetic of one token, forward.")
    training_flops_per_token: Number = quantity("FLOP", "Arithmetic of training on one token.")
    training_flops: Number = quantity("FLOP", "Arithmetic of the whole training.")
    time: Number = quantity("s", "Time of the whole training.", headline=True)
    days: Number = quantity("day", "Days of the whole training.")
    years: Number = quantity("year", "Years of the whole training, of 365 days.")
    total_time: Number = quantity("s", "Accelerators times seconds.")
    utilisation: Number = quantity(
        "1", "Share of the peak rate that the accelerators' time comes to.", better="higher"
    )


def run(inputs: RunInputs, recipe: None) -> Run:
    """Return the arithmetic and the time of a training."""
    i = inputs
    per_token = value_or(i.flops_per_token, lambda: counting.training_flops(i.parameters))
    flops = value_or(i.flops, lambda: per_token * i.tokens)
    at_share = counting.run_time(flops, i.chips, i.utilised, i.system.matrix_flops)
    chip_time = value_or(i.chip_time, lambda: i.chips * at_share)
    time = chip_time / i.chips
    return Run(
        forward_flops_per_token=counting.forward_flops(i.parameters),
        training_flops_per_token=per_token,
        training_flops=flops,
        time=time,
        days=time / DAY,
        years=time / DAY / YEAR,
        total_time=chip_time,
        utilisation=counting.utilisation(flops, chip_time, i.system.matrix_flops),
    )


@record
class MemoryInputs:
    """A model, one batch, what is kept of it, and the machines; amounts given hold as given."""

    system: System
    chips: Number = quantity("1", "Accelerators.", default=1.0, symbol="n")
    parameters: Number = quantity("1", "Parameters.", symbol="P")
    layers: Number = quantity("1", "Transformer layers.", whole=True, symbol="L")
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    expansion: Number = quantity(
        "1", "Width inside the MLP over that of the residual stream.", default=4.0
    )
    feedforward: Number = quantity(
        "1", "Width inside the MLP; by the expansion if not given.", default=None, symbol="F"
    )
    tokens: Number = quantity("token", "Tokens of one batch.", symbol="B")
    kept: Number = quantity("1", "Vectors that a layer keeps of a token.", default=20.0, symbol="c")
    weight_width: Number = quantity("B", "Bytes of one weight.", default=2.0)
    optimizer_width: Number = quantity("B", "Bytes of optimizer state of a weight.", default=8.0)
    activation_width: Number = quantity("B", "Bytes of one activation.", default=2.0)
    state: Number = quantity(
        "B", "Weights and optimizer state; by their widths if not given.", default=None
    )
    activations: Number = quantity(
        "B", "Activations kept; so many vectors a layer if not given.", default=None
    )


@record
class Memory:
    """What training holds in memory, and the accelerators that hold it."""

    weights: Number = quantity("B", "Weights.")
    optimizer: Number = quantity("B", "Optimizer state.")
    weights_and_optimizer: Number = quantity("B", "Weights and optimizer state.")
    checkpoints: Number = quantity("B", "Activations kept, so many vectors a layer.")
    wide_checkpoints: Number = quantity(
        "B", "Activations kept where a layer keeps one vector and two of the MLP's width."
    )
    memory: Number = quantity("B", "State and activations together.")
    memory_per_chip: Number = quantity("B", "The same, an accelerator.")
    chips_needed: Number = quantity("1", "Accelerators that hold all, unrounded.")
    chips_needed_whole: Any = quantity("1", "Accelerators that hold all.", whole=True)
    fits: Any = quantity("1", "The accelerators hold all.")


def hold(inputs: MemoryInputs, recipe: None) -> Memory:
    """Return the memory that training needs."""
    i = inputs
    feedforward = value_or(i.feedforward, lambda: i.expansion * i.hidden)
    kept = counting.checkpoints(i.layers, i.hidden, i.tokens, i.kept, i.activation_width)
    wide = counting.wide_checkpoints(i.layers, i.hidden, feedforward, i.tokens, i.activation_width)
    state = value_or(
        i.state,
        lambda: counting.training_state(i.parameters, i.weight_width, i.optimizer_width),
    )
    memory = state + value_or(i.activations, lambda: kept)
    capacity = i.system.hbm_capacity
    return Memory(
        weights=i.parameters * i.weight_width,
        optimizer=i.parameters * i.optimizer_width,
        weights_and_optimizer=state,
        checkpoints=kept,
        wide_checkpoints=wide,
        memory=memory,
        memory_per_chip=memory / i.chips,
        chips_needed=memory / capacity,
        chips_needed_whole=counted(whole_up(memory, capacity)),
        fits=memory <= i.chips * capacity,
    )


def _seventy_billion() -> MemoryInputs:
    return MemoryInputs(
        system=named.system("tpu-v5p"),
        chips=8960.0,
        parameters=70e9,
        layers=80.0,
        hidden=8192.0,
        tokens=4e6,
        kept=4.0,
    )


training_run = Estimator(
    step=run,
    inputs=RunInputs,
    name="training_run",
    names={"system": named.labelled_system},
    example=lambda: RunInputs(
        system=named.system("tpu-v5p"), chips=8960.0, parameters=70e9, tokens=15e12, utilised=0.4
    ),
    about=QUESTIONS["training_run"],
)
training_memory = Estimator(
    step=hold,
    inputs=MemoryInputs,
    name="training_memory",
    names={"system": named.labelled_system},
    example=_seventy_billion,
    about=QUESTIONS["training_memory"],
)
