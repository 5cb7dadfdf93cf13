"""Which plans are legal: each rule once, for the enumerator (numpy) and the verdicts (jax.numpy).

Every rule takes the inputs and plan fields by name and uses only %, //, comparisons and &.
Source: fact sheet transformer_model, section 10 (1D).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

NARROWEST = 128  # columns of the query, key and value product that one accelerator must keep (Q22)


def split_allows(inputs: Any, *, context: Any, panels: Any, fast_context: Any) -> Any:
    """Return whether the degrees that a 1D split lacks are 1."""
    return (context == 1) & (panels == 1) & (fast_context == 1)


def tensor_divides_heads(inputs: Any, *, tensor: Any) -> Any:
    """Return whether every accelerator gets whole heads."""
    return inputs.model.heads % tensor == 0


def tensor_divides_hidden(inputs: Any, *, tensor: Any) -> Any:
    """Return whether every accelerator gets whole columns."""
    return inputs.model.hidden % tensor == 0


def tensor_wide_enough(inputs: Any, *, tensor: Any) -> Any:
    """Return whether a shard of the query, key and value product is wide enough."""
    return 3 * inputs.model.hidden // tensor >= NARROWEST


def pipeline_divides_layers(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether every stage gets the same whole number of layers (M3)."""
    return inputs.model.layers % pipeline == 0


def data_divides_batch(inputs: Any, *, data: Any) -> Any:
    """Return whether every data rank gets the same whole number of sequences."""
    return inputs.global_batch % data == 0


def microbatch_divides_batch(inputs: Any, *, data: Any, microbatch: Any) -> Any:
    """Return whether a data rank's sequences make whole microbatches."""
    return (inputs.global_batch // data) % microbatch == 0


def tensor_divides_tokens(inputs: Any, *, tensor: Any, microbatch: Any) -> Any:
    """Return whether a microbatch's tokens divide over the tensor group (Q21: not the sequence)."""
    return (microbatch * inputs.model.sequence) % tensor == 0


def placement_divides(
    inputs: Any,
    *,
    data: Any,
    tensor: Any,
    pipeline: Any,
    fast_data: Any,
    fast_tensor: Any,
    fast_pipeline: Any,
) -> Any:
    """Return whether each group is spread evenly over its fast domains."""
    return (data % fast_data == 0) & (tensor % fast_tensor == 0) & (pipeline % fast_pipeline == 0)


def placement_fills_domain(
    inputs: Any,
    *,
    data: Any,
    tensor: Any,
    pipeline: Any,
    fast_data: Any,
    fast_tensor: Any,
    fast_pipeline: Any,
) -> Any:
    """Return whether the fast degrees fill a fast domain, or hold every accelerator (Q25, Q26)."""
    used = data * tensor * pipeline
    placed = fast_data * fast_tensor * fast_pipeline
    domain = inputs.system.fast_domain
    return ((used <= domain) & (placed == used)) | ((used > domain) & (placed == domain))


@dataclasses.dataclass(frozen=True)
class Rule:
    """One reason to refuse a plan: its predicate, whose name the report has, and its words."""

    holds: Callable[..., Any]
    refusal: str

    @property
    def name(self) -> str:
        """Return the name of the verdict in the report."""
        return self.holds.__name__


RULES_1D = (
    Rule(split_allows, "context, panels and fast context degrees other than 1"),
    Rule(tensor_divides_heads, "tensor degrees that do not divide the heads"),
    Rule(tensor_divides_hidden, "tensor degrees that do not divide the hidden width"),
    Rule(tensor_wide_enough, f"tensor degrees that leave a shard under {NARROWEST} columns"),
    Rule(pipeline_divides_layers, "pipeline degrees that do not divide the layers"),
    Rule(data_divides_batch, "data degrees that do not divide the batch"),
    Rule(microbatch_divides_batch, "microbatches that do not divide a data rank's batch"),
    Rule(tensor_divides_tokens, "microbatches whose tokens the tensor degree does not divide"),
    Rule(placement_divides, "placements that do not divide their groups"),
    Rule(placement_fills_domain, "splits that no placement fits into whole fast domains"),
)
