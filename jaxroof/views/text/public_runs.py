"""Whole runs and powers of nodes beside what was published: tables of a page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.validation.runs import node_answers, packaged_runs, run_scores

KW = 1e3  # [W]


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table of a page.

    >>> list(markdown(("a", "b"), [(1, 2)]))
    ['| a | b |', '| --- | --- |', '| 1 | 2 |']
    """
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(map(str, cells))} |"


def run_parts() -> Mapping[str, Iterable[str]]:
    """Return the tables of public runs and of nodes, by name."""
    runs, nodes = packaged_runs(), node_answers()
    runs_by_row: Any = runs.itertuples()
    nodes_by_row: Any = nodes.itertuples()
    scores = [
        (s.rows, s.n, f"{s.median:.2f}", f"{s.low:.2f} to {s.high:.2f}") for s in run_scores(runs)
    ]
    each = [
        (r.family, r.name, r.kind, r.plan, f"{r.published:,.0f}", _number(r.hours), _ratio(r.ratio))
        for r in runs_by_row
    ]
    watts = [
        (n.machine, n.benchmark, n.nodes, f"{100 * n.busy:.0f}", f"{n.measured / KW:.2f}",
         f"{n.predicted / KW:.2f}", f"{100 * n.error:+.1f}", f"{100 * n.all_busy:+.1f}")
        for n in nodes_by_row
    ]  # fmt: skip
    medians = [f"{100 * nodes[name].abs().median():.1f} %" for name in ("error", "all_busy")]
    said = f"Median of the absolute errors: {medians[0]}; {medians[1]} if every chip were busy."
    heads = ("machine", "benchmark", "nodes", "busy [%]", "measured [kW]", "predicted [kW]")
    return {
        "run_scores": markdown(("runs", "n", "median", "p10 to p90"), scores),
        "runs": markdown(("family", "run", "kind", "plan", "published [h]", "predicted [h]",
                          "predicted / published"), each),
        "nodes": [*markdown((*heads, "error [%]", "all busy [%]"), watts), "", said],
    }  # fmt: skip


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:,.0f}"


def _ratio(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
