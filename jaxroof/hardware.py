"""The machine: one accelerator, its memory and its links."""

from jaxroof.records import Number, quantity, record


@record
class System:
    """One accelerator, its high-bandwidth memory and its links: peak rates and efficiencies.

    Bandwidths are one direction per accelerator; a rate in use is its peak times its efficiency.
    """

    matrix_flops: Number = quantity("FLOP/s", "Peak dense matrix rate at the number format in use.")
    vector_flops: Number = quantity("FLOP/s", "Peak vector rate at the number format in use.")
    matrix_efficiency: Number = quantity(
        "1",
        "Share of the peak rate, matrix and vector alike, that work runs at.",
        default=0.8,
        most=1,
    )
    launch_latency: Number = quantity(
        "s", "Time to launch one operation in one direction.", default=20e-6, zero=True
    )
    hbm_bandwidth: Number = quantity("B/s", "Bandwidth of the high-bandwidth memory.")
    hbm_capacity: Number = quantity("B", "Capacity of the high-bandwidth memory.")
    hbm_usable: Number = quantity(
        "1", "Share of the capacity that a training step may fill.", default=1.0, most=1
    )
    fast_domain: Number = quantity("1", "Accelerators that share the fast links.", whole=True)
    fast_bandwidth: Number = quantity("B/s", "Bandwidth inside the fast domain.")
    fast_efficiency: Number = quantity(
        "1", "Share of the fast bandwidth that messages run at.", default=0.7, most=1
    )
    fast_latency: Number = quantity("s", "Latency of one hop in the fast domain.", zero=True)
    slow_bandwidth: Number = quantity("B/s", "Bandwidth of one network interface.")
    slow_efficiency: Number = quantity(
        "1", "Share of the slow bandwidth that messages run at.", default=0.7, most=1
    )
    slow_latency: Number = quantity("s", "Latency of one hop between fast domains.", zero=True)
    nics: Number = quantity("1", "Network interfaces per accelerator.", default=1.0)
