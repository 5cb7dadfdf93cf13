"""The parameters of a model, as a sentence and a table."""

import dataclasses
from typing import Any

from rich.table import Table

from jaxroof.units import percent
from jaxroof.views.text.layout import PlainTable

TOTAL, ACTIVE, BESIDE = "parameters", "active_parameters", "parameters_mtp"


def size_sentence(report: Any) -> str:
    """Return how many parameters a model has, in all, for one token, and beside the model.

    Some makers leave the embedding out of what a token meets, since no product reads it.
    """
    total, active, beside = (float(getattr(report, name)) for name in (TOTAL, ACTIVE, BESIDE))
    met = f"{active:,.0f} of them ({percent(active / total, 1)})" if active < total else "all"
    said = f"{total:,.0f} parameters; a token meets {met}."
    if active < total and float(report.parameters_head):  # which is not the embedding
        rest = active - float(report.parameters_embedding)
        said = f"{said[:-1]}, embedding and head included; {rest:,.0f} without the embedding."
    if beside:
        said += (
            f" Modules of multi-token prediction have {beside:,.0f} more, which are not counted."
        )
    return said


def size_table(report: Any) -> Table:
    """Return the parameters of a model by part, the largest first, parts that it has alone."""
    parts = [field for field in dataclasses.fields(report) if field.metadata["part_of"] == TOTAL]
    counts = {field.metadata["words"]: float(getattr(report, field.name)) for field in parts}
    table = PlainTable("parameters by part")
    table.add_column("part", no_wrap=True)
    table.add_numbers("parameters", "share")
    for words in sorted(filter(counts.get, counts), key=lambda words: -counts[words]):
        share = counts[words] / float(getattr(report, TOTAL))
        table.add_row(words, f"{counts[words]:,.0f}", percent(share, 2))
    return table
