"""The resources of a machine that may limit a step, and the parameters that describe each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import xarray as xr

from jaxroof.analyses.result_metadata import roles

CAPACITY = "capacity"  # limits which plans fit; takes no time
WORDS = {  # resources whose displayed name differs from their own
    "hbm": "HBM bandwidth",
    "fast_links": "NVLink",
    "slow_links": "the network",
}


class Resources(NamedTuple):
    """The resource that each machine parameter (by path) describes, and its displayed name.

    A time is homogeneous of degree one in reciprocal rates and latencies. With the ``signs`` of
    those parameters, their shares of the time sum to one. A parameter without a sign is a capacity,
    or it multiplies a rate and so repeats that rate's share.
    """

    of: Mapping[str, str]
    signs: Mapping[str, float]
    limits: Mapping[str, str]  # resources that take time, rates before latencies: displayed names


def resources(declared: Mapping[str, Sequence[Any]]) -> Resources:
    """Return the resources that an estimator declares: a name and a sign by path.

    >>> found = resources({"net.hop": ["latency", 1], "net.rate": ["ring_links", -1]})
    >>> dict(found.limits), dict(found.signs)
    ({'ring_links': 'ring links', 'latency': 'latency'}, {'net.hop': 1.0, 'net.rate': -1.0})
    """
    signs = {path: float(sign) for path, (_, sign) in declared.items() if sign}
    order = sorted(signs, key=lambda path: signs[path])  # rates first
    names = dict.fromkeys(str(declared[path][0]) for path in order)
    return Resources(
        of={path: str(name) for path, (name, _) in declared.items()},
        signs=signs,
        limits={name: WORDS.get(name, name.replace("_", " ")) for name in names},
    )


def resources_of(data: xr.Dataset) -> Resources:
    """Return the resources of the estimator that produced some results."""
    return resources(roles(data).get("resources", {}))


def shares(elasticity: xr.DataArray, known: Resources) -> xr.DataArray:
    """Return the share of a time that each resource takes, over ``limit``.

    ``elasticity`` is that of the time, over ``parameter`` and any other dimensions. The sign of a
    rate is reversed. A parameter that multiplies a rate is not counted again.

    >>> known = resources({"a": ["compute", -1], "b": ["hbm", -1], "c": ["latency", 1]})
    >>> found = shares(xr.DataArray([-0.5, -0.3, 0.2], {"parameter": ["a", "b", "c"]}), known)
    >>> found.sel(limit="compute").item(), found.sel(limit="latency").item()
    (0.5, 0.2)
    """
    paths = [str(path) for path in elasticity.parameter.values]
    weights = [
        [known.signs.get(path, 0.0) * (known.of.get(path) == limit) for path in paths]
        for limit in known.limits
    ]
    by = xr.DataArray(weights, {"limit": list(known.limits)}, ("limit", "parameter"))
    bare = elasticity.drop_vars([n for n, c in elasticity.coords.items() if "parameter" in c.dims])
    return xr.dot(bare, by, dim="parameter")
