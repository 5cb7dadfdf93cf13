"""NetCDF files: no byte changes unseen, and other programs read them."""

import random

import h5py
import pytest
import xarray as xr

from jaxroof.errors import InputError
from jaxroof.io import formats, netcdf_files
from jaxroof.limits import MEMORY, TooLarge

DATA = xr.Dataset(
    {"time": ("x", [1.0, 2.0], {"units": "s"}), "fits": ("x", [True, False])},
    {"x": ("x", [3, 4])},
    {"title": "A file"},
)


@pytest.fixture
def path(tmp_path):
    formats.write(DATA, tmp_path / "a.nc")
    return tmp_path / "a.nc"


def test_a_flipped_bit_anywhere_is_found_or_harmless(path, capfd):
    whole, chance = path.read_bytes(), random.Random(18)
    inside = len(whole) - netcdf_files.LENGTH
    places = [0, inside - 1, *(chance.randrange(inside) for _ in range(200))]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(InputError, match=r"a\.nc: damaged: its bytes are not as they were"):
            formats.read(path)
    for place in range(inside, len(whole)):  # the digest itself
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        try:
            found = formats.read(path)
        except InputError:
            continue
        xr.testing.assert_identical(found, DATA)
    assert capfd.readouterr() == ("", "")


def test_a_damaged_header_without_a_digest_is_its_one_line_alone(path, capfd):
    """As of a file of an earlier version."""
    bare, chance = path.read_bytes()[: -netcdf_files.LENGTH], random.Random(18)
    path.write_bytes(bare)
    xr.testing.assert_identical(formats.read(path), DATA)
    lines = []
    for place in [0, 8, 9, 13, *(chance.randrange(600) for _ in range(12))]:
        flipped = bytearray(bare)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            formats.read(path)
        except InputError as error:
            lines.append(str(error))
    assert len(lines) >= 4
    assert not any("\n" in line for line in lines)
    assert capfd.readouterr() == ("", "")


def test_other_programs_read_and_change_it(path):
    assert xr.load_dataset(path, engine="h5netcdf").attrs["title"] == "A file"
    with h5py.File(path, "a") as file:
        file.attrs["title"] = "Another"
    assert formats.read(path).attrs["title"] == "Another"


def test_values_that_are_declared_but_not_there_take_no_memory(path, monkeypatch):
    path.unlink()
    with h5py.File(path, "w") as file:
        file.create_dataset("time", (10**12,), "f8", chunks=(1000,))
    monkeypatch.setenv(MEMORY, "1 GB")
    with pytest.raises(TooLarge, match=r"a\.nc: its values take 8 TB; the limit is 1 GB of memory"):
        formats.read(path)
