"""Plans by their step time: a table with intervals, and sentences on what takes the time."""

import json
from collections.abc import Sequence

import xarray as xr

from jaxroof.analyses.fastest_plans import OF_LAYER, WAYS
from jaxroof.analyses.result_metadata import about, head_of, parts_of, said_of, words_of
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.compare import slower_by
from jaxroof.views.text.interval import short_interval
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.least_memory import (
    counts_sentence,
    fields_of_sizes,
    plan_words,
    shown_fields,
)
from jaxroof.views.text.margin import host_sentences, margin_of
from jaxroof.views.text.plan import (
    fields_words,
    filled_sentence,
    glossary,
    plan_sentence,
    used_fields,
)
from jaxroof.views.text.tables import plain_table

GB = 1e9


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, step time with its interval, rates and memory."""
    capacity, fields = float(data.capacity), shown_fields(data)
    table = plain_table()
    table.add_numbers("#", *(head_of(data, field) for field in fields))
    _add_measures(table, capacity)
    for place in range(data.sizes["plan"]):
        row = data.isel(plan=place)
        table.add_row(
            str(place + 1),
            *(said_of(row, field) for field in fields),
            _seconds(float(row.step_time)),
            short_interval(row),
            f"{float(row.tokens_per_second):,.0f}",
            f"{100.0 * float(row.mfu):.1f}",
            f"{float(row.memory) / GB:.1f}",
            margin_of(data).share(float(row.memory), capacity),
        )
    return table


def _seconds(value: float) -> str:
    return f"{value:.4g}"


def answer_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan with its interval, and how many others are as fast."""
    best, alike, fits = data.isel(plan=0), int(data.plans_alike), int(data.plans_feasible)
    time = float(best.step_time)
    of = f" of the {fits:,} plans that fit" if fits > 1 else ", the only plan that fits"
    said = [f"Fastest{of}: {plan_words(best)}, {_seconds(time)} s a step{_runs(data, best)}."]
    if unmeasured := _unmeasured(data, best):
        said.append(f"Nobody measured {listing(unmeasured)}.")
    if "measured" in data:
        measured = float(data.measured)
        said.append(
            f"The fastest of a measured kind, {named_fields(data, 'measured')}, takes "
            f"{_seconds(measured)} s{_interval(data, 'measured')}, {slower(measured, time)}."
        )
    need, capacity = float(best.memory), float(data.capacity)
    if doubt := margin_of(data).sentence(need, capacity):
        said.append(f"It needs {size(need, 'B')} of {size(capacity, 'B')}. {doubt}")
    said += host_sentences(data)
    if alike > 1:
        said.append(f"The first {alike:,} plans are too close for the model to tell apart.")
    return " ".join(said)


def _runs(data: xr.Dataset, plan: xr.Dataset) -> str:
    """Return the interval of a plan's step time, and the kind of runs that were measured."""
    low, high = (_seconds(float(plan[name])) for name in ("step_time_low", "step_time_high"))
    if _unmeasured(data, plan):
        return f" ({low} to {high} s, the widest interval)"
    return f" ({low} to {high} s in 80 % of measured runs: {data.attrs['regime']})"


def _unmeasured(data: xr.Dataset, plan: xr.Dataset) -> list[str]:
    """Return what of a plan was never measured."""
    outside: list[str] = json.loads(data.attrs.get("outside", "[]"))
    return outside + ["optimizer states in host memory"] * bool(plan.offload_optimizer)


def _interval(data: xr.Dataset, of: str) -> str:
    """Return the interval of a step time beside the plans of a table."""
    if f"{of}_low" not in data:  # of an older file
        return ""
    return f" ({_seconds(float(data[f'{of}_low']))} to {_seconds(float(data[f'{of}_high']))} s)"


def named_fields(data: xr.Dataset, of: str) -> str:
    """Return a plan beside the table: the fields of the table, and those that are not usual."""
    plan, shown = json.loads(str(data[f"{of}_plan"].values)), shown_fields(data)
    hosts = {name: about(data, name).get("part_of", name) for name in used_fields(data)}
    named = [n for n, host in hosts.items() if n in shown or plan[host] != _usual(data, host)]
    return fields_words(data, plan, [n for n in named if n != "sequence_parallel"])


def _usual(data: xr.Dataset, name: str) -> float:
    return float(about(data, name).get("default", "nan"))


def slower(seconds: float, time: float) -> str:
    """Return how much longer one time is than another."""
    more = 100.0 * (seconds / time - 1.0)
    return f"{max(more, 0.01):.2g} % slower" if more < 10.0 else f"{more:.0f} % slower"


