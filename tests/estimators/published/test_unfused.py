"""The unfused blocks are the published tables, cell by cell, and obey what holds of any split."""

import csv
import dataclasses
import functools
import gzip
from pathlib import Path
from typing import Any

import golden_rows as golden
import jax
import numpy as np
import pytest
import xarray as xr
from places import GOLDEN

import jaxroof as jr
from jaxroof.analyses.one_plan import unfused_layers
from jaxroof.estimators.published import operations as training_operations
from jaxroof.estimators.published.inputs import STUDY
from jaxroof.estimators.published.unfused import (
    BLOCK_NAMES,
    SUMMED,
    Inputs,
    Operator,
    Plan,
    Recipe,
    Variant,
    operations,
    unfused,
)
from jaxroof.estimators.published.unfused import blocks as eager_blocks
from jaxroof.records import checked, replace_at

TERA, GIGA, MILLI = 1e12, 1e9, 1e-3
SHEET = {  # column of the published tables, in order: our name, and the SI size of its unit
    "flops_fwd": ("flops_forward", TERA),
    "activation_in_mem": ("activation_in", GIGA),
    "activation_in_other_mem": ("activation_other", GIGA),
    "activation_out_mem": ("activation_out", GIGA),
    "activation_buffer": ("kept", GIGA),
    "weights_mem": ("weights", GIGA),
    "total_mem_fwd": ("traffic_forward", GIGA),
    "flops_bwd": ("flops_backward", TERA),
    "activation_grad_mem": ("activation_gradients", GIGA),
    "weights_grad_mem": ("weight_gradients", GIGA),
    "total_mem_bwd": ("traffic_backward", GIGA),
    "comm_bwd": ("message_backward", GIGA),
    "comm_bwd_type": ("communication_backward", None),
    "comm_size": ("group", 1.0),
    "comm_fwd": ("message_forward", GIGA),
    "comm_fwd_type": ("communication_forward", None),
    "t_comp_fwd": ("compute_forward", MILLI),
    "t_mem_fwd": ("memory_forward", MILLI),
    "t_comp_bwd": ("compute_backward", MILLI),
    "t_mem_bwd": ("memory_backward", MILLI),
    "intensity": ("intensity", 1.0),
    "t_fwd": ("work_forward", MILLI),
    "t_bwd": ("work_backward", MILLI),
    "comm_topology": ("topology", None),
    "t_comm_fwd": ("links_forward", MILLI),
    "t_comm_bwd": ("links_backward", MILLI),
    "t_total_fwd": ("time_forward", MILLI),
    "t_total_bwd": ("time_backward", MILLI),
    "frac_t_comm_fwd": ("links_share_forward", 1.0),
    "frac_t_comm_bwd": ("links_share_backward", 1.0),
}
SUMS = {  # line of the published summary: our name, the SI size of its unit, and the unit
    "activation_buffer": ("kept", GIGA, "GB"),
    "weights_mem": ("weights", GIGA, "GB"),
    "weights_grad_mem": ("weight_gradients", GIGA, "GB"),
    "flops_fwd": ("flops_forward", TERA, "TFLOP"),
    "flops_bwd": ("flops_backward", TERA, "TFLOP"),
    "t_total_fwd": ("time_forward", MILLI, "ms"),
    "t_total_bwd": ("time_backward", MILLI, "ms"),
    "t_comm_fwd": ("links_forward", MILLI, "ms"),
    "t_comm_bwd": ("links_backward", MILLI, "ms"),
}
FOLDER = GOLDEN / "unfused"
PUBLISHED = {"mlp": "mlp", "attention": "sa"}  # our block: theirs
RTOL = 1e-12
SEQUENCE = Recipe(variant=Variant.SEQUENCE)
REFERENCE = checked(unfused.example())
REFERENCE_LINE = "layers --estimator unfused --model gpt3 --system a100-unfused --plan tp=4"

blocks = jax.jit(eager_blocks, static_argnums=1)


