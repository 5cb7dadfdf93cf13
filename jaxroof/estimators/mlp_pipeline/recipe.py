"""Structural choices of an MLP's step: a profile, and each quirk by itself.

A profile is a set of choices; a choice that is not made is the profile's.
Source: docs/models/distir_model.md, sections 3, 8, 9 and 10 (numbers of quirks are its own).
"""

import dataclasses
import enum
from typing import NamedTuple


class Profile(enum.Enum):
    """Whose behaviour is followed."""

    A = "distir-a"  # the 2021 study
    COLD = "distir-a-cold"  # the same, and data and weights are handed out first
    REAL = "distir-a-real"  # the comparison with real machines: replicas alone
    B = "distir-b"  # the last version: launches, an optimizer step, memory
    PHYSICAL = "physical"  # the right version of every quirk


class Order(enum.Enum):
    """The order of a stage's visits."""

    GREEDY = "1f1b-greedy"  # as published: up to 2 (P - i) - 1 microbatches in flight (9)
    STANDARD = "1f1b"  # up to P - i
    GPIPE = "gpipe"  # every forward, then every backward


class Network(enum.Enum):
    """What the links carry (1, 13)."""

    EIGHTFOLD = "eightfold"  # bytes divided by 8e9 times Gbit/s: 64 times too fast
    FLAT = "flat"  # every link the network's bandwidth, no latency
    CALIBRATED = "calibrated"  # the same, and sums by a linear law of measurements
    TIERED = "tiered"  # fast domains in a slow network, with latencies


# The bytes of a send's element: its size counted twice, or once (1).
Messages = enum.Enum("Messages", {"SQUARED": "squared", "ONCE": "once"})


class Elementwise(enum.Enum):
    """What an operation on each element costs (2)."""

    BYTES = "bytes"  # its bytes, taken as FLOP; no traffic
    READ = "read"  # one FLOP, and every operand read
    WRITTEN = "written"  # and the result written


class Products(enum.Enum):
    """The traffic of a matrix product (3)."""

    HALVES = "halves"  # operands, at two bytes an element whatever they are
    READ = "read"  # operands
    WRITTEN = "written"  # and the result


# Arithmetic and memory traffic of one operation: added, or the longer of the two (3).
Overlap = enum.Enum("Overlap", {"ADDED": "added", "HIDDEN": "hidden"})
# Operands that the loss and its gradient are charged for (B1).
Loss = enum.Enum("Loss", {"ONE": "one", "TWO": "two"})
# Ranks whose weight gradients are summed: those of one layer where there are any, never across
# replicas; or the replicas (4).
Gradients = enum.Enum("Gradients", {"TENSOR": "tensor", "REPLICAS": "replicas"})
# When weight gradients are summed: in the end, or each layer's behind the last backward of those
# below it (12).
Sync = enum.Enum("Sync", {"AFTER": "after", "BEHIND": "behind"})
# What a message does to its ends: both wait for each other and until it is there, or neither does:
# the next visit waits for its input (12).
Sends = enum.Enum("Sends", {"RENDEZVOUS": "rendezvous", "POSTED": "posted"})
# Data and weights before the first step: there, or sent by the first device to the one replica
# (10, 11).
Handout = enum.Enum("Handout", {"DONE": "done", "COLD": "cold"})
# Loss and input gradient of all replicas, in the end.
Gathers = enum.Enum("Gathers", {"NONE": "none", "OUTPUTS": "outputs"})
# The cost of joining a microbatch's results to those before it.
Joins = enum.Enum("Joins", {"FREE": "free", "LAUNCHED": "launched"})
# The gradient of the model's input, which nobody needs (14).
InputGradient = enum.Enum("InputGradient", {"COMPUTED": "computed", "SKIPPED": "skipped"})


class Optimizer(enum.Enum):
    """The update of the weights (15, B2)."""

    NONE = "none"
    HIGHEST = "highest"  # of the highest layer of a stage alone
    ALL = "all"


