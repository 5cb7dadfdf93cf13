"""Whether a training step fits, a table of its stages, and the cheapest changes of its plan."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.units import gigabytes, percent, seconds, size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.margin import MARK, host_sentences, margin_of
from jaxroof.views.text.plan import heading, plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

HEADS = {  # of the groups of terms
    "weights": "weights",
    "gradients": "gra-\ndients",
    "optimizer": "opti-\nmizer",
    "activations": "acti-\nvations",
    "momentary": "momen-\ntary",
    "buffers": "buf-\nfers",
}
CHOICES = {  # in words
    "schedule": "schedule",
    "recompute": "recomputation",
    "attention_kernel": "attention kernel",
    "cross_entropy": "loss kernel",
    "expert_weighting": "expert weighting",
    "zero_stage": "ZeRO stage",
    "routing_imbalance": "routing imbalance",
    "ends": "group of the embedding",
    "compiled": "compiled blocks",
}
KERNELS = ("attention_kernel", "cross_entropy", "expert_weighting")
LARGE = 1e4  # numbers from here on are bytes
KEPT = {"zero_stage", "recompute", "offload_optimizer"}  # of a plan, beside its split
GB = 1e9
SHOWN = 5e-5  # parts of a step that are less are a dash
LEGEND = (
    "Activations stay until the backward pass; momentary is the largest of what lives for a moment "
    "(logits, the backward pass of a layer, exchanged tokens); buffers are workspaces, "
    "placeholders and gathered weights; reserved and device have "
    "fragmentation, context and communicators too."
)
COST = "Step: the step time with the change, as a search has it, and what that is more than now."


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield whether it fits, the memory of every stage, and changes that would make it fit."""
    yield from title(title_of(data))
    yield from quiet(answer_sentence(data))
    yield from usual(plan_line(data))
    yield from usual(change_sentence(data), *open_sentences(data))
    yield from usual(stages_table(data))
    yield from usual(mark_sentence(data))
    if changes_of(data):
        yield from usual(changes_table(data), price_sentence(data))
        yield from verbose(COST)
    yield from verbose(LEGEND)
    yield from verbose(*assumption_sentences(data))


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
    capacity = float(data.capacity)
    rows = [data.isel(stage=stage).assign(stage=stage) for stage in range(data.sizes["stage"])]
    parts = groups(data)

    def group(name: str) -> Shown:
        soon = int(name in ("momentary", "buffers"))
        return Shown(HEADS[name], lambda row: gigabytes(float(parts[name][int(row.stage)])), soon)

    def number(head: str, name: str, soon: int = 0) -> Shown:
        return Shown(head, lambda row: gigabytes(float(row[name])), soon)

    columns = [
        Shown("stage", lambda row: f"{int(row.stage)}"),
        Shown("layers", lambda row: f"{float(row.layers):.0f}", 2),
        *map(group, HEADS),
        number("allo-\ncated", "allocated"),
        number("reserved", "reserved", 3),
        number("de-\nvice", "device"),
        Shown(
            f"% of\n{capacity / GB:.4g}",
            lambda row: margin_of(data, "device").share(float(row.device), capacity),
        ),
    ]
    return PlainTable("bytes of one accelerator by stage [GB]").add_rows(columns, rows)


def mark_sentence(data: xr.Dataset) -> str:
    """Return what the mark of a stage means; empty where no stage has one."""
    margin, capacity = margin_of(data, "device"), float(data.capacity)
    marked = any(margin.is_doubtful(need, capacity) for need in data.device.values.tolist())
    return f"{MARK} within the error ({margin.words}) of what there is." if marked else ""


def open_sentences(data: xr.Dataset) -> list[str]:
    """Return on which of the choices that were not given the answer hangs, and notes."""
    notes = [f"Note: {words}." for words in json.loads(data.attrs["warnings"])]
    return [*_turns(data), *notes]


def assumption_sentences(data: xr.Dataset) -> list[str]:
    """Return what the question leaves open and was assumed, and how well the numbers are known."""
    assumed = json.loads(data.attrs["assumed"])
    turning = {one["choice"] for one in json.loads(data.attrs["hangs_on"])}
    told = "; ".join(_assumed(name, value) for name, value in assumed.items())
    found = [f"Assumed, because not given: {told}."] if told else []
    kernels = [CHOICES[name] for name in KERNELS if name in assumed and name not in turning]
    found += [f"No other {' or '.join(kernels)} would change the answer."] if kernels else []
    bounds = [f"{name} {data[name].bound}" for name in ("allocated", "reserved", "device")]
    condition = data.allocated.attrs.get("condition")
    found.append(
        "Allocated is what PyTorch counts; reserved is with fragmentation; device is with context "
        f"and communicators. Known to: {', '.join(bounds)}{f', {condition}' if condition else ''}."
    )
    return found


def _turns(data: xr.Dataset) -> list[str]:
    others: dict[str, list[str]] = {}
    for one in json.loads(data.attrs["hangs_on"]):
        said = f"{one['choice']}={one['value']} ({size(one['device'], 'B')})"
        others.setdefault(one["choice"], []).append(said)
    fits = "not fit" if bool(data.device.max() <= data.capacity) else "fit"
    return [
        f"The answer hangs on the {CHOICES[choice]}: with {' or '.join(said)} it would {fits}."
        for choice, said in others.items()
    ]


def _assumed(name: str, value: Any) -> str:
    words = CHOICES.get(name, name.replace("_", " "))
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
    if "changes" not in data.attrs:
        return ""
    changes = changes_of(data)
    if bool(data.fits):
        if "step_time" not in data:
            return f"{_no_step_time(data)}: what could use the memory left has no price."
        if not changes:
            return ""
        best = changes[0]
        return (
            f"A shorter step on as many accelerators: {set_words(best)} needs "
            f"{size(best['device'], 'B')} and {_price(best)}."
        )
    fitting = [one for one in changes if one["fits"]]
    if fitting:
        best = min(fitting, key=_cost)  # a pair may be cheaper than every single change
        first = "Cheapest" if best["cost"] is not None else "Leanest"
        return (
            f"{first} change that makes it fit: {set_words(best)} needs "
            f"{size(best['device'], 'B')} and {_price(best)}."
        )
    if changes:
        best = changes[0]
        return (
            "No one or two changes make it fit on as many accelerators; the nearest is "
            f"{set_words(best)} with {size(best['device'], 'B')}.{_fewest(data)}"
        )
    return f"No one or two changes save memory on as many accelerators.{_fewest(data)}"


def _cost(change: dict[str, Any]) -> float:
    return np.inf if change["cost"] is None else float(change["cost"])


def _fewest(data: xr.Dataset) -> str:
    if "fewest" not in data.attrs:
        return ""
    more = int(data.attrs["fewest"])
    return f" With more accelerators, the first number that holds any plan is {more:,}."


def _no_step_time(data: xr.Dataset) -> str:
    return f"No run on the chip of {data.attrs['system']} was measured, so there is no step time"


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
        return f"{_no_step_time(data)}: memory alone ranks the changes."
    return (
        "No step time knows activations in host memory, nor layers moved between stages: such "
        "changes have no price (?), and come last."
    )
