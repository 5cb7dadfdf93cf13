"""What binds the best plan: how its time changes as each number of the machine does."""

from typing import NamedTuple

from jaxroof.analyses.result_metadata import resources_of
from jaxroof.app.fields import words_of
from jaxroof.app.question import Asked
from jaxroof.engine.sensitivity.elasticities import elasticities

CHANGE = 0.10  # of a number, in either direction
LEAST = 1e-3  # elasticity below which a number has no bar
MOST = 12  # bars
CALIBRATED = "system.chip."  # constants that multiply a rate, and so repeat its bar


class Bar(NamedTuple):
    """How a time changes, as a share of it, with less and with more of one number."""

    path: str
    words: str
    resource: str
    less: float
    more: float
    elasticity: float


def binding(found: Asked) -> list[Bar]:
    """Return the change of the best plan's time for 10 % less and more of each number.

    t(x) = t (x / x0)^e with the exact elasticity e on that side, the plan kept; most first.
    """
    data = elasticities(found.estimator, found.inputs, found.recipe, where=found.where)
    known = resources_of(data)
    bars = []
    for path in data.parameter.values.tolist():
        if path.startswith(CALIBRATED):
            continue
        row = data.sel(parameter=path)
        above, below = float(row.elasticity), float(row.elasticity_below)
        if max(abs(above), abs(below)) > LEAST:
            less, more = (1.0 - CHANGE) ** below - 1.0, (1.0 + CHANGE) ** above - 1.0
            named = known.of.get(path, "")
            resource = known.limits.get(named, named)
            bars.append(Bar(path, words_of(path), resource, less, more, above))
    return sorted(bars, key=lambda bar: -max(abs(bar.less), abs(bar.more)))[:MOST]


def binding_sentence(bars: list[Bar]) -> str:
    """Return which number binds most, and the next.

    >>> binding_sentence([Bar("a", "compute rate", "compute", 0.08, -0.07, -0.75)])
    'Most binding: compute rate. 10 % more of it makes the step 7.0 % shorter.'
    """
    if not bars:
        return "No number of the machine changes the time of this plan."
    first = bars[0]
    way = "shorter" if first.more < 0.0 else "longer"
    said = f"Most binding: {first.words}. 10 % more of it makes the step "
    said += f"{100.0 * abs(first.more):.1f} % {way}."
    rest = [bar.words for bar in bars[1:3]]
    return f"{said} Next: {' and '.join(rest)}." if rest else said
