"""What MaxText gets of a generation of TPUs: constants fitted on measured runs, and its slices.

Source: docs/models/networks.md, sections 6 and 9.
"""

from jaxroof.records import Number, quantity, record


def _share(doc: str, **options: float) -> Number:
    return quantity("1", doc, most=1.0, **options)  # type: ignore[arg-type]


def _rate(doc: str) -> Number:
    return quantity("FLOP/s", doc, zero=True, default=0.0, resource="compute")


def _latency(doc: str, default: float) -> Number:
    return quantity("s", doc, zero=True, default=default, resource="latency")


def _side(doc: str) -> Number:
    return quantity("1", doc, whole=True)


@record
class TpuChip:
    """What MaxText gets of a generation of TPUs, beside the rates of its system, a whole chip's.

    A chip may be two devices, which each have half of its rates, links and memory.
    """

    int8_flops: Number = _rate("Dense datasheet rate of a chip at 8-bit integers.")
    fp8_flops: Number = _rate("Dense datasheet rate of a chip at 8-bit floats.")
    devices: Number = quantity("1", "Devices that JAX sees of one chip.", whole=True, default=1.0)
    matmul: Number = _share("Share of the bf16 rate that an endless product runs at.")
    matmul_int8: Number = _share("Share of the rate at 8-bit integers.")
    matmul_fp8: Number = _share("Share of the rate at 8-bit floats.")
    attention: Number = _share("Share of the bf16 rate of the attention kernel.")
    backward_factor: Number = quantity(
        "1", "Work of attention backward over forward: 3.5 in two kernels, 2.5 fused.", default=3.5
    )
    hbm: Number = _share("Share of the memory bandwidth of a streaming kernel.", default=0.85)
    ici: Number = _share("Share of a torus link that messages run at.", default=0.90)
    dcn: Number = _share("Share of the data-centre network that messages run at.", default=0.66)
    depth: Number = quantity(
        "1", "Inner length that the begin and end of a product are worth.", default=240.0
    )
    launch: Number = _latency("Start of a kernel.", 1.6e-6)
    base: Number = _latency("Start of a collective.", 1.2e-5)
    hop: Number = _latency("Latency of a torus hop in training.", 1e-6)
    wrap: Number = quantity(
        "1",
        "What wraps: every axis where all sides are multiples of 4 (4), or an axis of 16 (16).",
        whole=True,
    )
    longest_x: Number = _side("Longest first side of a slice, the shortest of the three.")
    longest_y: Number = _side("Longest second side of a slice.")
    longest_z: Number = _side("Longest third side of a slice; 1 where a slice is flat.")
    calibrated: Number = _share(
        "Whether runs of the chip took part in the fit (1 or 0).", zero=True, default=1.0
    )
