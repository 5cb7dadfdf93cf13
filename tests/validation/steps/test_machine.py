"""The machine of measured rows: chips by name, the nearest of those that were calibrated."""

import pytest

from jaxroof import catalog
from jaxroof.errors import InputError
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.calibration import usable
from jaxroof.validation.steps.machine import machine_of
from jaxroof.validation.steps.sources import packaged
from jaxroof.validation.steps.step_rows import SYSTEMS

SYSTEMS_OF_CHIPS = {
    system: chip
    for chip in catalog.names("chips")
    for system in catalog.describe("chips", chip)["systems"]
}


def named(kind):
    """Return a row that says to have run on an accelerator."""
    cells = packaged("mt_nlg_a100").rows[0].cells
    written = "A100 40GB" if kind == "A100 40" else kind
    return Row(7, {**cells, "row_id": kind, "system": written})


@pytest.mark.parametrize("system", [*SYSTEMS_OF_CHIPS, "mi300x", "mi355x"])
def test_rows_of_another_chip_are_refused_for_every_system(system):
    machine = machine_of(system)
    assert machine.names
    for kind in {*SYSTEMS, "MI300X", "MI355X"}:
        if kind in machine.names:
            steps, refused, _ = usable([named(kind)], system)
            assert ([one.system for one in steps], refused) == ([system], ())
        else:
            with pytest.raises(InputError, match=f"no row can be used; the first, {kind}: system"):
                usable([named(kind)], system)


@pytest.mark.parametrize("system", SYSTEMS_OF_CHIPS)
def test_a_calibrated_chip_is_its_own_start(system):
    machine = machine_of(system)
    assert (machine.chip, machine.like) == (SYSTEMS_OF_CHIPS[system], "")
    assert machine.start == "the catalogue"


def test_the_nearest_chip_is_the_nearest_in_its_rates():
    assert (machine_of("mi300x").chip, machine_of("mi300x").like) == ("hopper", "h200-nvs8")
    assert SYSTEMS_OF_CHIPS[machine_of("mi355x").like] == machine_of("mi355x").chip == "blackwell"


@pytest.mark.parametrize("system", ["tpu-v5p", "rtx-4090"])
def test_a_system_without_what_a_step_needs_is_refused(system):
    with pytest.raises(InputError, match=f"{system}: lacks fast_domain, .*expected a system with"):
        machine_of(system)


def test_a_file_may_say_whose_constants_it_starts_from(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "h20-nvs8"\nchip = "hopper"\n', encoding="utf-8")
    assert machine_of(str(path))[1:] == (("H20",), "hopper", None, "hopper")
    path.write_text('base = "h100-nvs8"\n[chip]\nmatmul = 0.7\n', encoding="utf-8")
    with pytest.raises(
        InputError, match=r"mine\.toml: chip: base: missing; expected one of ampere"
    ):
        machine_of(str(path))
