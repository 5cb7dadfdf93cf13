"""What is installed with jaxroof is what it imports, and its wheel stays small."""

import ast
import re
import sys
import tomllib

from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = {"jaxroof"}
MOST = 3_000_000  # bytes of the wheel; what is not compressed is more
BY_NAME = {"h5netcdf"}  # the engine that xarray imports


MODULES = {"pillow": "PIL"}  # of packages that are called otherwise


def names(requirements: list[str]) -> set[str]:
    """Return the modules of required packages: a hyphen is an underscore there."""
    found = {re.match(r"[\w-]+", one)[0].replace("-", "_") for one in requirements}
    return {MODULES.get(name, name) for name in found}


def imported() -> set[str]:
    """Return the libraries that the package imports, wherever in a file."""
    found: set[str] = set()
    for path in (ROOT / "jaxroof").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - OURS - set(sys.stdlib_module_names)


def test_every_dependency_is_imported_and_every_import_is_a_dependency():
    extras = PROJECT["optional-dependencies"]
    every = names([*PROJECT["dependencies"], *extras["plot"], *extras["cluster"], *extras["app"]])
    assert imported() | BY_NAME == every


def test_every_dependency_has_a_lower_bound_and_no_upper_one():
    every = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["plot"]]
    assert [one for one in every if not re.fullmatch(r"[\w-]+>=[\d.]+", one)] == []


def test_what_the_wheel_holds_is_small():
    """Text is a third of its size in a wheel; `.ci/lowest` builds it and says how large it is."""
    files = [p for p in (ROOT / "jaxroof").rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) / 3.0 < MOST
