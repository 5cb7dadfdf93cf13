"""How far a predicted server is to be trusted: half widths of its intervals by regime.

Source: docs/models/serving.md, section 12.
"""

WORDS = ("dense", "experts")  # of each regime


def half_width_within_source(_: int) -> float:
    """Return the half width of ln(time) at 80 % between runs of one model, chip and software."""
    return 0.1
