"""Systems and splits side by side, each with its best plan: speed, memory, and the reasons."""

import itertools
from collections.abc import Iterator

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.analyses.result_metadata import head_of, parts_of, words_of
from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.interval import interval_words
from jaxroof.views.text.plan import plan_fields, split_cells, split_heads
from jaxroof.views.text.search import NO_LEGAL_PLAN
from jaxroof.views.text.tables import filled, plain_table

TELLING = 0.1  # smallest share of a difference for which a part is named


def rate_table(data: xr.Dataset, title: str) -> Table:
    """Return one row per system and split: the best plan, its speed and its memory."""
    table, fields = plain_table(title), plan_fields(data)
    best = float(data.step_time.min())
    for header in _kinds(data):
        table.add_column(header, no_wrap=True)
    heads = {"step\ntime": 0, "days": 3, "times\nbest": 1, "samples\n/s": 5, "MFU\n%": 4}
    for header, optional in heads.items():
        table.add_numbers(header, optional=optional)
    split = split_heads(data, fields)
    table.add_numbers(*split[:-1])
    table.add_numbers(*split[-1:], optional=6)  # none where no system has a plan
    table.add_numbers("memory", optional=2)
    for names, row in _rows(data):
        limit = float(row.memory_limit)
        if not bool(row.feasible):
            least = float(row.memory_least)
            need = filled(least, limit) if np.isfinite(least) else "-"
            why = "no plan" if int(row.reason) == NO_LEGAL_PLAN else "too big"
            table.add_row(*names, why, *["-"] * (len(heads) - 1 + len(split)), need)
            continue
        table.add_row(
            *names,
            seconds(float(row.step_time)),
            days(float(row.training_days)),
            f"{float(row.step_time) / best:.2f}",
            f"{float(row.throughput):.5g}",
            f"{100 * float(row.mfu):.1f}",
            *split_cells(row, fields),
            filled(float(row.memory), limit),
        )
    return table


def parts_table(data: xr.Dataset) -> Table:
    """Return one row per system and split: the seconds of its step by part."""
    table = plain_table("Where a step's time goes [s]")
    for header in _kinds(data):
        table.add_column(header, no_wrap=True)
    parts = parts_of(data, "step_time")
    table.add_numbers(*(head_of(data, part) for part in parts), "step")
    digits = max(0, 3 - int(np.floor(np.log10(float(data.step_time.min())))))
    for names, row in _rows(data):
        if bool(row.feasible):
            values = [float(row[part]) for part in (*parts, "step_time")]
            table.add_row(*names, *(f"{v:,.{digits}f}" if v else "-" for v in values))
    return table


def _kinds(data: xr.Dataset) -> list[str]:
    """Return what is compared: systems and, where the study is asked, splits."""
    return [name for name in ("system", "split") if name in data.dims]


def _rows(data: xr.Dataset) -> Iterator[tuple[tuple[str, ...], xr.Dataset]]:
    """Yield the names of each row, and its results."""
    kinds = _kinds(data)
    for names in itertools.product(*(data[kind].values for kind in kinds)):
        yield tuple(map(str, names)), data.sel(dict(zip(kinds, names, strict=True)))


