"""Measured servers of several sources as inputs of ``serving``, with what their cells mean.

python -m tools.rows.serving RAW.csv OUT.csv    a file whose name ends with that of its source

Rows that are not compared are left out: speculation of unknown depth, models without a formula,
systems that nothing is known of.
Source: docs/models/serving.md, section 12.
"""

import csv
import gzip
import io
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping

from jaxroof.catalog import names

Cells = Mapping[str, str]
Line = dict[str, float | str]

BUDGET = 8192.0  # tokens of a prompt step of an attention rank
MOST = 2048.0  # sequences of a rank of TensorRT-LLM
H100: Line = {"system": "h100-nvs8"}
B200: Line = {"system": "b200-180-sxm"}
SYSTEMS: dict[str, Line] = {
    "a100": {"system": "a100-80-sxm"},
    "h100": H100,
    "h200": {"system": "h200-141-sxm"},
    "gh200": H100
    | {
        "system.hbm_bandwidth": 4e12,
        "system.hbm_capacity": 102e9,
        "system.fast_domain": 1,
    },
    "b200": B200,
    "b300": B200
    | {
        "system.hbm_capacity": 288e9,
        "system.fp4_flops": 13.5e15,
        "system.slow_bandwidth": 100e9,
    },
    "gb200": {"system": "gb200-nvl72"},
    "gb300": {"system": "gb300-nvl72"},
    "mi300x": {"system": "mi300x"},
    "mi325x": {"system": "mi325x", "system.hbm_capacity": 274.9e9},
    "mi355x": {"system": "mi355x"},
    "tpu-v6e": {"system": "tpu-v6e"},
    "tpu-v7x": {"system": "tpu-v7"},
}
FEW_BITS = ("b200", "b300", "gb200", "gb300", "mi355x")  # that multiply MXFP4 at 8 bits


def _ungated(layers: float, vocabulary: float, heads: float = 32, **more: float) -> Line:
    """Return a model with two matrices in an MLP, four times as wide as its layers."""
    sizes = {"hidden": 4096, "feedforward": 16384, "head_size": 128, **more}
    sizes |= {"layers": layers, "vocabulary": vocabulary, "heads": heads, "kv_heads": heads}
    return {"model": "gpt3-175b"} | {f"model.{name}": value for name, value in sizes.items()}


# a family that has another name in the catalogue, or the source's name where it says more
MODELS: dict[str, Line] = {
    "llama3-405b": {"model": "llama3.1-405b"},
    "llama4-maverick": {"model": "llama-4-maverick-text"},
    "llama4-scout": {"model": "llama-4-scout-text"},
    "gemma3-12b": {"model": "gemma-3-12b-text"},
    "gemma3-27b": {"model": "gemma3-27b-text"},
    "mistral-7b": {"model": "mistral-7b-v0.1"},
    "qwen2-7b": {"model": "qwen2.5-7b"},
    "qwen2-72b": {"model": "qwen2.5-72b"},
    "llama-7b": {"model": "llama2-7b"},
    "aquila-7b": {"model": "llama2-7b", "model.vocabulary": 100008},
    "qwen1.5-7b": {"model": "llama2-7b", "model.vocabulary": 151936},
    "opt-6.7b": _ungated(32, 50272) | {"embeddings": "tied"},
    "gpt-j-6b": _ungated(28, 50400, heads=16, head_size=256),
    "bigscience/bloom-7b1": _ungated(30, 250880) | {"embeddings": "tied"},
    "bloom-176b": _ungated(70, 250880, heads=112, hidden=14336, feedforward=57344)
    | {"embeddings": "tied"},
}


