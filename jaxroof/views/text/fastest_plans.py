"""Plans by their step time: a table with intervals, and sentences on what takes the time."""

import json
from collections.abc import Mapping, Sequence

import xarray as xr

from jaxroof.analyses.fastest_plans import OF_LAYER
from jaxroof.analyses.result_metadata import about, head_of, parts_of, words_of
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.compare import why
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.least_memory import fields_of_sizes, plan_words, shown_fields
from jaxroof.views.text.plan import used_fields
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
    table.add_numbers("step\n[s]")
    table.add_numbers("80 % of\nruns", optional=2)
    table.add_numbers("tokens/s\na GPU", optional=5)
    table.add_numbers("MFU\n%", optional=3)
    table.add_numbers("HBM\n[GB]", optional=4)
    table.add_numbers(f"% of\n{capacity / GB:.4g}", optional=1)
    for place in range(data.sizes["plan"]):
        row = data.isel(plan=place)
        table.add_row(
            str(place + 1),
            *(str(int(row[field])) for field in fields),
            _seconds(float(row.step_time)),
            _range(row),
            f"{float(row.tokens_per_second):,.0f}",
            f"{100.0 * float(row.mfu):.1f}",
            f"{float(row.memory) / GB:.1f}",
            f"{100.0 * float(row.memory) / capacity:.0f}",
        )
    return table


def _seconds(value: float) -> str:
    return f"{value:.4g}"


def _range(row: xr.Dataset) -> str:
    """Return the interval of a step time, as short as a column wants it."""
    ends = (float(row[name]) for name in ("step_time_low", "step_time_high"))
    return "-".join(f"{end:#.3g}".removesuffix(".") if end < 1e3 else f"{end:.0f}" for end in ends)


def answer_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan with its interval, and how many others are as fast."""
    best, alike = data.isel(plan=0), int(data.plans_alike)
    low, time, high = (
        _seconds(float(best[name])) for name in ("step_time_low", "step_time", "step_time_high")
    )
    said = [
        f"Fastest: {plan_words(best)}, {time} s a step; {low} to {high} s in 80 % of runs "
        f"({data.attrs['regime']})."
    ]
    outside = json.loads(data.attrs.get("outside", "[]"))
    outside += ["optimizer states in host memory"] * bool(best.offload_optimizer)
    if outside:
        said.append(f"Nothing like it was measured: {listing(outside)}.")
    if "measured" in data:
        plan, time_of_it = json.loads(str(data.measured_plan.values)), float(data.measured)
        words = _said(data, plan)
        ends = " to ".join(_seconds(float(data[f"measured_{end}"])) for end in ("low", "high"))
        said.append(
            f"The fastest of a measured kind, {words}, takes {_seconds(time_of_it)} s ({ends}), "
            f"{_slower(time_of_it, time=float(best.step_time))}."
        )
    if alike > 1:
        said.append(f"The model cannot tell the first {alike:,} plans apart.")
    return " ".join(said)


def _said(data: xr.Dataset, plan: Mapping[str, int]) -> str:
    """Return the fields of a plan beside the table: those of the table, and what is not usual."""
    shown = shown_fields(data)
    named = [n for n in used_fields(data) if n in shown or plan[n] != _usual(data, n)]
    return " ".join(f"{head_of(data, n)} {plan[n]}" for n in named if n != "sequence_parallel")


def _usual(data: xr.Dataset, name: str) -> float:
    return float(about(data, name).get("default", "nan"))


def _slower(seconds: float, time: float) -> str:
    more = 100.0 * (seconds / time - 1.0)
    return f"{max(more, 0.01):.2g} % slower" if more < 10.0 else f"{more:.0f} % slower"


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
    return f"Where the step's time goes: {_shares(shares)}. Within a layer: {_shares(inner)}."


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
        f"Software: Megatron-Core of {data.attrs['software_year']:g}. MFU: model FLOP with causal "
        "attention (half of it), against the 16-bit peak."
    )


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan; empty if there is none."""
    if "own" not in data:
        return ""
    plan, time = json.loads(str(data.own_plan.values)), float(data.own)
    said = _said(data, plan)
    over = float(data.own_device) - float(data.capacity)
    best = float(data.step_time.values[0])
    slower = time / best - 1.0
    if over > 0.0:
        return (
            f"Yours ({said}) would take {_seconds(time)} s, but does not fit: it needs "
            f"{size(float(data.own_device), 'B')}, {size(over, 'B')} more than there is."
        )
    place = f"place {int(data.own_place):,} of {int(data.plans_feasible):,}"
    if slower <= 0.0:
        return f"Yours ({said}) takes {_seconds(time)} s: {place}."
    after = xr.Dataset({**json.loads(str(data.own_parts.values)), "step_time": time})
    return (
        f"Yours ({said}, the best of its kind) takes {_seconds(time)} s, {_slower(time, best)}: "
        f"{place}. The best spends {why(data.isel(plan=0), after)}."
    )


def sizes_table(rows: Sequence[xr.Dataset]) -> PlainTable:
    """Return one row a number of accelerators: the fastest plan of each."""
    best = [row.isel(plan=0) for row in rows]
    fields = fields_of_sizes(rows)
    table = plain_table("the fastest plan that fits, by number of accelerators")
    table.add_numbers("gpus", *(head_of(best[0], field) for field in fields))
    table.add_numbers("step\n[s]")
    table.add_numbers("80 % of\nruns", optional=2)
    table.add_numbers("tokens/s\na GPU", optional=4)
    table.add_numbers("MFU\n%", optional=3)
    table.add_numbers("HBM\n[GB]", optional=1)
    for row, one in zip(rows, best, strict=True):
        table.add_row(
            f"{int(row.gpus):,}",
            *(str(int(one[field])) for field in fields),
            _seconds(float(one.step_time)),
            _range(one),
            f"{float(one.tokens_per_second):,.0f}",
            f"{100.0 * float(one.mfu):.1f}",
            f"{float(one.memory) / GB:.1f}",
        )
    return table
