"""How far a predicted server is to be trusted: half widths of its intervals by regime.

Source: docs/models/serving.md, section 12.
"""

WORDS = ("dense", "experts")  # of each regime
