"""What a chip does under a software: rates of its kernels and links, and seconds of single kernels.

The efficiency of a product grows smoothly with its size: m n / (m n + wave) is the loss of the last
wave of tiles on average, k / (k + depth) that of a tile's begin and end.
Source: docs/models/training_step_today.md, sections 1 to 4, 9 and 11; docs/models/layers_2026.md,
sections 4 and 5.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.system import tiers
from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.recipe import AttentionKernel, CrossEntropy, TrainingRecipe
from jaxroof.formulas.arithmetic import cos, exp, larger, smaller, where
from jaxroof.formulas.network import Network
from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number, with_named_absences

PI = 3.141592653589793
LOSS_BYTES = {  # moved for a logit, forward and backward
    CrossEntropy.FUSED: 12.0,
    CrossEntropy.NATIVE: 32.0,
    CrossEntropy.EAGER: 32.0,
    CrossEntropy.VOCABULARY_PARALLEL: 52.0,
}


def chip_of(inputs: TrainingInputs) -> Chip:
    """Return what training gets of the chip of a system.

    Raises: InputError for a system without a chip.
    """
    if inputs.system.chip is None:
        such = "a system by name, such as h100-nvs8, or jaxroof.training_system('h100-nvs8')"
        raise refusal("system.chip", f"not given, so that there is no step time; expected {such}")
    return with_named_absences(inputs.system.chip, "system.chip.")


class Unit(NamedTuple):
    """What a chip's matrix unit does at one number format, and what a kernel costs beside it."""

    rate: Number  # of an endless product [FLOP/s]
    depth: Number  # inner length that the begin and end of a tile are worth
    wave: Number  # outputs that the last wave of tiles is worth
    memory: Number  # bytes that a streaming kernel moves a second [B/s]
    launch: Number  # time between two kernels [s]


class Rates(NamedTuple):
    """A chip under a software, as the formulas of a layer take it."""

    layer: Unit  # products of the layers, at their number format
    plain: Unit  # products at 16 bits: head, router, scores
    network: Network  # effective rates
    attention: Number  # of one attention kernel, heads of any width [FLOP/s]
    low: Number  # 1 where layer products have inputs of 8 or 4 bits
    read: Number  # bytes of one input of a layer product
    cast: Number  # bytes moved for a number that is cast, 0 at 16 bits
    experts: Number  # share of the overheads of experts that mature software keeps
    imbalance: Number  # rows of the fullest rank's experts over the mean
    permute: Number  # bytes a routed number for its permutation
    exchange: Network  # of tokens of experts, by the links that their dispatcher reaches
    scatter: Number  # rate of that exchange against a ring's
    captured: Number  # what graphs leave of permutation and exchange
    beside: Number  # share of the exchange that runs beside work
    sync: Number  # exchange of token counts with the host [s]
    host: Number  # least time of a layer's forward pass [s]
    host_experts: Number  # the same, further, for a layer that routes [s]
    flash: bool  # whether attention is one kernel, else products and a softmax
    dedup: Number  # 1 where a token is sent once to a rank with several of its experts
    reduce_bytes: Number  # of a reduced gradient
    loss_bytes: float  # moved for a logit of the loss
    spread: Number  # standard deviation of speed between equal chips
    multiprocessors: Number
    step: Number  # what a step costs beside its work [s]
    constants: SharedConstants


