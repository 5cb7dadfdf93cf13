"""What a page shows is what its commands and its Python print."""

import difflib
import importlib.util

import pytest
from places import ROOT

from jaxroof.cli import process

SPEC = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
refresh = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(refresh)

TEXTS = {path: path.read_text(encoding="utf-8") for path in refresh.pages()}
SHOWING = [path for path, text in TEXTS.items() if refresh.EVERY in text or "<!-- output" in text]
WHOLE = ["docs/tutorial.md", "docs/howto", "docs/coming_from"]  # all that they show runs


LARGE = ("fastest_plan", "pictures_reports")  # seconds each: all pictures, and millions of plans


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in LARGE))
        for path in SHOWING
    ],
)
def test_a_page_shows_what_is_printed(path, monkeypatch):
    monkeypatch.setattr(process, "start", lambda: None)
    now = refresh.refreshed(TEXTS[path])
    changes = difflib.unified_diff(TEXTS[path].splitlines(), now.splitlines(), "page", "now", n=0)
    assert now == TEXTS[path], "\n".join(["run `python docs/refresh.py`", *changes])


def test_every_block_of_the_guides_runs():
    for path in SHOWING:
        if path.relative_to(ROOT).as_posix().startswith(tuple(WHOLE)):
            assert refresh.EVERY in TEXTS[path], path.name


PAGE = f"""{refresh.EVERY}

```python
print("one\\ntwo\\nthree")
```

<!-- output {{options}} -->

```
old
```

The rest.
"""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("", "one\ntwo\nthree\n"),
        ("lines=1", "one\n"),
        ('from="two"', "two\nthree\n"),
        ('from="one" to="th"', "one\ntwo\n"),
        ('of="jaxroof --version"', "jaxroof, version"),
    ],
)
def test_a_block_shows_the_part_that_its_mark_asks_for(options, shown):
    page = refresh.refreshed(PAGE.format(options=options))
    assert shown in page
    assert "old" not in page
    assert page.endswith("```\n\nThe rest.\n")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (PAGE.format(options="wide=3"), "unknown wide"),
        (PAGE.format(options='from="four"'), "begins with 'four'"),
        (f"{refresh.EVERY}\n```sh\nls\n```\n", "only jaxroof is run"),
        (f"{refresh.EVERY}\n```sh\njaxroof show nothing\n```\n", "nothing"),
        ("Text.\n\n<!-- output -->\n```\n```\n", "no command or Python stands above it"),
    ],
)
def test_a_page_that_cannot_be_refreshed_says_why(page, said):
    with pytest.raises(refresh.PageError, match=said):
        refresh.refreshed(page)


def test_only_what_is_marked_runs_elsewhere(capsys):
    page = "```sh\nls\n```\n\n```sh\njaxroof --version\n```\n<!-- output -->\n```\n```\n"
    assert "jaxroof, version" in refresh.refreshed(page)
    assert refresh.refreshed("```sh\nls\n```\n") == "```sh\nls\n```\n"
