"""The parameters of a model, as a sentence and a table."""

import xarray as xr
from rich.table import Table

from jaxroof.analyses.result_metadata import about, words_of
from jaxroof.units import percent
from jaxroof.views.text.tables import plain_table

TOTAL, ACTIVE, BESIDE = "parameters", "active_parameters", "parameters_mtp"


def size_sentence(data: xr.Dataset) -> str:
    """Return how many parameters a model has, in all, for one token, and beside the model."""
    total, active, beside = (float(data[name]) for name in (TOTAL, ACTIVE, BESIDE))
    met = f"{active:,.0f} of them ({percent(active / total, 1)})" if active < total else "all"
    said = f"{total:,.0f} parameters; a token meets {met}."
    if beside:
        said += (
            f" Modules of multi-token prediction have {beside:,.0f} more, which are not counted."
        )
    return said


def size_table(data: xr.Dataset) -> Table:
    """Return the parameters of a model by part, the largest first, parts that it has alone."""
    parts = [str(name) for name in data if about(data, str(name)).get("part_of") == TOTAL]
    counts = {name: float(data[name]) for name in parts if float(data[name])}
    table = plain_table("parameters by part")
    table.add_column("part", no_wrap=True)
    table.add_numbers("parameters", "share")
    for name in sorted(counts, key=lambda name: -counts[name]):
        share = counts[name] / float(data[TOTAL])
        table.add_row(words_of(data, name), f"{counts[name]:,.0f}", percent(share, 2))
    return table