def rates(inputs: TrainingInputs, recipe: TrainingRecipe) -> Rates:
    """Return what a chip does under a software, with the kernels of a recipe.

    y = exp(-max(year - launch_year, 0) / mature_years), mu = 1 - young y
    R16 = P16 matmul mu16, R8 = P8 matmul_fp8 mu8, R4 = P4 matmul_fp8 mu8 fp4, H = W hbm

    Assumes: the system's matrix rate is that of 16 bits; what is missing at launch decays with the
    software's age; a number format that a chip lacks is not asked for (a verdict says so) and takes
    the 16-bit rate here.
    """
    system, chip, constants = inputs.system, chip_of(inputs), inputs.shared
    software = inputs.software
    age = larger(software.year - chip.launch_year, 0.0)
    young = exp(-age / constants.mature_years)
    memory = system.hbm_bandwidth * chip.hbm
    wave = chip.multiprocessors * constants.tile**2 / 2.0
    node = where(software.slow_node > 0.0, constants.slow_node, 1.0)
    plain = system.matrix_flops * chip.matmul * (1.0 - chip.young * young) * node
    eight = chip.matmul_fp8 * (1.0 - chip.young_fp8 * young)
    fp8, fp4 = (
        where(rate > 0.0, rate, system.matrix_flops) * eight
        for rate in (chip.fp8_flops, chip.fp4_flops)
    )
    low = larger(software.fp8, software.fp4)
    rate = where(software.fp4 > 0.0, fp4 * constants.fp4, where(software.fp8 > 0.0, fp8, plain))
    depth = where(
        software.fp4 > 0.0,
        2.0 * chip.depth_fp8,
        where(software.fp8 > 0.0, chip.depth_fp8, chip.depth),
    )
    native = 1.0 - software.old
    mature = native * (1.0 - chip.young_attention * young) + software.old
    kernel = chip.attention**native * chip.attention_old**software.old * mature
    kernel = kernel * constants.attention_fp8**software.attention8
    network = Network(
        tiers(system, (chip.fast, chip.slow), (constants.fast_hop, constants.slow_hop)),
        constants.base,
    )
    return Rates(
        layer=Unit(rate, depth, wave, memory, constants.launch),
        plain=Unit(plain, chip.depth, wave, memory, constants.launch),
        network=network,
        attention=system.matrix_flops * kernel,
        low=low,
        read=where(software.fp4 > 0.0, 0.5625, where(software.fp8 > 0.0, 1.0, 2.0)),
        cast=low * (constants.cast + 4.0 * software.micro_scaled),
        **_dispatcher(inputs, network),
        host=constants.host * software.host,
        flash=recipe.attention_kernel is not AttentionKernel.UNFUSED,
        dedup=software.dedup,
        reduce_bytes=inputs.states.reduce_bytes,
        loss_bytes=LOSS_BYTES[recipe.cross_entropy],
        spread=chip.spread,
        multiprocessors=chip.multiprocessors,
        step=software.step_share * chip.step,
        constants=constants,
    )


def _dispatcher(inputs: TrainingInputs, network: Network) -> dict[str, Any]:
    """Return what the software of experts makes of their overheads, by the names of Rates.

    nu = exp(-max(year - moe_start, 0) / moe_years); a rate or cost a is
    a_plain^(1 - flex) a_flex^flex; graphs leave (1 - graph)(1 - graph_part constant graph_part) of
    what the host does

    Assumes: an exchange over fast links reaches no further than the machine's.
    Source: docs/models/layers_2026.md, section 5.
    """
    software, constants = inputs.software, inputs.shared
    flex, graph, reach = software.flex, software.graph, software.exchange_domain
    age = larger(software.year - constants.moe_start, 0.0)
    mature = exp(-age / constants.moe_years)
    plain, captured = 1.0 - flex, constants.permute_fused**graph
    hosted = (1.0 - graph) * (1.0 - constants.graph_part * software.graph_part)
    near, *others = network.tiers
    domain = where(reach > 0.0, smaller(reach, near.domain), near.domain)
    return {
        "experts": mature,
        "imbalance": inputs.activations.routing_imbalance,
        "permute": constants.permute**plain * constants.permute_flex**flex * captured,
        "exchange": network._replace(tiers=(near._replace(domain=domain), *others)),
        "scatter": constants.scatter_rate**plain * constants.scatter_flex**flex,
        "captured": captured,
        "beside": software.exchange_overlap * constants.exchange_hidden,
        "sync": constants.sync * hosted * (1.0 - software.token_drop) * constants.sync_flex**flex,
        "host_experts": constants.host_moe * mature * hosted,
    }


# ---- Single kernels ------------------------------------------------------------------------------


