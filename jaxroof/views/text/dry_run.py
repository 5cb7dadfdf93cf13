"""What a question would take, in lines: `jaxroof run FILE --dry-run` and others."""

from jaxroof.engine.runs.dry_run import DryRun
from jaxroof.limits import counted
from jaxroof.units import seconds, size


def dry_run_rows(found: DryRun, memory: float, disk: float | None) -> list[tuple[str, str]]:
    """Return (what, how much): axes, points, plans, memory, disk and time.

    ``memory`` and ``disk`` are the limits [B].
    """
    axes = ", ".join(f"{name} {length:,}" for name, length in found.axes.items()) or "none"
    rows = [("axes", axes), ("points", counted(found.points))]
    if found.plans is not None:
        plans = f"about {counted(round(found.plans), 'plan')} at a point"
        rows.append(("plans", f"{plans}, {size(found.plans * found.points, '1')} combinations"))
    if found.chunks is not None:
        rows.append(("chunks", counted(found.chunks)))
    of_chunk = " for a chunk" if found.chunks is not None else ""
    rows.append(
        ("memory", f"{size(found.memory, 'B')}{of_chunk}; the limit is {size(memory, 'B')}")
    )
    if found.disk is not None and disk is not None:
        about = ", compressed" if found.chunks is not None else ""
        rows.append(
            ("disk", f"about {size(found.disk, 'B')}{about}; the limit is {size(disk, 'B')}")
        )
    sample = found.sample
    compiled = f", after {seconds(sample.before)} of preparing" if sample.before else ""
    took = f"{counted(sample.points, 'point')} took {seconds(sample.seconds)}{compiled}"
    rows.append(("time", f"about {_duration(found.seconds)}: a sample of {took}"))
    return rows


def _duration(took: float) -> str:
    """Return a time in seconds, minutes, hours, days or years.

    >>> _duration(7.21), _duration(7200.0)
    ('7.2 s', '2 hours')
    """
    scales = (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60))
    for name, scale in scales:
        if took >= 2 * scale:
            return f"{size(float(f'{took / scale:.2g}'), '1')} {name}"
    return f"{took:.2g} s"
