"""One layer without fusion, operator by operator."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.evaluate import resolve_settings, settled
from jaxroof.engine.grid.dataset import Columns, dataset, field_metadata, provenance
from jaxroof.estimators.published.unfused import (
    BLOCK_NAMES,
    Inputs,
    Operator,
    Recipe,
    blocks,
    unfused,
)
from jaxroof.missing import naming_all
from jaxroof.records import checked, units

TERA: float = 1e12
GIGA: float = 1e9
MILLI: float = 1e-3


SHEET = {  # column of the published tables, in order: our name, and the SI size of its unit
    "flops_fwd": ("flops_forward", TERA),
    "activation_in_mem": ("activation_in", GIGA),
    "activation_in_other_mem": ("activation_other", GIGA),
    "activation_out_mem": ("activation_out", GIGA),
    "activation_buffer": ("kept", GIGA),
    "weights_mem": ("weights", GIGA),
    "total_mem_fwd": ("traffic_forward", GIGA),
    "flops_bwd": ("flops_backward", TERA),
    "activation_grad_mem": ("activation_gradients", GIGA),
    "weights_grad_mem": ("weight_gradients", GIGA),
    "total_mem_bwd": ("traffic_backward", GIGA),
    "comm_bwd": ("message_backward", GIGA),
    "comm_bwd_type": ("communication_backward", None),
    "comm_size": ("group", 1.0),
    "comm_fwd": ("message_forward", GIGA),
    "comm_fwd_type": ("communication_forward", None),
    "t_comp_fwd": ("compute_forward", MILLI),
    "t_mem_fwd": ("memory_forward", MILLI),
    "t_comp_bwd": ("compute_backward", MILLI),
    "t_mem_bwd": ("memory_backward", MILLI),
    "intensity": ("intensity", 1.0),
    "t_fwd": ("work_forward", MILLI),
    "t_bwd": ("work_backward", MILLI),
    "comm_topology": ("topology", None),
    "t_comm_fwd": ("links_forward", MILLI),
    "t_comm_bwd": ("links_backward", MILLI),
    "t_total_fwd": ("time_forward", MILLI),
    "t_total_bwd": ("time_backward", MILLI),
    "frac_t_comm_fwd": ("links_share_forward", 1.0),
    "frac_t_comm_bwd": ("links_share_backward", 1.0),
}


FLAGS = ("there_forward", "there_backward", "fast")


def unfused_layers(
    inputs: Inputs | Mapping[str, Any],
    recipe: Any = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return one row per operator of one layer: the MLP block, then the attention block.

    Arguments: ``inputs`` is a record, or settings that make one, as in ``evaluate``.
    Returns: a Dataset over ``operation`` of FLOP, bytes, messages and seconds in both directions.
    Its coordinates name the block, the collectives and the links. An operator that does not
    communicate has a message of NaN and a group of -1.
    Raises: InputError for inputs that are out of range or incomplete.
    """
    asked, recipe = settled(unfused, inputs, recipe, {**(settings or {}), **more})
    with naming_all(unfused, asked, recipe):
        found = blocks(asked, recipe)
    rows = [one for name in BLOCK_NAMES for one in found[name]]
    columns: Columns = {
        name: (("operation",), values)
        for name, values in _missing(rows).items()
        if name not in FLAGS
    }
    meanings = field_metadata(Operator)
    data = dataset(columns, (), asked, meanings, provenance(unfused, asked, recipe))
    data.attrs["picture"] = "unfused_bars"
    block = [name for name in BLOCK_NAMES for _ in found[name]]
    texts = {"operation": [one.name for one in rows], "block": block, **_texts(rows)}
    return data.assign_coords({name: ("operation", values) for name, values in texts.items()})


def unfused_question(data: xr.Dataset) -> tuple[Inputs, Recipe]:
    """Return the inputs and the recipe of a layer from its attributes."""
    numbers, choices = (json.loads(data.attrs[name]) for name in ("inputs", "recipe"))
    inputs, recipe = resolve_settings(unfused, {**numbers, **choices})
    return checked(inputs), recipe


def _missing(rows: list[Operator]) -> dict[str, np.ndarray]:
    """Return the numbers of all operators; missing where there is no message."""
    columns = {
        name: np.array([float(getattr(one, name)) for one in rows]) for name in units(Operator)
    }
    for way in ("forward", "backward"):
        message, there = columns[f"message_{way}"], columns[f"there_{way}"]
        columns[f"message_{way}"] = np.where(there > 0.0, message, np.nan)
    any_message = (columns["there_forward"] + columns["there_backward"]) > 0.0
    columns["group"] = np.where(any_message, columns["group"], -1.0).astype(np.int64)
    return columns


def _texts(rows: list[Operator]) -> dict[str, list[str]]:
    """Return the names of collectives and links; empty where there is no message."""
    forward = [one.collective_forward if one.there_forward else "" for one in rows]
    backward = [one.collective_backward if one.there_backward else "" for one in rows]
    either = [bool(one.there_forward) or bool(one.there_backward) for one in rows]
    links = ["nvlink" if one.fast else "ib" for one in rows]
    return {
        "communication_forward": forward,
        "communication_backward": backward,
        "topology": [link if there else "" for link, there in zip(links, either, strict=True)],
    }
