"""Compiled programs are kept on disk, so that the next process need not compile them again."""

import os
import pathlib
import warnings

import jax

VARIABLE = "JAXROOF_CACHE"  # a folder; empty: keep nothing
LEAST = 0.1  # seconds of compilation from which on a program is kept


def cache_folder() -> str:
    """Return the folder of compiled programs, empty if none are kept.

    It is that of the environment variable ``JAXROOF_CACHE``, or ``jaxroof`` in the user's cache.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get(VARIABLE, os.path.join(home, "jaxroof"))


def keep_programs() -> None:
    """Keep the programs that JAX compiles in this process, unless it keeps them elsewhere already.

    JAX names each program by its text, its version and the machine, so that one of another version
    or machine is passed over. What it reads is compiled code: the folder must be the user's own.
    """
    folder = cache_folder()
    if not folder or jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # the home is not writable: compile anew each time
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    # a full disk leaves unreadable entries: those programs are silently compiled again
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
