"""Every operation of a layer works, keeps and takes as long as that of the published one."""

import functools
from collections.abc import Callable
from typing import Any

import golden_rows as golden
import numpy as np
import pytest

import jaxroof as jr
from jaxroof.estimators.training.block import (
    LayerOperation,
    Message,
    Operations,
    operations,
    timings,
)
from jaxroof.formulas import collectives

FUSED = (
    *("fc1", "fc1-bias", "act1", "dpr1", "fc2", "fc2-bias", "dpr2", "ln1"),
    *("qkv", "fusedla", "vproj", "vproj-bias", "dpr_v", "ln2"),
)
UNFUSED = ("logits", "softmax", "dpr_at", "attend")
VARIANTS = {  # golden variant: ours, settings in the file, operations listed
    "fused": (jr.Attention.FUSED, 50, FUSED),
    "unfused": (jr.Attention.UNFUSED, 12, UNFUSED),
    "unfused_recompute": (jr.Attention.RECOMPUTE, 12, UNFUSED),
}
COLLECTIVES = {
    "allgather": collectives.all_gather,
    "reducescatter": collectives.reduce_scatter,
}


@functools.cache
def asked(variant: str) -> tuple[jr.Inputs, Operations]:
    """Return the inputs of every setting of a variant and the operations of its layers."""
    rows = golden.read("layers_1d", variant=variant)
    first = golden.where(rows, np.unique(rows["setting"], return_index=True)[1])
    inputs = jr.Inputs(model=golden.model(first), system=golden.system(first))
    recipe = jr.Recipe(attention=VARIANTS[variant][0])
    split = {"tensor": first["tp1"], "microbatch": first["b"], "fast_tensor": first["nv_tp1"]}
    return inputs, operations(inputs, recipe, **split)


@functools.cache
def rows_of(variant: str, layer: str) -> golden.Rows:
    """Return the rows of one operation, in the order of ``asked``."""
    rows = golden.read("layers_1d", variant=variant, layer=layer)
    return golden.where(rows, np.argsort(rows["setting"]))


EACH = [(variant, layer) for variant, (_, _, layers) in VARIANTS.items() for layer in layers]


def seconds(operation: LayerOperation, system: jr.System) -> dict[str, Any]:
    """Return the time columns of one operation; what is computed again adds to the way back."""
    found: dict[str, Any] = {}
    for way, work, timing in zip(
        ("fwd", "bwd"), operation.work[:2], timings(operation, system), strict=True
    ):
        found[f"t_{way}"] = timing.compute + timing.memory + timing.communication
        found[f"t_{way}_comp"] = timing.compute
        found[f"t_{way}_mem"] = timing.memory
        found[f"t_{way}_comm"] = timing.communication
        found[f"intensity_{way}"] = timing.compute / (work.traffic / system.hbm_bandwidth)
    if operation.recomputed:
        found["t_bwd"] = found["t_bwd"] + found["t_fwd"]
    return {**found, "t": found["t_fwd"] + found["t_bwd"]}


AMOUNTS: list[tuple[str, Callable[[LayerOperation, jr.Precision], Any], float, float]] = [
    # golden column, ours, SI size of its unit, rtol
    ("flops_fwd", lambda o, p: o.work.forward.flops, golden.TERA, 1e-12),
    ("flops_bwd", lambda o, p: o.work.backward.flops, golden.TERA, 1e-12),
    ("bytes_fwd", lambda o, p: o.work.forward.traffic, golden.GIGA, 1e-12),
    ("bytes_bwd", lambda o, p: o.work.backward.traffic, golden.GIGA, 1e-12),
    ("activation_buffer", lambda o, p: o.work.kept, golden.GIGA, 1e-12),
    ("weights_mem", lambda o, p: o.work.parameters * p.weight, golden.GIGA, 1e-12),
    ("weights_grad_mem", lambda o, p: o.work.parameters * p.gradient, golden.GIGA, 1e-12),
    ("tensor_core", lambda o, p: float(o.matrix), 1.0, 0.0),
]
TIMES = [  # golden column, rtol, floor as a share of the operation's time
    *((f"t_{way}", 1e-12, 0.0) for way in ("fwd", "bwd")),
    *((f"t_{way}_comp", 1e-12, 0.0) for way in ("fwd", "bwd")),
    *((f"t_{way}_comm", 1e-12, 0.0) for way in ("fwd", "bwd")),
    *((f"t_{way}_mem", 1e-12, 1e-12) for way in ("fwd", "bwd")),  # a difference of two times
    *((f"intensity_{way}", 1e-12, 0.0) for way in ("fwd", "bwd")),
    ("t", 1e-12, 0.0),
]


