"""A sweep file is run and drawn by one command."""

from places import ROOT

SWEEP = ROOT / "sweeps" / "gpt3_network.toml"


def test_a_run_is_drawn(jaxroof, tmp_path):
    said = jaxroof(f"run {SWEEP} -o map.svg")
    assert said.code == 0
    assert "Fastest" in said.out
    assert said.err.strip().endswith("wrote map.svg")
    assert "</svg>" in (tmp_path / "map.svg").read_text(encoding="utf-8")


def test_another_kind_of_file_is_one_line(jaxroof):
    said = jaxroof(f"run {SWEEP} -o map.gif")
    assert said.code == 2
    assert "map.gif: cannot tell the kind of file from '.gif'" in said.err
    assert ".png" in said.err
