"""The tables of docs/memory.md, computed from the model."""

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from places import ROOT

import jaxroof as jr

PAGE = ROOT / "docs" / "memory.md"
ABOUT: dict[str, Any] = {"system": "h100-nvs8", "global_batch": 64}
STATES: dict[str, dict[str, Any]] = {  # of weights, gradients and optimizer
    "ZeRO 0: nothing is sharded": {"zero_stage": 0},
    "ZeRO 1: optimizer states (the default; Megatron's distributed optimizer)": {"zero_stage": 1},
    "ZeRO 2: gradients too": {"zero_stage": 2},
    "ZeRO 3: weights too": {"zero_stage": 3},
    "ZeRO 1, gradients in bf16": {"zero_stage": 1, "gradient_bytes": 2},
    "ZeRO 1, moments in bf16": {"zero_stage": 1, "moment_bytes": 4},
    "ZeRO 1, weights in FP8": {"zero_stage": 1, "weight_bytes": 1},
    "ZeRO 1, optimizer states offloaded": {"zero_stage": 1, "offload_optimizer": 1},
    "FSDP2: weights, gradients and moments in fp32, no master": {
        "zero_stage": 3, "weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0,
    },
}  # fmt: skip
REPLICAS = (1, 8, 64)
MODELS = ("llama3-8b", "mixtral-8x7b", "deepseek-v3")
KEPT: dict[str, dict[str, Any]] = {  # what a layer keeps
    "nothing computed again": {},
    "`modules=layernorm`": {"modules": "layernorm"},
    "`modules=mlp`: of dense layers": {"modules": "mlp"},
    "`modules=mla_up_proj`": {"modules": "mla_up_proj"},
    "`modules=moe_act`": {"modules": "moe_act"},
    "`modules=moe`": {"modules": "moe"},
    "`modules=layernorm,mlp,mla_up_proj,moe`": {"modules": "layernorm,mlp,mla_up_proj,moe"},
    "`recompute=full`": {"recompute": "full"},
    "`attention_kernel=flash`": {"attention_kernel": "flash"},
    "`attention_kernel=unfused`, 4,096 tokens": {"attention_kernel": "unfused"},
    "... and `modules=core_attn`": {"attention_kernel": "unfused", "modules": "core_attn"},
    "products read FP8: `linear_input_bytes=1`": {"linear_input_bytes": 1},
    "`offload_activations=0.5`": {"offload_activations": 0.5},
}
TOKENS = 4096
LOSSES = ("fused", "vocabulary_parallel", "native", "eager")
SCHEDULES: dict[str, dict[str, Any]] = {
    "1F1B": {},
    "1F1B, `interleave=2`": {"interleave": 2},
    "1F1B, `interleave=4`": {"interleave": 4},
    "GPipe": {"schedule": "gpipe"},
    "ZB-H1": {"schedule": "zb-h1"},
    "DualPipe": {"schedule": "dualpipe"},
}
TERMS = (
    "norm_inputs", "norm_outputs", "qkv", "attention_output", "attention_scores", "mlp",
)  # fmt: skip


def states_table() -> Iterator[list[str]]:
    """Yield the bytes of one parameter by scheme and replicas."""
    yield ["choice", *(f"{count} replica{'s' * (count > 1)}" for count in REPLICAS)]
    for words, settings in STATES.items():
        cells = []
        for count in REPLICAS:
            data = jr.fit(model="llama3-8b", plan={"dp": count}, settings=settings, **ABOUT)
            kinds = ("weights", "gradients", "optimizer")
            held = sum(float(data[f"{kind}_dense"][0]) for kind in kinds)
            cells.append(f"{held / float(data.parameters_dense[0]):.4g}")
        yield [words, *cells]


def kept_table() -> Iterator[list[str]]:
    """Yield the bytes that a layer keeps of one token, and how much longer a step takes."""
    yield [
        "choice",
        *(f"{model} [B]" for model in MODELS),
        *(f"{model} [step]" for model in MODELS),
    ]
    before = [_kept(model, {})[1] for model in MODELS]
    for words, settings in KEPT.items():
        found = [_kept(model, settings) for model in MODELS]
        timed = "offload_activations" not in settings  # which no step time knows
        yield [
            words,
            *(f"{each:,.0f}" for each, _ in found),
            *(
                _share(time / now - 1.0) if timed else "?"
                for (_, time), now in zip(found, before, strict=True)
            ),
        ]


