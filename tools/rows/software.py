"""What the software of a measured row does in a step: by its source, its date, and what it states.

Source: docs/models/training_step_today.md, section 9.
"""

import functools
import pathlib
import re
import tomllib
from typing import Any

from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import Framework
from tools.rows.common import Row, Settings, text

HOPPER = ("H100", "H800", "H200", "H20")


@functools.cache
def known_software() -> dict[str, dict[str, Any]]:
    """Return the software of measured rows by name, as written, bases filled in."""
    written = pathlib.Path(__file__).with_name("software.toml").read_text("utf-8")
    found: dict[str, dict[str, Any]] = {}
    for name, entry in tomllib.loads(written).items():
        base = found.get(entry.pop("base", ""), {})
        own = {**base.get("settings", {}), **entry.get("settings", {})}
        found[name] = {"calibrated": True, **base, **entry, "settings": own}
    return found


def software_of(row: Row) -> str:
    """Return the name of the software that a row's source means, or that it begins with."""
    source = text(row, "source")
    found = [
        name
        for name, entry in known_software().items()
        if any(source.startswith(known) for known in (name, *entry["sources"]))
    ]
    if not found:
        expected = f"expected a text that begins with one of {', '.join(known_software())}"
        raise refusal("source", f"{source}: software not known; {expected}")
    return found[-1]  # the more special one stands below its base


def year_of(row: Row, entry: dict[str, Any]) -> float:
    """Return the release date of the software: its own, that of the row's container or date.

    A row that states none is of the software that a question is about which names none.
    """
    if "year" in entry:
        return float(entry["year"])
    stated = row.cells.get("date_version", "")
    edition = re.search(r"(?<![\d.-])v?(\d\d)\.(\d\d)(?!\d)", stated)
    date = edition or re.search(r"(?<!\d)20(\d\d)-(\d\d)(?!\d)", stated)
    if date is None:
        return float(Framework().year)
    return 2000.0 + int(date[1]) + (int(date[2]) - 0.5) / 12.0


def stated_software(row: Row, chip: str, routed: bool) -> Settings:
    """Return what of the inputs of ``training`` the software of a row sets."""
    entry = known_software()[software_of(row)]
    year = year_of(row, entry)
    found: Settings = {**entry["settings"], "software.year": year}
    for until, kernel in reversed(entry.get("cross_entropy_until", [])):
        if year < until:
            found["cross_entropy"] = kernel
    if not entry["calibrated"]:
        found["system.chip.calibrated"] = 0.0
    found |= _of_source(row, chip)
    found |= _sharding(row.cells.get("zero_fsdp", ""))
    if (given := row.cells.get("seqpar", "").casefold()) in STATED:
        found["plan.sequence_parallel"] = STATED[given]
    return {**found, **_recomputed(row, routed), "precision": _precision(row)}


STATED = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def _of_source(row: Row, chip: str) -> Settings:
    """Return what single sources say in other columns."""
    name = software_of(row)
    if name == "mlperf" and "CUDA graph" in row.cells.get("note", ""):
        return {"software.host": 0.0}
    if name == "torchtitan":
        return {"software.old": 0.5 * (chip in HOPPER)}
    if name == "llm-foundry":
        pure = row.cells.get("precision") == "bf16"
        return {
            "plan.zero_stage": 2.0 if "SHARD_GRAD_OP" in row.cells.get("zero_fsdp", "") else 3.0,
            "states.reduce_bytes": 2.0 if pure else 4.0,
            "software.early_stop": 0.0 if pure else 1.0,
        }
    return {}


def _sharding(stated: str) -> Settings:
    """Return the ZeRO stage that a cell states, and what comes with it."""
    if re.match(r"FSDP \d|FSDP=1|3$|zero_stage 3", stated):
        return {"plan.zero_stage": 3.0, "states.reduce_bytes": 4.0}
    return {"plan.zero_stage": 1.0} if stated.startswith("DDP") else {}


def _recomputed(row: Row, routed: bool) -> Settings:
    """Return what of a layer is computed again."""
    name, stated = software_of(row), row.cells.get("recompute", "")
    if not stated and name in ("mt-nlg", "bigscience"):
        stated = "full"
    if stated.startswith("full"):
        return {"plan.recompute": 2.0}
    if not stated.startswith("selective") or (routed and "core_attn" not in stated):
        return {}
    if name == "torchtitan":
        return {"plan.recompute": 2.0, "software.repeated": 0.5}
    return {"plan.recompute": 1.0, "selective": "core_attn"}


def _precision(row: Row) -> str:
    """Return the number format of the inputs of layer products."""
    stated = row.cells.get("precision", "").upper()
    if not stated and text(row, "source").startswith("NVIDIA Megatron-Bridge"):
        stated = "FP8"
    if "FP4" in stated:
        return "nvfp4"
    if "FP8" not in stated:
        return "bf16"
    return "mxfp8" if "MX" in stated else "fp8"
