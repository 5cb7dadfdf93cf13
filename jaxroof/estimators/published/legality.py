"""The rules for legal plans, shared by the enumerator and the verdicts.

Source: docs/models/transformer_model.md, section 10.
"""

import functools
from collections.abc import Callable
from typing import Any

from jaxroof.estimator import reads
from jaxroof.estimators.legality import (
    POWER_OF_TWO,
    Rule,
    data_divides_batch,
    pipeline_divides_layers,
)
from jaxroof.estimators.published.recipe import Split

NARROWEST = 128  # least columns, or tokens, of a product on one accelerator (Q22)
PANEL = 512  # least columns of a SUMMA panel, where a panel can be cut at all


def panels_fit(inputs: Any, *, tensor: Any, context: Any, panels: Any) -> Any:
    """Return whether panels are wide enough, a power of two times the grid's longer side (Q20)."""
    hidden = inputs.model.hidden

    def of(side: Any) -> Any:
        whole = (hidden < PANEL * side) & (panels == side)  # too narrow to cut further
        doubled = (panels % side == 0) & ((POWER_OF_TWO * side) % panels == 0)
        wide = (hidden % panels == 0) & (hidden >= PANEL * panels)
        return whole | ((hidden >= PANEL * side) & doubled & wide)

    return ((tensor >= context) & of(tensor)) | ((tensor < context) & of(context))


def placement_divides(
    inputs: Any,
    *,
    data: Any,
    tensor: Any,
    context: Any,
    pipeline: Any,
    fast_data: Any,
    fast_tensor: Any,
    fast_context: Any,
    fast_pipeline: Any,
) -> Any:
    """Return whether each group is spread evenly over fast domains."""
    outer = (data % fast_data == 0) & (pipeline % fast_pipeline == 0)
    return outer & (tensor % fast_tensor == 0) & (context % fast_context == 0)


def placement_fills_domain(
    inputs: Any,
    *,
    data: Any,
    tensor: Any,
    context: Any,
    pipeline: Any,
    fast_data: Any,
    fast_tensor: Any,
    fast_context: Any,
    fast_pipeline: Any,
) -> Any:
    """Return whether the fast degrees fill a fast domain or contain all accelerators (Q25, Q26)."""
    used = data * tensor * context * pipeline
    placed = fast_data * fast_tensor * fast_context * fast_pipeline
    domain = inputs.system.fast_domain
    return ((used <= domain) & (placed == used)) | ((used > domain) & (placed == domain))


_GROUPS = (
    Rule(
        "tensor_divides_heads",
        lambda inputs, *, tensor: inputs.model.heads % tensor == 0,
        "tensor degrees that do not divide the heads",
    ),
    Rule(
        "tensor_divides_hidden",
        lambda inputs, *, tensor: inputs.model.hidden % tensor == 0,
        "tensor degrees that do not divide the hidden width",
    ),
)
_NARROW = f"tensor degrees that leave a shard under {NARROWEST} columns"  # Q22
_SHARDS_2D = (
    Rule(
        "tensor_wide_enough",
        lambda inputs, *, tensor: inputs.model.hidden // tensor >= NARROWEST,
        _NARROW,
    ),
    Rule(
        "context_long_enough",
        lambda inputs, *, context: inputs.model.sequence // context >= NARROWEST,
        f"context degrees that leave a shard under {NARROWEST} tokens",
    ),
)
_SCHEDULE = (
    Rule(
        "pipeline_divides_layers",
        pipeline_divides_layers,
        "pipeline degrees that do not divide the layers",
    ),
    Rule("data_divides_batch", data_divides_batch, "data degrees that do not divide the batch"),
    Rule(
        "microbatch_divides_batch",
        lambda inputs, *, data, microbatch: (inputs.global_batch // data) % microbatch == 0,
        "microbatches that do not divide a data rank's batch",
    ),
)
_PLACEMENT = (
    Rule("placement_divides", placement_divides, "placements that do not divide their groups"),
    Rule(
        "placement_fills_domain",
        placement_fills_domain,
        "splits that no placement fits into whole fast domains",
    ),
)


def _tokens(holds: Callable[..., Any], ranks: str) -> Rule:
    """Return the rule that ranks divide a microbatch's tokens (Q21: not the sequence)."""
    return Rule("ranks_divide_tokens", holds, f"microbatches whose tokens {ranks} not divide")


def _left(inputs: Any, microbatch: Any, ranks: Any) -> Any:
    """Return the tokens of a microbatch that ranks leave over."""
    return (microbatch * inputs.model.sequence) % ranks


RULES: dict[Split, tuple[Rule, ...]] = {
    Split.ONE_D: (
        Rule(
            "split_allows",
            lambda inputs, *, context, panels, fast_context: (
                (context == 1) & (panels == 1) & (fast_context == 1)
            ),
            "context, panels and fast context degrees other than 1",
        ),
        *_GROUPS,
        Rule(
            "tensor_wide_enough",
            lambda inputs, *, tensor: 3 * inputs.model.hidden // tensor >= NARROWEST,
            _NARROW,
        ),
        *_SCHEDULE,
        _tokens(
            lambda inputs, *, tensor, microbatch: _left(inputs, microbatch, tensor) == 0,
            "the tensor degree does",
        ),
        *_PLACEMENT,
    ),
    Split.SUMMA: (
        *_GROUPS,
        Rule(
            "context_divides_hidden",
            lambda inputs, *, context: inputs.model.hidden % context == 0,
            "context degrees that do not divide the hidden width",
        ),
        *_SHARDS_2D,
        Rule("panels_fit", panels_fit, "panel counts that do not fit the grid"),
        *_SCHEDULE,
        _tokens(
            lambda inputs, *, context, microbatch: _left(inputs, microbatch, context) == 0,
            "the context degree does",
        ),
        *_PLACEMENT,
    ),
    Split.CONTEXT: (
        Rule("split_allows", lambda inputs, *, panels: panels == 1, "panel counts other than 1"),
        *_GROUPS,
        *_SHARDS_2D,
        *_SCHEDULE,
        _tokens(
            lambda inputs, *, tensor, context, microbatch: (
                _left(inputs, microbatch, tensor * context) == 0
            ),
            "the tensor and context degrees do",
        ),
        *_PLACEMENT,
    ),
}
VERDICTS = tuple(dict.fromkeys(rule.name for rules in RULES.values() for rule in rules))


@functools.cache
def lacked(split: str) -> frozenset[str]:
    """Return the plan fields that a split does not have, which its rules require to be 1.

    >>> sorted(lacked("1d")), sorted(lacked("context")), sorted(lacked("summa"))
    (['context', 'fast_context', 'panels'], ['panels'], [])
    """
    rules = [rule for rule in RULES[Split(split)] if rule.name == "split_allows"]
    return frozenset(field for rule in rules for field in reads(rule.holds))