class Memory(enum.Enum):
    """What counts as memory (15, B5)."""

    NONE = "none"
    BUFFERED = "buffered"  # inputs of all microbatches, buffers that grow and are copied
    LEAN = "lean"  # in place, with optimizer state


class Rules(enum.Enum):
    """Which plans are refused (5, 6, 8, B4)."""

    FIRST = "first"  # microbatches with stages alone, groups of a power of two
    LAST = "last"  # some counts of weights on a device alone
    ANY = "any"  # all that divides


class Choices(NamedTuple):
    """Every choice made; by default the right version of every quirk."""

    order: Order = Order.STANDARD
    network: Network = Network.TIERED
    messages: Messages = Messages.ONCE
    elementwise: Elementwise = Elementwise.WRITTEN
    products: Products = Products.WRITTEN
    overlap: Overlap = Overlap.HIDDEN
    loss: Loss = Loss.TWO
    gradients: Gradients = Gradients.REPLICAS
    sync: Sync = Sync.BEHIND
    sends: Sends = Sends.POSTED
    handout: Handout = Handout.DONE
    gathers: Gathers = Gathers.NONE
    joins: Joins = Joins.FREE
    input_gradient: InputGradient = InputGradient.SKIPPED
    optimizer: Optimizer = Optimizer.ALL
    memory: Memory = Memory.LEAN
    rules: Rules = Rules.ANY


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A profile, choices that differ from it, and the sizes that the program is padded to.

    >>> Recipe(Profile.A, network=Network.FLAT).chosen().network
    <Network.FLAT: 'flat'>
    """

    profile: Profile = Profile.PHYSICAL
    order: Order | None = None
    network: Network | None = None
    messages: Messages | None = None
    elementwise: Elementwise | None = None
    products: Products | None = None
    overlap: Overlap | None = None
    loss: Loss | None = None
    gradients: Gradients | None = None
    sync: Sync | None = None
    sends: Sends | None = None
    handout: Handout | None = None
    gathers: Gathers | None = None
    joins: Joins | None = None
    input_gradient: InputGradient | None = None
    optimizer: Optimizer | None = None
    memory: Memory | None = None
    rules: Rules | None = None
    most_stages: int = 8
    most_timesteps: int = 64  # of posted sends alone: when their results are there is kept
    timesteps: int = 0  # that are run; 0: as many as the plans need, without reverse derivatives

    def chosen(self) -> Choices:
        """Return every choice: one's own, or the profile's."""
        given = {name: getattr(self, name) for name in Choices._fields}
        return PROFILES[self.profile]._replace(
            **{name: value for name, value in given.items() if value is not None}
        )


_A = Choices(
    order=Order.GREEDY,
    network=Network.EIGHTFOLD,
    messages=Messages.SQUARED,
    elementwise=Elementwise.BYTES,
    products=Products.HALVES,
    overlap=Overlap.ADDED,
    loss=Loss.ONE,
    gradients=Gradients.TENSOR,
    sync=Sync.AFTER,
    sends=Sends.RENDEZVOUS,
    input_gradient=InputGradient.COMPUTED,
    optimizer=Optimizer.NONE,
    memory=Memory.NONE,
    rules=Rules.FIRST,
)
_REPLICAS = _A._replace(network=Network.FLAT, gradients=Gradients.REPLICAS, products=Products.READ)

PROFILES = {
    Profile.A: _A,
    Profile.COLD: _A._replace(handout=Handout.COLD),
    Profile.REAL: _REPLICAS._replace(gathers=Gathers.OUTPUTS),
    Profile.B: _REPLICAS._replace(
        messages=Messages.ONCE,
        elementwise=Elementwise.READ,
        joins=Joins.LAUNCHED,
        optimizer=Optimizer.HIGHEST,
        memory=Memory.BUFFERED,
        rules=Rules.LAST,
    ),
    Profile.PHYSICAL: Choices(),
}
