"""The fields of a machine in everyday words, the same in sentences and in pictures."""

WORDS = {
    "gpus": "accelerators",
    "hbm_capacity": "HBM capacity",
    "hbm_bandwidth": "HBM bandwidth",
    "hbm_usable": "usable share of HBM",
    "matrix_flops": "compute rate",
    "vector_flops": "vector rate",
    "fp8_flops": "FP8 rate",
    "fp4_flops": "FP4 rate",
    "fast_bandwidth": "NVLink bandwidth",
    "fast_latency": "NVLink latency",
    "fast_efficiency": "NVLink efficiency",
    "fast_domain": "NVLink domain",
    "slow_bandwidth": "network bandwidth",
    "slow_latency": "network latency",
    "slow_efficiency": "network efficiency",
    "nics": "number of network interfaces",
}


def words_of(name: str) -> str:
    """Return a field in words, by its last name.

    >>> words_of("system.fast_bandwidth"), words_of("launch_latency")
    ('NVLink bandwidth', 'launch latency')
    """
    leaf = name.rpartition(".")[2]
    return WORDS.get(leaf, leaf.replace("_", " "))
