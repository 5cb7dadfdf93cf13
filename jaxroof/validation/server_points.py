"""Measured servers as points of a frontier: what a user sees, and what an accelerator gives."""

import numpy as np
import pandas as pd

from jaxroof.validation.sources import packaged

SOURCE = "inferencemax"
ALIKE = 0.15  # relative difference of lengths that are the same: they are drawn from a range


def measured_points(
    model: str, system: str, software: str, formats: str, prompt: float, output: float
) -> np.ndarray:
    """Return measured servers of a model, chip, software, precision and lengths, [row, (x, y)].

    x = 1 / tpot, y = users output / ((ttft + (output - 1) tpot) accelerators)

    Arguments: ``formats`` of weights as an answer names them, attention before MLPs.

    >>> len(measured_points("gpt-oss-120b", "h100-nvs8", "vllm-2026", "bf16:mxfp4-16", 1024, 1024))
    30
    """
    rows = packaged("serving", SOURCE)
    attention, _, mlp = formats.partition(":")
    asked = {"#kind": "closed", "model": model, "system": system, "software": software}
    asked |= {"precision.attention_format": attention, "precision.mlp_format": mlp or attention}
    held = np.all([rows[name] == value for name, value in asked.items()], axis=0)
    some = rows[held & (rows["system.hbm_capacity"] == "")]
    names = ("prompt", "output", "batch", "tp", "dp", "#tpot_s", "#ttft_s")
    number = {name: pd.to_numeric(some[name], errors="coerce").to_numpy(float) for name in names}
    near = np.abs(number["prompt"] / prompt - 1.0) <= ALIKE
    near &= np.abs(number["output"] / output - 1.0) <= ALIKE
    number = {name: values[near] for name, values in number.items()}
    latency = number["#ttft_s"] + (number["output"] - 1.0) * number["#tpot_s"]
    rate = number["batch"] * number["output"] / latency / (number["tp"] * number["dp"])
    points = np.stack([1.0 / number["#tpot_s"], rate], axis=-1)
    return points[np.isfinite(points).all(axis=-1)]
