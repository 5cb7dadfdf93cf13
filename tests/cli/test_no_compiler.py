"""Small questions are answered without JAX: the process never imports it."""

import os
import subprocess
import sys

import pytest
from places import ROOT

ONE = "--estimator published --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096"
PLAN = (
    "--estimator published --model gpt3-1t --system h200-nvs4 --plan dp=64,tp=4,pp=8,microbatch=1"
)
COMMANDS = [
    f"search {ONE} --split summa --top 3",
    f"search {ONE} --mine tp=8,pp=8",
    f"search {ONE} -o plans.csv",
    "compare --estimator published "
    "--model gpt3-1t --system a100-nvs4,h200-nvs4 --gpus 2048 --batch 4096",
    f"pareto {ONE}",
    f"explain {ONE}",
    f"layers {PLAN}",
    "layers --model llama3-70b --system h100-nvs8 --plan dp=8,tp=8 -o layers.nc",
    f"schedule {PLAN} --batch 4096",
    "schedule --model llama3-70b --system h100-nvs8 --plan tp=8,pp=4 --batch 32 -o schedules.nc",
    "fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 128 -o stages.nc",
    "fit --model llama3-8b --system h100-nvs8 --batch 64",
    "search --estimator training --model llama3-8b --system h100-nvs8 --gpus 8,16 --batch 64",
    "layers --estimator unfused --model gpt3 --system a100-unfused --plan tp=4",
    "roofline --op matmul --shape B=256,D=4096,F=16384 --dtypes bf16 --system tpu-v5e",
    f"evaluate published {ROOT}/docs/examples/rows.csv -o answers.csv",
    f"run {ROOT}/sweeps/gpt3_hbm.toml -o map.nc",
    f"run {ROOT}/docs/examples/two_level.toml",
    "run capacities.toml -o capacities.nc",  # 18 million points and plans, half a million apart
    "show published",
    "show h100-sxm",
]
CAPACITIES = """\
estimator = "published"
model = "gpt3-1t"
system = "b200-nvs8"
plan = { global_batch = 4096 }
[axes]
gpus = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
"system.hbm_capacity" = { from = "80 GB", to = "1000 GB", count = 32 }
"system.hbm_bandwidth" = { from = "500 GB/s", to = "16 TB/s", count = 28 }
"""
SCRIPT = """
import shlex, sys
from jaxroof.cli import main
import jaxroof as jr
for line in {commands!r}:
    try:
        main(shlex.split(line))
    except SystemExit as ended:
        assert ended.code in (0, 1), (line, ended.code)
    assert "jax" not in sys.modules, line
inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("h200-nvs4"))
axes = {{"system.hbm_bandwidth": [3e12, 6e12], "gpus": [512, 1024]}}
jr.search(jr.published, inputs, axes=axes, global_batch=4096)
jr.elasticities(jr.published, inputs, axes=axes, global_batch=4096)
assert "jax" not in sys.modules
import jax
jax.tree.leaves(inputs)[0]  # records made before are known to JAX
assert jax.config.jax_enable_x64
"""


def test_small_questions_import_no_jax(tmp_path):
    code = SCRIPT.format(commands=COMMANDS)
    (tmp_path / "capacities.toml").write_text(CAPACITIES)
    path = os.pathsep.join([str(ROOT), str(ROOT / "docs/examples")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        pytest.fail(done.stderr[-2000:])
