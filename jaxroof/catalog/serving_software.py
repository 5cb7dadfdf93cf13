"""The record of software that serves, on a kind of chip: constants that can be calibrated.

Source: docs/models/serving.md, section 2.
"""

import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.system import System
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.records import Number, checked, quantity, record, units
from jaxroof.units import parse

MEASURED = {  # models with experts of which servers were measured: layers, hidden, experts
    "mixtral-8x7b": (32.0, 4096.0, 8.0),
    "gpt-oss-20b": (24.0, 2880.0, 32.0),
    "gpt-oss-120b": (36.0, 2880.0, 128.0),
    "qwen3-30b-a3b": (48.0, 2048.0, 128.0),
    "qwen3-235b-a22b": (94.0, 4096.0, 128.0),
    "llama-4-maverick-text": (48.0, 5120.0, 128.0),
    "deepseek-v3": (61.0, 7168.0, 256.0),
}
KIND, START = "serving_software", "start"
RATES = {"matrix_flops": "FLOP/s", "hbm_bandwidth": "B/s"}  # that tell chips apart


def _share(doc: str, default: float, resource: str = "", zero: bool = False) -> Number:
    return quantity("1", doc, most=1.0, zero=zero, default=default, resource=resource)


def _latency(doc: str, default: float) -> Number:
    return quantity("s", doc, zero=True, default=default, resource="latency")


@record
class ServingSoftware:
    """What an engine reaches of a chip's rates, and its fixed times; the defaults are of no data.

    An entry of the catalogue holds what was fitted to measured rows of one engine on one kind of
    chip.
    """

    matrix: Number = _share("Share of the peak of an endless product, any format.", 0.65, "compute")
    attend: Number = _share("Share of the 16-bit peak of scores and values.", 0.45, "compute")
    hbm: Number = _share("Share of the bandwidth when weights stream.", 0.80, "hbm")
    cache: Number = _share("Share of it when a paged cache is read.", 0.65, "hbm")
    tile: Number = quantity(
        "token", "Tokens that the ends of a product, and of each touched expert, are worth.",
        default=64.0,
    )  # fmt: skip
    layer: Number = _latency("Fixed time of a layer.", 30e-6)
    latent_layer: Number = _latency("The same in addition with latent attention.", 20e-6)
    expert_layer: Number = _latency("The same in addition with routed experts.", 15e-6)
    host_layer: Number = _latency("Time below which the host launches no layer.", 0.0)
    host_step: Number = _latency("Scheduler and sampler, once a step and stage.", 1.5e-3)
    request: Number = _latency("The same for each running sequence of an attention rank.", 20e-6)
    link: Number = _share("Share of the fast bandwidth of an all-reduce.", 0.70, "fast_links")
    far: Number = _share("Share of the slow bandwidth.", 0.80, "slow_links")
    exchange: Number = _share(
        "Share of the fast bandwidth of an exchange of experts.", 0.50, "fast_links"
    )
    hop: Number = _latency("A doubling of a tensor group inside a fast domain.", 8e-6)
    hop_far: Number = _latency("The same between domains.", 15e-6)
    exchange_latency: Number = _latency("One direction of an exchange.", 8e-6)
    exchange_latency_far: Number = _latency("The same in addition across domains.", 25e-6)
    imbalance: Number = quantity(
        "1", "Load of the fullest rank over the mean, with whole experts.", default=1.0, least=1.0
    )
    overlap: Number = _share("Share of the exchange hidden by two half batches.", 0.0, zero=True)
    forward: Number = _share(
        "Whether one copy a domain is sent instead of one an expert.", 0.0, zero=True
    )
    elementwise: Number = quantity(
        "1", "Reads and writes of the hidden state a layer, of 2 bytes.", zero=True, default=16.0
    )
    usable: Number = _share("Share of the memory that the engine takes.", 0.90, "capacity")
    reserve: Number = quantity(
        "B", "Workspaces and graphs in it.", zero=True, default=4e9, resource="capacity"
    )
    held_output: Number = _share("Share of an answer that a sequence holds room for.", 1.0)
    mixed: Number = _share(
        "Whether prompts ride in decode steps (1) or have their own (0).", 1.0, zero=True
    )
    skew: Number = quantity("1", "Spread of the popularity of experts; near 0: even.", default=1.0)
    first: Number = _latency("From the client to the engine and back.", 0.03)
    first_steps: Number = quantity(
        "1", "Decode steps that pass before and after the prompt's own.", zero=True, default=3.0
    )
    layerwise: Number = _share(
        "Whether a prefill pool hands the cache over layer by layer.", 1.0, zero=True
    )
    calibrated: Number = _share(
        "Whether rows of this engine on such chips took part in the fit.", 0.0, zero=True
    )
    ttft_fitted: Number = _share("Whether measured times to the first did.", 0.0, zero=True)
    rough: Number = _share("Whether its measured steps spread far wider.", 0.0, zero=True)
    experts_measured: Number = quantity(
        "1", "Models with experts that did: a bit each, in the order of MEASURED.",
        whole=True, zero=True, default=0.0,
    )  # fmt: skip
    data_measured: Number = _share(
        "Whether servers with data-parallel attention did.", 0.0, zero=True
    )
    own_dense: Number = quantity(
        "1", "Half width at 80 % that one's own runs of dense models support; 0 without.",
        zero=True, default=0.0,
    )  # fmt: skip
    own_experts: Number = quantity(
        "1", "The same of models with experts.", zero=True, default=0.0
    )  # fmt: skip


