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


LARGE = (  # seconds each: fits of measured rows, millions of plans, all pictures
    *("calibrate", "fastest_plan", "pictures_reports"),
)


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


@pytest.mark.parametrize(("options", "shown"), [
    ("", "one\ntwo\nthree\n"), ("lines=1", "one\n"),
    ('from="two"', "two\nthree\n"),
    ('from="one" to="th"', "one\ntwo\n"),
    ('of="jaxroof --version"', "jaxroof, version"),
])  # fmt: skip
def test_a_block_shows_the_part_that_its_mark_asks_for(options, shown):
    page = refresh.refreshed(PAGE.format(options=options))
    assert shown in page
    assert "old" not in page
    assert page.endswith("```\n\nThe rest.\n")
