"""Every test runs with strict rank and dtype promotion, two host devices and one compile cache."""

import os
import pathlib
import tempfile

import jax

CACHE = pathlib.Path(tempfile.gettempdir()) / "jaxroof-test-cache"

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
os.environ.setdefault("JAXROOF_CACHE", str(CACHE))
