"""The site has every page and every public name, and loads nothing from elsewhere."""

import importlib.util
import re

import pytest
from places import ROOT

import jaxroof as jr
from jaxroof.analyses.named_questions import HOMES as QUESTIONS

DOCS = ROOT / "docs"
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference.md").read_text(encoding="utf-8")
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_every_page_is_in_the_navigation_once():
    named = re.findall(r": ([\w/]+\.md)$", SITE.partition("\nnav:")[2], flags=re.MULTILINE)
    assert sorted(named) == PAGES


def test_every_public_name_is_in_the_reference_once():
    homes = {name: f"{home}.{inside}" for name, (home, inside) in jr._homes().items()}
    homes |= {name: f"{home}.{name}" for name, home in QUESTIONS.items()}
    shown = re.findall(r"^::: (\S+)$", REFERENCE, flags=re.MULTILINE)
    assert len(shown) == len(set(shown))
    assert {*homes.values()} - {homes["plot"]} <= {*shown}
    for path in shown:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def test_fonts_and_scripts_are_of_the_site():
    assert "font: false" in SITE
    assert "://" not in SITE.partition("\nnav:")[0].replace("site_url", "")


@pytest.mark.skipif(importlib.util.find_spec("griffe") is None, reason="griffe is not installed")
def test_doctests_become_blocks_of_code():
    spec = importlib.util.spec_from_file_location("doctests", DOCS / "doctests.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.fenced("Text.\n\n>>> 1 + 1\n2\n") == "Text.\n\n```pycon\n>>> 1 + 1\n2\n```\n"
