"""Measured steps on AMD's chips as inputs of ``training``, with what a blank cell means.

Source: docs/models/networks.md, section 11.
"""

from jaxroof.errors import refusal
from tools.rows.common import Row, Settings, count, number, text
from tools.rows.steps import model_of

SYSTEMS = ("MI300X", "MI325X", "MI350X", "MI355X")
LARGE = 60.0  # billions of parameters from which on all is computed again
TWICE = ("primus-2",)  # rows that repeat another row's number


def amd_settings(row: Row) -> Settings:
    """Return the inputs of a measured step of Megatron-Core on AMD's chips.

    Assumes: a batch that is not stated is one microbatch a rank.
    Raises: InputError for rows of JAX, whose dispatch without tuned kernels is not modelled.
    """
    if "JAX" in text(row, "source_url") or text(row, "source").startswith("MaxText"):
        raise refusal("source", "experts dispatched without tuned kernels: not modelled")
    if row.cells["row_id"] in TWICE:
        raise refusal("row_id", "its number is another row's")
    name = next((one for one in SYSTEMS if one in text(row, "system")), None)
    if name is None:
        raise refusal("system", f"not known; expected one of {', '.join(SYSTEMS)}")
    model, gpus = model_of(row), count(row, "gpus")
    if "precision" not in row.cells or model["experts"] > 0.0:
        raise refusal("precision", "not stated, or a model with experts; expected a dense one")
    sharded = "FSDP" in row.cells.get("zero_fsdp", "")
    large = number(row, "params_b", 0.1) > LARGE
    return {
        "system": name.lower(),
        **{f"model.{field}": value for field, value in model.items()},
        "attention": "heads",
        "mlp": "gated",
        "embeddings": "separate",
        "precision": text(row, "precision").casefold(),
        "global_batch": count(row, "gbs", count(row, "mbs") * gpus),
        "plan.data": gpus,
        "plan.tensor": 1.0,
        "plan.pipeline": 1.0,
        "plan.context": 1.0,
        "plan.microbatch": count(row, "mbs"),
        "plan.zero_stage": 3.0 if sharded else 1.0,
        "plan.recompute": 2.0 if large else 0.0,
        "software.step_share": 0.2 if text(row, "source").startswith("MLPerf") else 1.0,
    }


def amd_step(row: Row) -> Settings:
    """Return the seconds of a step: stated, or of the tokens a second that are."""
    name = "#measured_step_time_s"
    if "derived_step_time_s" in row.cells:
        return {name: number(row, "derived_step_time_s")}
    rate = number(row, "measured_tokens_per_s_per_gpu")
    batch = count(row, "gbs", count(row, "mbs") * count(row, "gpus"))
    return {name: batch * count(row, "seq") / (rate * count(row, "gpus"))}