def stream(traffic: Number, kernels: Number, unit: Unit) -> Number:
    """Return the time of kernels that only move bytes: t = traffic / memory + kernels launch."""
    return traffic / unit.memory + kernels * unit.launch


def matmul(
    rows: Number, columns: Number, inner: Number, unit: Unit, read: Number, written: Number
) -> Number:
    """Return the time of a product of [rows, inner] and [inner, columns].

    t = smax(2 (m n + wave) (k + depth) / rate, (e_in (m k + k n) + e_out m n) / memory) + launch

    Assumes: dense operands; ``read`` and ``written`` are bytes of one number.
    """
    work = 2.0 * (rows * columns + unit.wave) * (inner + unit.depth)
    moved = read * (rows * inner + inner * columns) + written * rows * columns
    return smooth_larger(work / unit.rate, moved / unit.memory) + unit.launch


def batched_product(
    batch: Number, rows: Number, columns: Number, inner: Number, unit: Unit
) -> Number:
    """Return the time of a batch of products of 16-bit numbers, such as scores of all heads.

    t = smax(2 u m n (k + depth / 2) / rate, 2 u (m k + k n + m n) / memory) + launch

    Assumes: tiles of two products fill a wave together; half the depth is lost.
    """
    work = 2.0 * batch * rows * columns * (inner + unit.depth / 2.0)
    moved = 2.0 * batch * (rows * inner + inner * columns + rows * columns)
    return smooth_larger(work / unit.rate, moved / unit.memory) + unit.launch


def padded(width: Number, tile: Number) -> Number:
    """Return a width in whole tiles, smoothly: n + tile / 4 (1 - cos(2 pi n / tile)).

    Assumes: exact for whole and for half tiles; a tile of 0 pads nothing.
    Source: docs/models/layers_2026.md, section 5.

    >>> float(padded(2880.0, 128.0))
    2944.0
    """
    some = where(tile > 0.0, tile, 1.0)
    return width + tile / 4.0 * (1.0 - cos(2.0 * PI * width / some))


def grouped_product(
    rows: Number,
    columns: Number,
    inner: Number,
    groups: Number,
    unit: Unit,
    read: Number,
    constants: SharedConstants,
) -> Number:
    """Return the time of one product a group of rows, each group with a matrix of its own.

    t = smax(2 (m pad(n) + (x - first) r pad(n) + wave) (k + depth) / (rate G),
             (e_in (m k + x k n) + 2 m n) / memory) + x launch

    Assumes: groups of equal size; a group's start, end and half-filled tile are worth r rows, those
    of the first are not lost.
    """
    wide, more = padded(columns, constants.expert_tile), groups - constants.first_expert
    outputs = rows * wide + more * constants.expert_rows * wide
    work = 2.0 * (outputs + unit.wave) * (inner + unit.depth)
    moved = read * (rows * inner + groups * inner * columns) + 2.0 * rows * columns
    rate = unit.rate * grouped_share(groups, constants)
    return smooth_larger(work / rate, moved / unit.memory) + groups * unit.launch


def grouped_share(groups: Number, constants: SharedConstants) -> Number:
    """Return the rate of grouped products over plain ones, G = grouped^(1 - first / x)."""
    return constants.grouped ** (1.0 - constants.first_expert / groups)


def grouped_weight_gradient(
    rows: Number,
    columns: Number,
    inner: Number,
    groups: Number,
    unit: Unit,
    read: Number,
    constants: SharedConstants,
) -> Number:
    """Return the time of the weight gradients of a grouped product.

    t = smax(2 (pad(n) pad(k) x + wave) (m / x + depth) / (rate G),
             (e_in m (n + k) + 8 n k x) / memory) + x launch

    Assumes: groups of equal size; sums in 32 bits are read and written.
    """
    wide, long = (padded(width, constants.expert_tile) for width in (columns, inner))
    work = 2.0 * (wide * long * groups + unit.wave) * (rows / groups + unit.depth)
    moved = read * rows * (columns + inner) + 8.0 * columns * inner * groups
    rate = unit.rate * grouped_share(groups, constants)
    return smooth_larger(work / rate, moved / unit.memory) + groups * unit.launch