@functools.cache
def read(name: str) -> golden.Rows:
    """Return the columns of a golden file."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        head, *lines = csv.reader(file)
    texts = zip(head, zip(*lines, strict=True), strict=True)
    return {key: golden._column(found) for key, found in texts}


def texts(name: str) -> dict[str, list[str]]:
    """Return the columns of a golden file as they are written."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        head, *lines = csv.reader(file)
    return {key: list(found) for key, found in zip(head, zip(*lines, strict=True), strict=True)}


@functools.cache
def reference() -> xr.Dataset:
    return unfused_layers(REFERENCE)


def block_of(data: xr.Dataset, block: str) -> xr.Dataset:
    return data.isel(operation=data.block.values == block)


# ---- Parity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCK_NAMES)
def test_full_tables(block: str) -> None:
    """All digits of the published tables; what is empty there is missing here."""
    rows, data = read(f"seed003_{PUBLISHED[block]}_full"), block_of(reference(), block)
    for column, (name, size) in SHEET.items():
        values = data[name].values
        if size is None:
            assert values.tolist() == rows[column].tolist()
            continue
        values = np.where(values < 0, np.nan, values / size)
        np.testing.assert_allclose(values, rows[column], rtol=RTOL, atol=0.0, err_msg=column)


def assert_operator(one: Operator, rows: golden.Rows) -> None:
    """Assert every column of one operator in all settings against rows in the same order."""
    size = golden.size(rows)
    assert set(rows["layer"].tolist()) == {one.name}
    there = {way: np.broadcast_to(getattr(one, f"there_{way}"), size) for way in WAYS}
    either = there["forward"] | there["backward"]
    for way, short in WAYS.items():
        kind = getattr(one, f"collective_{way}")
        assert rows[f"comm_{short}_type"].tolist() == np.where(there[way], kind, "").tolist()
    link = np.where(np.broadcast_to(one.fast, size), "nvlink", "ib")
    assert rows["comm_topology"].tolist() == np.where(either, link, "").tolist()
    empty = {"comm_fwd": ~there["forward"], "comm_bwd": ~there["backward"], "comm_size": ~either}
    for column, (name, unit) in SHEET.items():
        if unit is None:
            continue
        values = np.broadcast_to(getattr(one, name), size)
        missing = empty.get(column, np.zeros(size, bool))
        np.testing.assert_array_equal(np.isnan(rows[column]), missing, err_msg=column)
        found = np.where(missing, 0.0, values)
        expected = np.where(missing, 0.0, rows[column] * unit)
        golden.agree(found, expected, RTOL, says=f"{one.name} {column}", rows=rows)


WAYS = {"forward": "fwd", "backward": "bwd"}


def assert_blocks(inputs: Inputs, recipe: Recipe, rows: golden.Rows) -> None:
    """Assert the operators of inputs whose numbers are columns against all rows of a file."""
    counted = 0
    found = blocks(inputs, recipe)
    for block in BLOCK_NAMES:
        for number, one in enumerate(found[block]):
            own = golden.only(rows, block=PUBLISHED[block], row=float(number))
            assert_operator(one, own)
            counted += golden.size(own)
    assert counted == golden.size(rows)


def test_random_settings() -> None:
    """Forty settings at once, degrees that do not divide and no fast links among them."""
    rows = read("random_settings")
    first = golden.where(rows, np.unique(rows["setting"], return_index=True)[1])
    assert golden.size(first) == 40
    assert (first["nvlink_size"] == 0.0).any()
    assert (first["h"] % first["m1"] > 0.0).any()
    fast = ("nvlink_bandwidth", "fast_bandwidth"), ("ib_bandwidth", "slow_bandwidth")
    machine = [("matrix_flops_fp16", "matrix_flops"), ("vector_flops_fp16", "vector_flops")]
    system = {ours: first[theirs] * golden.TERA for theirs, ours in machine}
    system |= {ours: first[theirs] * golden.GIGA for theirs, ours in fast}
    width = first["element_size_GB"] * golden.GIGA
    shape = {field: first[key] for key, field in golden.MODEL.items() if key in first}
    inputs = Inputs(
        model=jr.Model(layers=np.float64(1.0), **shape),
        system=jr.System(
            hbm_bandwidth=first["hbm_bandwidth"] * golden.GIGA,
            fast_domain=np.maximum(first["nvlink_size"], 1.0),
            **system,
        ),
        precision=jr.Precision(
            weight=width,
            activation=width,
            gradient=width,
            mask=first["mask_element_size_GB"] * golden.GIGA,
        ),
        batch=first["b"],
        fast_links=1.0 * (first["nvlink_size"] > 0.0),
        plan=Plan(tensor=first["m1"]),
    )
    assert_blocks(inputs, Recipe(), rows)


