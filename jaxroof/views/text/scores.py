"""Predicted memory and step times beside measured rows: tables, lines, rows of a CSV, pages."""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxroof.estimators.serving import interval as of_servers
from jaxroof.estimators.tpu_training.report import TpuReport
from jaxroof.estimators.training.interval import LEVELS, REGIMES, WITHIN_SOURCE, WORDS
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.io.csv_blocks import csv_line
from jaxroof.units import percent, seconds, size
from jaxroof.validation import memory, serving, steps
from jaxroof.validation.memory import THREE, largest_terms, predicted
from jaxroof.validation.rows import NOTES, Reason, reasons
from jaxroof.validation.runs import node_answers, packaged_runs, run_scores
from jaxroof.validation.sources import NOTHING, Source, sources
from jaxroof.validation.steps import PARTS, largest_parts
from jaxroof.views.text.layout import NARROW, PlainTable, Shown

DENSE = "dense"  # with which regimes of dense models begin
LEGEND = (
    "Errors are predicted over measured, less 1; median, mean and p90 are of absolute errors, bias "
    "is the median of signed ones; covered: the 80 % interval holds the measured time."
)
LABELS = {
    f.name: f.metadata["label"]
    for report in (TpuReport, TrainingReport)
    for f in dataclasses.fields(report)
}
LONGEST = 34  # characters of a name
FITS = {True: "yes", False: "no", None: ""}
GB, KW = 1e9, 1e3
Row = dict[str, Any]  # a row of a CSV: None is an empty cell


class Kind(NamedTuple):
    """What is compared: its words, the columns of its scores, the module that scores."""

    words: str
    names: tuple[str, ...]
    heads: tuple[str, ...]
    of: Any


MEMORY = Kind("memory", ("kind", "number"), ("n", "mean", "median", "p90", "max", "bias"), memory)
STEPS = Kind(
    "step time", ("chip", "regime"), ("n", "median", "mean", "p90", "bias", "covered"), steps
)
SERVERS = Kind(
    "servers",
    ("software", "quantity"),
    ("n", "median", "mean", "p90", "bias", "50 %", "80 %", "90 %"),
    serving,
)
OPTIONAL = {"mean": 2, "50 %": 1, "90 %": 1}  # columns that a narrow page does without


def scores_table(kind: Kind, found: Sequence[Any]) -> PlainTable:
    """Return one row per score, below the name of its source."""
    table = PlainTable(f"error of predicted {kind.words} against measured rows [%]")
    table.add_column(f"source; {', '.join(kind.names)}", no_wrap=True)
    for head in kind.heads:
        table.add_numbers(head, optional=0 if kind is MEMORY else OPTIONAL.get(head, 0))
    before = ""
    for score in found:
        if score.source != before:
            table.add_row(score.source, *[""] * len(kind.heads))
            before = score.source
        words = ", ".join(filter(None, score[1:3]))
        table.add_row(f"  {words}", *score_cells(kind, score))
    return table


def score_cells(kind: Kind, score: Any) -> list[str]:
    """Return the number of rows and the errors of a score as texts."""
    rows, *errors = score[3:]
    if kind is MEMORY:
        return [str(rows), *map(_digits, errors)]
    covered = (score.covered_50, score.covered, score.covered_90)
    held = [f"{one:.0f}" for one in covered if one is not None]
    return [str(rows), *(f"{e:.1f}" for e in errors[:3]), f"{score.bias:+.1f}", *held]


def _digits(value: float) -> str:
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 10.0 else 1
    return f"{value:.{digits}f}"


def fill_sentences(found: pd.DataFrame) -> Iterator[str]:
    """Yield, for runs without a measured memory, how many are said to fit."""
    for one in memory.fills(found):
        yield (
            f"{one.source}: {one.fits} of {one.rows} runs that ran are said to fit; device over "
            f"capacity: least {one.least:.2f}, mean {one.mean:.2f}, most {one.most:.2f}."
        )


def first_run_sentences(found: pd.DataFrame) -> Iterator[str]:
    """Yield the errors of sources whose rows are reruns, each configuration counted once."""
    by_source: dict[str, list[str]] = {}
    for one in memory.first_runs(found):
        said = f"{one.kind}: n {one.rows}, mean {_digits(one.mean)}, median {_digits(one.median)}"
        by_source.setdefault(one.source, []).append(said)
    for source, kinds in by_source.items():
        about = f"{source}, the first run of each configuration and accelerator alone"
        yield f"{about}: {'; '.join(kinds)}."


