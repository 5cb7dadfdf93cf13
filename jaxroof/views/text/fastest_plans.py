"""Plans by their step time: a table with intervals, and sentences on what takes the time."""

import json
from collections.abc import Iterator, Sequence

import xarray as xr

from jaxroof.analyses.result_metadata import about, parts_of, words_of
from jaxroof.analyses.training_plans import OF_LAYER, WAYS
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.compare import MFU, slower_by
from jaxroof.views.text.interval import run_sentence, short_interval
from jaxroof.views.text.launch import launch_said
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.least_memory import counts_sentence, title_of
from jaxroof.views.text.margin import host_sentences, margin_of
from jaxroof.views.text.plan import (
    field_columns,
    fields_words,
    filled_sentence,
    glossary,
    plan_sentence,
    shown_fields,
    stages_sentence,
    used_fields,
    usual_words,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.sizes import by_size, missed_words, table_of_sizes

GB = 1e9
LEAST = 0.005  # shares below are not worth words


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the fastest plans on one number of accelerators, or the fastest on each of several."""
    if data["gpus"].ndim:
        yield from _sizes(by_size(data))
        return
    yield from title(title_of(data))
    yield from usual(answer_sentence(data), plan_sentence(data.isel(plan=0)))
    yield from quiet(plans_table(data))
    yield from usual(table_sentence(data, shown_fields(data)), parts_sentence(data))
    yield from usual(run_sentence(data))
    yield from verbose(layer_sentence(data), software_sentence(data))
    yield from quiet(own_sentence(data))
    yield from usual(stages_sentence(data.isel(plan=0)))
    if "near" in data.attrs:  # another batch, and how many times as many tokens a second it trains
        batch, times = json.loads(data.attrs["near"])
        more = f"one of {batch:,} trains {times:.3g} times as many tokens a second"
        yield from usual(f"This batch divides badly: {more}.")
    yield from launch_said(data)


def _sizes(found: Sequence[xr.Dataset]) -> Iterator[Said]:
    """Yield the fastest plan on each number of accelerators."""
    words, capacity = "the fastest plan that fits", float(found[0].capacity)
    yield from table_of_sizes(words, measures(capacity), found, own_sentence)
    for one in found:
        if "plans_feasible" in one:  # a file of several sizes has no counts
            yield from usual(size_sentence(one))


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, step time with its interval, rates and memory."""
    rows = [data.isel(plan=place).assign(place=place) for place in range(data.sizes["plan"])]
    number = Shown("#", lambda row: f"{int(row.place) + 1}")
    fields = field_columns(data, shown_fields(data))
    return PlainTable().add_rows([number, *fields, *measures(float(data.capacity))], rows)


def measures(capacity: float) -> list[Shown]:
    """Return the columns of what a plan gives and takes; those that matter least leave first."""
    return [
        Shown("step\n[s]", lambda row: _seconds(float(row.step_time))),
        Shown("80 % of\nruns", short_interval, 2),
        Shown("tokens/s\na GPU", lambda row: f"{float(row.tokens_per_second):,.0f}", 5),
        Shown("MFU\n%", lambda row: f"{100.0 * float(row.mfu):.1f}", 3),
        Shown("HBM\n[GB]", lambda row: f"{float(row.memory) / GB:.1f}", 4),
        Shown(
            f"% of\n{capacity / GB:.4g}",
            lambda row: margin_of(row).share(float(row.memory), float(row.capacity)),
            1,
        ),
    ]


def _seconds(value: float) -> str:
    return f"{value:.4g}"


def answer_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan with its interval, and how many others are as fast."""
    best, alike, fits = data.isel(plan=0), int(data.plans_alike), int(data.plans_feasible)
    time = float(best.step_time)
    of = f" of the {fits:,} plans that fit" if fits > 1 else ", the only plan that fits"
    said = [f"Fastest{of}: {usual_words(best)}, {_seconds(time)} s a step{_runs(data, best)}."]
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
    low, high = (_seconds(float(plan[name])) for name in ("step_time_low", "step_time_high"))
    if _unmeasured(data, plan):
        return f" ({low} to {high} s, the widest interval)"
    return f" ({low} to {high} s in 80 % of measured runs: {data.attrs['regime']})"


def _unmeasured(data: xr.Dataset, plan: xr.Dataset) -> list[str]:
    outside: list[str] = json.loads(data.attrs.get("outside", "[]"))
    return outside + ["optimizer states in host memory"] * bool(plan.offload_optimizer)


def _interval(data: xr.Dataset, of: str) -> str:
    if f"{of}_low" not in data:  # of an older file
        return ""
    return f" ({_seconds(float(data[f'{of}_low']))} to {_seconds(float(data[f'{of}_high']))} s)"


def named_fields(data: xr.Dataset, of: str) -> str:
    """Return a plan beside the table: the fields of the table, and those that are not usual."""
    plan, shown = json.loads(str(data[f"{of}_plan"].values)), shown_fields(data)
    hosts = {name: about(data, name).get("part_of", name) for name in used_fields(data)}
    usual_of = {host: float(about(data, host).get("default", "nan")) for host in hosts.values()}
    named = [n for n, host in hosts.items() if n in shown or plan[host] != usual_of[host]]
    return fields_words(data, plan, [n for n in named if n != "sequence_parallel"])


def slower(seconds: float, time: float) -> str:
    """Return how much longer one time is than another."""
    more = 100.0 * (seconds / time - 1.0)
    return f"{max(more, 0.01):.2g} % slower" if more < 10.0 else f"{more:.0f} % slower"


def parts_sentence(data: xr.Dataset) -> str:
    """Return where the time of the fastest plan goes."""
    best = data.isel(plan=0)
    parts = {words_of(data, name): float(best[name]) for name in parts_of(data, "step_time")}
    return f"Where the step's time goes: {_shares(parts, float(best.step_time))}."


def layer_sentence(data: xr.Dataset) -> str:
    """Return where the time of a layer of the fastest plan goes."""
    best = data.isel(plan=0)
    each = {words: float(best[f"layer_{name}"]) for name, (_, words) in OF_LAYER.items()}
    layer = sum(each.pop(way) for way in WAYS)
    return f"Within a layer: {_shares(each, layer)}."


def _shares(parts: dict[str, float], whole: float) -> str:
    large = sorted(((s / whole, w) for w, s in parts.items() if s >= LEAST * whole), reverse=True)
    return listing([f"{words} {percent(share)}" for share, words in large])


def table_sentence(data: xr.Dataset, fields: Sequence[str]) -> str:
    """Return what the short names of the table mean, and which convention its MFU follows."""
    return glossary(data, fields, MFU)


def software_sentence(data: xr.Dataset) -> str:
    """Return which software the step times are of, and what refused plans."""
    return f"Software: Megatron-Core of {data.attrs['software_year']:g}. {counts_sentence(data)}"


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan, and what makes it slower; empty if there is none."""
    if "own" not in data:
        return ""
    plan, time = json.loads(str(data.own_plan.values)), float(data.own)
    said = f"Yours: {fields_words(data, plan)}, {_seconds(time)} s a step{_interval(data, 'own')}"
    if missed := missed_words(data, float(data.capacity)):
        return (
            f"{said}, but it does not fit: {listing([*missed.values()])}. "
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


def size_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan on one number of accelerators, every field of it."""
    best = data.isel(plan=0)
    alike, fits = int(data.plans_alike), int(data.plans_feasible)
    return (
        f"On {int(data.gpus):,}: {_seconds(float(best.step_time))} s{_runs(data, best)}; "
        f"{fits:,} plans fit{f', the first {alike:,} too close to tell apart' * (alike > 1)}. "
        f"{plan_sentence(best)}"
    )
