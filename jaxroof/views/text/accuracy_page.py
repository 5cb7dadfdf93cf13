"""The page of the documentation on measured step times, as Markdown."""

import textwrap
from collections.abc import Iterator, Sequence

from jaxroof.estimators.training.envelope import LONGEST_SEQUENCE, MOST_GPUS, WIDEST_TENSOR
from jaxroof.estimators.training.interval import LEVELS, REGIMES, WITHIN_SOURCE
from jaxroof.units import seconds
from jaxroof.validation.steps.calibration import FOLDS, MOST_PLANS, TOLD
from jaxroof.validation.steps.calibration_problem import OF_ANOTHER_CHIP
from jaxroof.validation.steps.own_interval import FEWEST_OF_ANOTHER_CHIP
from jaxroof.validation.steps.scores import (
    Answers,
    largest_parts,
    reasons,
    regime_scores,
    scores,
    worst,
)
from jaxroof.validation.steps.sources import NOTHING, SOURCES, packed_bytes
from jaxroof.validation.steps.step_software import known_software
from jaxroof.views.text.step_scores import HEADS, LEGEND, part_words, score_cells

HEAD = f"""\
# Predicted step time beside measured step time

Made by `jaxroof validate -o docs/accuracy.md`; a test holds it. All numbers are in per cent.

{textwrap.fill(LEGEND, 100)}

`jaxroof evaluate training ROWS.csv --schema measured -o OUT.csv` scores rows of your own; the
columns are those of `docs/validation_memory.md`. `jaxroof calibrate ROWS.csv --system NAME -o
mine.toml` fits few constants to them, and `--system mine.toml`
(`--chip mine.toml` for measured rows) predicts with these.
"""
REGIME_WORDS = """\
The interval of a predicted time T at a level is T exp(-h) to T exp(h). Half widths h are quantiles
of the error with the whole source (for experts: the whole model) left out of the fit. *Not
calibrated* (software, chip or plan) is rough: it comes from three sources. Where a run of the same
software and chip is known, divide by its ratio of predicted to measured first; h at 80 % is then
the last column.
"""
UNFITTED = """\
Constants were fitted to all dense rows together, each source and chip with a random offset
of its own (5 %, odd sources 15 %) that a prediction does not use; then those of experts to routed
rows. No constant belongs to one source, but the slow node of SimuMax. Sources *fitted to: nothing*
are what the model predicts of runs that it was not tuned to, and so are the rows of DGX Cloud.

Known faults: recipes of DGX Cloud in BF16 run 8 % faster on H100 than predicted; torchtitan's
H100 is another part; the first release of DeepSeek-V3 on GB200 took more than twice as long;
routed rows of H100 before 2026 come out slow (Grok-1) or fast (gpt-oss, whose windows are not
modelled); ZeRO-3 of 2021 is not modelled at all. Imbalance of experts, checkpoints, evaluation and
failures are in no prediction.
"""


def page(found: Answers) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield from _by_regime(found)
    yield ""
    yield from _by_source(found)
    yield ""
    yield from _fitted()
    yield ""
    yield "## The envelope of what was measured"
    yield ""
    yield from ENVELOPE.splitlines()
    yield ""
    yield "## Constants fitted to your own steps"
    yield ""
    yield from CALIBRATION.splitlines()
    yield ""
    yield from _software()
    yield ""
    yield from _worst(found)
    yield ""
    yield from _reasons(found)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def _by_regime(found: Answers) -> Iterator[str]:
    yield "## Errors and intervals by regime, all sources"
    yield ""
    rows = [[one.regime, *score_cells(one)] for one in regime_scores(found)]
    yield from _table(("regime", *HEADS), rows)
    yield ""
    many = len(found["vtrain_single_node"])
    yield f"{many} of all rows are vTrain's on 1 to 8 GPUs. Rows that no constant was fitted to:"
    yield ""
    unseen = {
        name: some for name, some in found.items() if SOURCES[name].fitted.startswith(NOTHING)
    }
    rows = [[one.regime, *score_cells(one)] for one in regime_scores(unseen)]
    yield from _table(("regime", *HEADS), rows)
    yield ""
    yield from REGIME_WORDS.splitlines()
    yield ""
    heads = ("regime", *(f"h {level} %" for level in LEVELS), "same software known, 80 %")
    pairs = zip(REGIMES, WITHIN_SOURCE, strict=True)
    widths = [[one.words, *map(str, one.half_widths), str(within)] for one, within in pairs]
    widths[-1][-1] = "as its model above"
    yield from _table(heads, widths)


def _by_source(found: Answers) -> Iterator[str]:
    yield "## Errors by source, chip and regime"
    yield ""
    rows = [[one.source, one.chip, one.regime, *score_cells(one)] for one in scores(found)]
    yield from _table(("source", "chip", "regime", *HEADS), rows)


