"""Whether a training step fits, in sentences, a table of its stages and a bar for each."""

import json
import textwrap
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.errors import listing
from jaxroof.units import JOIN, percent, seconds, size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.margin import MARK, host_sentences, margin_of
from jaxroof.views.text.plan import heading
from jaxroof.views.text.tables import plain_table

HEADS = {  # of the groups of terms, and their mark in a bar
    "weights": ("weights", "█"),
    "gradients": ("gra-\ndients", "▓"),
    "optimizer": ("opti-\nmizer", "▒"),
    "activations": ("acti-\nvations", "░"),
    "momentary": ("momen-\ntary", "▞"),
    "buffers": ("buf-\nfers", "="),
    "outside": ("", "·"),
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
WIDTHS = ("weight_bytes", "gradient_bytes", "master_bytes", "moment_bytes")
KEPT = {"zero_stage", "recompute", "offload_optimizer"}  # of a plan, beside its split
GB = 1e9


def title(data: xr.Dataset) -> str:
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
    table = plain_table("bytes of one accelerator by stage [GB]")
    table.add_numbers("stage")
    table.add_numbers("layers", optional=2)
    shown = {name: values for name, values in groups(data).items() if HEADS[name][0]}
    for name in shown:
        table.add_numbers(HEADS[name][0], optional=int(name in ("momentary", "buffers")))
    table.add_numbers("allo-\ncated")
    table.add_numbers("reserved", optional=3)
    table.add_numbers("de-\nvice", f"% of\n{capacity / GB:.4g}")
    for stage in range(data.sizes["stage"]):
        row = data.isel(stage=stage)
        table.add_row(
            str(stage),
            f"{float(row.layers):.0f}",
            *(_number(values[stage]) for values in shown.values()),
            *(_number(float(row[name])) for name in ("allocated", "reserved", "device")),
            margin_of(data, "device").share(float(row.device), capacity),
        )
    return table


def mark_sentence(data: xr.Dataset) -> str:
    """Return what the mark of a stage means; empty where no stage has one."""
    margin, capacity = margin_of(data, "device"), float(data.capacity)
    marked = any(margin.is_doubtful(need, capacity) for need in data.device.values.tolist())
    return f"{MARK} within the error ({margin.words}) of what there is." if marked else ""


def _number(value: float) -> str:
    return "-" if value == 0 else f"{value / GB:.2f}" if value < 99.95 * GB else f"{value / GB:.0f}"


def bars(data: xr.Dataset, width: int) -> Iterator[str]:
    """Yield a bar of stacked groups for every stage, with the capacity marked, and the legend."""
    parts, capacity = groups(data), float(data.capacity)
    label = len(str(data.sizes["stage"] - 1))
    most = max(capacity, float(data.device.max()))
    room = width - label - 3
    limit = round(room * capacity / most)
    for stage in range(data.sizes["stage"]):
        ends = np.cumsum([values[stage] for values in parts.values()]) / most * room
        bar, drawn = "", 0
        for (_, mark), end in zip(HEADS.values(), ends, strict=True):
            bar += mark * (round(end) - drawn)
            drawn = max(drawn, round(end))
        bar = bar.ljust(room + 1)
        yield f"{stage:>{label}} {bar[:limit]}|{bar[limit:]}".rstrip()
    marks = [f"{mark} {name}" for name, (_, mark) in HEADS.items() if np.any(parts[name] > 0.0)]
    whole = [*marks, f"| {size(capacity, 'B')}"]
    legend = "  ".join(each.replace(" ", JOIN) for each in whole)
    yield from (line.replace(JOIN, " ") for line in textwrap.wrap(legend, width))


def legend_sentence() -> str:
    """Return what the parts of a bar are."""
    return (
        "A bar is one accelerator of a stage. Activations stay until the backward pass; momentary "
        "is the largest of what lives for a moment (logits, the backward pass of a layer, "
        "exchanged tokens); buffers are workspaces, placeholders and gathered weights; outside "
        "of the allocated tensors are fragmentation, context and communicators."
    )


def open_sentences(data: xr.Dataset) -> list[str]:
    """Return on which of the choices that were not given the answer hangs, and notes."""
    notes = [f"Note: {words}." for words in json.loads(data.attrs["warnings"])]
    return [*_turns(data), *notes]


def assumption_sentences(data: xr.Dataset) -> list[str]:
    """Return what the question leaves open and was assumed, and how well the numbers are known."""
    assumed = json.loads(data.attrs["assumed"])
    told = [f"{CHOICES[name]} {_plain(assumed[name])}" for name in CHOICES if name in assumed]
    told += _amounts(assumed)
    found = [f"Assumed, because not given: {'; '.join(told)}."] if told else []
    found += _kernels(data, assumed)
    bounds = [f"{name} {data[name].bound}" for name in ("allocated", "reserved", "device")]
    condition = data.allocated.attrs.get("condition")
    found.append(
        "Allocated is what PyTorch counts; reserved is with fragmentation; device is with context "
        f"and communicators. Known to: {', '.join(bounds)}{f', {condition}' if condition else ''}."
    )
    return found


def _turns(data: xr.Dataset) -> list[str]:
    """Return on which of the assumed choices the answer hangs."""
    others: dict[str, list[str]] = {}
    for one in json.loads(data.attrs["hangs_on"]):
        said = f"{one['choice']}={one['value']} ({size(one['device'], 'B')})"
        others.setdefault(one["choice"], []).append(said)
    fits = "not fit" if bool(data.device.max() <= data.capacity) else "fit"
    return [
        f"The answer hangs on the {CHOICES[choice]}: with {' or '.join(said)} it would {fits}."
        for choice, said in others.items()
    ]


def _kernels(data: xr.Dataset, assumed: dict[str, object]) -> list[str]:
    """Return the assumed kernels on which the answer does not hang."""
    others = {one["choice"] for one in json.loads(data.attrs["hangs_on"])}
    kernels = [CHOICES[name] for name in KERNELS if name in assumed and name not in others]
    return [f"No other {' or '.join(kernels)} would change the answer."] if kernels else []


def _amounts(assumed: dict[str, object]) -> list[str]:
    """Return the widths and the memory outside of tensors among what was assumed."""
    names = {"weight": "weights", "gradient": "gradients", "master": "master weights"}
    names["moment"] = "moments"
    widths = [
        f"{assumed[name]:g} of {names[name.removesuffix('_bytes')]}"
        for name in WIDTHS
        if name in assumed
    ]
    told = [f"bytes a parameter {listing(widths)}"] if widths else []
    if "fragmentation" in assumed:
        told.append(f"fragmentation {percent(float(str(assumed['fragmentation'])))}")
    told += [
        f"{words} {size(float(str(assumed[name])), 'B')}"
        for name, words in (("cuda_context", "context"), ("communicator", "communicators"))
        if name in assumed
    ]
    return told


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