def servers_sentence(every: Any) -> str:
    """Return how far all predictions lie from what was measured."""
    return (
        f"Half of {every.rows:,} predictions lie within {every.median:.1f} % of what was measured, "
        f"nine in ten within {every.p90:.0f} %."
    )


def filled_sentences(found: pd.DataFrame) -> Iterator[str]:
    """Yield for how many rows what they leave open comes from public files."""
    models, recipes = ((found[name] != "").sum() for name in ("filled", "recipe"))
    if models or recipes:
        yield (
            f"Kinds of layers of {models} rows, and dimensions that they leave blank, are those of "
            f"their model's public configuration; experts of {recipes} rows run as the recipe of "
            "their release says (columns filled and recipe of -o FILE.csv)."
        )


def reason_lines(found: Sequence[Reason]) -> Iterator[str]:
    """Yield the rows without an answer, by reason, the commonest first."""
    if found:
        yield f"Not answered: {sum(one.rows for one in found)} rows."
    for one in found:
        yield f"{one.rows:>5}  {one.source}: {one.reason}"


def worst_lines(kind: Kind, found: pd.DataFrame) -> Iterator[str]:
    """Yield the rows that are furthest off, with what is largest in their predictions."""
    last = "its software" if kind is SERVERS else "what is largest in the prediction"
    yield f"Furthest off, one of each configuration, with {last}:"
    for source, name, number, error, *pair, largest in _worst(kind, found):
        of = f"{number}, " if number else ""
        both = f"{of}measured {pair[0]}, predicted {pair[1]}"
        yield f"{error:>6} %  {source}: {name}, {both}; {largest}"


def _worst(kind: Kind, found: pd.DataFrame) -> Iterator[list[str]]:
    """Yield source, row, number, error, measured, predicted and largest parts of rows."""
    for _, one in found.iterrows():
        names = [one["source"], one["id"]]
        if kind is SERVERS:
            rate, words = one["quantity"] == "rate", serving.QUANTITIES[one["quantity"]][1]
            pair = [one[n] for n in ("measured", "predicted")]
            pair = [f"{value:,.0f}/s" if rate else seconds(value) for value in pair]
            error = f"{100.0 * one['error']:+.1f}"
            yield [*names, words, error, *pair, f"{one['model']}, {one['software']}"]
            continue
        if kind is STEPS:
            pair = [seconds(one["measured"]), seconds(one["time"])]
            yield [*names, "", f"{100.0 * one['error']:+.1f}", *pair, part_words(one)]
            continue
        number = one["number"]
        pair = [size(one["measured"][number], "B"), size(predicted(one, number), "B")]
        terms = ", ".join(
            f"{words[0].lower()}{words[1:]} {size(value, 'B')}"
            for words, value in largest_terms(one["terms"])
        )
        yield [*names, number, f"{100.0 * one['errors'][number]:+.1f}", *pair, terms]


def part_words(one: Any) -> str:
    """Return the largest parts of a predicted step with their shares.

    >>> part_words({**dict.fromkeys(PARTS, 0.0), "time_compute": 0.9, "time_bubble": 0.1})
    'arithmetic 90 %, bubble 10 %'
    """
    parts = largest_parts({name: float(one[name]) for name in PARTS})
    return ", ".join(f"{LABELS[name]} {percent(share)}" for name, share in parts)


def rows_table(kind: Kind, found: pd.DataFrame) -> PlainTable:
    """Return one row per measured run: what is predicted, and the error."""

    def number(head: str, name: str, digits: str, unit: float = 1.0) -> Shown:
        def cell(one: Any) -> str:
            return "-" if np.isnan(one[name]) else f"{one[name] / unit:{digits}}"

        return Shown(head, cell)

    def error_of_peak(one: Any) -> str:
        return next((f"{100.0 * value:.2f}" for value in one["errors"].values()), "-")

    names = Shown("id", lambda one: cut(one["id"]), 0, "left")
    rows = [one for _, one in found.iterrows()]
    if kind is STEPS:
        columns = [
            names,
            Shown("regime", lambda one: one["regime"], 1, "left"),
            number("step\ntime", "time", ".4g"),
            *(number(end, end, ".4g") for end in ("low", "high")),
            number("error\n[%]", "error", "+.1f", 0.01),
        ]
        return PlainTable("predicted step time and its 80 % interval [s]").add_rows(columns, rows)
    columns = [
        names,
        Shown("kind", lambda one: one["kind"] if isinstance(one["kind"], str) else "", 1, "left"),
        *(number(NARROW[name], name, ".2f", GB) for name in THREE),
        Shown("error\n[%]", error_of_peak),
        Shown("fits", lambda one: FITS[one["fits"]] or "-"),
    ]
    return PlainTable("predicted peak of one accelerator [GB]").add_rows(columns, rows)


