"""Benchmarks that have a quick form run, and end with their figures as JSON."""

import json
import os
import subprocess
import sys

import pytest
from places import ROOT

QUICK = sorted(
    path for path in (ROOT / "benchmarks").glob("*.py") if '"--quick"' in path.read_text("utf-8")
)


@pytest.mark.slow
@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_a_benchmark_ends_with_its_figures(path):
    done = subprocess.run(
        [sys.executable, path, "--quick"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])
