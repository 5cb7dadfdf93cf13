"""Plans by their step time: a table with intervals, and sentences on what takes the time."""

import json
from collections.abc import Sequence

import xarray as xr

from jaxroof.analyses.fastest_plans import OF_LAYER
from jaxroof.analyses.result_metadata import head_of, parts_of, words_of
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.least_memory import plan_words, shown_fields
from jaxroof.views.text.tables import plain_table

GB = 1e9
LAYER_WORDS = {  # of the parts of a layer
    "matmul": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise kernels",
    "cast": "casts",
    "recompute": "recomputation",
    "tensor_comm": "tensor messages",
    "context_comm": "context messages",
    "experts": "experts",
    "expert_comm": "dispatch to experts",
}


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, step time with its interval, rates and memory."""
    capacity, fields = float(data.capacity), shown_fields(data)
    table = plain_table()
    table.add_numbers("#", *(head_of(data, field) for field in fields))
    table.add_numbers("step\n[s]", "80 % of runs\nbetween")
    table.add_numbers("tokens/s\na GPU", optional=1)
    table.add_numbers("MFU\n%")
    table.add_numbers("HBM\n[GB]", f"% of\n{capacity / GB:.4g}", optional=1)
    for place in range(data.sizes["plan"]):
        row = data.isel(plan=place)
        table.add_row(
            str(place + 1),
            *(str(int(row[field])) for field in fields),
            _seconds(float(row.step_time)),
            f"{_seconds(float(row.step_time_low))} to {_seconds(float(row.step_time_high))}",
            f"{float(row.tokens_per_second):,.0f}",
            f"{100.0 * float(row.mfu):.1f}",
            f"{float(row.memory) / GB:.2f}",
            f"{100.0 * float(row.memory) / capacity:.0f}",
        )
    return table


def _seconds(value: float) -> str:
    return f"{value:.4g}"


def answer_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan with its interval, and how many others are as fast."""
    best, alike = data.isel(plan=0), int(data.plans_alike)
    low, time, high = (
        _seconds(float(best[name])) for name in ("step_time_low", "step_time", "step_time_high")
    )
    said = (
        f"Fastest: {plan_words(best)}, {time} s a step; of measured runs of this kind "
        f"({data.attrs['regime']}), 80 % took between {low} and {high} s."
    )
    if alike == 1:
        return said
    return f"{said} The first {alike:,} plans cannot be told apart by this model."


def parts_sentence(data: xr.Dataset) -> str:
    """Return where the time of the fastest plan goes."""
    best = data.isel(plan=0)
    step = float(best.step_time)
    parts = parts_of(data, "step_time")
    shares = {words_of(data, name): float(best[name]) / step for name in parts}
    layer = float(best.layer_forward) + float(best.layer_backward)
    inner = {
        words: float(best[f"layer_{name}"]) / layer
        for name, words in LAYER_WORDS.items()
        if name in OF_LAYER
    }
    return f"Of the step: {_shares(shares)}. Of a layer's time: {_shares(inner)}."


def _shares(shares: dict[str, float]) -> str:
    large = sorted(((s, words) for words, s in shares.items() if s >= LEAST), reverse=True)
    return listing([f"{words} {percent(share)}" for share, words in large])


LEAST = 0.005  # shares below are not worth words


def counts_sentence(data: xr.Dataset) -> str:
    """Return how many plans are legal and fit, and what was assumed."""
    legal, fits = int(data.plans_legal), int(data.plans_feasible)
    rules = json.loads(data.attrs["where"])
    asked = f" with {' and '.join(rules)}" if rules else ""
    return (
        f"{legal:,} legal plans{asked}; {fits:,} fit in {size(float(data.capacity), 'B')}. "
        f"Software of "
        f"{data.attrs['software_year']:g} (Megatron-Core). MFU: Megatron-LM's convention "
        "with halved attention, against the 16-bit peak."
    )


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan; empty if there is none."""
    if "own" not in data:
        return ""
    plan, time = json.loads(str(data.own_plan.values)), float(data.own)
    said = " ".join(f"{head_of(data, name)} {plan[name]}" for name in shown_fields(data))
    over = float(data.own_device) - float(data.capacity)
    slower = time / float(data.step_time.values[0]) - 1.0
    if over > 0.0:
        return (
            f"Yours ({said}) would take {_seconds(time)} s, but does not fit: it needs "
            f"{size(float(data.own_device), 'B')}, {size(over, 'B')} more than there is."
        )
    place = f"place {int(data.own_place):,} of {int(data.plans_feasible):,}"
    behind = f"{percent(slower)} behind the best"
    return f"Yours, at its fastest ({said}), takes {_seconds(time)} s: {place}, {behind}."


def sizes_table(rows: Sequence[xr.Dataset]) -> PlainTable:
    """Return one row a number of accelerators: the fastest plan of each."""
    best = [row.isel(plan=0) for row in rows]
    fields = [f for f in shown_fields(best[0]) if any(f in shown_fields(one) for one in best)]
    table = plain_table("the fastest plan that fits, by number of accelerators")
    table.add_numbers("gpus", *(head_of(best[0], field) for field in fields))
    table.add_numbers("step\n[s]", "80 % of runs\nbetween")
    table.add_numbers("tokens/s\na GPU", "MFU\n%", optional=1)
    table.add_numbers("HBM\n[GB]", optional=1)
    for row, one in zip(rows, best, strict=True):
        table.add_row(
            f"{int(row.gpus):,}",
            *(str(int(one[field])) for field in fields),
            _seconds(float(one.step_time)),
            f"{_seconds(float(one.step_time_low))} to {_seconds(float(one.step_time_high))}",
            f"{float(one.tokens_per_second):,.0f}",
            f"{100.0 * float(one.mfu):.1f}",
            f"{float(one.memory) / GB:.2f}",
        )
    return table
