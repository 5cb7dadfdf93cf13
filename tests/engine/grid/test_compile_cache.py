"""Compiled programs are kept for the next process, in a folder that the user chooses."""

import os
import subprocess
import sys

import pytest
from places import ROOT

SCRIPT = """
import jax
{before}
import jaxroof as jr
inputs = jr.Inputs(model=jr.model("gpt3"), system=jr.system("h200-nvs8"))
jr.search(jr.published, inputs, gpus=64, global_batch=512, executor="jax")
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("before", "variable", "expected"), [
    ("", "kept", "kept"), ("", "", "None"),
    ("jax.config.update('jax_compilation_cache_dir', 'own')", "kept", "own"),
], ids=["a folder", "opted out", "one of the user's own"])  # fmt: skip
def test_programs_are_kept_where_the_user_says(before, variable, expected, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAXROOF_CACHE": variable}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    code = SCRIPT.format(before=before)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() == expected
    assert (tmp_path / "kept").exists() == (expected == "kept")
    if expected == "kept":
        assert list((tmp_path / "kept").iterdir())
