"""The measured steps that travel with the package: where they come from, what is fitted to them."""

import functools
import gzip
import importlib.resources
import io
from typing import NamedTuple

from jaxroof.errors import unknown
from jaxroof.io.csv_blocks import RowFile
from jaxroof.validation.measured_rows import Table, table

HOMES = ("jaxroof.validation.steps", "jaxroof.validation.memory")  # some rows measure both
FOLDER = "data"
DENSE = "the constants of its chip and of all chips, with all dense rows"
EXPERTS = "the constants of experts, with all routed rows"
NOTHING = "nothing"  # with which the text of a source begins that the fit never saw
NEVER = "nothing; the fit has seen other rows of this software and these chips"


class Source(NamedTuple):
    """One file of measured steps."""

    title: str
    where: str  # repository or paper, and what in it
    fitted: str  # what of the model was made with these rows in view
    noise: str = ""  # what is known of the spread of its measurements


SOURCES = {
    "megatron_a100_korthikanti": Source(
        "Tables of the Megatron papers, 2020 to 2022",
        "arXiv 2205.05198 and 2104.04473; NVIDIA/Megatron-LM README of 2020",
        f"{DENSE}; nothing to the six rows of ZeRO-3",
        "most times follow from printed FLOP/s of three digits: 0.5 %",
    ),
    "mt_nlg_a100": Source(
        "Megatron-Turing NLG 530B", "arXiv 2201.11990, via cli99/llm-analysis", DENSE
    ),
    "vtrain_multi_node": Source(
        "vTrain, 64 to 512 GPUs",
        "VIA-Research/vTrain",
        DENSE,
        "one configuration is measured twice, 0.05 % apart; precision and vocabulary not stated",
    ),
    "vtrain_single_node": Source(
        "vTrain, 1 to 8 GPUs",
        "VIA-Research/vTrain",
        DENSE,
        "precision and vocabulary not stated",
    ),
    "bigscience_a100": Source(
        "BigScience 176B chronicle, 2022",
        "bigscience-workshop/bigscience: train/tr11-176B-ml/chronicles-prequel.md",
        NOTHING,
        "second iteration, not a mean; the A100s were tuned again in between (1 to 5 % faster)",
    ),
    "internevo_a100": Source(
        "InternEvo 7B",
        "InternLM/InternEvo: doc/en/train_performance.md",
        DENSE,
        "runs that gather parameters without overlap are 28 to 49 % slower than modelled",
    ),
    "llm_foundry_mpt": Source(
        "llm-foundry MPT", "mosaicml/llm-foundry: scripts/train/benchmarking/README.md", DENSE
    ),
    "megatron_lm_h100": Source(
        "Megatron-LM table and figure of 2024",
        "NVIDIA/Megatron-LM: README",
        DENSE,
        "eight rows are read from a figure",
    ),
    "nemo_releases": Source(
        "NeMo releases",
        "NVIDIA/NeMo: docs/source/performance; user guide of NeMo",
        DENSE,
        "rows of one run differ by up to 2 % between editions of the page",
    ),
    "mlperf_training": Source(
        "MLPerf training v3.0 to v5.1", "mlcommons/training_results_v3.0 to v5.1", DENSE
    ),
    "papers_and_automodel": Source(
        "Llama 3 report, NeMo AutoModel",
        "arXiv 2407.21783; NVIDIA-NeMo/Automodel: docs/performance-summary.mdx",
        f"dense: {DENSE}; routed: {EXPERTS}",
    ),
    "megatron_bridge_dense": Source(
        "Megatron-Bridge, dense",
        "NVIDIA-NeMo/Megatron-Bridge: docs/performance-summary.md",
        DENSE,
        "some editions print tokens/s on a grid of 2.3 %",
    ),
    "megatron_bridge_moe": Source(
        "Megatron-Bridge, experts",
        "NVIDIA-NeMo/Megatron-Bridge: docs/performance-summary.md",
        EXPERTS,
        "some editions print tokens/s on a grid of 2.3 %",
    ),
    "megatron_bridge_moe_2": Source(
        "Megatron-Bridge, gpt-oss",
        "NVIDIA-NeMo/Megatron-Bridge: docs/performance-summary.md",
        NOTHING,
        "windows, sinks and layers 2880 wide are not modelled: such rows come out too fast",
    ),
    "simumax_b200": Source(
        "SimuMax v1.2 on B200",
        "MooreThreads/SimuMax: docs/b200, commit 4dcaae5",
        f"dense: {DENSE}; routed: {EXPERTS}; the slow node is its own constant",
    ),
    "dgxc_benchmarking": Source(
        "NVIDIA DGX Cloud recipes",
        "NVIDIA/dgxc-benchmarking",
        NEVER,
        "last of 50 to 100 steps, or a mean of 30; one model of one release 12 to 20 % off",
    ),
    "torchtitan": Source(
        "torchtitan benchmarks",
        "pytorch/torchtitan: benchmarks, docs/performance.md",
        NOTHING,
        "its H100 is a part of 96 GB, 2.4 TB/s and 500 W, which is not the one predicted",
    ),
}


@functools.cache
def packaged(name: str) -> Table:
    """Return the rows of a source.

    Raises: InputError with the nearest name.

    >>> len(packaged("mt_nlg_a100").rows)
    3
    """
    if name not in SOURCES:
        raise unknown("--source", name, "source of measured steps", SOURCES)
    homes = (importlib.resources.files(home).joinpath(FOLDER, f"{name}.csv.gz") for home in HOMES)
    packed = next(file for file in homes if file.is_file())
    return table(RowFile(io.BytesIO(gzip.decompress(packed.read_bytes())), name))


def packed_bytes() -> int:
    """Return the bytes that measured steps take in the package, beside those of memory."""
    folder = importlib.resources.files(HOMES[0]).joinpath(FOLDER)
    return sum(len(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".gz"))
