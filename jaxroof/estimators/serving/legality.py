"""The rules for legal servers, one verdict each.

Source: docs/models/serving.md, section 8.
"""

from jaxroof.estimators.legality import Rule

RULES: tuple[Rule, ...] = ()  # of an aggregated server
PREFILL_RULES: tuple[Rule, ...] = ()
DECODE_RULES: tuple[Rule, ...] = ()
