"""Chunks of a long sweep as tasks of dask.distributed: processes here, or workers elsewhere.

A worker builds the question anew from where it came from, checks that it is the one the store
holds, evaluates a chunk and writes its region. Only the client, which has locked the store, writes
the manifest. A chunk of a worker that dies is given to another.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import logging
import os
import re
import signal
import threading
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

from jaxroof.engine.runs import chunked_sweep
from jaxroof.engine.runs.job import SweepJob, check_same, fingerprint
from jaxroof.errors import InputError, brief, refusal
from jaxroof.io import chunk_manifest, zarr_store
from jaxroof.io.atomic import Path
from jaxroof.io.chunk_manifest import Files
from jaxroof.io.layout import Layout
from jaxroof.limits import check_bound, check_memory

AHEAD = 10_000  # chunks that the scheduler holds at once
MISSING = "a cluster needs dask.distributed; pip install 'jaxroof[cluster]'"
Question = tuple[Callable[..., SweepJob], tuple[Any, ...]]  # a function, and its arguments
LOGGERS = ("distributed", "distributed.client", "asyncio", "tornado.application")
ADDRESS = re.compile(r"(\w+://)?\S+:\d+")
PATIENCE = "10s"  # for a scheduler to answer
WORKER = 2e8  # bytes of memory that one of them takes before it computes
ALONE = threading.Lock()  # NumPy, Zarr's settings and memory serve one chunk of a process at a time


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Who evaluates the chunks of a sweep: either processes of this machine, or a scheduler's.

    ``workers`` is a number of local processes. ``scheduler`` is the address of a scheduler, such as
    tcp://10.0.0.1:8786, or a cluster object of dask, such as dask_jobqueue.SLURMCluster.
    ``announce`` is called with one sentence that names the cluster and its dashboard.
    """

    workers: int | None = None
    scheduler: Any = None
    announce: Callable[[str], None] | None = None


def check_cluster(cluster: Cluster) -> None:
    """Check that a cluster can be asked, before any of it is started."""
    if (cluster.workers is None) == (cluster.scheduler is None):
        raise InputError("workers and scheduler: expected one of them")
    if cluster.workers is not None:
        check_bound("workers", "workers", cluster.workers)
        many = f"{cluster.workers:,} processes"
        check_memory(many, WORKER * cluster.workers, "expected fewer workers")
    if isinstance(cluster.scheduler, str) and not ADDRESS.fullmatch(cluster.scheduler):
        raise _unanswered(cluster.scheduler, "no address")
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING) from error


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Connect to a cluster for the block, starting a local one; give its client."""
    check_cluster(cluster)
    from distributed import Client

    with contextlib.ExitStack() as left:
        left.enter_context(_silenced())
        at = cluster.scheduler
        if at is None:
            at = left.enter_context(_local(cluster.workers))
        try:
            client = left.enter_context(Client(at, set_as_default=False, timeout=PATIENCE))
        except (OSError, ValueError) as error:
            raise _unanswered(at, "no scheduler answers there") from error
        if cluster.announce is not None:
            cluster.announce(_announcement(client))
        yield client


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Keep back what dask and asyncio print of a scheduler that is lost: our line says it."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _unanswered(address: Any, what: str) -> InputError:
    expected = "expected that of a running one, such as tcp://10.0.0.1:8786"
    return InputError(f"scheduler: {brief(str(address))}: {what}; {expected}")


def _local(workers: int | None) -> Any:
    """Return a cluster of processes of this machine, on any free ports, that prints nothing."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        preload=[__name__],
    )


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C of a process of a local cluster to the client (dask calls it by its name)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _announcement(client: Any) -> str:
    info = client.scheduler_info()
    count = len(info["workers"])
    what = f"{count} worker{'' if count == 1 else 's'}" if count else "waiting for workers"
    return f"{info['address']}: {what}; dashboard {client.dashboard_link}"


def finished_chunks(
    cluster: Cluster, question: Question, path: Path, layout: Layout, missing: Iterator[int]
) -> Generator[int]:
    """Yield the number of each chunk that a worker has written, once it is in the manifest."""
    place = os.path.abspath(path)
    found = chunk_manifest.plan(path)
    assert found is not None  # its first chunk is written
    known = zlib.crc32(json.dumps(found["asked"]).encode())
    with connected(cluster) as client:
        from distributed import as_completed

        def submitted(number: int) -> Any:
            arguments = (question, known, place, number)
            return client.submit(chunk_of, *arguments, key=f"chunk-{number}-{known}", pure=False)

        first = [submitted(number) for number in itertools.islice(missing, AHEAD)]
        running = as_completed(first, loop=client.loop)
        for future in running:
            number, files, sums = result_of(future, path)
            zarr_store.record_chunk(path, number, files, sums)
            running.update([submitted(number) for number in itertools.islice(missing, 1)])
            yield number


def result_of(future: Any, path: Path) -> Any:
    """Return what a worker returned."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        said = f"{future.key} ended every worker that it was given to; expected more memory each"
        raise refusal(os.fspath(path), said) from error
    except (CancelledError, OSError) as error:
        said = "the scheduler is lost; run again to continue"
        raise refusal(os.fspath(path), said) from error


def chunk_of(
    question: Question, known: int, path: str, number: int
) -> tuple[int, Files, chunked_sweep.Sums]:
    """Evaluate a chunk on a worker and write its region; return what the manifest needs."""
    with ALONE:
        asked, layout = _question(question, known, path)
        shares: list[chunked_sweep.Sums] = []
        pieces = chunked_sweep.evaluated_pieces(asked, layout, number, shares)
        files = zarr_store.write_region(path, number, layout, _of_this(pieces, known, path))
        return number, files, chunked_sweep.added(shares)


def _of_this(pieces: Iterator[Any], known: int, path: str) -> Iterator[Any]:
    """Yield pieces while the store is that of this run: an earlier one writes nothing more."""
    for piece in pieces:
        if _plan(path)[1] != known:
            raise refusal(path, "another run has begun this store anew")
        yield piece


@functools.lru_cache(maxsize=1)
def _question(question: Question, known: int, path: str) -> tuple[SweepJob, Layout]:
    """Return the question of a store as this process understands it, and how it is cut."""
    build, arguments = question
    asked, (found, here) = build(*arguments), _plan(path)
    check_same(path, asked, found["asked"], fingerprint(asked))
    if here != known:
        raise refusal(path, "another run has begun this store anew")
    return asked, Layout(**found["layout"])


def _plan(path: str) -> tuple[dict[str, Any], int]:
    """Return the plan of a store, and the CRC-32 of its question."""
    found = chunk_manifest.plan(path) if os.path.isdir(path) else None
    if found is None:
        raise refusal(path, "a worker sees no such store; expected a folder that all share")
    return found, zlib.crc32(json.dumps(found["asked"]).encode())