def _kept(model: str, settings: Mapping[str, Any]) -> tuple[float, float]:
    own = {"sequence": TOKENS, "plan": {}, "model": model, **ABOUT}
    data = jr.fit(**own, settings=settings)
    one = data.isel(stage=0)
    beside = float(one.activations_embedding + one.activations_mtp + one.activations_pipeline)
    each = (float(one.activations) - beside) / float(one.layers) / TOKENS
    return each, float(data.step_time)


def _share(more: float) -> str:
    return f"{100 * more:+.1f} %" if abs(more) >= 5e-4 else "-"


def terms_table() -> Iterator[list[str]]:
    """Yield the bytes of one token of a layer of Llama 3 8B, term by term, by tensor degree."""
    degrees = ({"tp": 1}, {"tp": 8}, {"tp": 8, "sp": 0}, {"cp": 8})
    said = (" ".join(f"{name}={value}" for name, value in one.items()) for one in degrees)
    yield ["term", *(f"`{words}`" for words in said)]
    found = [
        jr.fit(model="llama3-8b", plan=plan, sequence=TOKENS, **ABOUT).isel(stage=0)
        for plan in degrees
    ]
    for term in TERMS:
        name = f"activations_{term}"
        each = [float(data[name]) / float(data.layers) / TOKENS for data in found]
        yield [str(found[0][name].attrs["long_name"]), *(f"{value:,.0f}" for value in each)]
    sums = [sum(float(d[f"activations_{t}"]) for t in TERMS) / 32 / TOKENS for d in found]
    yield ["**all**", *(f"**{value:,.0f}**" for value in sums)]


def losses_table() -> Iterator[list[str]]:
    """Yield the bytes of one token at the head by loss kernel."""
    yield ["loss kernel", "llama3-8b [B]", "deepseek-v3 [B]"]
    for loss in LOSSES:
        cells = []
        for model in ("llama3-8b", "deepseek-v3"):
            data = jr.fit(model=model, plan={}, sequence=TOKENS, cross_entropy=loss, **ABOUT)
            cells.append(f"{float(data.transient_head[0]) / TOKENS:,.0f}")
        yield [f"`cross_entropy={loss}`", *cells]


def flights_table() -> Iterator[list[str]]:
    """Yield the microbatches in flight by schedule, of 8 stages and 32 microbatches."""
    own = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 32}
    alone = jr.fit(plan={}, **own)
    each = float(alone.activations_mlp[0] / alone.layers[0])
    yield ["schedule", "first stage", "last stage", "largest"]
    for words, chosen in SCHEDULES.items():
        plan = {"pp": 8, "interleave": chosen.get("interleave", 1)}
        rest = {name: value for name, value in chosen.items() if name != "interleave"}
        data = jr.fit(plan=plan, settings=rest, **own)
        held = data.activations_mlp.values / each / 4.0  # four layers a stage
        yield [words, f"{held[0]:.4g}", f"{held[-1]:.4g}", f"{held.max():.4g}"]


def bounds_table() -> Iterator[list[str]]:
    """Yield what is stated beside each number."""
    yield ["number", "what it is", "dense", "with experts"]
    found = [jr.fit(model=model, plan={}, **ABOUT) for model in MODELS[:2]]
    for name in ("allocated", "reserved", "device"):
        about = str(found[0][name].attrs["long_name"]).rstrip(".")
        yield [name, about, *(str(data[name].attrs["bound"]) for data in found)]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "states": states_table, "terms": terms_table, "kept": kept_table, "losses": losses_table,
    "flights": flights_table, "bounds": bounds_table,
}  # fmt: skip


def rendered(name: str) -> str:
    """Return a table in Markdown."""
    head, *rows = TABLES[name]()
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "\n"


def written(name: str) -> str:
    """Return a table as it stands on the page."""
    found = _pattern(name).search(PAGE.read_text(encoding="utf-8"))
    assert found, f"the page has no table {name}"
    return found[2]


def _pattern(name: str) -> "re.Pattern[str]":
    return re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)


def write(path: pathlib.Path) -> None:
    """Write every table anew."""
    text = path.read_text(encoding="utf-8")
    for name in TABLES:
        text = _pattern(name).sub(rf"\1{rendered(name)}\3", text)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(PAGE)