def cut(name: str) -> str:
    """Return a name, its beginning left out where it is long."""
    return name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]


# ---- Rows of a CSV, and JSON --------------------------------------------------------------------


def rows_of(kind: Kind, found: pd.DataFrame) -> Iterator[Row]:
    """Yield what a CSV has of every measured number of some rows."""
    for _, one in found.iterrows():
        names = {"source": one["source"], "row_id": one["id"]}
        if kind is SERVERS:
            told = {n: one[n] for n in serving.NUMBERS}
            told["error_percent"] = 100.0 * told.pop("error")
            told = {n: None if np.isnan(value) else value for n, value in told.items()}
            words = {n: one[n] for n in ("model", "software", "quantity", "regime")}
            yield {**names, **words, **told, "reason": one["reason"]}
            continue
        if kind is STEPS:
            time = None if np.isnan(one["measured"]) or one["reason"] else one["measured"]
            names |= {"filled": one["filled"], "recipe": one["recipe"]}
            yield {**names, "measured_step_time_s": time, **added(STEPS, one)}
            continue
        answered = isinstance(one["kind"], str)
        for number in (one["errors"] or [""]) if answered else [""]:
            yield {
                **names,
                "kind": one["kind"] if answered else None,
                "number": number,
                "measured_bytes": one["measured"][number] if number else None,
                "predicted_bytes": predicted(one, number) if number else None,
                "error_percent": 100.0 * one["errors"][number] if number else None,
                "reason": one["reason"],
            }


def added(kind: Kind, one: Any) -> Row:
    """Return what the prediction adds to a row of measured runs; None where there is none."""
    if kind is STEPS:
        there = not np.isnan(one["time"])
        error = None if np.isnan(one["error"]) else 100.0 * one["error"]
        found = {"predicted_step_time_s": one["time"], "step_time_low": one["low"]}
        found |= {"step_time_high": one["high"], "regime": one["regime"]}
        found |= {"step_error_percent": error, **{f"{part}_s": one[part] for part in PARTS}}
        return {**_where(there, found), "step_reason": one["reason"]}
    there = isinstance(one["kind"], str)
    number, error = next(iter(one["errors"].items()), (None, None))
    found = {"kind": one["kind"], "stage": int(one["stage"]) if there else None}
    found |= {f"predicted_{name}_bytes": one[name] for name in THREE}
    found |= {f"{name}_bound": one["bounds"].get(name) if there else None for name in THREE}
    found |= {"measured_number": number, "error_percent": None if error is None else 100.0 * error}
    found |= {"hbm_reported_bytes": None if np.isnan(one["capacity"]) else one["capacity"]}
    found |= {"fits": FITS[one["fits"]]}
    return {**_where(there, found), "reason": one["reason"]}


def _where(there: bool, found: Row) -> Row:
    return found if there else dict.fromkeys(found)


def csv_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield rows as lines of a CSV below their header."""
    for place, row in enumerate(rows):
        if not place:
            yield csv_line([*row]) + "\n"
        yield csv_line([_text(name, value) for name, value in row.items()]) + "\n"


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("error_percent"):
        return f"{value:.6g}"
    return repr(float(value)) if isinstance(value, float) else str(value)


def scores_json(kind: Kind, found: pd.DataFrame) -> str:
    """Return scores, reasons and the rows that are furthest off as one JSON object; errors in %."""
    plain = {
        "scores": [_named(kind, one) for one in kind.of.scores(found)],
        "not_answered": [one._asdict() for one in reasons(found)],
        "worst": list(rows_of(kind, kind.of.worst(found))),
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def _named(kind: Kind, score: Any) -> Row:
    """Return a score by names, those of its kind first."""
    numbers = {n: v for n, v in [*score._asdict().items()][3:] if v is not None}
    return {**dict(zip(("source", *kind.names), score[:3], strict=True)), **numbers}


# ---- What a page of the documentation shows -----------------------------------------------------


def unseen(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that no constant was fitted to: of all kinds, or of dense models alone."""
    named = {
        start: [n for n, s in sources("steps").items() if s.fitted.startswith(start)]
        for start in (NOTHING, f"{DENSE}: {NOTHING}")
    }
    every, dense = (found["source"].isin(names) for names in named.values())
    return found[every | (dense & found["regime"].str.startswith(DENSE))]


