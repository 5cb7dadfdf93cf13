"""How long does a person wait for each command of the README and the docs, from the shell?

Whole processes, wall time, medians: with an empty cache of compiled programs (cold) and with the
one that the command itself has filled (warm). Ratios are to the imports of jax and xarray, timed in
turn with the command. A command that needs no compiler has no cache: cold is warm.
Run, where ``pip install .`` was: ``python benchmarks/latency.py [--rounds N] [WORD ...]``; with
dask beside it, xarray takes 0.15 s more. The last line is JSON.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/commands.md")
ELSEWHERE = ("--workers", "jaxroof app")  # commands that start other processes, or go on for ever
FLOOR = "jax, xarray"
IMPORTS = ("numpy", "jax", "xarray", FLOOR)
STUDY = "--estimator published --model gpt3-1t --system b200-nvs8 --gpus 8192 --batch 4096"
MORE = (
    "jaxroof --help",
    "jaxroof list",
    "jaxroof list systems",
    "jaxroof list estimators",
    "jaxroof show training",
    "jaxroof show deepseek-v3",
    "jaxroof explain --model llama3.1-405b --system h100-nvs8 --gpus 2048 --batch 2048",
    "jaxroof explain --model deepseek-v3 --system h800-nvs8 --gpus 2048 --batch 15360 "
    "--set precision=fp8",
    "jaxroof pareto --model deepseek-v3 --system h800-nvs8 --gpus 2048 --batch 15360 "
    "--set precision=fp8",
    "jaxroof compare --model deepseek-v3 --system h800-nvs8,gb200-nvl72 --gpus 2048 "
    "--batch 15360 --set precision=fp8",
    "jaxroof schedule --model llama3-70b --system h100-nvs8 --batch 256 --plan dp=4,tp=8,pp=4",
    "jaxroof design sweeps/design/gpt3_1t.toml",
    f"jaxroof search {STUDY} --uncertain sweeps/uncertain/efficiencies.toml",
    *(f"jaxroof {command} {STUDY}" for command in ("search", "pareto", "explain")),
    f"jaxroof compare {STUDY.replace('b200-nvs8', 'a100-nvs4,h200-nvs4,b200-nvs8')}",
)


FIRST_SEARCH = """
import time, jaxroof as jr
inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("h200-nvs4"))
search, published = jr.search, jr.published
start = time.perf_counter()
search(published, inputs, gpus=2048, global_batch=4096, split="1d")
print(time.perf_counter() - start)
"""


# modules are compiled once, as those of users are
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}


def first_search() -> float:
    """Return the seconds of the first search of a process, from Python, after its imports."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_SEARCH], env=ENVIRONMENT, capture_output=True, check=True
    )
    return float(done.stdout)


def shown_commands() -> list[str]:
    """Return what is timed: the commands of the pages, without comments, each once, and more."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    blocks = [block for text in texts for block in re.findall(r"```sh\n(.*?)```", text, re.S)]
    lines = "\n".join(blocks).splitlines()
    found = [line.partition("  #")[0].strip() for line in lines if line.startswith("jaxroof ")]
    alone = [line for line in found if not any(word in line for word in ELSEWHERE)]
    return list(dict.fromkeys([*MORE, *alone]))


def seconds(arguments: list[str], folder: pathlib.Path, cache: pathlib.Path) -> float:
    """Return the wall time of a process."""
    environment = {**ENVIRONMENT, "JAXROOF_CACHE": str(cache)}
    start = time.perf_counter()
    done = subprocess.run(
        arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    spent = time.perf_counter() - start
    if "pip install 'jaxroof[" in done.stderr:
        raise ModuleNotFoundError(done.stderr.strip())
    if done.returncode not in (0, 1):
        sys.exit(f"{shlex.join(arguments)}: {done.stderr.strip()}")
    return spent


def waits(line: str, folder: pathlib.Path, rounds: int) -> list[list[float]]:
    """Return the seconds of a command with an empty cache, with the one that it filled, of imports.

    They are timed in turn, so that all see the same machine.
    """
    arguments = [sys.executable, "-m", "jaxroof", *shlex.split(line)[1:]]
    imports = [sys.executable, "-c", f"import {FLOOR}"]
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            asked = (arguments, arguments, imports)
            found.append([seconds(one, folder, pathlib.Path(cache)) for one in asked])
    return [list(column) for column in zip(*found, strict=True)]


def main() -> None:
    """Time imports and commands in the same rounds, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("words", nargs="*", help="only commands that have one of these words")
    asked = parser.parse_args()
    commands = [
        line
        for line in shown_commands()
        if not asked.words or set(asked.words) & set(shlex.split(line))
    ]
    with tempfile.TemporaryDirectory() as home:
        folder = pathlib.Path(home)
        for name in ("sweeps", "docs"):
            shutil.copytree(ROOT / name, folder / name)
        imports = {
            names: statistics.median(
                seconds([sys.executable, "-c", f"import {names}"], folder, folder)
                for _ in range(asked.rounds)
            )
            for names in IMPORTS
        }
        for names, spent in imports.items():
            print(f"{spent:8.2f} s          import {names}")
        first = statistics.median(first_search() for _ in range(asked.rounds))
        ratio = first / imports[FLOOR]
        print(f"{first:8.2f} s           {ratio:5.2f}        the first jr.search of a process")
        found = {}
        for line in commands:
            try:
                cold, warm, floor = map(statistics.median, waits(line, folder, asked.rounds))
            except ModuleNotFoundError as error:
                print(f"left out: {line}: {error}")
                continue
            print(f"{cold:8.2f} s {warm:8.2f} s  {cold / floor:5.2f} {warm / floor:5.2f}  {line}")
            ratios = {"cold_ratio": cold / floor, "warm_ratio": warm / floor}
            found[line] = {"cold": cold, "warm": warm, **ratios}
    first_ratio = {"seconds": first, "ratio": ratio}
    result = {"imports": imports, "first_search": first_ratio, "commands": found}
    dask = importlib.util.find_spec("dask") is not None
    print(json.dumps({**result, "rounds": asked.rounds, "dask": dask}))


if __name__ == "__main__":
    main()
