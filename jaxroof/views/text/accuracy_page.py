"""The page of the documentation on measured step times, as Markdown."""

import textwrap
from collections.abc import Iterator, Sequence

import pandas as pd

from jaxroof.estimators.training.interval import (
    LEVELS,
    LONGEST_SEQUENCE,
    MOST_GPUS,
    REGIMES,
    WIDEST_TENSOR,
    WITHIN_SOURCE,
)
from jaxroof.units import seconds
from jaxroof.validation.calibration.fit import FOLDS, MOST_PLANS, TOLD
from jaxroof.validation.calibration.intervals import FEWEST_OF_ANOTHER_CHIP
from jaxroof.validation.calibration.problem import OF_ANOTHER_CHIP
from jaxroof.validation.rows import reasons
from jaxroof.validation.sources import NOTHING, packed_bytes, sources
from jaxroof.validation.steps import largest_parts, regime_scores, scores, worst
from jaxroof.views.text.step_scores import HEADS, LEGEND, part_words, parts_of, score_cells

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


def page(found: pd.DataFrame) -> Iterator[str]:
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
    yield from SOFTWARE.splitlines()
    yield ""
    yield from _worst(found)
    yield ""
    yield from _reasons(found)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def _by_regime(found: pd.DataFrame) -> Iterator[str]:
    yield "## Errors and intervals by regime, all sources"
    yield ""
    rows = [[one.regime, *score_cells(one)] for one in regime_scores(found)]
    yield from _table(("regime", *HEADS), rows)
    yield ""
    many = int((found["source"] == "vtrain_single_node").sum())
    yield f"{many} of all rows are vTrain's on 1 to 8 GPUs. Rows that no constant was fitted to:"
    yield ""
    unseen = [n for n, one in sources("steps").items() if one.fitted.startswith(NOTHING)]
    rows = [
        [one.regime, *score_cells(one)]
        for one in regime_scores(found[found["source"].isin(unseen)])
    ]
    yield from _table(("regime", *HEADS), rows)
    yield ""
    yield from REGIME_WORDS.splitlines()
    yield ""
    heads = ("regime", *(f"h {level} %" for level in LEVELS), "same software known, 80 %")
    pairs = zip(REGIMES, WITHIN_SOURCE, strict=True)
    widths = [[one.words, *map(str, one.half_widths), str(within)] for one, within in pairs]
    widths[-1][-1] = "as its model above"
    yield from _table(heads, widths)


def _by_source(found: pd.DataFrame) -> Iterator[str]:
    yield "## Errors by source, chip and regime"
    yield ""
    rows = [[one.source, one.chip, one.regime, *score_cells(one)] for one in scores(found)]
    yield from _table(("source", "chip", "regime", *HEADS), rows)


def _fitted() -> Iterator[str]:
    yield "## What is fitted to what, and the noise of the data"
    yield ""
    yield from UNFITTED.splitlines()
    yield ""
    yield f"All rows travel with the package ({packed_bytes('steps') / 1e3:.0f} kB compressed)."
    yield ""
    rows = [
        [name, f"{one.title}: {one.where}", one.fitted, one.noise or "not known"]
        for name, one in sources("steps").items()
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
of a kind say otherwise. A column `system`, if there is one, names systems with the same
accelerators. A system without a fast domain (TPUs) has no step time, so that nothing can be fitted.
A calibrated file goes on from itself: `--system mine.toml` measures against mine.toml.
"""
ENVELOPE = f"""\
No run was measured on more than {MOST_GPUS:,.0f} accelerators, with sequences of more than
{LONGEST_SEQUENCE:,.0f} tokens, or with tensor groups of more than {WIDEST_TENSOR:g} ranks inside a
fast domain; four runs (A100, tensor 16, no overlap) had groups that leave it. A test takes these
numbers from the rows. Plans outside take the interval *not calibrated*, or that of experts,
which is wider, and the answer says what of them was never measured. That is no promise: outside of
what was measured nobody knows the error. Optimizer states in host memory were not measured either.
"""


SOFTWARE = """\
## Software by name

Took part in the fit: Megatron-Core and NeMo (their recipes, MLPerf, the table of 2024, SimuMax's
runs), Megatron of 2020 to 2022, Megatron-DeepSpeed as vTrain ran it, llm-foundry. Did not:
InternEvo, NeMo AutoModel, ZeRO-3 of DeepSpeed, Megatron-Turing NLG, BigScience's
Megatron-DeepSpeed, torchtitan, MaxText; their rows have `system.chip.calibrated` 0. What each does
in a step stands in section 9 of `docs/models/training_step_today.md`, and by path in its rows.
"""


def _worst(found: pd.DataFrame) -> Iterator[str]:
    yield "## Rows that are furthest off, one of each configuration"
    yield ""
    rows = []
    for _, one in worst(found, 12).iterrows():
        times = (seconds(one["measured"]), seconds(one["time"]))
        parts = part_words(largest_parts(parts_of(one)))
        rows.append([one["source"], one["id"], f"{100.0 * one['error']:+.1f}", *times, parts])
    heads = ("source", "row", "error", "measured", "predicted", "parts of the predicted step")
    yield from _table(heads, rows)


def _reasons(found: pd.DataFrame) -> Iterator[str]:
    yield "## Rows that are not answered"
    yield ""
    rows = [[str(one.rows), one.source, one.reason] for one in reasons(found)]
    yield from _table(("rows", "source", "reason"), rows)
