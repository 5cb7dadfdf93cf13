"""The memory that an accelerator reports, by what a measured row calls its system."""

import re

from jaxroof.errors import refusal
from jaxroof.validation.measured_rows import Row, text
from jaxroof.validation.memory.plans import chip

GIB = 2.0**30
REPORTED = {  # chip, capacity on its label [GB]: bytes that the device reports
    ("V100", 16): 16.0 * GIB,
    ("V100", 32): 32.0 * GIB,
    ("A100", 40): 42949672960.0,
    ("A100", 80): 85899345920.0,
    ("H100", 80): 85520809984.0,
    ("H100", 94): 94.0e9,
    ("H100", 96): 96.0e9,
    ("H800", 80): 85520809984.0,
    ("H20", 96): 96.0e9,
    ("H200", 141): 150754820096.0,
    ("B200", 180): 192265846784.0,
    ("GB200", 186): 198674743296.0,
    ("B300", 288): 298013687808.0,
    ("GB300", 288): 298013687808.0,
}


def capacity(row: Row) -> float:
    """Return the bytes of high-bandwidth memory that a row's accelerator reports.

    A capacity in GiB stands as it is; in GB it is that of the label. A chip that comes with one
    capacity needs none.

    Raises: InputError if the system leaves it open.
    """
    system, name = text(row, "system"), chip(row)
    exact = re.search(r"(\d+(?:\.\d+)?) ?GiB", system)
    if exact:
        return float(exact[1]) * GIB
    sizes = [size for one, size in REPORTED if one == name]
    label = re.search(r"(\d+) ?GB\b", system)
    if label and int(label[1]) in sizes:
        return REPORTED[name, int(label[1])]
    usual = USUAL.get(name) if label is None else None
    if usual is None and len(sizes) != 1:
        made = ", ".join(f"{size} GB" for size in sizes)
        raise refusal("system", f"{name} comes with {made}; expected one of them")
    return REPORTED[name, usual or sizes[0]]


USUAL = {"H100": 80}  # what a system is called that names no other capacity
