"""The fields of a machine in everyday words, the same in sentences and in pictures."""

import re

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
CHIP = {  # what training gets of a chip
    "fp8_flops": "compute rate in 8 bits",
    "fp4_flops": "compute rate in 4 bits",
    "multiprocessors": "multiprocessors",
    "matmul": "matrix efficiency",
    "matmul_fp8": "matrix efficiency in 8 bits",
    "depth": "start of a tile",
    "depth_fp8": "start of a tile in 8 bits",
    "young": "rate missing at launch",
    "young_fp8": "8-bit rate missing at launch",
    "young_attention": "attention missing at launch",
    "attention": "attention efficiency",
    "attention_old": "old attention kernels",
    "hbm": "HBM efficiency",
    "fast": "NVLink efficiency",
    "slow": "network efficiency",
    "step": "time once a step",
    "spread": "spread between chips",
}
TIER = re.compile(r"(?:^|[._])tiers[._](\d)[._](\w+)$")  # a number of a tier of the network
TIERS = {"size": "domain", "training_hop": "hop"}


def words_of(name: str) -> str:
    """Return a field in words, by its last name; the constants of a chip by their own.

    >>> words_of("system.fast_bandwidth"), words_of("launch_latency"), words_of("system.chip.hbm")
    ('NVLink bandwidth', 'launch latency', 'HBM efficiency')
    >>> words_of("system.tiers.1.size"), words_of("tiers_2_bandwidth")
    ('domain of tier 1', 'bandwidth of tier 2')
    """
    tier = TIER.search(name)
    if tier is not None:
        place, leaf = tier.groups()
        of = "NVLink" if place == "0" else f"tier {place}"
        return f"{TIERS.get(leaf, leaf.replace('_', ' '))} of {of}"
    head, _, leaf = name.rpartition(".")
    own = CHIP if head.rpartition(".")[2] == "chip" else {}
    return own.get(leaf) or WORDS.get(leaf, leaf.replace("_", " "))
