"""Every test runs with strict rank and dtype promotion, two host devices and one compile cache."""

import functools
import gc
import os
import pathlib
import shlex
import signal
import sys
import tempfile
import time
from importlib.metadata import version

# most of the time is compilation: in a hurry here, unoptimised, each program in one piece and by
# XLA's older way to emit loops (a jaxlib that does not know these flags would end the process);
# `XLA_FLAGS= pytest` as users have it
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + " --xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
    * version("jaxlib").startswith("0.10."),
)

import hypothesis
import jax
import pytest
from command_line import Said

CACHE = pathlib.Path(tempfile.gettempdir()) / "jaxroof-test-cache"

# a trace makes millions of objects: to look for circles among them took a tenth of the time
gc.set_threshold(100_000, 20, 1000)

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
os.environ.setdefault("JAXROOF_CACHE", str(CACHE))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))  # of notebooks
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def pytest_configure(config):
    """Draw the same examples every day, so that no landing hangs on luck; others with -m slow.

    Output of commands is piped, and as wide as a pipe.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell may ignore it
    os.environ.pop("COLUMNS", None)  # of the terminal that the workers report to
    hypothesis.settings.register_profile("daily", derandomize=True)
    if config.option.markexpr == "not slow":
        hypothesis.settings.load_profile("daily")


def pytest_collection_finish():
    """Leave what was imported out of every later search for garbage: a third of a second each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def few_shapes():
    """Pad short lists of plans to one length, so that a compiled search serves many tests."""
    from jaxroof.engine.search import candidates  # after the settings above

    candidates.PLANS, candidates.ROWS = 1024, 512


forgot = time.process_time()


@pytest.fixture(scope="module", autouse=True)
def forget():
    """Let go of what a module compiled and listed, of which the next one needs little.

    Modules that took five seconds of this process together are let go of at once.
    """
    global forgot
    yield
    if time.process_time() - forgot < 5.0:
        return
    forgot = time.process_time()
    jax.clear_caches()
    for module in [m for name, m in sys.modules.items() if name.startswith("jaxroof.")]:
        for value in vars(module).values():
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()
    gc.collect()


@pytest.fixture(autouse=True)
def broken_pipes():
    """Let no pipe or socket that another end closes kill this process, as a command lets one."""
    yield
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it


@pytest.fixture
def jaxroof(capsys, monkeypatch, tmp_path):
    """Run a command line inside this process, in a folder of its own."""
    from jaxroof import cli
    from jaxroof.cli import process, progress

    monkeypatch.setattr(process, "start", lambda: None)
    monkeypatch.setattr(progress, "PATIENCE", 600.0)  # of a slow machine nothing is said
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(shlex.split(line))
        return Said(ended.value.code, *capsys.readouterr())

    return run