def _fitted() -> Iterator[str]:
    yield "## What is fitted to what, and the noise of the data"
    yield ""
    yield from UNFITTED.splitlines()
    yield ""
    yield (
        f"All rows travel with the package ({packed_bytes() / 1e3:.0f} kB compressed, beside the "
        "rows of memory that measure time too)."
    )
    yield ""
    rows = [
        [name, f"{one.title}: {one.where}", one.fitted, one.noise or "not known"]
        for name, one in SOURCES.items()
    ]
    yield from _table(("source", "what and where", "fitted to it", "noise"), rows)


CALIBRATION = f"""\
`jaxroof calibrate` minimises a robust sum of squares of ln(predicted / measured) over the rows,
each with the spread within a source (the last column of the table of intervals), and of the
constants' distances from where it starts, each with a quarter of the range that is believed of it
(`ranges` in `jaxroof/catalog/chips.toml`, which are bounds too). First a factor alone: it
divides all rates that the chip reaches and multiplies the time once a step. Then, beside the
factor, the constants that the rows narrow to less than {TOLD:g} of what was believed; the
others stay. Slopes are exact. The error of left-out rows comes from fits without them, in at
most {FOLDS} groups. Constants that all chips share, and what a chip lacks at launch, are not
fitted.

Rows of one configuration count once, by their median: steps of one plan say nothing of another. Of
more than {MOST_PLANS:,} configurations as many are taken, evenly. A row whose ln(predicted /
measured) lies more than 3.5 robust deviations from the median is named, not left out (Iglewicz and
Hoaglin 1993).

**The interval of the file** is a number for each kind of plan that was measured (`own_dense_16_bit`
and so on in its `[chip]`):

    h = max(spread within a source, t / z x the 80 % quantile of |ln(predicted / measured)|)

over the n plans of the kind, each by a fit without it; t and z are the 90 % quantiles of Student's
distribution with n - 1 degrees of freedom and of the normal one, so that few rows widen it (2
plans 2.4 times, 5 plans 1.2 times). Of the plans of one source, chip and kind on this page, some
drawn as one's own and the others predicted, it holds 87 to 88 % of the others from 2 to 12
plans of one's own; the spread within a source alone holds 72 to 76 %, and 68 % after one plan.
So one plan narrows nothing. Other kinds, plans with offload and plans outside the
envelope keep the interval that they have without the file.

**Chips that were never calibrated** (MI300X, say) start from the nearest one that was, by
matrix rate and memory bandwidth, with ranges {OF_ANOTHER_CHIP:g} times as wide at either end; the
output and the file name it. Their plans are *not calibrated* until {FEWEST_OF_ANOTHER_CHIP} plans
of a kind say otherwise. Rows must name the chip of the system. A system without a fast domain
(TPUs) has no step time, so that nothing can be fitted. A calibrated file goes on from itself:
`--system mine.toml` measures against mine.toml.
"""
ENVELOPE = f"""\
No run was measured on more than {MOST_GPUS:,.0f} accelerators, with sequences of more than
{LONGEST_SEQUENCE:,.0f} tokens, or with tensor groups of more than {WIDEST_TENSOR:g} ranks inside a
fast domain; four runs (A100, tensor 16, no overlap) had groups that leave it. A test takes these
numbers from the rows. Plans outside take the interval *not calibrated*, or that of experts,
which is wider, and the answer says what of them was never measured. That is no promise: outside of
what was measured nobody knows the error. Optimizer states in host memory were not measured either.
"""
SOFTWARE_WORDS = """\
The column `source` of a row says whose step it is: it begins with one of these names, or with the
name of a published source. What a row states (`seqpar`, `zero_fsdp`, `recompute`, `precision`) goes
before what its software usually does; the container or date in `date_version` is its age.
"""


def _software() -> Iterator[str]:
    yield "## Software by name"
    yield ""
    yield from SOFTWARE_WORDS.splitlines()
    yield ""
    rows = [
        [name, entry["title"], "yes" if entry["calibrated"] else "no"]
        for name, entry in known_software().items()
    ]
    yield from _table(("name", "software", "calibrated"), rows)


def _worst(found: Answers) -> Iterator[str]:
    yield "## Rows that are furthest off, one of each configuration"
    yield ""
    rows = []
    for source, one in worst(found, 12):
        assert one.step is not None
        assert one.step.measured is not None
        assert one.error is not None
        times = (seconds(one.step.measured), seconds(one.time))
        parts = part_words(largest_parts(one.parts))
        error = f"{100.0 * one.error:+.1f}"
        rows.append([source, one.row.cells["row_id"], error, *times, parts])
    heads = ("source", "row", "error", "measured", "predicted", "parts of the predicted step")
    yield from _table(heads, rows)


def _reasons(found: Answers) -> Iterator[str]:
    yield "## Rows that are not answered"
    yield ""
    rows = [[str(one.rows), one.source, one.reason] for one in reasons(found)]
    yield from _table(("rows", "source", "reason"), rows)
