"""The machine: one accelerator, its memory and its links."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from jaxroof import catalog
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.tpu import TpuChip
from jaxroof.errors import refusal
from jaxroof.records import Number, quantity, record, value_or

if TYPE_CHECKING:
    from jaxroof.formulas.network import Network
    from jaxroof.formulas.network import Tier as Links


def _open(unit: str, doc: str, resource: str = "", whole: bool = False) -> Number:
    """Declare a number that some machines lack."""
    return quantity(unit, doc, default=None, resource=resource, whole=whole)


def _share(doc: str, default: float, resource: str) -> Number:
    return quantity("1", doc, default=default, most=1, resource=resource)


def _latency(doc: str, default: float | None = None) -> Number:
    return quantity("s", doc, default=default, zero=True, resource="latency")


NO_LIMIT = 1e15  # accelerators of a tier that holds any group


@record
class Tier:
    """Links of one distance, as one accelerator sees them; bandwidths are one direction.

    Source: docs/models/networks.md, section 1.
    """

    GROWING: ClassVar[tuple[str, ...]] = ("size",)  # from a tier to the next, or equal

    size: Number = quantity(
        "1", "Accelerators of one domain of the tier.", whole=True, most=NO_LIMIT
    )
    bandwidth: Number = quantity(
        "B/s", "What one accelerator can push into the tier.", resource="slow_links"
    )
    efficiency: Number = _share("Share of it that endless messages reach.", 1.0, "slow_links")
    oversubscription: Number = quantity(
        "1", "Downlinks over uplinks of the switches below the tier.", default=1.0, least=1.0
    )
    health: Number = _share("Share that other tenants and sick links leave.", 1.0, "slow_links")
    hop: Number = _latency("One step across the tier, bulk protocol.", 5.43e-6)
    hop_low: Number = _latency("One step across it, low-latency protocol.", 5.56e-6)
    rate_low: Number = quantity(
        "B/s", "Cap on its rate, low-latency protocol.", default=1e15, resource="slow_links"
    )
    reduction: Number = quantity(
        "1",
        "Share of its bandwidth at which switches add; 0: none.",
        default=0.0,
        zero=True,
        most=1,
    )
    mesh: Number = quantity(
        "1", "Links of a full mesh without switch; 1: switched.", default=1.0, zero=True
    )
    training_hop: Number = _latency("One hop in training, where not that of all networks.")


@record
class Library:
    """What a library of collectives costs beside the links.

    Source: docs/models/networks.md, section 1.
    """

    base: Number = _latency("Start of a collective.", 5.04e-6)
    base_net: Number = _latency("The same, further, of one that leaves the fast domain.", 5e-6)
    relay_low: Number = _latency("Relay between tiers, low-latency protocol.", 2.56e-6)
    nvls_latency: Number = _latency("Start of a reduction in NVLink switches.", 0.0)
    peer: Number = _latency("Each further peer of an all-to-all.", 0.2e-6)
    pat_rank: Number = _latency("Each rank of a PAT collective.", 2.8e-6)
    copy: Number = quantity(
        "B/s", "Copy out of place; 0: in place.", default=0.0, zero=True, resource="hbm"
    )
    scatter: Number = _share("Rate of an all-to-all against a ring's.", 0.82, "slow_links")


Tiers = tuple[Tier, Tier, Tier, Tier]


@record
class System:
    """One accelerator, its high-bandwidth memory and its links: peak rates and efficiencies.

    Bandwidths are per accelerator in one direction unless stated otherwise; an effective rate is
    its peak times its efficiency. One record serves all estimators. Fields that some machines lack
    or some questions do not need may be None; using such a field raises an error that names it.
    ``chip`` is what training gets of it, for the estimator ``training``; ``tpu`` what MaxText gets
    of a TPU, for ``tpu_training``.

    A file or a setting may say ``nics_per_node`` instead of ``nics``: network interfaces that the
    accelerators of a node share. A node is ``host`` accelerators, else a whole ``fast_domain``.
    Where ``tiers`` are given, innermost first, they stand for the fast and the slow links; a tier
    that is not there has the size of the one below.
    """

    # a field's amount in a group of accelerators -> how many they are: the first that is given
    PER_GROUP: ClassVar[Mapping[str, tuple[str, ...]]] = {"nics_per_node": ("host", "fast_domain")}

    matrix_flops: Number = _open(
        "FLOP/s", "Peak dense matrix rate at the number format in use.", "compute"
    )
    fp8_flops: Number = _open("FLOP/s", "Peak dense matrix rate at 8 bits, of a server.", "compute")
    fp4_flops: Number = _open("FLOP/s", "Peak dense matrix rate at 4 bits, of a server.", "compute")
    vector_flops: Number = _open(
        "FLOP/s", "Peak vector rate at the number format in use.", "compute"
    )
    matrix_efficiency: Number = _share(
        "Share of the peak rate, matrix and vector alike, that work runs at.", 0.8, "compute"
    )
    launch_latency: Number = _latency("Time to launch one operation in one direction.", 20e-6)
    hbm_bandwidth: Number = _open("B/s", "Bandwidth of the high-bandwidth memory.", "hbm")
    hbm_capacity: Number = _open("B", "Capacity of the high-bandwidth memory.", "capacity")
    hbm_reported: Number = _open(
        "B", "Capacity that the device reports, where its label says another.", "capacity"
    )
    hbm_usable: Number = _share(
        "Share of the capacity that a training step may fill.", 1.0, "capacity"
    )
    fast_domain: Number = _open(
        "1", "Accelerators that share the fast links.", "fast_links", whole=True
    )
    fast_bandwidth: Number = _open("B/s", "Bandwidth inside the fast domain.", "fast_links")
    fast_efficiency: Number = _share(
        "Share of the fast bandwidth that messages run at.", 0.7, "fast_links"
    )
    fast_latency: Number = _latency("Latency of one hop in the fast domain.")
    slow_bandwidth: Number = _open("B/s", "Bandwidth of one network interface.", "slow_links")
    slow_efficiency: Number = _share(
        "Share of the slow bandwidth that messages run at.", 0.7, "slow_links"
    )
    slow_latency: Number = _latency("Latency of one hop between fast domains.")
    nics: Number = quantity(
        "1", "Network interfaces per accelerator.", default=1.0, resource="slow_links"
    )
    network_bandwidth: Number = _open(
        "B/s", "Bandwidth of one flat network, sent and received bytes added.", "slow_links"
    )
    link_bandwidth: Number = _open(
        "B/s", "Bandwidth of one torus link, one direction; an axis has two.", "torus_links"
    )
    link_latency: Number = _latency("Latency of one torus hop.")
    torus_axes: Number = _open("1", "Axes of the torus.", whole=True)
    pod: Number = _open("1", "Accelerators of a whole pod.", whole=True)
    host: Number = _open("1", "Accelerators of one host.", whole=True)
    host_capacity: Number = _open("B", "Memory of the host, the share of one accelerator.", "host")
    pcie_bandwidth: Number = _open("B/s", "Bandwidth between an accelerator and its host.", "host")
    chip_watts: Number = _open("W", "Rated power of one accelerator.")
    host_watts: Number = _open("W", "Power of a node beside its accelerators and switches.")
    switch_watts: Number = _open("W", "Power of the network's switches, the share of a node.")
    on_chip_bandwidth: Number = _open("B/s", "Bandwidth of the memory on the chip.")
    chip: Chip | None = None
    tiers: Tiers | None = dataclasses.field(
        default=None,
        metadata={
            "expected": "; expected a fabric too, such as fabric=dgx-h100-pod",
            "resources": {"slow_links": ("fast_links", "tier_1", "tier_2", "tier_3")},
        },
    )
    library: Library | None = None
    tpu: TpuChip | None = None

    @property
    def innermost(self) -> Number:
        """Return how many accelerators share the innermost links."""
        return self.fast_domain if self.tiers is None else self.tiers[0].size

    @staticmethod
    def published(fields: Collection[str]) -> str | None:
        """Return a system from the catalogue that has the given fields, or None."""
        return catalog.giving("systems", fields)


def usable_memory(system: System) -> Number:
    """Return the bytes that a training step may fill: what the device reports, else its label."""
    return value_or(system.hbm_reported, system.hbm_capacity) * system.hbm_usable


def tiers(
    system: System, shares: tuple[Number, Number], hops: tuple[Number, Number]
) -> "tuple[Links, ...]":
    """Return the tiers of a system's links, innermost first.

    R_k = B_k share health_k / o_k

    Arguments: ``shares`` of their peak rates that messages run at, and the latency of a hop: those
    of the innermost tier, and those of every other, unless it says its own.
    Source: docs/models/networks.md, section 7.
    """
    from jaxroof.formulas.network import Tier as Links  # not above: a name needs no formula

    if system.tiers is None:
        return (
            Links(system.fast_domain, system.fast_bandwidth * shares[0], hops[0]),
            Links(0.0, system.slow_bandwidth * shares[1], hops[1], system.nics),
        )
    each = zip(system.tiers, (shares[0], *shares[1:] * 3), (hops[0], *hops[1:] * 3), strict=True)
    return tuple(
        Links(
            tier.size,
            tier.bandwidth * share * tier.health / tier.oversubscription,
            value_or(tier.training_hop, hop),
        )
        for tier, share, hop in each
    )


def network(system: System) -> "Network":
    """Return a system's fast and slow links, at its own efficiencies: those of the study.

    Raises: InputError for a system with tiers, of which the study has no formula.
    """
    from jaxroof.formulas.network import Network

    if system.tiers is not None:
        said = "the study knows fast and slow links alone; expected a system without a fabric"
        raise refusal("system.tiers", f"{said}, or --estimator training")
    shares = (system.fast_efficiency, system.slow_efficiency)
    return Network(tiers(system, shares, (system.fast_latency, system.slow_latency)))
