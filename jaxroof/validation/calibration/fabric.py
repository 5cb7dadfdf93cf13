"""Few constants of a fabric, fitted to what nccl-tests measured on it.

Source: docs/models/networks.md, sections 1 to 4.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import catalog
from jaxroof.analyses.collective_machine import Machine, machine, preset_of
from jaxroof.errors import listing, refusal
from jaxroof.formulas import collectives as formulas
from jaxroof.formulas.collectives import CANDIDATES, Op
from jaxroof.io.nccl_tests import Series, read_tests
from jaxroof.records import get_at, leaves, replace_at
from jaxroof.validation.calibration.problem import Prior
from jaxroof.validation.calibration.told import Fitted, fit_told

NOISE = 0.1  # deviation of ln(time) of a size about the model
HOPPER = "h100-nvs8"  # the system of a fabric without one of its own, of GH200
STEP = 1e-5  # of ln(constant), for slopes
DEVIATIONS = {  # of what is believed of ln(constant); shares are at most 1
    "efficiency": 0.25, "reduction": 0.25, "scatter": 0.25, "rate_low": 0.5, "copy": 0.5,
    "hop": 0.7, "hop_low": 0.7, "base": 0.7, "base_net": 0.7, "nvls_latency": 0.7, "peer": 0.7,
    "relay_low": 0.7, "pat_rank": 0.7,
}  # fmt: skip
SHARES = ("efficiency", "reduction", "scatter")


class Group(NamedTuple):
    """The sizes of one test: what runs at each of them, and the measured seconds."""

    op: Op
    spread: formulas.Spread
    sizes: np.ndarray
    seconds: np.ndarray
    runs: np.ndarray  # among the candidates of the operation


def fit_fabric(file: str, system: str, op: str | None = None, stride: int = 1) -> Fitted:
    """Return the constants of a fabric that a file of nccl-tests tells.

    ln t(x) = ln measured + noise, x = ln(constant / constant before), with normal priors; what runs
    is the choice of the library's reference, which no constant moves. The least of the out-of-place
    half is taken where a size repeats; the in-place half where it is all there is.

    Arguments: ``op`` is the operation of a file that does not say it.
    Raises: InputError for a file without a test that formulas have.
    """
    found = machine(system, {}, in_place=False)
    tests = [test._replace(op=test.op or op or "") for test in read_tests(file)]
    known = [test for test in tests if test.op in {one.value for one in Op} and test.ranks > 1]
    if not known:
        there = ", ".join(f"{test.op or 'no operation'} over {test.ranks}" for test in tests)
        raise refusal(file, f"{there} ranks; expected a predicted operation over several")
    groups = [_group(found, test, stride) for test in known]
    names = _names(found, groups)
    start = np.array([_value(found, name) for name in names])
    seconds = np.log(np.concatenate([group.seconds for group in groups]))

    def errors(points: np.ndarray) -> np.ndarray:
        every = [dict(zip(names, start * np.exp(point), strict=True)) for point in points]
        return np.array([_logs(_with(found, one), groups) for one in every]) - seconds

    kinds = [name.rpartition(".")[2] for name in names]
    most = np.where(np.isin(kinds, SHARES), -np.log(start), np.inf)
    deviation = np.array([DEVIATIONS[kind] for kind in kinds])
    prior = Prior(deviation, np.full(len(names), -5.0), np.maximum(most, 1e-9))
    told = fit_told(names, start, errors, np.full(len(seconds), NOISE), prior, STEP)
    if not told.places:
        raise refusal(file, "too few sizes to tell any constant; expected a run over many sizes")
    ran = [(group.op.value, int(group.spread.members), len(group.sizes)) for group in groups]
    words = listing([f"{count} sizes of {op} over {n:,}" for op, n, count in ran])
    after = _with(found, {one.name: one.value for one in told.constants})
    return Fitted(
        about={"system": system, "tests": ran},
        words=f"{words} on {system}",
        written=tuple(_system_lines(system, after)),
        constants=told.constants,
        untold=told.untold,
        before=told.before,
        after=told.after,
    )


def _group(found: Machine, test: Series, stride: int) -> Group:
    """Return the sizes of a test, and what a tuned library runs at each."""
    op, ranks = Op(test.op), test.ranks
    found.check_group(ranks, stride)
    measured: dict[float, float] = {}
    for point in test.points:
        half = point.out_of_place or point.in_place
        if half is not None:
            measured[point.size] = min(half.time, measured.get(point.size, np.inf))
    sizes = np.array(sorted(measured))
    spread = formulas.spread_over(found.sizes, float(ranks), float(stride))
    reductions = [tier.reduction for tier in found.tiers]
    able = [formulas.ALGORITHMS[op][m].exists(spread, reductions) for m, _ in CANDIDATES[op]]
    tiers, library = found.reference
    every = [formulas.lane(op, *name, spread, tiers, library) for name in CANDIDATES[op]]
    runs = formulas.first_least([lane.time(sizes) for lane in every], able)
    seconds = np.array([measured[size] for size in sizes])
    return Group(op, spread, sizes, seconds, np.broadcast_to(runs, sizes.shape).astype(int))


def _logs(found: Machine, groups: Sequence[Group]) -> np.ndarray:
    """Return ln(predicted) of every size."""
    logs = []
    for group in groups:
        time = np.zeros(group.sizes.shape)
        for number in np.unique(group.runs):
            method, protocol = CANDIDATES[group.op][number]
            about = group.spread, found.tiers, found.library
            lane = formulas.lane(group.op, method, protocol, *about)
            time = np.where(group.runs == number, lane.time(group.sizes), time)
        logs.append(np.log(time))
    return np.concatenate(logs)


def _names(found: Machine, groups: Sequence[Group]) -> list[str]:
    """Return the paths of the constants that may be fitted: of tiers in use, above 0."""
    used = np.any([[bool(one) for one in group.spread.used] for group in groups], axis=0)
    paths = [path for path, *_ in leaves(found.library, "library.")]
    for level in np.flatnonzero(used).tolist():
        paths += [path for path, *_ in leaves(found.tiers[level], f"tiers.{level}.")]
    known = [path for path in paths if path.rpartition(".")[2] in DEVIATIONS]
    return [path for path in known if _value(found, path) > 0.0]


def _value(found: Machine, path: str) -> float:
    record, _, rest = path.partition(".")
    return float(get_at(getattr(found, record), rest))


def _with(found: Machine, changed: dict[str, Any]) -> Machine:
    """Return a machine with constants replaced."""
    for path, value in changed.items():
        record, _, rest = path.partition(".")
        found = found._replace(**{record: replace_at(getattr(found, record), rest, value)})
    return found


def _system_lines(system: str, found: Machine) -> Iterator[str]:
    """Yield the lines of a system file with the constants of a machine."""
    written = {"title": f"{system}, calibrated", "source": "jaxroof calibrate"}
    if catalog.is_file(system):
        own = catalog.describe("systems", system)
        written = {k: v for k, v in own.items() if not isinstance(v, dict | list)} | written
    fabric = preset_of(system)
    if fabric is not None:  # what its library's choices were made on, and the chip of its nodes
        base = catalog.describe("fabrics", fabric).get("system", HOPPER)
        written = {"base": base} | written | {"fabric": fabric}
    yield from (f"{key} = {json.dumps(value)}" for key, value in written.items())
    for heading, record in (("[library]", found.library),
                            *(("[[tiers]]", tier) for tier in found.tiers)):  # fmt: skip
        yield heading
        yield from (f"{path} = {float(value)!r}" for path, _, value in leaves(record))