def test_sequence_parallel_variant() -> None:
    """The variant with a sequence degree of its own, at five pairs of degrees at once."""
    rows = read("seed003_variant_seqpar")
    order = np.unique(rows["sequence"] * 1000.0 + rows["m1"], return_inverse=True)[1]
    rows = golden.where(rows, np.argsort(order, kind="stable"))
    pairs = golden.only(rows, block="mlp", row=0.0)
    assert golden.size(pairs) == 5
    plan = Plan(tensor=pairs["m1"], sequence=pairs["sequence"])
    assert_blocks(dataclasses.replace(REFERENCE, plan=plan), SEQUENCE, rows)


def test_sums_over_all_layers() -> None:
    """The nine sums of each block and its communication fraction, in full."""
    rows, report = read("seed003_sums"), unfused.evaluate(REFERENCE)
    ours = {line: name for line, (name, _, _) in SUMS.items()}
    sizes = {line: size for line, (_, size, _) in SUMS.items()} | {"comm_fraction_fwd": 1.0}
    ours["comm_fraction_fwd"] = "links_share"
    blocks_of = {theirs: block for block, theirs in PUBLISHED.items()}
    asked = list(zip(rows["block"].tolist(), rows["quantity"].tolist(), strict=True))
    found = [float(getattr(report, f"{blocks_of[b]}_{ours[q]}")) / sizes[q] for b, q in asked]
    np.testing.assert_allclose(found, rows["full"], rtol=RTOL, atol=0.0)
    assert len(asked) == 20


# ---- What holds of any split --------------------------------------------------------------------


def matrix_flops(tensor: float, recipe: Recipe) -> dict[str, tuple[float, float]]:
    """Return the FLOP of the products of all ranks, forward and backward, by operator."""
    inputs = replace_at(REFERENCE, "plan.tensor", np.float64(tensor))
    found = operations(inputs, recipe.variant)
    return {
        one.name: (tensor * one.ledger.flops_forward, tensor * one.ledger.flops_backward)
        for block in BLOCK_NAMES
        for one in found[block]
        if one.matrix
    }


