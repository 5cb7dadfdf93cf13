"""The record of software that serves, on a kind of chip: constants that can be calibrated.

Source: docs/models/serving.md, section 2.
"""

from jaxroof.records import Number, quantity, record


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
