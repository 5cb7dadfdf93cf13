"""Whether a stored result was found again, in sentences."""

import math
from collections.abc import Iterator

from jaxroof.analyses.rerun import Difference, Rerun
from jaxroof.errors import brief, listing

MOST = 12  # results that are listed


def rerun_sentences(found: Rerun, touched: bool) -> Iterator[str]:
    """Yield what a rerun found: identical, or the largest difference of every result.

    ``touched`` says that the stored results were changed since they were written.
    """
    held = f"{found.compared} results, {found.points:,} values"
    if found.identical:
        yield f"Identical: {held}, computed again from the question of the file."
    elif found.differences:
        which = f"{len(found.differences)} of {found.compared} results"
        yield f"{which} ({found.points:,} values in all) differ from what is stored."
    else:
        yield f"Those that are computed again are the same: {held}."
    for one in found.differences[:MOST]:
        yield _difference_sentence(one)
    if len(found.differences) > MOST:
        yield f"And {len(found.differences) - MOST} results more."
    if found.not_again:
        names = [brief(name) for name in found.not_again[:MOST]]
        yield f"Stored, and not computed any more: {listing(names)}."
    if touched:
        yield "The stored results are not as they were written: another program changed them."
    changed = [
        f"{brief(name)} {brief(then)} then, {now} now"
        for name, (then, now) in found.versions.items()
    ]
    if changed:
        yield f"Versions: {'; '.join(changed)}."
    elif not found.identical:
        yield "The versions are those that wrote the file."


def _difference_sentence(one: Difference) -> str:
    where = ", ".join(f"{brief(dim)} {brief(str(label))}" for dim, label in one.where.items())
    at = f" (most at {where})" if where else ""
    if math.isinf(one.largest):
        return f"{brief(one.name)}: another value at {one.points:,} points{at}."
    return (
        f"{brief(one.name)}: by up to {one.largest:.2g} of its value, at {one.points:,} points{at}."
    )