@pytest.mark.parametrize("tensor", [2.0, 8.0, 32.0])
def test_a_split_loses_no_product(tensor: float) -> None:
    """All ranks together do what one does, but for biases and the additions of the collectives.

    Forward, each rank of a row split adds the whole bias, as many FLOP as the additions of the
    reduce-scatter, which do not count. Backward it sums the bias' gradient, and those additions of
    a column split do not count.
    """
    model = REFERENCE.model
    alone, split = matrix_flops(1.0, Recipe()), matrix_flops(tensor, Recipe())
    additions = float(model.sequence * model.hidden) * (tensor - 1.0)
    more = {"fc1": -additions, "qkv_proj": -additions, "fc2": additions, "v_proj": additions}
    for name, (forward, backward) in split.items():
        expected = alone[name][1] + more.get(name, 0.0)
        np.testing.assert_allclose(forward, alone[name][0], rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(backward, expected, rtol=1e-12, err_msg=name)


RATES = ("matrix_flops", "vector_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")
RECIPES = (Recipe(), SEQUENCE)
evaluate = jax.jit(unfused.evaluate, static_argnums=1)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.variant.value)
def test_rates_move_times_as_they_should(recipe: Recipe) -> None:
    """No faster part slows a step, and all rates k times as fast take a k-th of the time."""
    plan = Plan(tensor=np.float64(8.0), sequence=np.float64(2.0))
    inputs = dataclasses.replace(REFERENCE, plan=plan)

    @jax.jit
    @functools.partial(jax.value_and_grad, has_aux=True)
    def evaluate(asked: Any) -> Any:
        report = unfused.evaluate(asked, recipe)
        return report.step_time, report

    (_, before), slopes = evaluate(inputs)
    every = inputs
    for field in RATES:
        value = 3.0 * getattr(inputs.system, field)
        (_, faster), _ = evaluate(replace_at(inputs, f"system.{field}", value))
        for name in ("step_time", *(f"{b}_time_{way}" for b in BLOCK_NAMES for way in WAYS)):
            assert getattr(faster, name) <= getattr(before, name) * (1.0 + 1e-12), (field, name)
        assert float(faster.flops) == float(before.flops)
        every = replace_at(every, f"system.{field}", value)
    (_, after), _ = evaluate(every)
    for block in BLOCK_NAMES:
        for field in SUMMED:
            factor = 3.0 if field.startswith(("time", "links")) else 1.0
            found = factor * getattr(after, f"{block}_{field}")
            np.testing.assert_allclose(found, getattr(before, f"{block}_{field}"), rtol=1e-12)
    np.testing.assert_allclose(after.links_share, before.links_share, rtol=1e-12)
    shares = [float(getattr(slopes.system, f) * getattr(inputs.system, f)) for f in RATES]
    np.testing.assert_allclose(sum(shares) / float(before.step_time), -1.0, rtol=1e-12)


def test_sequences_add_up() -> None:
    """Twice the sequences take twice the activations and messages, on the same weights."""
    one, two = (evaluate(replace_at(REFERENCE, "batch", np.float64(b)), Recipe()) for b in (1, 2))
    for block in BLOCK_NAMES:
        for field in ("kept", "links_forward", "links_backward", "flops_forward"):
            found = getattr(two, f"{block}_{field}")
            np.testing.assert_allclose(found, 2.0 * getattr(one, f"{block}_{field}"), rtol=1e-12)
        assert getattr(two, f"{block}_weights") == getattr(one, f"{block}_weights")


def test_the_training_step_differs_in_what_it_books_alone() -> None:
    """With the training step's booking, the same formulas give the training step's operations."""
    inputs = checked(dataclasses.replace(REFERENCE, booking=STUDY))
    found = operations(inputs, Variant.TENSOR)
    ours = {one.name: one.ledger.operation for block in found.values() for one in block}
    theirs = training_operations.operations(
        jr.Inputs(model=inputs.model, system=inputs.system),
        jr.Recipe(attention=jr.Attention.UNFUSED),
        tensor=np.float64(4.0),
        microbatch=np.float64(1.0),
    )
    same = {
        "act": "act1", "dpr1": "dpr1", "dpr2": "dpr2", "layer_norm_1": "ln1", "qkv_proj": "qkv",
        "logits": "logits", "softmax": "softmax", "dropout_softmax": "dpr_at", "attend": "attend",
        "dropout": "dpr_v", "layer_norm_2": "ln2",
    }  # fmt: skip
    for name, other in same.items():
        for mine, published in zip(
            jax.tree.leaves(ours[name]), jax.tree.leaves(theirs[other].work), strict=True
        ):
            np.testing.assert_allclose(mine, published, rtol=1e-15, atol=0.0, err_msg=name)


# ---- Dataset and command line -------------------------------------------------------------------


