"""What several kinds of rows of memory share: the plan, the accelerator and its kernels."""

import re

from jaxroof.errors import refusal, shown
from jaxroof.limits import check_bound
from tools.rows.common import Row, Settings, count, text

MIB, GIB = 2.0**20, 2.0**30
TE_WORKSPACE = {"A100": 4.0 * MIB}  # of Transformer Engine; 32 MiB on Hopper and Blackwell
TORCH_WORKSPACE = {"A100": 8.125 * MIB}
NEWER = 32.0 * MIB
HANDLES = 2.0  # the forward and the autograd thread
KERNELS = {"H100": "cudnn", "H200": "cudnn"}  # of automatic choice
SYSTEMS = {  # accelerator -> system of the catalogue, if it has one
    "A100": "a100-80-sxm",
    "H100": "h100-nvs8",
    "H800": "h800-nvs8",
    "H20": "h20-nvs8",
    "H200": "h200-141-sxm",
    "B200": "b200-180-sxm",
    "GB200": "gb200-nvl72",
    "B300": "b300-nvs8",
    "GB300": "gb300-nvl72",
}
CHIPS = ("V100", *SYSTEMS)
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
USUAL = {"H100": 80}  # what a system is called that names no other capacity


def degrees(row: Row) -> Settings:
    """Return the degrees, the microbatch and the batch of a row."""
    found = {
        "plan.data": count(row, "dp"),
        "plan.tensor": count(row, "tp"),
        "plan.pipeline": count(row, "pp"),
        "plan.context": count(row, "cp", 1.0),
        "plan.microbatch": count(row, "mbs"),
    }
    data, tensor, pipeline, context, microbatch = found.values()
    used = data * tensor * pipeline * context
    gpus, batch = count(row, "gpus"), count(row, "gbs")
    if used != gpus:
        raise refusal("gpus", f"given {gpus:.0f}, but dp tp pp cp make {used:.0f}")
    check_bound("pp", "layers", pipeline)
    if batch % (data * microbatch):
        raise refusal("gbs", f"given {batch:.0f}, which dp times mbs does not divide")
    return {**found, "global_batch": batch}


def sequence_parallel(row: Row) -> float:
    """Return 1 if tensor ranks share the tokens; one rank has nothing to share."""
    if count(row, "tp") == 1.0:
        return 0.0
    given = text(row, "seqpar")
    if given not in ("yes", "no"):
        raise refusal("seqpar", f"expected yes or no, given {shown(given)}")
    return float(given == "yes")


def chip(row: Row) -> str:
    """Return the accelerator of a row, as in ``DGX H100 80GB``."""
    words = text(row, "system").replace("-", " ").split()
    found = next((word for word in words if word in CHIPS), None)
    if found is None:
        known = f"expected one that names {', '.join(CHIPS[:-1])} or {CHIPS[-1]}"
        said = f"{text(row, 'system')!r} names no accelerator that is known"
        raise refusal("system", f"{said}; {known}")
    return found


def machine(row: Row) -> Settings:
    """Return the system of the catalogue that a row ran on, and the memory that it reports."""
    named = {"system": SYSTEMS[chip(row)]} if chip(row) in SYSTEMS else {}
    return {**named, "system.hbm_reported": capacity(row)}


def capacity(row: Row) -> float:
    """Return the bytes of high-bandwidth memory that a row's accelerator reports.

    A capacity in GiB stands as it is; in GB it is that of the label. A chip that comes with one
    capacity needs none.
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


def workspace(name: str, engine: bool, large: bool) -> tuple[float, float]:
    """Return the workspaces of products, and of grouped products, of an accelerator.

    ``engine`` says whether Transformer Engine runs, ``large`` whether a variable sets PyTorch's
    workspace to 32 MiB. Source: docs/models/parameters_flops_memory.md, section 10.2.
    """
    te = TE_WORKSPACE.get(name, NEWER) if engine else 0.0
    torch = NEWER if large else TORCH_WORKSPACE.get(name, NEWER)
    return te + HANDLES * torch, 4.0 * te


def automatic_kernel(name: str, engine: bool) -> str:
    """Return the attention kernel of a run that names none, by the rule of the sheet.

    Source: docs/models/parameters_flops_memory.md, section 10.3.
    """
    return KERNELS.get(name, "flash") if engine else "unfused"
