"""Every operation of a layer works, keeps and takes as long as that of the published one."""

import functools
from collections.abc import Callable
from typing import Any

import golden_rows as golden
import numpy as np
import pytest

import jaxroof as jr
from jaxroof.estimators.published.layer_time import timings
from jaxroof.estimators.published.operations import LayerOperation, Operations, operations
from jaxroof.formulas import network

FUSED = (
    *("fc1", "fc1-bias", "act1", "dpr1", "fc2", "fc2-bias", "dpr2", "ln1"),
    *("qkv", "fusedla", "vproj", "vproj-bias", "dpr_v", "ln2"),
)
UNFUSED = ("logits", "softmax", "dpr_at", "attend")
VARIANTS = [  # golden kind and variant, attention of ours, settings in the file, operations listed
    ("1d", "fused", jr.Attention.FUSED, 50, FUSED),
    ("1d", "unfused", jr.Attention.UNFUSED, 12, UNFUSED),
    ("1d", "unfused_recompute", jr.Attention.RECOMPUTE, 12, UNFUSED),
    ("2d", "fused", jr.Attention.FUSED, 50, FUSED),
    ("2d", "unfused_summa", jr.Attention.PANELS, 20, UNFUSED),
    ("2d_seqp", "fused", jr.Attention.FUSED, 50, FUSED),
    ("2d_seqp", "unfused", jr.Attention.UNFUSED, 20, UNFUSED),
]
FILES = [  # golden kind, rows of its file, settings in it
    ("1d", 796, 62),
    ("2d", 780, 70),
    ("2d_seqp", 780, 70),
]
RANKS = {  # our plan fields: golden columns
    "tensor": "tp1", "context": "tp2", "microbatch": "b", "panels": "nb", "fast_tensor": "nv_tp1",
    "fast_context": "nv_tp2",
}  # fmt: skip
COLLECTIVES = {
    "allgather": network.study_gather,
    "reducescatter": network.study_gather,
    "allreduce": network.study_all_reduce,
    "broadcast": network.study_broadcast,
    "reduce": network.study_broadcast,
}


@functools.cache
def asked(kind: str, variant: str) -> tuple[jr.Inputs, Operations]:
    """Return the inputs of every setting of a variant and the operations of its layers."""
    attention = next(row[2] for row in VARIANTS if row[:2] == (kind, variant))
    rows = golden.read(f"layers_{kind}", variant=variant)
    first = golden.where(rows, np.unique(rows["setting"], return_index=True)[1])
    inputs = jr.Inputs(model=golden.model(first), system=golden.system(first))
    recipe = jr.Recipe(split=golden.SPLITS[kind], attention=attention)
    return inputs, operations(inputs, recipe, **{f: first[c] for f, c in RANKS.items()})


@functools.cache
def rows_of(kind: str, variant: str, layer: str) -> golden.Rows:
    """Return the rows of one operation, in the order of ``asked``."""
    rows = golden.read(f"layers_{kind}", variant=variant, layer=layer)
    return golden.where(rows, np.argsort(rows["setting"]))


EACH = [(kind, variant, layer) for kind, variant, _, _, layers in VARIANTS for layer in layers]
each = pytest.mark.parametrize(("kind", "variant", "layer"), EACH)


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


@each
def test_work_and_memory(kind: str, variant: str, layer: str) -> None:
    """FLOP, bytes moved, activations kept and weights held are those of the published layer."""
    inputs, layers = asked(kind, variant)
    rows = rows_of(kind, variant, layer)
    for column, ours, unit, rtol in AMOUNTS:
        found = ours(layers[layer], inputs.precision)
        golden.agree(found, rows[column] * unit, rtol, says=column, rows=rows)


@each
def test_messages(kind: str, variant: str, layer: str) -> None:
    """The same collectives send the same volumes in the same groups, in the same order."""
    rows = rows_of(kind, variant, layer)
    operation = asked(kind, variant)[1][layer]
    for way, messages in (("fwd", operation.forward), ("bwd", operation.backward)):
        assert len(set(rows[f"comm_{way}_type"].tolist())) == 1
        types = rows[f"comm_{way}_type"][0].split(";")
        fields = [golden.listed(rows[f"comm_{way}_{name}"]).T for name in ("vol", "group", "nv")]
        expected = [sent for sent in zip(types, *fields, strict=True) if sent[1].any()]
        ours = [message for message in messages if np.any(message.volume > 0.0)]
        for message, (collective, volume, group, fast) in zip(ours, expected, strict=True):
            assert message.collective == COLLECTIVES[collective]
            golden.agree(message.volume, volume * golden.GIGA, 1e-12, says=way, rows=rows)
            golden.agree(message.group, group, 0.0, says=way, rows=rows)
            golden.agree(message.fast, fast, 0.0, says=way, rows=rows)


@each
def test_times(kind: str, variant: str, layer: str) -> None:
    """Arithmetic, exposed traffic and collectives take the seconds of the published layer."""
    inputs, layers = asked(kind, variant)
    rows = rows_of(kind, variant, layer)
    found = seconds(layers[layer], inputs.system)
    assert set(found) == {column for column, *_ in TIMES}
    for column, rtol, share in TIMES:
        floor = share * rows["t"]
        golden.agree(found[column], rows[column], rtol, floor, says=column, rows=rows)


@pytest.mark.parametrize(("kind", "count", "settings"), FILES)
def test_every_operation_is_checked(kind: str, count: int, settings: int) -> None:
    """The operations above are all that the file lists, and all that a layer has."""
    counted = 0
    for _, variant, _, held, layers in [row for row in VARIANTS if row[0] == kind]:
        inputs, found = asked(kind, variant)
        assert len(inputs.system.fast_domain) == held
        assert [layer for layer in found if layer in layers] == list(layers)
        extra = set(FUSED) - {"fusedla"} if layers == UNFUSED else set()
        assert set(found) == {*layers, *extra}
        for layer in layers:
            rows = rows_of(kind, variant, layer)
            assert golden.size(rows) == held
            counted += golden.size(rows)
    assert counted == golden.size(golden.read(f"layers_{kind}")) == count


def test_only_what_is_recomputed_says_so() -> None:
    """Logits, softmax and dropout run twice under recomputation, and nothing else does."""
    said = {row for row in EACH if asked(*row[:2])[1][row[2]].recomputed}
    again = ("logits", "softmax", "dpr_at")
    assert said == {("1d", "unfused_recompute", layer) for layer in again}
