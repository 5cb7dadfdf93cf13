"""Every test runs with strict rank and dtype promotion, two host devices and one compile cache."""

import os
import pathlib
import shlex
import tempfile
from importlib.metadata import version

# most of the time is compilation: in a hurry here, unoptimised and by XLA's older way to emit loops
# (a jaxlib that does not know the flag would end the process); `XLA_FLAGS= pytest` as users have it
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false" * version("jaxlib").startswith("0.10."),
)

import jax
import pytest
from command_line import Said

CACHE = pathlib.Path(tempfile.gettempdir()) / "jaxroof-test-cache"

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
os.environ.setdefault("JAXROOF_CACHE", str(CACHE))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))  # of notebooks
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


@pytest.fixture
def jaxroof(capsys, monkeypatch, tmp_path):
    """Run a command line inside this process, in a folder of its own."""
    from jaxroof import cli
    from jaxroof.cli import process

    monkeypatch.setattr(process, "start", lambda: None)
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(shlex.split(line))
        return Said(ended.value.code, *capsys.readouterr())

    return run