def days(value: float) -> str:
    """Return a number of days with three digits, in full without an exponent.

    >>> days(12.345), days(1234.5), days(0.04)
    ('12.3', '1,234', '0.0400')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def compare_sentences(data: xr.Dataset) -> list[str]:
    """Return which is fastest, its lead over the next of its kind and why, and which do not fit."""
    said = []
    if bool(data.feasible.any()):
        names = _fastest(data)
        best = data.sel(names)
        said.append(
            f"Fastest: {', '.join(names.values())}: {seconds(float(best.step_time))} a step"
            f"{interval_words(best)}, {days(float(best.training_days))} days."
        )
        if "split" not in names:
            said += _ahead(data, "", "system")
            return [*said, *_unfit(data)]
        across = data.sel(split=[names["split"]])
        said += _ahead(across, f"With {names['split']}, ", "system")
        said += [
            sentence
            for name in data.system.values
            for sentence in _ahead(data.sel(system=[name]), f"On {name}, ", "split")
        ]
    return [*said, *_unfit(data)]


def _fastest(data: xr.Dataset) -> dict[str, str]:
    """Return the system, and the split, with the least step time; the first among ties."""
    kinds = _kinds(data)
    position = data.step_time.transpose(*kinds).argmin(kinds)
    return {dim: str(data[dim].values[int(index)]) for dim, index in position.items()}


def _ahead(data: xr.Dataset, lead: str, dim: str) -> list[str]:
    """Return the lead of the fastest of a row over the next, and which parts shrank."""
    fitting = (
        data.squeeze().isel({dim: data.feasible.values.ravel()}) if data[dim].size > 1 else None
    )
    if fitting is None or fitting[dim].size < 2:
        return []
    order = np.argsort(fitting.step_time.values, kind="stable")
    best, after = (fitting.isel({dim: int(i)}) for i in order[:2])
    names = f"{best[dim].values} is", f"the next, {after[dim].values}"
    gap = float(after.step_time) - float(best.step_time)
    if gap <= 1e-9 * float(best.step_time):
        return [f"{lead}{names[0]} as fast as {names[1]}."]
    ratio = float(after.step_time) / float(best.step_time)
    return [f"{lead}{names[0]} {times(ratio)} as fast as {names[1]}: {why(best, after)}."]


def times(ratio: float) -> str:
    """Return a ratio in words, with enough digits to distinguish it from 1.

    >>> times(1.2), times(1.00123), times(12.34), times(1234.5)
    ('1.20 times', '1.0012 times', '12.3 times', '1,234 times')
    """
    return f"{days(ratio)} times" if ratio >= 1.01 else f"{ratio:.5g} times"


def why(best: xr.Dataset, after: xr.Dataset) -> str:
    """Return which time parts make one step shorter than another, and which work against it."""
    gap = float(after.step_time) - float(best.step_time)
    less = {part: float(after[part]) - float(best[part]) for part in parts_of(best, "step_time")}
    shrank = sorted((p for p in less if less[p] > TELLING * gap), key=lambda p: -less[p])[:3]
    grew = sorted((p for p in less if less[p] < -TELLING * gap), key=lambda p: less[p])[:2]
    shares = all(less[p] <= gap for p in shrank)  # parts that outweigh one another have none
    first = listing(
        [
            f"{seconds(_short(less[p]))} less in {spent(best, p)}"
            + shares * _share(less[p] / gap, " of the difference" * (p == shrank[0]))
            for p in shrank
        ]
    )
    against = listing([f"{seconds(_short(-less[p]))} more in {spent(best, p)}" for p in grew])
    return f"{first}, against {against}" if grew else first


def spent(data: xr.Dataset, part: str) -> str:
    """Return the name of a time part for a sentence: traffic takes time, not the bandwidth."""
    return words_of(data, part).replace("HBM bandwidth", "HBM traffic")


def _share(share: float, of: str) -> str:
    return f" ({100 * share:.0f} %{of})"


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _unfit(data: xr.Dataset) -> list[str]:
    """Return why each system and split without a plan has none, and how much is missing."""
    said = []
    for names, row in _rows(data):
        what = ", ".join(names)
        if bool(row.feasible):
            continue
        if int(row.reason) == NO_LEGAL_PLAN:
            said.append(f"{what}: no legal plan.")
            continue
        missing, least, limit = (
            size(float(row[name]), "B")
            for name in ("memory_missing", "memory_least", "memory_limit")
        )
        said.append(
            f"{what}: nothing fits, {missing} are missing: the leanest plan needs "
            f"{least} of the {limit} there is."
        )
    return said