@pytest.mark.parametrize(("variant", "layer"), EACH)
def test_work_and_memory(variant: str, layer: str) -> None:
    """FLOP, bytes moved, activations kept and weights held are those of the published layer."""
    inputs, layers = asked(variant)
    rows = rows_of(variant, layer)
    for column, ours, unit, rtol in AMOUNTS:
        found = ours(layers[layer], inputs.precision)
        golden.agree(found, rows[column] * unit, rtol, says=column, rows=rows)


@pytest.mark.parametrize(("variant", "layer"), EACH)
def test_messages(variant: str, layer: str) -> None:
    """The same collective sends the same volume in the same group; a group of one sends nothing."""
    rows = rows_of(variant, layer)
    operation = asked(variant)[1][layer]
    ways: list[tuple[str, Message | None]] = [
        ("fwd", operation.forward),
        ("bwd", operation.backward),
    ]
    for way, message in ways:
        sent = rows[f"comm_{way}_vol"] > 0.0
        volume, group, fast = (0.0, 1.0, 1.0) if message is None else message[1:]
        golden.agree(volume, rows[f"comm_{way}_vol"] * golden.GIGA, 1e-12, says=way, rows=rows)
        golden.agree(group, rows[f"comm_{way}_group"], 0.0, says=way, rows=rows)
        golden.agree(fast, rows[f"comm_{way}_nv"], 0.0, says=way, rows=rows)
        assert {message and message.collective for _ in sent[sent]} == {
            COLLECTIVES[kind] for kind in rows[f"comm_{way}_type"][sent].tolist()
        }


@pytest.mark.parametrize(("variant", "layer"), EACH)
def test_times(variant: str, layer: str) -> None:
    """Arithmetic, exposed traffic and collectives take the seconds of the published layer."""
    inputs, layers = asked(variant)
    rows = rows_of(variant, layer)
    found = seconds(layers[layer], inputs.system)
    assert set(found) == {column for column, *_ in TIMES}
    for column, rtol, share in TIMES:
        floor = share * rows["t"]
        golden.agree(found[column], rows[column], rtol, floor, says=column, rows=rows)


def test_every_operation_is_checked() -> None:
    """The operations above are all that the file lists, and all that a layer has."""
    counted = 0
    for variant, (_, settings, layers) in VARIANTS.items():
        inputs, found = asked(variant)
        assert len(inputs.system.fast_domain) == settings
        assert [layer for layer in found if layer in layers] == list(layers)
        extra = set(FUSED) - {"fusedla"} if layers == UNFUSED else set()
        assert set(found) == {*layers, *extra}
        for layer in layers:
            rows = rows_of(variant, layer)
            assert golden.size(rows) == settings
            counted += golden.size(rows)
    assert counted == golden.size(golden.read("layers_1d")) == 796


def test_only_what_is_recomputed_says_so() -> None:
    """Logits, softmax and dropout run twice under recomputation, and nothing else does."""
    said = {(variant, layer) for variant, layer in EACH if asked(variant)[1][layer].recomputed}
    assert said == {("unfused_recompute", layer) for layer in ("logits", "softmax", "dpr_at")}


def test_golden_settings_name_their_columns() -> None:
    """Rows of one setting differ in operation and variant alone."""
    rows = golden.read("layers_1d")
    same = ("model", *golden.MODEL.keys() - {"depth"}, "system", "nvs", "b", "tp1", "nv_tp1")
    settings = golden.distinct(rows, "setting", *same)[0]["setting"]
    assert len(settings) == len(set(settings.tolist())) == 62
    assert set(rows["tp2"].tolist()) == set(rows["nv_tp2"].tolist()) == {1.0}
