"""Plans by their step time: a table with intervals, and sentences on what takes the time."""

import json
from collections.abc import Iterator, Sequence

import xarray as xr

from jaxroof.analyses.result_metadata import about, said_of
from jaxroof.analyses.training_plans import LONGER, OF_LAYER, WAYS
from jaxroof.errors import listing
from jaxroof.units import percent, seconds, size
from jaxroof.views.text.assumed import assumed_sentences, is_measured, scans_sentence
from jaxroof.views.text.compare import MFU
from jaxroof.views.text.interval import accelerator, run_sentence, short_interval
from jaxroof.views.text.launch import launch_said
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.least_memory import leanest
from jaxroof.views.text.margin import host_sentences, margin_of
from jaxroof.views.text.plan import (
    field_columns,
    fields_words,
    glossary,
    plan_sentence,
    shown_fields,
    stages_sentence,
    used_fields,
    usual_words,
    whole_plan,
)
from jaxroof.views.text.ranked import (
    behind,
    by_size,
    counts_sentence,
    numbered,
    on_each,
    own_sentence,
    parts_sentence,
    shares,
    table_of_sizes,
    title_of,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

GB = 1e9
VERDICT, OFFLOAD = "memory_verdict", "offload_optimizer"


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the fastest plans on one number of accelerators, or the fastest on each of several."""
    if data["gpus"].ndim:
        yield from _sizes(by_size(data))
        return
    yield from title(title_of(data))
    yield from usual(answer_sentence(data), plan_sentence(data.isel(plan=0)))
    yield from quiet(plans_table(data))
    yield from usual(glossary(data, shown_fields(data), MFU), parts_sentence(data.isel(plan=0)))
    software = str(data.attrs.get("software", ""))
    yield from usual(run_sentence(data), *([] if software else assumed_sentences(data)))
    if software:
        yield from usual(f"Software: {software}.")
        yield from verbose(counts_sentence(data))
    else:
        software = f"Software: Megatron-Core of {data.attrs['software_year']:g}."
        yield from verbose(layer_sentence(data), f"{software} {counts_sentence(data)}")
    yield from quiet(own_sentence(data))
    yield from usual(stages_sentence(data.isel(plan=0)))
    if "near" in data.attrs:  # another batch, and how many times as many tokens a second it trains
        batch, times = json.loads(data.attrs["near"])
        more = f"one of {batch:,} trains {times:.3g} times as many tokens a second"
        yield from usual(f"This batch divides badly: {more}.")
    yield from launch_said(data)


def _sizes(found: Sequence[xr.Dataset]) -> Iterator[Said]:
    """Yield the fastest plan on each number of accelerators."""
    capacity = float(found[0].capacity)
    yield from table_of_sizes("the fastest plan that fits", measures(capacity, found[0]), found)
    yield from usual(*on_each(found, lambda one: whole_plan(one.isel(plan=0))))
    yield from usual(*assumed_sentences(found[0]))


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, step time with its interval, rates and memory."""
    number, rows = numbered(data)
    fields = field_columns(data, shown_fields(data))
    return PlainTable().add_rows([number, *fields, *measures(float(data.capacity), data)], rows)


def measures(capacity: float, data: xr.Dataset) -> list[Shown]:
    """Return the columns of what a plan gives and takes; those that matter least leave first."""
    verdict = Shown("memory", lambda row: said_of(row, VERDICT).replace("_", " "), 2)
    columns = [
        Shown("step\n[s]", lambda row: f"{float(row.step_time):.4g}"),
        Shown("80 % of\nruns", short_interval, 2),
        Shown(
            f"tokens/s\na {accelerator(data)}",
            lambda row: f"{float(row.tokens_per_second):,.0f}",
            5,
        ),
        Shown("MFU\n%", lambda row: f"{100.0 * float(row.mfu):.1f}", 3),
        Shown("HBM\n[GB]", lambda row: f"{float(row.memory) / GB:.1f}", 4),
        Shown(
            f"% of\n{capacity / GB:.4g}",
            lambda row: margin_of(row).share(float(row.memory), float(row.capacity)),
            1,
        ),
    ]
    return [*columns, *[verdict] * (VERDICT in data)]


def answer_sentence(data: xr.Dataset) -> str:
    """Return the fastest plan with its interval, and how many others are as fast."""
    best, alike, fits = data.isel(plan=0), int(data.plans_alike), int(data.plans_feasible)
    time = float(best.step_time)
    may = " or may fit" * ("software" in data.attrs)  # under MaxText memory has two bounds
    of = f" of the {fits:,} plans that fit{may}" if fits > 1 else f", the only plan that fits{may}"
    said = [f"Fastest{of}: {usual_words(best)}, {time:.4g} s a step{_runs(data, best)}."]
    if "nearest" in data.attrs:
        said.append(str(data.attrs["nearest"]))
    if unmeasured := _unmeasured(data, best):
        said.append(f"Nobody measured {listing(unmeasured)}.")
    if "measured" in data:
        measured = float(data.measured)
        ends = "measured_low", "measured_high"
        between = " ({:.4g} to {:.4g} s)".format(*map(data.get, ends)) if ends[0] in data else ""
        said.append(
            f"The fastest of a measured kind, {named_fields(data, 'measured')}, takes "
            f"{measured:.4g} s{between}, {behind(measured, time, data, 'step_time')}."
        )
    need, capacity = float(best.memory), float(data.capacity)
    if doubt := margin_of(data).sentence(need, capacity):
        said.append(f"It needs {size(need, 'B')} of {size(capacity, 'B')}. {doubt}")
    said += [*host_sentences(data), *_verdict(best)]
    if alike > 1:
        said.append(f"The first {alike:,} plans are too close for the model to tell apart.")
    return " ".join(said)


def _runs(data: xr.Dataset, plan: xr.Dataset) -> str:
    low, high = (f"{float(plan[name]):.4g}" for name in ("step_time_low", "step_time_high"))
    if _unmeasured(data, plan) or not is_measured(data):
        return f" ({low} to {high} s, the widest interval)"
    return f" ({low} to {high} s in 80 % of measured runs: {data.attrs['regime']})"


def _unmeasured(data: xr.Dataset, plan: xr.Dataset) -> list[str]:
    outside: list[str] = json.loads(data.attrs.get("outside", "[]"))
    return outside + ["optimizer states in host memory"] * bool(plan.get(OFFLOAD, 0))


def _verdict(plan: xr.Dataset) -> list[str]:
    """Return whether a plan on a torus fits, in three words, and why; nothing of GPUs."""
    if VERDICT not in plan:
        return []
    word = said_of(plan, VERDICT).replace("_", " ")
    names = ("memory", "memory_high", "capacity")
    low, high, there = (size(float(plan[name]), "B") for name in names)
    return [f"Memory: it {word}. A run takes {low} to {high} of the {there} of a device."]


def named_fields(data: xr.Dataset, of: str) -> str:
    """Return a plan beside the table: the fields of the table, and those that are not usual."""
    plan, shown = json.loads(str(data[f"{of}_plan"].values)), shown_fields(data)
    hosts = {name: about(data, name).get("part_of", name) for name in used_fields(data)}
    usual_of = {host: float(about(data, host).get("default", "nan")) for host in hosts.values()}
    named = [n for n, host in hosts.items() if n in shown or plan[host] != usual_of[host]]
    return fields_words(data, plan, [n for n in named if n != "sequence_parallel"])


def where_sentence(plan: xr.Dataset) -> str:
    """Return where the time of a plan's step goes."""
    return " ".join(filter(None, (parts_sentence(plan), scans_sentence(plan))))


def layer_sentence(data: xr.Dataset) -> str:
    """Return where the time of a layer of the fastest plan goes."""
    best = data.isel(plan=0)
    each = {words: float(best[f"layer_{name}"]) for name, (_, words) in OF_LAYER.items()}
    layer = sum(each.pop(way) for way in WAYS)
    return f"Within a layer: {shares(each, layer)}."


# ---- Whether any plan fits ----------------------------------------------------------------------


def answer_of_fit(lean: xr.Dataset | None, fast: xr.Dataset | None) -> Iterator[Said]:
    """Yield yes or no, the fastest plan that fits, the leanest ones, and ways out.

    ``lean`` are the plans that need least, where they were asked for; ``fast`` the fastest, where
    one fits and its time is known.
    """
    data = lean if lean is not None else fast
    assert data is not None
    fits = int(data.plans_feasible)
    yield from title(title_of(data))
    if fits and json.loads(data.attrs.get("options", "{}")).get("gpus", 0) is not None:
        counts = f"{fits:,} of {int(data.plans_legal):,} legal plans fit"
        yield from usual(f"Yes: {counts} on {int(data.gpus):,} accelerators.")
    if lean is not None:
        yield from leanest(lean, table=fast is None)
    if fast is not None:
        said = f"{answer_sentence(fast)} {lean_sentence(fast)}"
        yield from usual(said, plan_sentence(fast.isel(plan=0)))
        yield from quiet(plans_table(fast))
        yield from usual(glossary(fast, shown_fields(fast), MFU))
    elif fits:
        why = f"No run on the chip of {data.attrs['system']} was measured"
        yield from usual(f"{why}, so there is no step time: `fit` ranks its plans by memory.")
    yield from usual(*assumed_sentences(fast if fast is not None else data))
    yield from verbose(counts_sentence(data))


def lean_sentence(fast: xr.Dataset) -> str:
    """Return the leanest of the plans that take little longer than the fastest."""
    if "lean" not in fast:  # of an older file
        return ""
    time, need = float(fast.lean), float(fast.lean_memory)
    plan = json.loads(str(fast.lean_plan.values))
    if all(int(fast[name][0]) == value for name, value in plan.items()):
        return f"No plan that takes at most {percent(LONGER)} longer needs less."
    own = named_fields(fast, "lean")
    more = f"{seconds(time)}, {behind(time, float(fast.step_time[0]), fast, 'step_time')}"
    said = f"Leanest of those that take at most {percent(LONGER)} longer: {own}"
    return f"{said}, needs {size(need, 'B')} and takes {more}."
