"""Launch options: what is written is read back, and what a software cannot say is said."""

import itertools

import pytest

from jaxroof.catalog.launch_options import (
    is_launch,
    launch_options,
    launchers,
    read_launch,
    settings_of,
)
from jaxroof.errors import InputError

PLAN = {
    "data": 4, "tensor": 8, "context": 2, "exchange": 1, "pipeline": 4, "interleave": 5,
    "expert": 1, "expert_tensor": 1, "sequence_parallel": 1, "microbatch": 2, "zero_stage": 1,
    "rank_order": 0, "reshard": 1, "recompute": 0, "offload_optimizer": 0,
}  # fmt: skip
ASKED = {"global_batch": 128, "sequence": 8192}


def written(name, layers=(4,) * 20, **more):
    plan = {**PLAN, **{field: more.pop(field) for field in [*more] if field in PLAN}}
    return plan, launch_options(name, plan, layers_of_chunks=layers, **ASKED, **more)


@pytest.mark.parametrize("name", launchers())
def test_what_is_written_is_read_back_but_for_what_is_unsaid(name):
    for pipeline, zero, recompute, offload, expert, order in itertools.product(
        (1, 4), (0, 1, 2, 3), (0, 1, 2), (0, 1), (1, 8), (0, 1)
    ):
        plan, launch = written(
            name, pipeline=pipeline, interleave=5 if pipeline > 1 else 1, zero_stage=zero,
            recompute=recompute, offload_optimizer=offload, expert=expert, experts=8 * (expert > 1),
            rank_order=order, modules=["layernorm"], layers=(4,) * (20 if pipeline > 1 else 1),
        )  # fmt: skip
        found = read_launch("--mine", "python train.py " + " ".join(launch.options))
        assert found.title == launch.title
        read = settings_of("--mine", found, 80, ASKED)
        unsaid = {line.rpartition(" ")[0].replace(" ", "_") for line in launch.unsaid}
        wrong = {field for field, value in read.items() if value != plan[field]}
        assert wrong <= unsaid
        assert unsaid <= {*PLAN, "schedule"}


def test_a_line_for_megatron():
    _, launch = written("megatron", recompute=1, modules=["layernorm", "moe_act"])
    assert " ".join(launch.options) == (
        "--tensor-model-parallel-size 8 --sequence-parallel --context-parallel-size 2 "
        "--cp-comm-type p2p --pipeline-model-parallel-size 4 "
        "--num-virtual-stages-per-pipeline-rank 5 --micro-batch-size 2 --global-batch-size 128 "
        "--seq-length 8192 --use-distributed-optimizer --recompute-granularity selective "
        "--recompute-modules layernorm moe_act"
    )
    assert launch.unsaid == ()


@pytest.mark.parametrize(("name", "more", "unsaid"), [
    ("megatron", {"schedule": "zb-h1"}, "schedule zb-h1"),
    ("megatron", {"rank_order": 1, "zero_stage": 3}, "rank order 1"),
    ("torchtitan", {}, "zero stage 1"),
    ("deepspeed", {}, "interleave 5"),
    ("deepspeed", {}, "context 2"),
    ("nemo", {"layers": (3, *[4] * 18, 2)}, "layers of the chunks of stages 3, 18 x 4, 2"),
])  # fmt: skip
def test_a_field_without_an_option_is_said(name, more, unsaid):
    assert unsaid in written(name, **more)[1].unsaid


def test_the_order_of_ranks_has_an_option_of_megatron():
    assert "--use-tp-pp-dp-mapping" in written("megatron", rank_order=1)[1].options


def test_embedding_and_loss_as_layers_are_options_where_there_are_some():
    layers = (3, *[4] * 18, 3)
    assert "--account-for-loss-in-pipeline-split" in written("megatron", layers)[1].options
    assert any("chunks" in line for line in written("torchtitan", layers)[1].unsaid)


