"""The operations of one layer, of whichever estimator: a table, and what they add up to."""

import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses.one_plan import question_of
from jaxroof.errors import listing
from jaxroof.estimators.published.unfused import DIVIDED
from jaxroof.estimators.training.inputs import layers_by_part
from jaxroof.units import percent, seconds, size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual

LEAST = 0.005  # shares below are not worth words
DIGIT = 0.0005  # half of the last digit of a share that is printed
PAIRS = {  # head of a column of both directions: results, their unit, the order in which it leaves
    "GFLOP": (("flops",), 1e9, 4),
    "HBM MB": (("traffic",), 1e6, 5),
    "message MB": (("message",), 1e6, 6),
    "compute us": (("compute",), 1e-6, 2),
    "HBM us": (("memory",), 1e-6, 3),
    "links us": (("tensor", "links"), 1e-6, 1),
    "time us": (("time",), 1e-6, 0),
}
SHARES = {"% of\nlayer": "share", "% of\npeak": "peak_share"}
PLURAL = {  # of a kind of operation, as the subject of a sentence
    "matrix product": "matrix products",
    "kernel": "attention and other kernels",
    "message": "messages",
    "computed again": "recomputation",
    "wait": "waiting for the host",
}
SHORT = {"tensor": "tp", "sequence": "sp"}  # degrees of an unfused block, as they are typed
WORDS = {"heads": "heads", "feedforward": "feedforward columns", "sequence": "tokens"}


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the operations of a layer, and what they add up to."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(time_sentence(data))
    yield from quiet(layer_table(data))
    if "kind" in data.coords:
        yield from usual(notes_sentence(data), mean_sentence(data), plan_line(data))
    else:
        yield from usual(kept_sentence(data), dropped_sentence(data))


def layer_table(data: xr.Dataset) -> PlainTable:
    """Return the operations, then their sum: work and microseconds, forward | backward."""
    whole = data.sum("operation").assign_coords(operation="total")

    def cell(value: float) -> str:
        if np.isnan(value) or value == 0:
            return "-"
        return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"

    def both(head: str, name: str) -> Shown:
        _, unit, soon = PAIRS[head]

        def pair(row: xr.Dataset) -> str:
            ways = (float(row[f"{name}_{way}"]) / unit for way in ("forward", "backward"))
            return " | ".join(map(cell, ways))

        return Shown(head, pair, soon)

    def share(head: str, name: str) -> Shown:
        def of(row: xr.Dataset) -> str:
            value = float(row[name])
            summed = row is whole and name != "share"
            return "" if summed else "-" if np.isnan(value) else f"{100.0 * value:.1f}"

        return Shown(head, of)

    pairs = [(head, n) for head, (names, *_) in PAIRS.items() for n in names]
    columns = [
        Shown("operation", lambda row: str(row.operation.values), 0, "left"),
        *(both(head, name) for head, name in pairs if f"{name}_forward" in data),
        *(share(head, name) for head, name in SHARES.items() if name in data),
    ]
    if "kept" in data:
        columns.append(Shown("kept MB", lambda row: cell(float(row.kept) / 1e6), 7))
    title = "one layer, one microbatch, one accelerator: forward | backward"
    return PlainTable(title).add_rows(columns, [*_shown(data), whole])


def _shown(data: xr.Dataset) -> list[xr.Dataset]:
    rows = (data.isel(operation=place) for place in range(data.sizes["operation"]))
    return [row for row in rows if "share" not in row or float(row.share) >= DIGIT]


def time_sentence(data: xr.Dataset) -> str:
    """Return the time of the layer, what dominates it, and the largest operation."""
    ways = [data[f"time_{way}"] for way in ("forward", "backward")]
    forward, backward = (seconds(float(way.sum())) for way in ways)
    share = (ways[0] + ways[1]) / float(ways[0].sum() + ways[1].sum())
    kinds = data.kind.values.astype(str) if "kind" in data.coords else np.array([])
    shares = {kind: float(share.values[kinds == kind].sum()) for kind in PLURAL if kinds.size}
    order = sorted(shares, key=lambda kind: -shares[kind])
    parts = [f"{PLURAL[kind]} {percent(shares[kind])}" for kind in order if shares[kind] >= LEAST]
    largest = share.isel(operation=int(np.argmax(share.values)))
    name = f"{largest.operation.values}, {percent(float(largest))}"
    of = f"Of both: {listing(parts)}; the largest operation is {name}" if parts else ""
    return (
        f"One layer takes {forward} forward and {backward} backward. "
        f"{of or f'The largest operation is {name}'}."
    )


def notes_sentence(data: xr.Dataset) -> str:
    """Return what the rows mean that a reader cannot know."""
    rows = _shown(data)
    said = ["Peak: of 16-bit products. Messages are what nothing hides of them"]
    if any(str(row.operation.values) == "launch limit" for row in rows):
        said.append("the launch limit is what waiting for the host adds")
    if any(str(row.kind.values) == "computed again" for row in rows):
        said.append("recomputation repeats the forward pass, or parts of it, and its messages")
    return "; ".join(said) + "."


KINDS = {  # of layers, and how many have each
    "full_layers": "full attention",
    "windowed_layers": "windowed attention",
    "mamba_layers": "Mamba-2",
    "delta_layers": "gated DeltaNet",
    "kda_layers": "Kimi Delta Attention",
    "dense_layers": "a dense MLP",
    "routed_layers": "experts",
}


def mean_sentence(data: xr.Dataset) -> str:
    """Return of which layers a layer is the mean; empty where all are alike."""
    model = question_of(data)[0].model
    layers, counts = float(model.layers), layers_by_part(model)
    each = {words: counts.get(n, getattr(model, n, 0.0)) for n, words in KINDS.items()}
    some = {words: float(count) for words, count in each.items() if count}
    if all(count == layers for count in some.values()):
        return ""
    said = listing([f"{count:.0f} with {words}" for words, count in some.items()])
    return f"The layer is the mean of {layers:.0f}: {said}."


def kept_sentence(data: xr.Dataset) -> str:
    """Return the bytes of a layer, the share of its links, and which ranks share a fast domain."""
    weights, kept = (size(float(data[name].sum()), "B") for name in ("weights", "kept"))
    said = f"{weights} of weights, {kept} kept a microbatch"
    if "links_forward" in data:
        share = float(data.links_forward.sum() / data.time_forward.sum())
        return f"{said}; links take {percent(share, 1)} of the forward pass."
    numbers = json.loads(data.attrs["inputs"])

    def of(field: str) -> float:
        return float(numbers.get(f"plan.{field}", 1.0))

    said += f"; {of('fast_tensor'):.0f} of the {of('tensor'):.0f} tensor ranks"
    if of("context") > 1:
        said += f" and {of('fast_context'):.0f} of the {of('context'):.0f} context ranks"
    panels = f"; {of('panels'):.0f} panels" if of("panels") > 1 else ""
    return f"{said} share an NVLink domain{panels}."


def dropped_sentence(data: xr.Dataset) -> str:
    """Return the sizes that a degree of unfused blocks does not divide: the rest is dropped."""
    if "block" not in data.coords:
        return ""
    inputs, recipe = question_of(data)
    said = [
        f"{SHORT[name]}={int(degree)} does not divide {int(getattr(inputs.model, field))} "
        f"{WORDS[field]}"
        for name, fields in DIVIDED[recipe.variant].items()
        for degree in [getattr(inputs.plan, name)]
        for field in fields
        if float(getattr(inputs.model, field)) % float(degree)
    ]
    return f"{'; '.join(said)}: what is left over is in no table." if said else ""
