"""The measured rows that travel with the package: where they come from, what is fitted to them."""

import functools
import gzip
import importlib.resources
import io
from typing import NamedTuple

from jaxroof.errors import unknown
from jaxroof.io.csv_blocks import RowFile
from jaxroof.validation.measured_rows import Table, table

FOLDER = "data"


class Source(NamedTuple):
    """One file of measured rows."""

    title: str
    where: str  # repository, and what in it
    licence: str  # of the repository; the rows are figures transcribed from it
    fitted: str  # what of the model was made with these rows in view


SOURCES = {
    "megatron_lm_ci_memory": Source(
        "Megatron-LM functional tests, 2026",
        "NVIDIA/Megatron-LM: tests/functional_tests/test_cases, commit d98e8a64dd",
        "BSD 3-Clause (its LICENSE names others for some files)",
        "workspaces of 10.2 and the kernel rule of 10.3; no constant per row",
    ),
    "simumax_b200": Source(
        "SimuMax v1.2 on B200",
        "MooreThreads/SimuMax: docs/b200, commit 4dcaae5",
        "Apache 2.0",
        "the workspace of 50 MiB and the 2 hidden states of a pipeline",
    ),
    "bigscience_2021_logs": Source(
        "BigScience logs of 2021",
        "bigscience-workshop/bigscience: experiments",
        "see LICENSE of that repository",
        "the counts of 10.5; reserved: the fragmentation of 22 % is their mean",
    ),
    "bigscience_a100": Source(
        "BigScience 176B chronicle, 2022",
        "bigscience-workshop/bigscience: train/tr11-176B-ml/chronicles-prequel.md",
        "see LICENSE of that repository",
        "nothing; the fragmentation comes from the logs of 2021",
    ),
    "torchtitan_logs": Source(
        "torchtitan commits and pull requests",
        "pytorch/torchtitan",
        "BSD 3-Clause",
        "bytes a logit and the pools of 10.4 were counted with one run in view",
    ),
    "torchtitan": Source(
        "torchtitan benchmarks",
        "pytorch/torchtitan: benchmarks, docs/performance.md",
        "BSD 3-Clause",
        "that products in FP8 count as in bf16; that no loss is compiled",
    ),
    "llm_foundry_mpt": Source(
        "llm-foundry MPT, runs that ran",
        "mosaicml/llm-foundry: scripts/train/benchmarking/README.md",
        "Apache 2.0",
        "nothing; no memory was printed, only that they ran",
    ),
}


@functools.cache
def packaged(name: str) -> Table:
    """Return the rows of a source.

    Raises: InputError with the nearest name.

    >>> len(packaged("simumax_b200").rows)
    23
    """
    if name not in SOURCES:
        raise unknown("--source", name, "source of measured memory", SOURCES)
    return table(_file(name))


def peer_errors() -> dict[str, float]:
    """Return the errors [%] of SimuMax's own predictions of its rows, by row.

    >>> round(peer_errors()["simumax-b200-01"], 2)
    -0.28
    """
    file = _file("simumax_b200_peer_errors")
    block = file.take(1000)
    assert block is not None
    cells = dict(zip(file.headings, block.cells, strict=True))
    return dict(zip(cells["row_id"], map(float, cells["peer_alloc_err_pct"]), strict=True))


def _file(name: str) -> RowFile:
    packed = importlib.resources.files(__package__).joinpath(FOLDER, f"{name}.csv.gz")
    return RowFile(io.BytesIO(gzip.decompress(packed.read_bytes())), name)


def packed_bytes() -> int:
    """Return the bytes that all measured rows take in the package."""
    folder = importlib.resources.files(__package__).joinpath(FOLDER)
    return sum(len(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".gz"))
