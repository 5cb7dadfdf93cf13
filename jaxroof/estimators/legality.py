"""What a rule for legal plans is, and the rules that several estimators have.

A rule takes the inputs and plan fields by name and uses only %, //, comparisons, & and |.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof.estimator import reads

POWER_OF_TWO = 2.0**40  # every power of two that occurs here divides it


@dataclasses.dataclass(frozen=True)
class Rule:
    """One reason to refuse a plan: its verdict in the report, its predicate and its messages."""

    name: str
    holds: Callable[..., Any]
    words: str  # the plans that it refuses, or those that it expects
    says: str = ""  # the verdict of a report, a sentence
    fact: str = ""  # the number that decides, such as "the model has {heads:.0f} heads"

    def allows(self, inputs: Any, plan: Mapping[str, Any]) -> Any:
        """Return whether the rule holds for plan fields; those that it does not read are free."""
        return self.holds(inputs, **{field: plan[field] for field in reads(self.holds)})


def pipeline_divides_layers(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether every stage gets the same whole number of layers."""
    return inputs.model.layers % pipeline == 0


def data_divides_batch(inputs: Any, *, data: Any) -> Any:
    """Return whether every data rank gets the same whole number of sequences."""
    return inputs.global_batch % data == 0
