"""The page of the documentation on measured memory, as Markdown."""

from collections.abc import Iterator, Sequence

import pandas as pd

from jaxroof.units import size
from jaxroof.validation.memory import (
    fills,
    first_runs,
    largest_terms,
    peer_score,
    scores,
    worst,
)
from jaxroof.validation.rows import NOTES, reasons
from jaxroof.validation.sources import packed_bytes, sources
from jaxroof.views.text.memory_scores import (
    HEADS,
    fill_sentences,
    first_run_sentences,
    score_cells,
)

HEAD = """\
# Predicted memory beside measured memory

Made by `jaxroof validate --memory -o docs/validation_memory.md`; a test holds it. Errors are
predicted over measured, less 1, in per cent; mean, median, p90 and max are of absolute errors,
bias is the mean of signed ones. *Allocated* and *active* are what PyTorch counts, *reserved* is
what its allocator took, *device* is what `nvidia-smi` shows.
"""
NO_BOUND = """\
## What has no bound

No measurement stands behind these; a prediction of them is a count of tensors, no more.

- ZeRO 3 of DeepSpeed: two rows of 2021 are refused. DeepSpeed of today (`--software
  deepspeed`): its states are counted as its papers do, its buffers and its fragmentation were
  never measured.
- ZeRO 2, ZB-H1, DualPipe, offload of states and activations, weights in FP8 and FP4.
- HSDP (replicas of FSDP2 groups): only plain FSDP2 was measured. FSDP2 without recomputation,
  with a tied head or with a model whose vocabulary is padded.
- Reserved memory under Megatron of today: 6 % fragmentation is within 3 % on SimuMax's nine
  configurations, no other was measured. Context and communicators, outside the allocator:
  estimates.
- GPT-2 shapes of 2021 on the end stages of DeepSpeed's pipeline: 3 to 5 % too low, not
  explained. With its BF16 optimizer `nvidia-smi` shows 9 to 18 % more than is predicted.
- Steps of an attention kernel that Transformer Engine chooses by itself, in containers of
  long-term support: up to 42 % more than is predicted. Such rows are refused.
"""
RULES = """\
*Kernel by rule*: the options name no attention kernel, and the rule of section 10.3 of
`docs/models/parameters_flops_memory.md` takes one. *FP16 by rule*: the chronicle prints no
precision. *Loss by rule*: a benchmark names no loss kernel; it is taken as eager. *Compiled
loss*: 10 bytes a logit, where 8 to 18 were seen, by release of PyTorch. *FSDP2* rows compare
the reserved peak.
"""
SCHEMA = """\
## The columns of measured runs

A row is a question of `training`: its columns are inputs by path, choices, or names of the
catalogue, as `jaxroof evaluate training ROWS.csv` reads them. Columns that begin with # stand
beside the question. `jaxroof evaluate training ROWS.csv --schema measured -o OUT.csv` adds memory
and step time to such a file, errors where something was measured, and the reason where a row is
refused; `jaxroof calibrate ROWS.csv` fits constants to its step times.
"""


def page(found: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    yield from _scores(found)
    yield ""
    yield from _sources()
    yield ""
    yield from _worst(found)
    yield ""
    yield from _reasons(found)
    yield ""
    yield from NO_BOUND.splitlines()
    yield ""
    yield from _schema()


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def _scores(found: pd.DataFrame) -> Iterator[str]:
    yield "## Errors by source, kind of row and number"
    yield ""
    every = scores(found)
    yield from _table(
        ("source", "kind", "number", *HEADS),
        [[one.source, one.kind, one.number, *score_cells(one)] for one in every],
    )
    yield ""
    peer = peer_score()
    yield (
        f"SimuMax's own predictions of its {peer.rows} rows: mean {peer.mean:.2f}, max "
        f"{peer.largest:.2f}, bias {peer.bias:.2f}."
    )
    yield ""
    yield from fill_sentences(fills(found))
    yield ""
    yield from first_run_sentences(first_runs(found))
    yield ""
    yield from RULES.splitlines()


def _sources() -> Iterator[str]:
    found = sources("memory")
    yield "## Where the rows come from, and what is fitted to them"
    yield ""
    yield f"All rows travel with the package, {packed_bytes('memory') / 1e3:.0f} kB compressed."
    yield "They are figures transcribed from public repositories, whose licences these are."
    yield ""
    yield from _table(
        ("source", "what", "where", "licence", "fitted to it"),
        [[n, one.title, one.where, one.licence, one.fitted] for n, one in found.items()],
    )


def _worst(found: pd.DataFrame) -> Iterator[str]:
    yield "## Largest errors, one of each configuration"
    yield ""
    rows = []
    for _, one in worst(found, 10).iterrows():
        terms = largest_terms(one["terms"])
        said = ", ".join(f"{words}: {size(value, 'B')}" for words, value in terms)
        number = one["number"]
        error, measured = one["errors"][number], size(one["measured"][number], "B")
        row = [one["source"], one["id"], number, f"{100.0 * error:+.1f}", measured, said]
        rows.append(row)
    heads = ("source", "row", "number", "error", "measured", "largest predicted terms")
    yield from _table(heads, rows)


def _reasons(found: pd.DataFrame) -> Iterator[str]:
    yield "## Rows that are not answered"
    yield ""
    rows = [[str(one.rows), one.source, one.reason] for one in reasons(found)]
    yield from _table(("rows", "source", "reason"), rows)


def _schema() -> Iterator[str]:
    yield from SCHEMA.splitlines()
    yield ""
    yield from _table(("column", "what it holds"), [list(item) for item in NOTES.items()])
