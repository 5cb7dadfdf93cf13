"""Tiers of links and the library of collectives: of a named fabric, and of a system's file.

Source: docs/models/networks.md, sections 1 and 8.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.system import NO_LIMIT, Library, System, Tier, Tiers
from jaxroof.errors import errors_in, refusal, shown, unknown
from jaxroof.records import checked, value_or
from jaxroof.settings import apply_settings

TIERS = 4
HOPS = (4.43e-6, 5.43e-6, 6.43e-6)  # of tiers 1 to 3 where a fabric gives no other [s]
HOPS_LOW = (4.56e-6, 5.56e-6, 6.56e-6)  # the same under the low-latency protocol [s]
RATE_LOW = 0.19  # cap of that protocol over the tier's bandwidth
FAST = {"hop": 5.46e-6, "hop_low": 0.81e-6}  # of the fast links of a file without fabric


def fabric(name: str) -> tuple[Tiers, Library]:
    """Return the tiers and the library of a fabric of the catalogue.

    Raises: InputError for an unknown name, with the nearest.

    >>> tiers, library = fabric("taper-2-h100")
    >>> [float(tier.oversubscription) for tier in tiers], float(library.base)
    ([1.0, 1.0, 2.0, 2.0], 5.04e-06)
    """
    if name not in catalog.names("fabrics"):
        raise unknown("fabric", name, "fabric", catalog.names("fabrics"))
    written = catalog.describe("fabrics", name)
    outer, sizes = written["network"], [*written["sizes"], NO_LIMIT]
    over = written.get("oversubscription", [1.0] * TIERS)
    first = Tier(size=sizes[0], oversubscription=over[0], **written["fast"])
    others = [
        Tier(**{**_network(place, outer["bandwidth"]), **outer, "size": size, **share})
        for place, (size, share) in enumerate(
            zip(sizes[1:], ({"oversubscription": one} for one in over[1:]), strict=True)
        )
    ]
    return _whole([first, *others]), checked(Library(**written["library"]))


def with_fabric(
    system: System,
    name: str | None,
    tiers: Sequence[Mapping[str, Any]] = (),
    library: Mapping[str, Any] | None = None,
    where: Any = "",
) -> System:
    """Return a system on a fabric of the catalogue, or on the tiers of its file, or on both.

    Tiers of a file, innermost first, change those of the fabric; without one, what they leave out
    is that of the system's fast links, then of its network. Where there are fewer than four, the
    last holds any group, unless it says its size.

    >>> from jaxroof.catalog.lookup import system
    >>> found = with_fabric(system("h100-nvs8"), None, [{}, {"size": 256}, {"oversubscription": 2}])
    >>> [float(tier.size) for tier in found.tiers], float(found.tiers[2].oversubscription)
    ([8.0, 256.0, 1000000000000000.0, 1000000000000000.0], 2.0)
    """
    with errors_in(where):
        base, own = fabric(name) if name is not None else ((), Library())
        with errors_in("library"):
            own = checked(apply_settings(own, None, dict(library or {}))[0])
        if not isinstance(tiers, list | tuple) or len(tiers) > TIERS:
            raise refusal("tiers", f"expected 1 to 4 tables [[tiers]], given {shown(tiers)}")
        made = [_tier(system, base, place, tiers) for place in range(len(tiers))]
        return dataclasses.replace(system, tiers=_whole([*made, *base[len(made) :]]), library=own)


def _tier(system: System, base: Sequence[Tier], place: int, tiers: Sequence[Any]) -> Tier:
    """Return a tier of a file: that of the fabric, or of the system's links, with its changes."""
    written, where = tiers[place], f"tiers.{place}"
    if not isinstance(written, Mapping):
        raise refusal(where, f"expected a table [[tiers]], given {shown(written)}")
    start = base[place] if base else _plain(system, place)
    if not base and place:
        if place == len(tiers) - 1:
            start = dataclasses.replace(start, size=NO_LIMIT)
        elif "size" not in written:
            raise refusal(f"{where}.size", "missing; expected accelerators of one domain")
    with errors_in(where):
        return checked(apply_settings(start, None, dict(written))[0])


def _whole(tiers: Sequence[Tier]) -> Tiers:
    """Return four checked tiers; those that are not there are as the last."""
    every: Any = (*tiers, *[tiers[-1]] * (TIERS - len(tiers)))
    return checked(every, "tiers.")


def _network(place: int, bandwidth: float) -> dict[str, Any]:
    """Return the constants of a tier above the fast links where a fabric gives no other."""
    return {"hop": HOPS[place], "hop_low": HOPS_LOW[place], "rate_low": RATE_LOW * bandwidth}


def _plain(system: System, place: int) -> Tier:
    """Return a tier of a system by its fast links, or by its network."""
    none: Any = None  # said to be missing where a question needs it
    size = value_or(system.fast_domain, NO_LIMIT)
    if place == 0:
        fast, share = system.fast_bandwidth, system.fast_efficiency
        return Tier(size=size, bandwidth=fast, efficiency=share, **FAST)
    slow, share = system.slow_bandwidth, system.slow_efficiency
    rate = none if slow is None else slow * system.nics
    return Tier(
        size=size, bandwidth=rate, efficiency=share, **_network(place - 1, value_or(rate, 1e15))
    )