def _machine(cells: Cells, precision: str, software: str, cache: float = 2.0) -> Line | None:
    """Return model, system, formats and software of a row; None where one is not known."""
    family, chip = cells["model_family"], cells["chip_family"]
    known: Line | None = {"model": family} if family in names("architectures") else None
    model = MODELS.get(cells.get("model", ""), MODELS.get(family, known))
    system = SYSTEMS.get(chip)
    if model is None or system is None:
        return None
    attention = "fp8" if precision == "fp4" and family == "deepseek-v3" else precision
    mlp = precision
    if family.startswith("gpt-oss"):
        attention, mlp = "bf16", "mxfp4-8" if chip in FEW_BITS else "mxfp4-16"
    formats: Line = {"precision.attention_format": attention, "precision.mlp_format": mlp}
    formats |= {"precision.cache_width": cache, "software": software}
    return {**model, **system, "#chip": chip, **formats}


def _degrees(gpus: float, data: bool = False, whole: bool = False) -> Line:
    """Return the degrees of a worker: tensor parallel, or data-parallel attention."""
    return {"tp": 1 if data else gpus, "dp": gpus if data else 1, "ep": float(whole and gpus > 1)}


def _load(prompt: float, output: float, batch: float, chunk: float) -> Line:
    return {"prompt": prompt, "output": output, "batch": batch, "chunk": chunk}


def _num(cells: Cells, name: str) -> float:
    return float(cells[name] or "nan")


def inferencemax(cells: Cells) -> Iterator[Line]:
    """Yield a server in a closed loop, or a decode pool: lengths are drawn from 80 to 100 %."""
    engines = {"vllm": "vllm-2026", "atom": "atom-2025"}
    engines |= dict.fromkeys(("trt", "dynamo-trt"), "trtllm-2025")
    framework, pool = cells["framework"], cells["disaggregated"] == "1"
    unsettled = pool and "sglang" in framework and cells["decode_tp"] == "1"
    found = _machine(cells, cells["precision"], engines.get(framework, "sglang-2025"))
    if cells["spec"] != "none" or unsettled or found is None:
        return
    data, whole = cells["decode_attention_dp"] == "1", _num(cells, "decode_ep") > 1
    plan = _degrees(_num(cells, "decode_tp"), data, whole)
    prompt, users = 0.9 * _num(cells, "isl"), _num(cells, "concurrency")
    chunk = 1.0 if pool else min(prompt, BUDGET) * float(plan["dp"])
    each = users / _num(cells, "decode_workers") if pool else users
    kind: Line = {"id": cells["row"], "#kind": "pool" if pool else "closed"}
    times: Line = {"#pool_tpot_s" if pool else "#tpot_s": cells["median_tpot"]}
    times |= {} if pool else {"#ttft_s": cells["median_ttft"]}
    yield kind | found | plan | _load(prompt, 0.9 * _num(cells, "osl"), each, chunk) | times


def argonne(cells: Cells) -> Iterator[Line]:
    """Yield one static batch: all its prompts in one step, then its tokens."""
    engine = {"vLLM": "vllm-2024", "TensorRT-LLM": "trtllm-2024"}[cells["framework"]]
    found = _machine(cells, "bf16", engine)
    if found is None:
        return
    kind: Line = {"id": cells["row"], "#kind": "static", "software.reserve": 3e9}
    sizes = (_num(cells, name) for name in ("input_tokens", "output_tokens", "batch"))
    latency: Line = {"#latency_s": cells["latency_s"]}
    yield kind | found | _degrees(_num(cells, "gpus")) | _load(*sizes, 1.0) | latency


def mlenergy(cells: Cells) -> Iterator[Line]:
    """Yield a batch that decodes answers of 20 % more than the mean, and one of the mean."""
    formats = {"bfloat16": "bf16", "fp8": "fp8", "mxfp4": "fp4"}
    found = _machine(cells, formats[cells["weight_precision"]], "vllm-2025")
    if found is None:
        return
    data, name = _num(cells, "data_parallel"), cells["row"]
    plan: Line = {"tp": _num(cells, "num_gpus") / data, "dp": data}
    plan["ep"] = float(_num(cells, "expert_parallel") > 1)
    prompt = 150.0 if cells["task"] == "lm-arena-chat" else 300.0
    output, batch = _num(cells, "avg_output_len"), _num(cells, "avg_batch_size")
    step: Line = {
        "id": f"{name} itl",
        "#kind": "batch",
        "#step_s": _num(cells, "median_itl_ms") / 1e3,
    }
    yield step | found | plan | _load(prompt, 1.2 * output, batch, prompt * data)
    rate: Line = {"id": f"{name} rate", "#kind": "batch"}
    rate["#tokens_per_s"] = cells["output_throughput_tokens_per_sec"]
    yield rate | found | plan | _load(prompt, output, batch, prompt * data)


