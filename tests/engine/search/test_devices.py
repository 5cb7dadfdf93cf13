"""A search on every device that JAX sees, and how much of it a call gives each of them."""

import os
import pathlib
import pickle
import subprocess
import sys
from typing import NamedTuple

import jax
import numpy as np
import pytest
import xarray as xr
from places import ROOT

import jaxroof as jr
from jaxroof.engine.search import folded
from jaxroof.engine.search.folded import CPU, call_size

DEVICES = 8
AXES = {  # 11 bandwidths: no multiple of the devices
    "gpus": [8, 16],
    "system.hbm_bandwidth": np.linspace(1e12, 16e12, 11),
    "system.hbm_capacity": np.array([20e9, 1e12]),
}


def winners(executor: str) -> xr.Dataset:
    inputs = jr.Inputs(model=jr.model("gpt3-13b"), system=jr.system("b200-nvs8"), global_batch=64)
    return jr.search(jr.published, inputs, axes=AXES, top=2, executor=executor)


def save(path: str) -> None:
    """Write the winners of a search that is compiled for all devices of this process."""
    assert folded.folding.mesh().size == jax.device_count() == DEVICES
    pathlib.Path(path).write_bytes(pickle.dumps(winners("jax")))


@pytest.mark.slow  # daily every compiled search of the tests has two devices: conftest.py
def test_eight_devices_answer_what_one_does(tmp_path):
    """A process of its own has forced host devices; NumPy, here, has one core and no device."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    places = [str(ROOT), str(ROOT / "tests" / "helpers"), str(pathlib.Path(__file__).parent)]
    subprocess.run(
        [sys.executable, "-c", "import test_devices; test_devices.save('found')"],
        cwd=tmp_path,
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(places)},
        check=True,
        timeout=300,
    )
    found, expected = pickle.loads((tmp_path / "found").read_bytes()), winners("numpy")
    assert expected.feasible.any()
    assert not expected.feasible.all()
    xr.testing.assert_allclose(found, expected, rtol=1e-12, atol=0.0)
    for name in set(jr.published.plan_fields) & set(expected.data_vars):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


class Device(NamedTuple):
    """What a device says of itself."""

    platform: str
    core_count: int | None
    memory: dict | None

    def memory_stats(self):
        return self.memory


@pytest.mark.parametrize(
    "device", [Device("cpu", 64, {"bytes_limit": 1e12}), jax.devices("cpu")[0]]
)
def test_a_core_gets_what_its_cache_holds(device):
    assert call_size(device) == CPU


def test_a_gpu_gets_a_lane_for_every_thread_in_flight():
    small = call_size(Device("gpu", 60, {"bytes_limit": 2**34}))
    assert small.lanes == 60 * folded.RESIDENT
    assert small.cells * folded.NUMBER == 2**34 * folded.SHARE
    large = call_size(Device("gpu", 120, {"bytes_limit": 2**36}))
    assert large.lanes == 2 * small.lanes
    assert large.cells == 4 * small.cells


@pytest.mark.parametrize("memory", [None, {}])
def test_a_device_that_says_nothing_of_itself_is_treated_as_a_core(memory):
    assert call_size(Device("gpu", 60, memory)) == CPU
    assert call_size(Device("gpu", None, {"bytes_limit": 2**34})) == CPU
