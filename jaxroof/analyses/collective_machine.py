"""The machine of a collective: its tiers, what its library was tuned on, a slice of a torus."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import catalog
from jaxroof.catalog import lookup as named
from jaxroof.catalog.fabrics import fabric
from jaxroof.catalog.system import System
from jaxroof.errors import listing, refusal, shown
from jaxroof.estimators.tpu_training import slices
from jaxroof.formulas import tori
from jaxroof.records import Number, checked, quantity, record, units
from jaxroof.settings import apply_settings

RACK = 64  # accelerators from which a fast domain is a rack
RACKS = 2  # of which measured times are met without further ado
SICK = (
    "No health is given: all-reduces over 20 racks of GB200 took more than twice the time that is "
    "predicted so."
)
LINK_SHARES = {"tpu-v6e": 0.59}  # of the peak of a torus link, where not that of all


class Machine(NamedTuple):
    """Tiers and library as they are, and those that the library's choices were made on."""

    tiers: Sequence[Any]
    library: Any
    reference: tuple[Sequence[Any], Any]

    @property
    def sizes(self) -> list[Number]:
        """Return the sizes of the tiers."""
        return [tier.size for tier in self.tiers]

    def check_group(self, gpus: int, stride: int) -> list[str]:
        """Check that a group exists; return warnings."""
        most = float(self.sizes[-1])
        if gpus * stride > most:
            said = (
                f"{gpus:,} with stride {stride:,}: more than the {most:,.0f} of the outermost tier"
            )
            raise refusal("--gpus", said)
        uneven = [s for s in self.sizes[:-1] if float(s) % stride and stride % float(s)]
        words = listing([f"{float(size):,.0f}" for size in uneven])
        return [
            f"Stride {stride} and domains of {words} do not divide: shares are on average."
        ] * bool(uneven)

    def notes(self, spread: Any) -> list[str]:
        """Return what to know of a group so placed."""
        racks = float(spread.members / spread.here[0])
        well = all(float(tier.health) == 1.0 for tier in self.tiers[1:])
        return [SICK] * (float(self.sizes[0]) >= RACK and racks > RACKS and well)


def machine(name: str, settings: dict[str, Any], in_place: bool) -> Machine:
    """Return the machine of a fabric, a system on one, or a file with tiers, with fields changed.

    Raises: InputError for an unknown name or field, and a machine without tiers.
    """
    plain = _plain(name)
    changed = {path.removeprefix("system."): value for path, value in settings.items()}
    found = checked(apply_settings(plain, None, changed)[0])
    judged: Any = plain.tiers
    own: Any = plain.library
    preset = preset_of(name)
    if preset is not None:
        judged, own = fabric(preset)
        judged = [dataclasses.replace(t, oversubscription=1.0, health=1.0) for t in judged]
    tiers: Any = found.tiers
    judged = [
        dataclasses.replace(
            judge,
            size=tier.size,
            mesh=tier.mesh,
            reduction=judge.reduction if float(judge.reduction) else tier.reduction,
        )
        for judge, tier in zip(judged, tiers, strict=True)
    ]
    libraries: list[Any] = [found.library, own]
    if in_place:
        libraries = [dataclasses.replace(one, copy=np.float64(0.0)) for one in libraries]
    return Machine(tiers, libraries[0], (judged, libraries[1]))


def _plain(name: str) -> System:
    """Return a machine with tiers, before any setting."""
    if name in _fabrics():
        tiers, library = fabric(name)
        return System(tiers=tiers, library=library)
    found: Any = named.system(name)
    if found.tiers is None and found.link_bandwidth is not None:
        said = "a torus; expected --slice and --axes, such as --slice 4x4x8 --axes 0,1"
        raise refusal("--system", f"{name}: {said}")
    if found.tiers is None:
        like = listing((fabrics_like(name) or _fabrics())[:3])
        said = f"no tiers of links; expected a fabric such as {like}, or a file"
        raise refusal("--system", f"{name}: {said}")
    return found


def fabrics_like(system: str) -> list[str]:
    """Return the fabrics of the catalogue whose nodes are a system of it, or its own.

    >>> fabrics_like("h200-141-sxm"), fabrics_like("gb200-nvl72")
    (['hgx-h200'], ['gb200-nvl72'])
    """
    names = _fabrics()
    own = [name for name in names if name == system]
    return own or [n for n in names if catalog.describe("fabrics", n).get("system") == system]


def _fabrics() -> list[str]:
    return list(catalog.names("fabrics"))