def test_the_picture_shows_what_binds_each_operator(jaxroof: Any, tmp_path: Path) -> None:
    """A bar is the work in the colour of what binds, then the messages; its number is beside it."""
    said = jaxroof(f"{REFERENCE_LINE} -o layer.nc")
    said = jaxroof("plot layer.nc -o layer.png")
    assert (said.code, said.err) == (0, "wrote layer.png\n")
    assert (tmp_path / "layer.png").stat().st_size > 10_000
    data = jr.read(tmp_path / "layer.nc")
    figure = jr.plot.draw(data)
    for axes, way in zip(figure.axes, WAYS, strict=True):
        work, traffic, links = ([bar.get_width() * 1e-3 for bar in c] for c in axes.containers)
        bound = data[f"compute_{way}"].values >= data[f"memory_{way}"].values
        np.testing.assert_allclose(work, data[f"work_{way}"] * bound, rtol=RTOL, atol=1e-18)
        np.testing.assert_allclose(traffic, data[f"work_{way}"] * ~bound, rtol=RTOL, atol=1e-18)
        np.testing.assert_allclose(links, data[f"links_{way}"], rtol=RTOL, atol=1e-18)
        assert [float(text.get_text()) for text in axes.texts] == pytest.approx(
            1e3 * data[f"time_{way}"].values, rel=5e-3
        )
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["arithmetic binds", "HBM traffic binds", "messages"]


def test_the_command_prints_every_operator_and_their_sum(jaxroof: Any) -> None:
    said, data = jaxroof(REFERENCE_LINE), reference()
    assert (said.code, said.err) == (0, "")
    assert all(f" {name} " in said.words for name in data.operation.values)
    forward, backward = (1e6 * float(data[f"time_{way}"].sum()) for way in WAYS)
    assert f"{forward:,.0f} | {backward:,.0f}" in said.words
    links = float(data.links_forward.sum() / data.time_forward.sum())
    assert f"links take {100 * links:.1f} % of the forward pass" in said.words
    assert "does not divide" not in said.words


def test_the_variant_at_the_command_line(jaxroof: Any) -> None:
    said = jaxroof(f"{REFERENCE_LINE},sp=3 --set variant=sequence_parallel --set batch=2")
    assert said.code == 0
    assert "sp=3 does not divide 2048 tokens: what is left over is in no table." in said.words
    found = unfused_layers(
        REFERENCE, variant="sequence_parallel", batch=2, **{"plan.sequence": 3.0}
    )
    assert f"{1e6 * float(found.time_forward.sum()):,.0f} | " in said.words
    assert found.operation.values.tolist().count("dpr1") == 2


BAD = [
    ("--estimator unfusd", "--estimator: unfusd: no such estimator. Did you mean"),
    ("--plan tp=4,pp=2", "--plan: pp: the unfused blocks have no such degree; expected tp or sp"),
    ("--plan tp=-4", "--plan: tp: expected whole numbers from 1 to 1e9, given '-4'"),
    ("--plan tp=200", "--plan: tp: expected at most the 96 heads that it divides, given 200"),
    ("--plan tq=4", "--plan: tq: the unfused blocks have no such degree; expected tp or sp"),
    ("--plan sp=2", "--plan: sp=2: the ends of a block are split by tp; expected --set variant="),
    ("--split summa", "split: no such field of Inputs; expected one of variant,"),
    ("--set fast_links=2", "fast_links: expected a whole number of at least 0 and at most 1"),
    ("--set plan.tensor=2", "--set: plan.tensor: not a field of the question"),
    (
        "--system tpu-v5p-book",
        "system.fast_domain and system.fast_bandwidth: not given, and unfused",
    ),
    ("--system tpu-v5p-book --set system.fast_domain=8", "system.fast_bandwidth: not given"),
]


@pytest.mark.parametrize(("more", "expected"), BAD, ids=[more for more, _ in BAD])
def test_bad_input_is_one_line(more: str, expected: str, jaxroof: Any) -> None:
    said = jaxroof(f"{REFERENCE_LINE} {more}")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    assert expected in said.err


@pytest.mark.parametrize(("degree", "divides"), [(4.0, True), (96.0, False), (1e9, False)])
def test_what_no_rank_does_is_told(degree, divides):
    """A degree that cuts work off is answered as the sheet says, and marked."""
    found = jr.evaluate("unfused", model="gpt3", system="a100-unfused", **{"plan.tensor": degree})
    assert bool(found.degrees_divide) is divides
