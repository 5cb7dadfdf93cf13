"""Fabrics of the catalogue, and tiers in the files of systems."""

import pytest
from golden_rows import networks

import jaxroof as jr
from jaxroof import catalog
from jaxroof.catalog.fabrics import fabric
from jaxroof.catalog.lookup import system, training_system
from jaxroof.records import field_at, get_at, leaves, replace_at

FILE = """
base = "h100-nvs8"
nics_per_node = 4
[[tiers]]
[[tiers]]
size = 256
[[tiers]]
oversubscription = 2
"""


@pytest.mark.parametrize("row", networks("presets"), ids=lambda row: row["preset"])
def test_a_fabric_has_every_number_of_its_preset(row: dict[str, str]) -> None:
    tiers, library = fabric(row["preset"])
    for key, value in row.items():
        part, _, name = key.partition("_")
        if key not in ("preset", "chip"):
            held = library if part == "library" else tiers[int(part[4:])]
            assert getattr(held, name) == float(value), key


def test_every_preset_is_there() -> None:
    assert catalog.names("fabrics") == tuple(row["preset"] for row in networks("presets"))


def test_a_fabrics_name_stands_for_its_system() -> None:
    found = training_system("taper-2-h100")
    plain = training_system("h100-nvs8")
    assert found.hbm_bandwidth == plain.hbm_bandwidth
    assert found.tiers is not None
    assert found.tiers[2].oversubscription == 2.0
    assert plain.tiers is None


def test_a_number_of_a_tier_is_found_by_its_path() -> None:
    found = system("dgx-h100-pod", **{"tiers.1.size": 512})
    assert get_at(found, "tiers.1.size") == 512.0
    assert field_at(found, "tiers.1.size").metadata["unit"] == "1"
    changed = replace_at(found, "tiers.2.bandwidth", 1.0)
    assert [float(tier.bandwidth) for tier in changed.tiers] == [450e9, 50e9, 1.0, 50e9]
    assert "tiers.3.mesh" in [path for path, _, _ in leaves(found)]


def test_a_file_of_tiers_takes_the_rest_from_its_links(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FILE)
    tiers = system(path).tiers
    assert [float(t.size) for t in tiers] == [8.0, 256.0, 1e15, 1e15]
    assert [float(t.bandwidth) for t in tiers] == [450e9, 25e9, 25e9, 25e9]
    assert [float(t.oversubscription) for t in tiers] == [1.0, 1.0, 2.0, 2.0]


REFUSED = [
    ({"fabric": "dgx-h100"}, "fabric: dgx-h100: no such fabric. Did you mean 'dgx-h100-pod'?"),
    ({"tiers.1.oversubscription": 0.5}, "a finite number of at least 1, given 0.5"),
    ({"tiers.1.health": 1.5}, "above 0 and at most 1, given 1.5"),
    ({"tiers.1.efficiency": -1}, "above 0 and at most 1, given -1"),
    ({"tiers.0.mesh": -1}, "tiers.0.mesh: expected a finite number of at least 0"),
    ({"tiers.1.sise": 4}, "Did you mean 'tiers.1.size'"),
    ({"tiers.4.size": 4}, "tiers.4.size"),
    ({"tiers.1.size": 4}, "tiers.1.size: expected at least that of tiers.0, 8, given 4"),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_wrong_tiers_are_refused_in_one_line(fields, said) -> None:
    with pytest.raises(jr.InputError) as error:
        system("taper-2-h100", **fields)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