def preset_of(name: str) -> str | None:
    """Return the fabric of a system: its own name, or what its entry or file says."""
    if name in _fabrics():
        return name
    return catalog.entry("systems", name, units(System)).get("fabric")


# ---- Tori ---------------------------------------------------------------------------------------


@record
class TorusLinks:
    """Links of a torus, as collectives find them.

    Source: docs/models/networks.md, section 8.
    """

    link_bandwidth: Number = quantity("B/s", "One link of a device, one direction.")
    link_efficiency: Number = quantity(
        "1", "Share of it that messages reach.", default=0.894, most=1
    )
    base: Number = quantity("s", "Start of a collective.", default=11.5e-6, zero=True)
    hop: Number = quantity("s", "One hop.", default=1e-6, zero=True)


class Slice(NamedTuple):
    """Axes of a slice that a group takes, and the links along them."""

    axes: Sequence[tori.Axis]
    links: TorusLinks
    words: str

    @property
    def devices(self) -> int:
        """Return the devices of the group."""
        return int(np.prod([float(axis.length) for axis in self.axes]))

    def time(self, op: str, sizes: np.ndarray) -> Any:
        """Return the seconds of an operation."""
        rate = self.links.link_bandwidth * self.links.link_efficiency
        return tori.torus_time(op, self.axes, sizes, rate, self.links.base, self.links.hop)


def torus_slice(
    name: str,
    shape: str | None,
    axes: str | None,
    given: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Slice:
    """Return the axes of a slice that a group takes.

    Arguments: ``given`` are options that have no meaning on a torus.
    Raises: InputError for a machine without torus, a slice or an axis that it does not have.
    """
    system = named.system(name)
    if system.link_bandwidth is None or system.torus_axes is None:
        raise refusal(
            "--slice", f"{name} is no torus; expected --gpus, or a system such as tpu-v5p"
        )
    for option in (option for option, value in given.items() if value is not None):
        raise refusal(
            option, "not on a torus: its group is whole axes; expected --slice and --axes"
        )
    if shape is None:
        raise refusal("--slice", "missing; expected sides such as 4x4x8")
    chip = named.tpu_of(name)
    sides = _sides(shape, name, chip, int(system.torus_axes))
    chosen = _axes(axes, len(sides))
    links = TorusLinks(
        link_bandwidth=system.link_bandwidth / chip.devices,
        link_efficiency=LINK_SHARES.get(name, 0.894),
    )
    changed = {path.removeprefix("system."): value for path, value in settings.items()}
    links = checked(apply_settings(links, None, changed)[0])
    wraps = tori.wrapped([float(side) for side in sides], float(chip.wrap))
    every = [tori.Axis(float(s), float(w)) for s, w in zip(sides, wraps, strict=True)]
    around = [str(place) for place in chosen if every[place].wraps]
    words = f"Axes {listing(around)} wrap around." if around else "No axis wraps around."
    return Slice([every[place] for place in chosen], links, words)


def _sides(text: str, name: str, chip: Any, axes: int) -> tuple[int, ...]:
    """Return the sides of a slice that a generation of chips has."""
    sized = {shape: (*map(float, shape), 1.0) for shape in slices.SHAPES if len(shape) == axes}
    known = [
        shape
        for shape, (x, y, z, *_) in sized.items()
        if bool(slices.exists(chip, axes, slices.Sides(x, y, z, axes)))
    ]
    parts = text.lower().split("x")
    if not all(part.isdigit() and 0 < int(part) < 1e6 for part in parts):
        said = f"expected sides such as {slices.shape_word(known[4])}, given {shown(text)}"
        raise refusal("--slice", said)
    sides = tuple(int(part) for part in parts)
    if tuple(sorted(sides)) not in {tuple(sorted(shape)) for shape in known}:
        volume = float(np.prod([float(side) for side in sides]))
        near = sorted(known, key=lambda one: abs(np.log(np.prod(one) / volume)))[:3]
        words = listing([slices.shape_word(one) for one in near])
        raise refusal("--slice", f"{text}: no slice of {name}; the nearest: {words}")
    return sides


def _axes(text: str | None, count: int) -> list[int]:
    """Return the axes of a group, by default all."""
    if text is None:
        return [*range(count)]
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) < count for part in parts):
        raise refusal(
            "--axes", f"expected axes from 0 to {count - 1}, such as 0,1, given {shown(text)}"
        )
    found = [int(part) for part in parts]
    for axis in found:
        if found.count(axis) > 1:
            raise refusal("--axes", f"{axis}: used twice; expected each axis once")
    return found
