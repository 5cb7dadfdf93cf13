"""Real systems on a map of two fields of a machine: which ones, where, and what to call them."""

from collections.abc import Sequence

import numpy as np

from jaxroof import catalog
from jaxroof.catalog.fabrics import with_fabric
from jaxroof.catalog.lookup import device
from jaxroof.catalog.needs import answers
from jaxroof.records import get_at

NEAR = 0.05  # of the logarithm: systems nearer than that are at one place
Place = tuple[float, float]


def real_systems(
    estimator: str, fields: Sequence[str], spans: Sequence[np.ndarray]
) -> dict[Place, list[str]]:
    """Return the systems of the catalogue that lie within a map of two fields, by their place.

    On a map of tiers they are its fabrics, on their own systems. Only those are among them that the
    estimator knows enough of.
    """
    places: dict[Place, list[str]] = {}
    on_tiers = any(field.startswith("tiers.") for field in fields)
    for name in catalog.names("fabrics" if on_tiers else "systems"):
        plain = catalog.describe("fabrics", name).get("system") if on_tiers else name
        record = device(plain) if plain and estimator in answers(plain) else None
        record = with_fabric(record, name) if record is not None and on_tiers else record
        found = [None if record is None else get_at(record, field) for field in fields]
        if None in found:
            continue
        x, y = (float(value) for value in found)  # type: ignore[arg-type]
        if all(a.min() <= v <= a.max() for v, a in zip((x, y), spans, strict=True)):
            at = next((one for one in places if apart(one, (x, y)) < NEAR), (x, y))
            places.setdefault(at, []).append(name)
    return places


def apart(one: Place, other: Place) -> float:
    """Return how far two places lie apart: the larger of the logarithms of the ratios."""
    return float(max(abs(np.log(a / b)) for a, b in zip(one, other, strict=True)))


def family(names: Sequence[str]) -> str:
    """Return what systems at one place are called: a name, or the chips of several.

    >>> family(["a100-nvs4"]), family(["h100-nvs8", "h800-nvs8", "h100-sxm"])
    ('a100-nvs4', 'h100, h800')
    """
    if len(names) == 1:
        return names[0]
    return ", ".join(dict.fromkeys(name.partition("-")[0] for name in names))
