"""What jaxroof needs has a lower bound and no upper one, and its wheel stays small."""

import re
import tomllib

from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MOST = 3_000_000  # bytes of the wheel; what is not compressed is more


def test_every_dependency_has_a_lower_bound_and_no_upper_one():
    every = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["plot"]]
    assert [one for one in every if not re.fullmatch(r"[\w-]+>=[\d.]+", one)] == []


def test_what_the_wheel_holds_is_small():
    """Text is a third of its size in a wheel; `.ci/lowest` builds it and says how large it is."""
    files = [p for p in (ROOT / "jaxroof").rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) / 3.0 < MOST