def trtllm(cells: Cells) -> Iterator[Line]:
    """Yield a server whose batch is as large as memory and its limits let it be."""
    found = _machine(cells, cells["precision"].lower(), "trtllm-2025", cache=1.0)
    if found is None:
        return
    spread = cells["parallel"] != "tp"
    plan = _degrees(_num(cells, "gpus"), spread, spread)
    data = float(plan["dp"])
    prompt, output = _num(cells, "input_tokens"), _num(cells, "output_tokens")
    batch = data * min(MOST, BUDGET * output / (prompt + output))
    kind: Line = {"id": cells["row"], "#kind": "load", "software.usable": 0.92}
    rate: Line = {"#tokens_per_s": cells["output_tokens_per_s"]}
    yield kind | found | plan | _load(prompt, output, batch, BUDGET * data) | rate


def splitwise(cells: Cells) -> Iterator[Line]:
    """Yield a batch of prompts, which then decodes; rows of capped watts repeat others."""
    found = _machine(cells, "bf16", "vllm-2023")
    if found is None or "pcap" in cells["hardware"]:
        return
    kind: Line = {"id": cells["row"], "#kind": "batch"}
    prompt, batch = _num(cells, "prompt_tokens"), _num(cells, "batch")
    times: Line = {"#prompt_s": _num(cells, "prompt_ms") / 1e3}
    times["#step_s"] = _num(cells, "token_ms") / 1e3
    load = _load(prompt, min(_num(cells, "output_tokens"), 512.0), batch, batch * prompt)
    yield kind | found | _degrees(_num(cells, "tp")) | load | times


def tpu(cells: Cells) -> Iterator[Line]:
    """Yield a server in a closed loop; without a mean, the median between tokens is a step's."""
    found = _machine(cells, "bf16", "jax-2026")
    mean, median = cells["mean_tpot"], cells["median_itl"]
    if found is None or "out of cache" in cells["setting"] or not (mean or median):
        return
    kind: Line = {"id": cells["row"], "#kind": "closed" if mean else "batch"}
    plan = _degrees(_num(cells, "chips"), whole=_num(cells, "ep") > 1)
    prompt, output, users = (_num(cells, name) for name in ("isl", "osl", "concurrency"))
    times: Line = {"#tpot_s": mean, "#step_s": "" if mean else median}
    yield kind | found | plan | _load(prompt, output, users, min(prompt, BUDGET)) | times


SOURCES: dict[str, Callable[[Cells], Iterator[Line]]] = {
    one.__name__: one for one in (inferencemax, argonne, mlenergy, trtllm, splitwise, tpu)
}


def converted(name: str, text: str) -> str:
    """Return rows as their source has them as rows of inputs: CSV."""
    lines = [line for cells in csv.DictReader(io.StringIO(text)) for line in SOURCES[name](cells)]
    heads = dict.fromkeys(head for line in lines for head in line)
    written = io.StringIO()
    table = csv.DictWriter(written, heads, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows({head: _cell(value) for head, value in line.items()} for line in lines)
    return written.getvalue()


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.10g}".replace("nan", "")


def servers(path: pathlib.Path) -> str:
    """Return a file of rows as rows of inputs; its name ends with that of its source."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return converted(path.name.partition(".")[0].rpartition("_")[2], text)


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(servers(pathlib.Path(sys.argv[1])), encoding="utf-8")
