"""How large a question may be, and how much memory and disk it may take.

Sizes are compared where a question is settled, before anything of that size is made. ``BOUNDS`` is
the one table of them: a field of inputs has its largest value from there, so that every road that
checks inputs asks it, and a count that is no field of inputs is checked by ``check_bound``.
"""

import math
import os
import pathlib
import shutil
import types
from collections.abc import Iterator

from jaxroof.errors import InputError, refusal, shown
from jaxroof.units import parse, size

MEMORY, DISK = "JAXROOF_MEMORY", "JAXROOF_DISK"  # environment variables, such as "32 GB"
MOST = 16e9  # bytes of memory that one question may take unless MEMORY is set
SHARE = 0.8  # of the free memory, and of the free disk, that one question may take
SMALL = 1 << 26  # bytes that are not worth looking up what there is
EXHAUSTED = "RESOURCE_EXHAUSTED"  # how XLA's errors of memory begin
ROOT = pathlib.Path("/")
BOUNDS = types.MappingProxyType(
    {
        "whole": 10**9,  # any whole number, such as accelerators, sequences of a batch, or tokens
        "layers": 4096,  # of a model; stages of its pipeline, and chunks of a rank
        "width": 1 << 24,  # of a model: hidden, feed-forward, a head
        "sizes": 100,  # numbers of accelerators, or of sequences, that one command compares
        "values": 10_000_000,  # of an axis
        "points": 100_000,  # of a curve
        "top": 1_000_000,  # plans that a search lists
        "draws": 1 << 16,  # of uncertain inputs
        "starts": 1 << 12,  # of a design's descents
        "visits": 1_000_000,  # of the stages of a pipeline, that a schedule follows one by one
        "workers": 1024,  # processes of this machine
    }
)


def check_bound(where: str, name: str, value: object) -> None:
    """Check that a count is a whole number from 1 to its entry in ``BOUNDS``.

    >>> check_bound("--workers", "workers", 4)
    >>> check_bound("--workers", "workers", 10**9)
    Traceback (most recent call last):
    jaxroof.errors.InputError: --workers: expected a whole number from 1 to 1,024, given 1000000000
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 1 <= number <= BOUNDS[name] or number % 1:
        said = f"expected a whole number from 1 to {BOUNDS[name]:,}, given {shown(value)}"
        raise refusal(where, said)


class TooLarge(InputError):
    """A question takes more memory or disk than there is, or than the user allows."""


def memory_limit() -> float:
    """Return the bytes of memory that one question may take.

    It is what JAXROOF_MEMORY says, or else 16 GB and at most 80 % of the free memory.
    """
    return _given(MEMORY) or min(MOST, SHARE * available_memory())


def disk_limit(folder: str | os.PathLike[str]) -> float:
    """Return the bytes of disk that a file in a folder may take.

    It is what JAXROOF_DISK says, or else 80 % of the free disk.
    """
    return _given(DISK) or SHARE * shutil.disk_usage(folder).free


def check_memory(what: str, needed: float, remedy: str) -> None:
    """Check that something of a size in bytes may be held in memory."""
    if needed <= SMALL and MEMORY not in os.environ:
        return
    limit = memory_limit()
    if needed > limit:
        raise _too_large(what, needed, f"{size(limit, 'B')} of memory", MEMORY, remedy)


def check_disk(what: str, needed: float, folder: str | os.PathLike[str], remedy: str) -> None:
    """Check that a file of a size in bytes has room in a folder."""
    limit = disk_limit(folder)
    if needed > limit:
        raise _too_large(what, needed, f"{size(limit, 'B')} of disk", DISK, remedy)


def _too_large(what: str, needed: float, limit: str, variable: str, remedy: str) -> TooLarge:
    limit = f"the limit is {limit} (set {variable} for another)"
    return TooLarge(f"{what} take {size(needed, 'B')}; {limit}; {remedy}")


def out_of_memory(error: BaseException, said: str, where: str = "") -> BaseException:
    """Return the error for an allocation that failed, NumPy's or XLA's; others are unchanged.

    ``said`` is what was kept, or what to do; ``where`` is the file that was written.

    >>> print(out_of_memory(MemoryError(), "3 of 4 chunks are finished"))
    out of memory; 3 of 4 chunks are finished
    """
    if not isinstance(error, MemoryError) and EXHAUSTED not in str(error):
        return error
    what = " ".join(str(error).removeprefix(EXHAUSTED).strip(": ").split())
    reason = f" ({what[:200]})" if what else ""
    return TooLarge(f"{where}: " * bool(where) + f"out of memory{reason}; {said}")


def _given(variable: str) -> float | None:
    """Return the size in an environment variable, None where it is not set."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    found = parse(text, "B", variable)
    if found <= 0:
        raise InputError(f"{variable}: expected a size above 0, such as 32 GB, given {text}")
    return found


def counted(count: float, what: str = "") -> str:
    """Return a count with what is counted, if given; beyond a billion with four digits.

    >>> counted(1, "point"), counted(250_000, "point"), counted(10**12, "point")
    ('1 point', '250,000 points', '1e12 points')
    """
    number = f"{count:,}" if count < 1e9 else size(count, "1")
    return f"{number} {what}{'' if count == 1 else 's'}" if what else number


def available_memory(root: pathlib.Path = ROOT) -> float:
    """Return the bytes of memory that this process may still take.

    It is the least of what the machine has free, what each container or control group around the
    process leaves (versions 1 and 2), and what the limit of the process leaves. ``root`` is where
    the files of the system are.
    """
    left = [*_in_the_machine(root), *_in_control_groups(root), *_in_the_process(root)]
    return max(0.0, min(left, default=math.inf))


def _in_the_machine(root: pathlib.Path) -> Iterator[float]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield 1024.0 * float(line.split()[1])
            return
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _in_control_groups(root: pathlib.Path) -> Iterator[float]:
    """Yield what the limit of each group that holds the process leaves; file caches are free."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        version_2 = controllers == ""
        if not version_2 and "memory" not in controllers.split(","):
            continue
        home = root / "sys/fs/cgroup" / ("" if version_2 else "memory")
        names = V2 if version_2 else V1
        inner = pathlib.PurePosixPath(path.lstrip("/"))
        for group in (inner, *inner.parents):
            most, used = (_number(home / group / name) for name in names[:2])
            if most is not None and used is not None:
                stat = dict(line.split()[:2] for line in _lines(home / group / "memory.stat"))
                yield most - used + float(stat.get(names[2], 0))


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _in_the_process(root: pathlib.Path) -> Iterator[float]:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return
    for line in _lines(root / "proc/self/statm"):
        yield most - float(line.split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _lines(file: pathlib.Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _number(file: pathlib.Path) -> float | None:
    """Return the number in a file, None where there is no such file or it says ``max``."""
    for line in _lines(file):
        return float(line) if line.strip().isdigit() else None
    return None
