"""Whether a training step fits, a table of its stages, and the cheapest changes of its plan."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.units import gigabytes, percent, seconds, size
from jaxroof.views.text.assumed import assumed_sentences
from jaxroof.views.text.layout import NARROW, PlainTable, Shown
from jaxroof.views.text.margin import MARK, host_sentences, margin_of
from jaxroof.views.text.plan import heading, plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

LARGE = 1e4  # numbers from here on are bytes
KEPT = {"zero_stage", "recompute", "offload_optimizer"}  # of a plan, beside its split
GB = 1e9
SHOWN = 5e-5  # parts of a step that are less are a dash
UNTIMED = "No run on this chip was measured, so there is no step time"


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield whether it fits, the memory of every stage, and changes that would make it fit."""
    yield from title(title_of(data))
    yield from quiet(answer_sentence(data))
    yield from usual(plan_line(data), change_sentence(data), *open_sentences(data))
    yield from usual(stages_table(data))
    yield from usual(mark_sentence(data))
    if changes_of(data):
        yield from usual(changes_table(data), price_sentence(data))
    yield from usual(*assumed_sentences(data))
    yield from verbose(*assumption_sentences(data))


def mark_sentence(data: xr.Dataset) -> str:
    """Return what the mark of a stage means; empty where no stage has one."""
    margin, needs = margin_of(data, "device"), data.device.values.tolist()
    doubt = any(margin.is_doubtful(need, float(data.capacity)) for need in needs)
    return f"{MARK} within the error ({margin.words}) of what there is." if doubt else ""


def open_sentences(data: xr.Dataset) -> list[str]:
    """Return on which of the choices that were not given the answer hangs, and notes."""
    others: dict[str, list[str]] = {}
    for one in json.loads(data.attrs["hangs_on"]):
        said = f"{one['choice']}={one['value']} ({size(one['device'], 'B')})"
        others.setdefault(one["choice"].replace("_", " "), []).append(said)
    fits = "not fit" if bool(data.device.max() <= data.capacity) else "fit"
    turns = [
        f"The answer hangs on the {choice}: with {' or '.join(said)} it would {fits}."
        for choice, said in others.items()
    ]
    return [*turns, *(f"Note: {words}." for words in json.loads(data.attrs["warnings"]))]


def title_of(data: xr.Dataset) -> str:
    """Return the question: model, system, plan and batch."""
    asked = json.loads(data.attrs["inputs"])
    split = {path.removeprefix("plan.") for path in asked if path.startswith("plan.")} - KEPT
    plan = heading({name: asked[f"plan.{name}"] for name in split})
    return (
        f"{data.attrs['model']} on {int(asked['gpus']):,} x {data.attrs['system']}, {plan}, "
        f"batch {int(asked['global_batch']):,} of {int(asked['model.sequence']):,} tokens"
    )


def answer_sentence(data: xr.Dataset) -> str:
    """Return whether it fits, by how much, on which stage, and the largest term.

    Nearer to the capacity than the error of the model, it says that too.
    """
    stage, capacity = int(data.fullest_stage), float(data.capacity)
    full = data.isel(stage=stage)
    device, missing = float(full.device), float(data.missing)
    one = data.sizes["stage"] == 1
    where = "the one stage" if one else f"stage {stage}, the fullest of {data.sizes['stage']},"
    if device <= capacity:
        whole = "" if bool(data.fits) else " in HBM, but not in the memory of the host"
        answer = f"It fits{whole}: {where} needs {size(device, 'B')} of {capacity_words(data)}; "
        answer += f"{size(capacity - device, 'B')} are left."
    else:
        answer = f"It does not fit: {where} needs {size(device, 'B')}, {size(missing, 'B')} "
        answer += f"more than {capacity_words(data)}."
    term = data[str(data.largest_term.values)]
    words = term.attrs["long_name"][0].lower() + term.attrs["long_name"][1:]
    answer += f" Largest term: {words}, {size(float(data.largest), 'B')}."
    answer += f" {margin_of(data, 'device').sentence(device, capacity)}".rstrip()
    answer = " ".join([answer, *host_sentences(data)])
    if "step_time" in data:
        answer += f" A step takes {seconds(float(data.step_time))}."
    return answer


def capacity_words(data: xr.Dataset) -> str:
    """Return the capacity in words: what the device reports, or what its label says."""
    about, capacity = data.capacity.attrs, float(data.capacity)
    said = size(capacity, "B")
    if about.get("usable", 1.0) != 1.0:
        return f"the {said} that may be used"
    if "reported" not in about:
        return f"the {said} on the label of the device" if "label" in about else f"the {said} given"
    label = about.get("label", capacity)
    more = f" ({size(label, 'B')} on its label)" if label != capacity else ""
    return f"the {said} that the device reports{more}"