def parts_sentence(data: xr.Dataset) -> str:
    """Return where the time of the fastest plan goes."""
    best = data.isel(plan=0)
    step, parts = float(best.step_time), parts_of(data, "step_time")
    shares = {words_of(data, name): float(best[name]) / step for name in parts}
    return f"Where the step's time goes: {_shares(shares)}."


def layer_sentence(data: xr.Dataset) -> str:
    """Return where the time of a layer of the fastest plan goes."""
    best = data.isel(plan=0)
    each = {words: float(best[f"layer_{name}"]) for name, (_, words) in OF_LAYER.items()}
    layer = sum(each.pop(way) for way in WAYS)
    inner = {words: seconds / layer for words, seconds in each.items()}
    return f"Within a layer: {_shares(inner)}."


def _shares(shares: dict[str, float]) -> str:
    large = sorted(((s, words) for words, s in shares.items() if s >= LEAST), reverse=True)
    return listing([f"{words} {percent(share)}" for share, words in large])


LEAST = 0.005  # shares below are not worth words


def table_sentence(data: xr.Dataset, fields: Sequence[str]) -> str:
    """Return what the short names of the table mean, and which convention its MFU follows."""
    mfu = "MFU: model FLOP with causal attention (half of it), against the 16-bit peak"
    return glossary(data, fields, mfu)


def software_sentence(data: xr.Dataset) -> str:
    """Return which software the step times are of, and what refused plans."""
    return f"Software: Megatron-Core of {data.attrs['software_year']:g}. {counts_sentence(data)}"


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan, and what makes it slower; empty if there is none."""
    if "own" not in data:
        return ""
    plan, time = json.loads(str(data.own_plan.values)), float(data.own)
    every = fields_words(data, plan)
    said = f"Yours: {every}, {_seconds(time)} s a step{_interval(data, 'own')}"
    over = float(data.own_device) - float(data.capacity)
    if over > 0.0:
        return (
            f"{said}, but it does not fit: it needs {size(float(data.own_device), 'B')}, "
            f"{size(over, 'B')} more than the {size(float(data.capacity), 'B')} there are. "
            f"`jaxroof fit --plan` with it says what would make it fit.{filled_sentence(data)}"
        )
    best, place = float(data.step_time.values[0]), int(data.own_place)
    if time <= best:
        best_of = f"it is the best of the {int(data.plans_feasible):,} plans that fit"
        return f"{said}: {best_of}.{filled_sentence(data)}"
    said += f": place {place:,} of {int(data.plans_feasible):,}, {slower(time, best)}"
    if place <= int(data.plans_alike):
        said += ", too close to the best for the model to tell apart"
    after = xr.Dataset({**json.loads(str(data.own_parts.values)), "step_time": time})
    return f"{said}. It spends {slower_by(data.isel(plan=0), after)}.{filled_sentence(data)}"


def near_sentence(batch: int, times: float) -> str:
    """Return a near batch that trains many times as many tokens a second."""
    more = f"one of {batch:,} trains {times:.3g} times as many tokens a second"
    return f"This batch divides badly: {more}."


def _add_measures(table: PlainTable, capacity: float) -> None:
    """Add the columns of what a plan gives and takes; those that matter least leave first."""
    table.add_numbers("step\n[s]")
    table.add_numbers("80 % of\nruns", optional=2)
    table.add_numbers("tokens/s\na GPU", optional=5)
    table.add_numbers("MFU\n%", optional=3)
    table.add_numbers("HBM\n[GB]", optional=4)
    table.add_numbers(f"% of\n{capacity / GB:.4g}", optional=1)


def sizes_table(rows: Sequence[xr.Dataset]) -> PlainTable:
    """Return one row a number of accelerators: the fastest plan of each."""
    best = [row.isel(plan=0) for row in rows]
    fields = fields_of_sizes(rows)
    table = plain_table("the fastest plan that fits, by number of accelerators")
    table.add_numbers("gpus", *(head_of(best[0], field) for field in fields))
    _add_measures(table, float(rows[0].capacity))
    for row, one in zip(rows, best, strict=True):
        table.add_row(
            f"{int(row.gpus):,}",
            *(said_of(one, field) for field in fields),
            _seconds(float(one.step_time)),
            short_interval(one),
            f"{float(one.tokens_per_second):,.0f}",
            f"{100.0 * float(one.mfu):.1f}",
            f"{float(one.memory) / GB:.1f}",
            margin_of(one).share(float(one.memory), float(row.capacity)),
        )
    return table


def size_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan on one number of accelerators, every field of it."""
    best = data.isel(plan=0)
    alike, fits = int(data.plans_alike), int(data.plans_feasible)
    return (
        f"On {int(data.gpus):,}: {_seconds(float(best.step_time))} s{_runs(data, best)}; "
        f"{fits:,} plans fit{f', the first {alike:,} too close to tell apart' * (alike > 1)}. "
        f"{plan_sentence(best)}"
    )