def kind_of_chip(system: Any) -> str | None:
    """Return the kind of chip of a system by name, file or record; None for one without a kind.

    A record has the kind of the systems of the catalogue with its matrix and memory rates.

    >>> kind_of_chip("gb200-nvl72"), kind_of_chip("dgx-h100-pod"), kind_of_chip("rtx-4090")
    ('blackwell', 'hopper', None)
    """
    if isinstance(system, System):
        return _kinds().get(tuple(float(getattr(system, rate) or 0.0) for rate in RATES))
    if not isinstance(system, str | os.PathLike | catalog.Table):
        return None
    base = catalog.base_of("systems", system)
    if base in catalog.names("fabrics") and base not in catalog.names("systems"):
        base = catalog.describe("fabrics", base).get("system")
    chips = catalog.describe(KIND, START)["chips"]
    firsts = [(kind, first) for kind, every in chips.items() for first in every]
    return next((kind for kind, first in firsts if str(base).startswith(first)), None)


@functools.cache
def _kinds() -> dict[tuple[float, ...], str]:
    """Return the kinds of chips by the rates of the systems of the catalogue."""
    found = {}
    for name in catalog.names("systems"):
        written, kind = catalog.describe("systems", name), kind_of_chip(name)
        if kind is not None:
            found[tuple(parse(written[rate], unit, name) for rate, unit in RATES.items())] = kind
    return found


def serving_name(name: str | os.PathLike[str] | None, system: Any) -> str | os.PathLike[str]:
    """Return the entry of software that serves: without a year the newest, the usual without any.

    A file is its own entry. The newest is one that was measured on such a chip, if there is one.
    Raises: InputError for an unknown name, with the nearest.

    >>> serving_name("vllm", "a100-80-sxm"), serving_name(None, "b200-180-sxm")
    ('vllm-2024', 'vllm-2026')
    """
    kind, every = kind_of_chip(system), catalog.names(KIND)
    if name is None:
        return str(catalog.describe(KIND, START)["usual"].get(kind, START))
    if name in every or catalog.is_file(name):
        return name
    years = [one for one in every if one.rpartition("-")[0] == name]
    if not years:
        stems = dict.fromkeys(one.rpartition("-")[0] for one in every if one != START)
        raise unknown("software", name, "software that serves", [*every, *stems])
    return next((one for one in years if kind in catalog.describe(KIND, one)), years[0])


def serving_software(
    name: str | os.PathLike[str] | None = None, system: Any = None
) -> ServingSoftware:
    """Return what software that serves reaches of the chip of a system; ``name`` may be a file.

    A file has constants of ServingSoftware, and a ``base``, such as ``vllm-2026``. On a chip
    that a software was never measured on its constants are those of ``start``, ``calibrated`` 0.
    Raises: InputError for an unknown name or field, or a value out of range.

    >>> float(serving_software("vllm-2026", "h100-nvs8").layer)
    2.45e-05
    >>> float(serving_software("sglang", "a100-80-sxm").calibrated)
    0.0
    """
    where = serving_name(name, system)
    fields = units(ServingSoftware)
    written = catalog.entry(KIND, where, fields, tuple(fields))
    inner = catalog.describe(KIND, where).get(kind_of_chip(system) or "", {})
    found: dict[str, Any] = {key: value for key, value in inner.items() if key in fields}
    found["experts_measured"] = sum(
        2.0**place for place, one in enumerate(MEASURED) if one in inner.get("models", ())
    )
    found["calibrated"] = float(bool(inner))
    if not inner:
        written.pop("ttft_fitted", None)
    found |= {key: value for key, value in written.items() if key in fields}
    try:
        return checked(ServingSoftware(**found))
    except InputError as error:
        raise refusal(str(where), str(error)) from None


def weak_points(name: str | os.PathLike[str] | None, system: Any, experts: bool) -> Iterator[str]:
    """Yield in words why errors of a software on the chip of a system are large.

    >>> [*weak_points("vllm-2024", "mi300x", False)]
    ['an early stack of ROCm, a factor 2 to 3 off any constants']
    """
    where = serving_name(name, system)
    written = catalog.describe(KIND, where)
    inner = written.get(kind_of_chip(system) or "")
    if inner is None:
        yield f"{where} was not measured on such a chip: constants of no data"
        return
    every: Mapping[str, Any] = {**written, **inner}
    yield from (every[key] for key in ("weak", *["weak_experts"] * experts) if key in every)


def measured_ways(name: str | os.PathLike[str] | None, system: Any) -> dict[str, Any]:
    """Return how a software was measured on the chip of a system; empty if it was not.

    >>> measured_ways("vllm-2026", "b200-180-sxm")
    {'formats': ['bf16:mxfp4-8'], 'data': False}
    """
    inner = catalog.describe(KIND, serving_name(name, system)).get(kind_of_chip(system) or "", {})
    found = inner.get("formats")
    return {"formats": found, "data": "data_measured" in inner} if found else {}
