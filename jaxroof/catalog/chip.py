"""What training gets of a chip: constants that were calibrated on measured runs.

Source: docs/models/training_step_today.md, sections 1 and 2.
"""

from jaxroof.records import Number, quantity, record


def _share(doc: str, **options: Number) -> Number:
    return quantity("1", doc, most=1.0, **options)  # type: ignore[arg-type]


def _latency(doc: str, zero: bool = False, **options: float) -> Number:
    return quantity("s", doc, zero=zero, resource="latency", **options)  # type: ignore[arg-type]


def _rate(doc: str) -> Number:
    return quantity("FLOP/s", doc, zero=True, default=0.0, resource="compute")


def _own(doc: str) -> Number:
    return quantity("1", doc, zero=True, default=0.0)


@record
class Chip:
    """What training gets of a generation of accelerators, beside their datasheet rates.

    The constants from ``matmul`` on were fitted to all visible measured runs together; ``young``
    ones fall to 1/e in the shared constant ``mature_years``. An entry of the catalogue states the
    range that is believed of each.
    """

    fp8_flops: Number = _rate("Dense datasheet rate at 8 bits; 0 without such products.")
    fp4_flops: Number = _rate("Dense datasheet rate at 4 bits; 0 without such products.")
    multiprocessors: Number = quantity("1", "Streaming multiprocessors.", whole=True)
    launch_year: Number = quantity("year", "Year in which customers had the chip.")
    matmul: Number = _share("Share of the 16-bit rate that an endless product keeps in training.")
    matmul_fp8: Number = _share("Share of the 8-bit rate that an endless product keeps.")
    depth: Number = quantity("1", "Inner length that the begin and end of a tile are worth.")
    depth_fp8: Number = quantity("1", "The same for 8-bit numbers; twice as much for 4-bit ones.")
    young: Number = _share("Share of the 16-bit rate missing at launch.", zero=True)
    young_fp8: Number = _share("Share of the 8-bit and 4-bit rate missing at launch.", zero=True)
    young_attention: Number = _share("Share of native attention missing at launch.", zero=True)
    attention: Number = _share("Share of the 16-bit rate of a native attention kernel.")
    attention_old: Number = _share("Share of it of a kernel written for an earlier chip.")
    hbm: Number = _share("Share of the memory bandwidth of a streaming kernel.")
    fast: Number = _share("Share of the fast bandwidth that a ring runs at.")
    slow: Number = _share("Share of the network bandwidth that messages run at.")
    step: Number = _latency("Data, logging and synchronisation, once a step.", zero=True)
    spread: Number = quantity("1", "Standard deviation of speed between equal chips.", zero=True)
    calibrated: Number = _share(
        "Whether runs of the chip took part in the fit (1 or 0).", zero=True, default=1.0
    )
    own_dense_16_bit: Number = _own(
        "Half width of ln(step time) at 80 % that runs of one's own support, dense in 16 bits; 0 "
        "without such runs."
    )
    own_dense_8_or_4_bit: Number = _own("The same in 8 or 4 bits.")
    own_experts: Number = _own("The same of models with experts.")


@record
class SharedConstants:
    """What was calibrated, or derived from kernels, for all chips together."""

    host: Number = _latency("Least time to launch a layer's forward pass.", default=1.14e-3)
    overlap_slowdown: Number = _share(
        "Share of the work lost beside a ring at the full rate of the fast links.", default=0.556
    )
    eager: Number = quantity(
        "B", "Further bytes a hidden number and direction, of an eager framework.", default=15.5
    )
    cast: Number = quantity("B", "Bytes moved for a number that is cast.", default=4.41)
    tensor_edge: Number = quantity(
        "1", "Chunks of a pipelined tensor message that are not hidden.", default=3.34
    )
    mature_years: Number = quantity(
        "1", "Years in which a chip's missing rate falls to 1/e.", default=1.40
    )
    fp4: Number = _share("Further share of the 4-bit rate.", default=0.781)
    slow_node: Number = _share("Products of a slow node against its kind.", default=0.732)
    grouped: Number = _share("Grouped products against plain ones.", default=0.902)
    expert_rows: Number = quantity(
        "1", "Rows that one expert's begin, end and last tile are worth.", default=356.0
    )
    all_to_all: Number = quantity(
        "1", "Rate of an all-to-all of context ranks against that of a ring.", default=1.03
    )
    scatter_rate: Number = quantity(
        "1", "Rate of a plain exchange of tokens of experts against that of a ring.", default=1.36
    )
    permute: Number = quantity(
        "B", "Bytes a routed number for its permutation and return.", default=55.1
    )
    first_expert: Number = _share(
        "Share of the cost of a group that the first local expert does not pay.",
        zero=True,
        default=1.0,
    )
    expert_tile: Number = quantity(
        "1",
        "Columns in whole tiles of which experts compute; 0: no tiles.",
        zero=True,
        default=128.0,
    )
    expert_bias_bytes: Number = quantity(
        "B", "Bytes a routed number for biases of experts.", zero=True, default=41.1
    )
    scatter_flex: Number = quantity(
        "1", "Rate of a flexible dispatcher against that of a ring.", default=0.979
    )
    permute_flex: Number = quantity("B", "Bytes a routed number for its permutation.", default=17.4)
    permute_fused: Number = _share(
        "What graph-captured experts keep of permutation and exchange.", default=0.176
    )
    host_moe: Number = _latency("Further launch time of a routing layer and pass.", default=3.34e-3)
    sync: Number = _latency(
        "Exchange of token counts with the host, a routing layer and pass.", default=8.96e-4
    )
    sync_flex: Number = _share("What of it a flexible dispatcher keeps.", default=0.98)
    graph_part: Number = _share(
        "Share of both that graphs of parts of a layer remove.", zero=True, default=0.645
    )
    exchange_hidden: Number = _share(
        "Share of an overlapped exchange that runs beside work.", zero=True, default=0.727
    )
    attention_fp8: Number = quantity("1", "Rate of 8-bit attention over 16-bit.", default=1.43)
    scan: Number = quantity(
        "FLOP/s",
        "Rate of a multiprocessor in recurrent layers.",
        default=1.65e11,
        resource="compute",
    )
    moe_years: Number = quantity(
        "1", "Years in which overheads of experts fall to 1/e.", default=3.09
    )
    moe_start: Number = quantity("year", "Year from which they fall.", default=2025.7)
    launch: Number = _latency("Gap between two kernels.", zero=True, default=2e-6)
    base: Number = _latency("Start of a collective.", zero=True, default=15e-6)
    fast_hop: Number = _latency("Latency of a hop on fast links.", zero=True, default=2e-6)
    slow_hop: Number = _latency("Latency of a hop in the network.", zero=True, default=6e-6)
    backward_attention: Number = _share(
        "Efficiency of attention backward against forward.", default=0.8
    )
    host_memory: Number = quantity(
        "B/s",
        "Host memory bandwidth of one accelerator, for offloaded states.",
        default=50e9,
        resource="host",
    )
    tile: Number = quantity("1", "Rows, and columns, of a tile of outputs.", default=128.0)