def test_uneven_stages_are_a_layout_and_what_it_can_run_is_a_rule():
    _, launch = written("megatron", (3, *[4] * 18, 2), mtp_layers=1)
    layout = "--pipeline-model-parallel-layout 'Et*3|(t*4|)*18t*2mL'"
    assert layout in launch.options
    assert launch.unsaid == ()
    found = read_launch("--mine", f"--pipeline-model-parallel-size 4 {layout}")
    assert settings_of("--mine", found, 77, {})["interleave"] == 5
    assert ("zero_stage", ">=2") in written("torchtitan")[1].able
    assert ("interleave", "=1") in written("deepspeed")[1].able


def test_weights_that_stay_gathered_are_said_where_they_can_be():
    _, launch = written("torchtitan", zero_stage=3, reshard=0)
    assert "--parallelism.fsdp_reshard_after_forward never" in launch.options
    _, launch = written("megatron", zero_stage=3, reshard=0)
    assert launch.unsaid == ("reshard 0",)
    assert launch.able == (("reshard", "=1"),)


@pytest.mark.parametrize(
    ("replicas", "shards", "data", "zero"),
    [("1", "-1", None, 3), ("4", "16", 64, 3), ("8", "1", 8, 0), ("1", "8", 8, 3)],
)
def test_shards_and_replicas_of_torchtitan_multiply(replicas, shards, data, zero):
    text = (
        f"[parallelism]\ndata_parallel_replicate_degree = {replicas}\n"
        f"data_parallel_shard_degree = {shards}\ntensor_parallel_degree = 2"
    )
    found = settings_of("--mine", read_launch("--mine", text), 80, {})
    assert (found.get("data"), found["zero_stage"], found["tensor"]) == (data, zero, 2)


SCRIPT = """
TP=8
export PP=${PP:-4}  # pipeline
ARGS=(
  --tensor-model-parallel-size $TP  # --tensor-model-parallel-size 2
  --pipeline-model-parallel-size ${PP:-4} \\
  --num-layers-per-virtual-pipeline-stage 2
  --micro-batch-size "2" --sequence-parallel
)
"""


@pytest.mark.parametrize(
    ("text", "title", "said"),
    [
        (SCRIPT, "Megatron-LM",
         {"tensor": 8, "pipeline": 4, "microbatch": 2, "sequence_parallel": 1, "zero_stage": 0,
          "interleave": 10}),
        ("--tensor-model-parallel-size=4 --recompute-granularity=full", "Megatron-LM",
         {"tensor": 4, "recompute": 2}),
        ('ARGS="--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2"', "Megatron-LM",
         {"tensor": 4, "pipeline": 2}),
        ('{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}',
         "Megatron-DeepSpeed", {"microbatch": 4, "zero_stage": 2}),
        ("[parallelism]\ntensor_parallel_degree = 4\ndata_parallel_shard_degree = -1\n"
         "[training]\nlocal_batch_size = 2", "torchtitan",
         {"tensor": 4, "microbatch": 2, "zero_stage": 3, "sequence_parallel": 1}),
        ("trainer.strategy.tensor_model_parallel_size=2 data.micro_batch_size=1", "NeMo 2",
         {"tensor": 2, "microbatch": 1}),
    ],
)  # fmt: skip
def test_lines_scripts_and_files_are_read(text, title, said):
    assert is_launch(text)
    found = read_launch("--mine", text)
    assert found.title == title
    settings = settings_of("--mine", found, 80, {})
    assert {field: settings[field] for field in said} == said
    assert "data" not in settings


@pytest.mark.parametrize(("text", "said"), [
    ("--tensor-model-parallel-size $WIDTH", r"--tensor-model-parallel-size: .* given '\$WIDTH'"),
    ("--lr 1e-4", "no launch option known; expected such as --tensor-model-parallel-size 8"),
    ("--recompute-granularity some", "expected selective or full, given 'some'"),
    ("--global-batch-size 64", "global batch 64, but asked for 128"),
])  # fmt: skip
def test_what_cannot_be_read_is_one_line(text, said):
    with pytest.raises(InputError, match=said):
        settings_of("--mine", read_launch("--mine", text), 80, ASKED)


def test_short_plans_are_no_launch():
    assert not is_launch("tp=8,pp=4")
    assert not is_launch("dp 4 tp 8")