def groups(data: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the bytes of every stage by group of terms; they sum to ``device``."""
    states = {
        kind: data[f"{kind}_dense"].values + data[f"{kind}_expert"].values
        for kind in ("weights", "gradients", "optimizer")
    }
    return {
        **states,
        "activations": data.activations.values,
        "momentary": data.transient.values,
        "buffers": data.static.values - sum(states.values()),
        "outside": data.device.values - data.allocated.values,
    }


def stages_table(data: xr.Dataset) -> PlainTable:
    """Return one row per stage: its groups of terms, what is allocated, and the device."""
    capacity, margin = float(data.capacity), margin_of(data, "device")
    parts = groups(data)
    shown = {**parts, "allocated": data.allocated.values, "reserved": data.reserved.values}
    del shown["outside"]  # of tensors: what the device has and the sum of the others lacks
    soon = {"momentary": 1, "buffers": 1, "reserved": 3}

    def number(name: str, values: np.ndarray) -> Shown:
        head = NARROW.get(name, name)
        return Shown(head, lambda stage: gigabytes(float(values[stage])), soon.get(name, 0))

    def share(stage: int) -> str:
        return margin.share(float(data.device[stage]), capacity)

    columns = [
        Shown("stage", str),
        Shown("layers", lambda stage: f"{float(data.layers[stage]):.0f}", 2),
        *(number(*one) for one in shown.items()),
        number("device", data.device.values),
        Shown(f"% of\n{capacity / GB:.4g}", share),
    ]
    table = PlainTable("bytes of one accelerator by stage [GB]")
    return table.add_rows(columns, range(data.sizes["stage"]))


def assumption_sentences(data: xr.Dataset) -> list[str]:
    """Return what the question leaves open and was assumed, and how well the numbers are known."""
    told = "; ".join(_assumed(*one) for one in json.loads(data.attrs["assumed"]).items())
    found = [f"Assumed, because not given: {told}."] if told else []
    bounds = [f"{name} {data[name].bound}" for name in ("allocated", "reserved", "device")]
    condition = data.allocated.attrs.get("condition")
    known = ", ".join([*bounds, *[condition] * bool(condition)])
    found.append(
        "Momentary is the largest of what lives for a moment; buffers are workspaces, placeholders "
        "and gathered weights; allocated is what PyTorch counts; reserved is with fragmentation; "
        f"device is with context and communicators. Known to: {known}."
    )
    return found


def _assumed(name: str, value: Any) -> str:
    words = name.replace("_", " ")
    if name == "fragmentation":
        return f"{words} {percent(float(value))}"
    if isinstance(value, float) and value >= LARGE:
        return f"{words} {size(value, 'B')}"
    return f"{words} {value:g}" if isinstance(value, float) else f"{words} {value}"


# ---- Changes -----------------------------------------------------------------------------------


def changes_of(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return the changes that an answer of ``fit`` holds."""
    found: list[dict[str, Any]] = json.loads(data.attrs.get("changes", "[]"))
    return found


def set_words(change: dict[str, Any]) -> str:
    """Return what a change sets, as a person types it.

    >>> set_words({"set": {"dp": 2.0, "recompute": "full"}})
    'dp=2 recompute=full'
    """
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in change["set"].items()
    )


def change_sentence(data: xr.Dataset) -> str:
    """Return what to change first, or that no change was found."""
    changes = changes_of(data)
    if "changes" not in data.attrs or (bool(data.fits) and "step_time" in data and not changes):
        return ""
    if bool(data.fits):
        if "step_time" not in data:
            return f"{UNTIMED}: what could use the memory left has no price."
        best, first = changes[0], "A shorter step on as many accelerators"
        return f"{first}: {set_words(best)} needs {size(best['device'], 'B')} and {_price(best)}."
    if fitting := [one for one in changes if one["fits"]]:  # a pair may be cheaper than any one
        best = min(fitting, key=lambda one: np.inf if one["cost"] is None else one["cost"])
        first = "Leanest" if best["cost"] is None else "Cheapest"
        needs = f"{set_words(best)} needs {size(best['device'], 'B')} and {_price(best)}"
        return f"{first} change that makes it fit: {needs}."
    said = "No one or two changes save memory on as many accelerators."
    if changes:
        nearest = f"{set_words(changes[0])} with {size(changes[0]['device'], 'B')}"
        said = (
            f"No one or two changes make it fit on as many accelerators; the nearest is {nearest}."
        )
    more = data.attrs.get("fewest")
    fewest = "With more accelerators, the first number that holds any plan is"
    return said if more is None else f"{said} {fewest} {int(more):,}."


def _price(change: dict[str, Any]) -> str:
    cost = change["cost"]
    if cost is None:
        return "has no price"
    if abs(cost) < SHOWN:
        return f"the step takes as long, {seconds(change['step_time'])}"
    way = "longer" if cost > 0 else "shorter"
    return f"makes a step {percent(abs(cost), 1)} {way}, {seconds(change['step_time'])}"


def changes_table(data: xr.Dataset) -> PlainTable:
    """Return one row per change: what to set, the step time with it, the memory, what it saves."""
    changes, fits = changes_of(data), bool(data.fits)
    title = "what makes a step shorter" if fits else "the cheapest changes, single ones first"
    if not fits and not any(one["fits"] for one in changes):
        title = "the changes that come nearest"

    def share(one: dict[str, Any]) -> str:
        cost = one["cost"]
        return "?" if cost is None else "-" if abs(cost) < SHOWN else f"{100 * cost:+.1f}"

    def time(one: dict[str, Any]) -> str:
        return "?" if one["step_time"] is None else seconds(one["step_time"])

    priced = any(one["cost"] is not None for one in changes)
    columns = [
        Shown("set", set_words, 0, "left", wraps=True),
        *([Shown("step\n%", share), Shown("step\ntime", time)] if priced else []),
        Shown("saves\nGB", lambda one: f"{one['saved'] / GB:.2f}"),
        Shown("de-\nvice", lambda one: f"{one['device'] / GB:.2f}"),
        Shown("fits", lambda one: "yes" if one["fits"] else "no", side="left"),
    ]
    return PlainTable(f"{title}, on as many accelerators").add_rows(columns, changes)


def price_sentence(data: xr.Dataset) -> str:
    """Return why changes have no price, if some have none: memory alone ranks them."""
    if all(one["cost"] is not None for one in changes_of(data)):
        return ""
    if "step_time" not in data:
        return f"{UNTIMED}: memory alone ranks the changes."
    return (
        "No step time knows activations in host memory, nor layers moved between stages: such "
        "changes have no price (?), and come last."
    )
