"""What an answer takes for granted of experts, and of layers that were counted and not measured."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import xarray as xr

from jaxroof.catalog.chip import SharedConstants
from jaxroof.errors import listing
from jaxroof.estimators.training.interval import KINDS
from jaxroof.estimators.training.named_settings import numbers_named
from jaxroof.units import percent
from jaxroof.views.text.interval import LOW

MAMBA = {"mamba_layers": "Mamba-2"}  # whose time was measured
DISPATCHERS = {1.0: "DeepEP or HybridEP", 0.0: "plain all-to-all"}  # by software.flex
FLAGS = {  # of the software, what each does to experts
    "exchange_overlap": "beside other work",
    "graph": "a whole step in one CUDA graph",
    "graph_part": "parts of a layer in CUDA graphs",
    "token_drop": "tokens above a capacity dropped",
}
CONSTANTS, OLD = "constants", 2025
LEAST = 0.01  # smallest share of a layer that is told
DOMAIN, IMBALANCE = "software.exchange_domain", "activations.routing_imbalance"


def assumed_sentences(data: xr.Dataset, best: xr.Dataset | None = None) -> list[str]:
    """Return what is assumed of the experts of an answer's models, and which layers were counted.

    None of dense models whose layers were all measured. What is trained comes first, if not all.
    """
    each, timed = models_of(data), LOW in (data if best is None else best)
    routed = any(model.get("experts", 0.0) > 0.0 for model in each.values())
    counted = [(name, counted_words(model, timed)) for name, model in each.items()]
    named = [f"{name}: {said}" if len(each) > 1 else said for name, said in counted if said]
    adapters = adapters_sentence(_numbers(data), json.loads(data.attrs.get("recipe", "{}")))
    if adapters and routed:
        adapters.append("Adapters beside experts are counted, nobody measured them.")
    return [*adapters, *([experts_sentence(_numbers(data))] if routed else []), *named]


def adapters_sentence(numbers: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[str]:
    """Return what is trained where the weights are frozen; nothing where they are not.

    >>> adapters_sentence({"lora_rank": 16.0}, {"adapters": "qkv"})[0][:69]
    'LoRA: adapters of rank 16 beside qkv of every layer are trained alone'
    """
    rank = numbers.get("lora_rank", 0.0)
    if not rank:
        return []
    beside = "qkv" if recipe.get("adapters") == "qkv" else "every matrix"
    trained = f"LoRA: adapters of rank {rank:g} beside {beside} of every layer are trained alone"
    return [f"{trained}; MFU counts 4 FLOP of a frozen parameter and 6 of theirs."]


def _numbers(data: xr.Dataset) -> dict[str, float]:
    found = json.loads(data.attrs.get("inputs", "{}")), json.loads(data.attrs.get("timed", "{}"))
    return {**found[0], **found[1]}


def models_of(data: xr.Dataset) -> dict[str, dict[str, float]]:
    """Return the numbers of layers of each model of an answer, by its name; "" is the only one."""
    own = {path.removeprefix("model."): n for path, n in _numbers(data).items()}
    return json.loads(data.attrs.get("layers", "{}")) or {"": own}  # of several, or of one


def experts_sentence(numbers: Mapping[str, Any]) -> str:
    """Return who exchanges tokens of experts and how, and how even their load is.

    >>> experts_sentence({"software.flex": 1.0, "software.graph_part": 1.0})
    'Experts: exchange by DeepEP or HybridEP, parts of a layer in CUDA graphs, load balanced.'
    >>> experts_sentence({"activations.routing_imbalance": 1.3})
    'Experts: load 1.3 times the mean on the fullest rank, which nobody measured.'
    """
    said = [DISPATCHERS[n] for n in DISPATCHERS if numbers.get("software.flex") == n]
    said = [f"exchange by {words}" for words in said]
    said += [words for name, words in FLAGS.items() if numbers.get(f"software.{name}")]
    if reach := numbers.get(DOMAIN):
        said.append(f"fast links to {reach:.0f} accelerators")
    said += constants_words(numbers)
    load = numbers.get(IMBALANCE, 1.0)
    uneven = f"{load:g} times the mean on the fullest rank, which nobody measured"
    said.append(f"load {'balanced' if load == 1 else uneven}")
    return f"Experts: {', '.join(said)}."


def constants_words(numbers: Mapping[str, Any]) -> list[str]:
    """Return which set the constants of experts are, where they are not today's."""
    today = {f"shared.{field.name}": field.default for field in fields(SharedConstants)}
    if all(numbers.get(path, number) == number for path, number in today.items()):
        return []
    old = {path: n for path, n in numbers_named(CONSTANTS, OLD).items() if path in today}
    same = all(numbers.get(path) == number for path, number in {**today, **old}.items())
    return [f"constants of {OLD}" if same else "constants of your own"]


def is_recurrent(data: xr.Dataset) -> bool:
    """Return whether an answer's models have recurrent layers."""
    names = [name for name in (*KINDS, *MAMBA) if name != "index_layers"]
    return any(model.get(name, 0.0) for model in models_of(data).values() for name in names)


def is_measured(data: xr.Dataset) -> bool:
    """Return whether the time of every layer of an answer's models was measured."""
    return not any(model.get(name, 0.0) for model in models_of(data).values() for name in KINDS)


def scans_sentence(plan: xr.Dataset) -> str:
    """Return how much of its layers' time a plan spends in scans; empty of little or unknown."""
    if "layer_recurrent" not in plan:  # of an older file
        return ""
    share = float(plan.layer_recurrent / (plan.layer_forward + plan.layer_backward))
    free = "; context ranks are taken to exchange nothing for them" * (int(plan.context) > 1)
    return f"Scans of recurrent layers take {percent(share)} of a layer{free}." * (share >= LEAST)


def counted_words(model: Mapping[str, float], timed: bool) -> str:
    """Return which layers of a model were counted and never measured; empty where none.

    >>> counted_words({"delta_layers": 36.0}, True)
    'Layers of gated DeltaNet are counted, nobody measured them: the interval is the widest.'
    >>> counted_words({"mamba_layers": 40.0}, True)
    'Memory of Mamba-2 layers is counted, nobody measured it.'
    """
    names = [words for path, words in KINDS.items() if model.get(path, 0.0) > 0.0]
    wide = ": the interval is the widest" if timed else ""
    if names:
        return f"Layers of {listing(names)} are counted, nobody measured them{wide}."
    lean = [words for path, words in MAMBA.items() if model.get(path, 0.0) > 0.0]
    return f"Memory of {listing(lean)} layers is counted, nobody measured it." if lean else ""
