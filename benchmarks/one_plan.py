"""The sweep file that benchmarks of long sweeps share: one plan of GPT-3 1T on many machines."""

QUESTION = """\
title = "GPT-3 1T on B200: one plan on {points:,} machines"
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
[plan]
global_batch = 4096
data = 32
tensor = 8
pipeline = 64
microbatch = 1
[axes]
"""
RANGES = {
    "matrix_flops": ("1 PFLOP/s", "5 PFLOP/s"),
    "hbm_bandwidth": ("2 TB/s", "16 TB/s"),
    "slow_bandwidth": ("25 GB/s", "400 GB/s"),
}


def sweep_of(**counts: int) -> str:
    """Return the sweep file over some rates of the machine, given the values of each."""
    points = 1
    lines = []
    for field, count in counts.items():
        low, high = RANGES[field]
        lines.append(f'"system.{field}" = {{ from = "{low}", to = "{high}", count = {count} }}\n')
        points *= count
    return QUESTION.format(points=points) + "".join(lines)
