"""Estimators of the user: what is imported, from where, and only if it is trusted."""

import sys

import pytest

from jaxroof.errors import InputError
from jaxroof.estimators.plugins import estimator_of

MODULE = """
import pathlib
import jaxroof as jr
pathlib.Path(__file__).with_name("ran").touch()
estimator = jr.Estimator(step=lambda inputs, recipe: inputs, inputs=float, name="NAME")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sweeps").mkdir()
    yield tmp_path / "sweeps"
    sys.modules.pop("own_plugin", None)


def test_code_beside_a_file_runs_only_if_it_is_trusted(folder):
    (folder / "own_plugin.py").write_text(MODULE)
    with pytest.raises(InputError) as told:
        estimator_of("own_plugin:estimator", folder)
    said = "the file runs the code of own_plugin.py beside it; read it, then use --trust"
    assert str(told.value).startswith(said)
    assert not (folder / "ran").exists()
    assert estimator_of("own_plugin:estimator", folder, trust=True).name == "NAME"
    assert (folder / "ran").exists()


@pytest.mark.parametrize("trust", [False, True])
def test_the_current_folder_is_not_searched(folder, trust, tmp_path, monkeypatch):
    (tmp_path / "own_plugin.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # as `python -m` does
    with pytest.raises(InputError, match=r"no such file in .*, and no such module is installed"):
        estimator_of("own_plugin:estimator", folder, trust)
    assert not (tmp_path / "ran").exists()


def test_an_installed_module_needs_no_trust(folder, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "own_plugin.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])
    assert estimator_of("own_plugin:estimator", folder).name == "NAME"
    # but not one that a file beside the question stands before
    (folder / "own_plugin.py").write_text(MODULE)
    with pytest.raises(InputError, match="use --trust"):
        estimator_of("own_plugin:estimator", folder)


NAMES = [
    "/etc/own:estimator", "../own:estimator", "own.py:estimator:x", "own-plugin:estimator", ":x",
    "own:", ".own:estimator", "own plugin:x", "own:es.timator", "own\x1b[2J:x", "C:\\own:estimator",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_named_by_words_and_dots(name, folder):
    with pytest.raises(InputError, match="expected MODULE:NAME of words and dots") as told:
        estimator_of(name, folder, trust=True)
    assert str(told.value).isprintable()