MADE = re.compile(r"(?<=<!-- made: )(\w+)( -->\n\n).*?(?=\n<!-- end -->)", re.S)


def page(kind: Kind, found: pd.DataFrame, text: str) -> str:
    """Return a page whose parts between ``<!-- made: NAME -->`` and ``<!-- end -->`` are anew."""
    parts = {name: "\n".join(lines) for name, lines in page_parts(kind, found).items()}
    return MADE.sub(lambda match: f"{match[1]}{match[2]}{parts[match[1]]}\n", text)


def page_parts(kind: Kind, found: pd.DataFrame) -> Mapping[str, Iterable[str]]:
    """Return the tables and sentences of a page, by name."""

    def scored(names: Sequence[str], some: Iterable[Any]) -> Iterator[str]:
        first = 3 - len(names)
        rows = ([*s[first:3], *score_cells(kind, s)] for s in some)
        return markdown((*names, *kind.heads), rows)

    why = ([one.rows, one.source, one.reason] for one in reasons(found))
    if kind is SERVERS:
        return {
            "servers": scored(("source", *kind.names), serving.scores(found)),
            "servers_regimes": scored(("regime",), serving.regime_scores(found)),
            "servers_reasons": markdown(("rows", "source", "reason"), why),
            "servers_widths": markdown(
                ("regime", *(f"h {at} %" for at in LEVELS)), _widths_of_servers()
            ),
            "servers_sources": _sources(sources("serving")),
        }
    each = sources("steps" if kind is STEPS else "memory")
    heads = ("source", "row", "number", "error", "measured", "predicted", "largest")
    worst = _worst(kind, kind.of.worst(found, 12 if kind is STEPS else 10))
    parts: dict[str, Iterable[str]] = {
        "scores": scored(("source", *kind.names), kind.of.scores(found)),
        "worst": markdown(heads, worst),
        "reasons": markdown(("rows", "source", "reason"), why),
    }
    if kind is MEMORY:
        parts["fills"] = [*fill_sentences(found), "", *first_run_sentences(found)]
        rows = ([name, s.title, s.where, s.licence, s.fitted] for name, s in each.items())
        parts["sources"] = markdown(("source", "what", "where", "licence", "fitted to it"), rows)
        parts["columns"] = markdown(("column", "what it holds"), NOTES.items())
        return parts
    widths = [[r.words, *r.half_widths, w] for r, w in zip(REGIMES, WITHIN_SOURCE, strict=True)]
    widths[WORDS.index("not_calibrated")][-1] = "as its model above"
    return {
        **parts,
        **run_parts(),
        **page_parts(SERVERS, serving.packaged_answers()),
        "regimes": scored(("regime",), steps.regime_scores(found)),
        "unseen": scored(("regime",), steps.regime_scores(unseen(found))),
        "widths": markdown(
            ("regime", *(f"h {at} %" for at in LEVELS), "same software known, 80 %"), widths
        ),
        "sources": _sources(each),
    }


def _widths_of_servers() -> Iterator[list[Any]]:
    yield from ([one.words, *one.half_widths] for one in of_servers.REGIMES)
    for routed, words in ((False, "dense"), (True, "experts")):
        yield [f"tokens/s, {words}", *of_servers.RATE[routed]]
    yield ["TTFT", *of_servers.TTFT]


def _sources(each: Mapping[str, Source]) -> Iterator[str]:
    rows = ([n, f"{s.title}: {s.where}", s.fitted, s.noise or "not known"] for n, s in each.items())
    return markdown(("source", "what and where", "fitted to it", "noise"), rows)


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
        (
            r.family,
            r.name,
            r.kind,
            r.plan,
            f"{r.published:,.0f}",
            _cell(r.hours, ",.0f"),
            _cell(r.ratio, ".2f"),
        )
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


def _cell(value: float, digits: str) -> str:
    return "-" if np.isnan(value) else f"{value:{digits}}"
