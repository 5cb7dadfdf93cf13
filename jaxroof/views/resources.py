"""What may bind a step: the resources of a machine, and the parameters that stand for each."""

import xarray as xr

LIMITS = {  # resource: what people call it
    "compute": "compute",
    "hbm": "HBM bandwidth",
    "fast_links": "fast links",
    "slow_links": "slow links",
    "latency": "latency",
}
RATES = {
    "system.matrix_flops": "compute",
    "system.vector_flops": "compute",
    "system.hbm_bandwidth": "hbm",
    "system.fast_bandwidth": "fast_links",
    "system.link_bandwidth": "fast_links",
    "system.slow_bandwidth": "slow_links",
    "system.network_bandwidth": "slow_links",
}
LATENCIES = {
    "system.launch_latency": "latency",
    "system.fast_latency": "latency",
    "system.slow_latency": "latency",
    "system.link_latency": "latency",
}
FACTORS = {  # of rates: their elasticities say again what those of the rates say
    "system.matrix_efficiency": "compute",
    "system.fast_efficiency": "fast_links",
    "system.slow_efficiency": "slow_links",
    "system.nics": "slow_links",
    "system.fast_domain": "fast_links",
}
CAPACITIES = {"system.hbm_capacity": "capacity", "system.hbm_usable": "capacity"}
# A time is of degree one in reciprocal rates and in latencies: these shares of it sum to one.
SIGNS = {**dict.fromkeys(RATES, -1.0), **dict.fromkeys(LATENCIES, 1.0)}
RESOURCES = {**RATES, **LATENCIES, **FACTORS, **CAPACITIES}


def shares(elasticity: xr.DataArray) -> xr.DataArray:
    """Return the share of a time that each resource takes, over ``limit``.

    ``elasticity`` is that of the time, over ``parameter`` and any other dimensions. A rate's counts
    with its sign turned; what multiplies a rate does not count again.

    >>> paths = ["system.matrix_flops", "system.hbm_bandwidth", "system.fast_latency"]
    >>> found = shares(xr.DataArray([-0.5, -0.3, 0.2], {"parameter": paths}))
    >>> found.sel(limit="compute").item(), found.sel(limit="latency").item()
    (0.5, 0.2)
    """
    paths = [str(path) for path in elasticity.parameter.values]
    weights = [
        [SIGNS.get(path, 0.0) * (RESOURCES.get(path) == limit) for path in paths]
        for limit in LIMITS
    ]
    by = xr.DataArray(weights, {"limit": list(LIMITS)}, ("limit", "parameter"))
    bare = elasticity.drop_vars([n for n, c in elasticity.coords.items() if "parameter" in c.dims])
    return xr.dot(bare, by, dim="parameter")
