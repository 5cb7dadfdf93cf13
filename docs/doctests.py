"""For the reference of the site: doctests of a docstring become blocks of code."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)", re.MULTILINE)


def fenced(text: str) -> str:
    """Return a docstring with its doctests between fences."""
    return DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


class Fenced(griffe.Extension):
    """Fences the doctests of every object that is collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
