"""Write what commands and blocks of Python print into the pages that show it.

    python docs/refresh.py                   # every page: README.md and docs/
    python docs/refresh.py docs/tutorial.md  # one page
    python docs/refresh.py --check           # exit 1 and say what is out of date

A comment above a block of output marks it. It holds what the block before it prints:

    <!-- output -->                                  all of it
    <!-- output width=100 -->                        at another width than 88 columns
    <!-- output from="Best plan" to="What binds" --> from the first line that begins so, to the
                                                     last before one that begins with the other
    <!-- output lines=12 -->                         its first lines
    <!-- output of="jaxroof show h100-nvs8" -->      of a command that the page does not show

In a page with the line `<!-- every block of this page runs -->` all commands and all Python run,
in order, in an empty folder; in others only what is marked. `<!-- not run: why -->` above a block
leaves it out. A block with `title="chip.toml"` is written to that file first.
"""

import argparse
import contextlib
import dataclasses
import io
import os
import pathlib
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH = "88"  # columns of what is shown
EVERY = "<!-- every block of this page runs -->"
FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n+)?```(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S
)


class PageError(Exception):
    """A block of a page did not run."""


@dataclasses.dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    title: str  # of the file that it is
    body: str
    mark: str  # of the comment above it
    start: int  # of the body in the page
    end: int

    @property
    def is_output(self) -> bool:
        """Return whether it shows what something prints."""
        return self.mark.partition(" ")[0] == "output"

    @property
    def runs(self) -> bool:
        """Return whether it is a command or Python that can be run."""
        return self.language in ("sh", "python") and not self.mark.startswith("not run: ")

    @property
    def options(self) -> Mapping[str, str]:
        """Return the options of the mark of an output."""
        words = shlex.split(self.mark)[1:]
        found = dict(word.partition("=")[::2] for word in words)
        unknown = {*found} - {"width", "from", "to", "lines", "of"}
        if unknown:
            raise PageError(f"<!-- {self.mark} -->: unknown {', '.join(sorted(unknown))}")
        return found


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page."""
    found = []
    for each in FENCE.finditer(text):
        language, _, rest = each["head"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        mark, (start, end) = each["mark"] or "", each.span("body")
        found.append(Block(language, title[1] if title else "", each["body"], mark, start, end))
    return found


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every line of a shell's text."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words:
            yield words


def run_command(words: list[str]) -> None:
    """Run a command line of jaxroof in this process."""
    from jaxroof import cli

    if words[0] != "jaxroof":
        raise PageError(f"{shlex.join(words)}: only jaxroof is run; mark it <!-- not run: why -->")
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            cli.main(words[1:])
    except SystemExit as ended:
        if ended.code not in (0, 1, None):  # 1 is an answer: nothing fits
            raise PageError(f"{shlex.join(words)}: {said.getvalue().strip()}") from None


def printed(block: Block, scope: dict[str, object], width: str) -> str:
    """Return what a block prints when it is run."""
    os.environ["COLUMNS"] = width
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        if block.language == "python":
            exec(compile(block.body, "<page>", "exec"), scope)
        else:
            for words in commands(block.body):
                run_command(words)
    return said.getvalue()


def shown(text: str, options: Mapping[str, str]) -> str:
    """Return the part of what was printed that a block shows."""
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    first = _place(lines, options.get("from"), 0)
    last = _place(lines[first + 1 :], options.get("to"), len(lines)) + first + 1
    kept = lines[first:last][: int(options.get("lines", len(lines)))]
    return "".join(f"{line}\n" for line in kept)


def _place(lines: list[str], begins: str | None, otherwise: int) -> int:
    if begins is None:
        return otherwise
    found = [place for place, line in enumerate(lines) if line.strip().startswith(begins)]
    if not found:
        raise PageError(f"no line that is printed begins with {begins!r}")
    return found[0]


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """Work in an empty folder with the files of the project that pages name."""
    columns = os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = pathlib.Path(name)
        (folder / "docs" / "pictures").mkdir(parents=True)
        (folder / "docs" / "examples").symlink_to(ROOT / "docs" / "examples")
        (folder / "sweeps").symlink_to(ROOT / "sweeps")
        try:
            yield
        finally:
            os.environ.pop("COLUMNS", None)
            os.environ.update({} if columns is None else {"COLUMNS": columns})


def refreshed(text: str) -> str:
    """Return a page with every marked output as it is printed now.

    Raises: PageError for a block that does not run.
    """
    every, found = EVERY in text, blocks(text)
    if not every and not any(block.is_output for block in found):
        return text
    changed: list[str] = []
    done, last = 0, ""
    with workplace():
        scope: dict[str, object] = {"__name__": "page"}
        for block, before, after in zip(found, [None, *found], [*found[1:], None], strict=False):
            if block.title:
                pathlib.Path(block.title).write_text(block.body, encoding="utf-8")
            if block.is_output:
                said = _said(block, before, scope, last)
                changed += [text[done : block.start], shown(said, block.options)]
                done = block.end
            elif block.runs and (every or _shown_by(after)):
                width = after.options.get("width", WIDTH) if _shown_by(after) else WIDTH
                last = printed(block, scope, width)
    return "".join([*changed, text[done:]])


def _shown_by(block: Block | None) -> bool:
    return block is not None and block.is_output and "of" not in block.options


def _said(block: Block, before: Block | None, scope: dict[str, object], last: str) -> str:
    """Return what is printed by what an output shows."""
    of = block.options.get("of")
    if of is not None:
        asked = dataclasses.replace(block, language="sh", body=of)
        return printed(asked, scope, block.options.get("width", WIDTH))
    if before is None or not before.runs:
        raise PageError(f"<!-- {block.mark} -->: no command or Python stands above it")
    return last


def pages() -> list[pathlib.Path]:
    """Return the pages that may show what is printed."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def main(arguments: list[str]) -> int:
    """Refresh pages; return 1 if one does not run, or is out of date where that is asked."""
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description="Write what is printed into the pages.")
    parser.add_argument("page", nargs="*", type=pathlib.Path, help="default: all of them")
    parser.add_argument("--check", action="store_true", help="change nothing")
    asked = parser.parse_args(arguments)
    wrong = 0
    for page in [path.resolve() for path in asked.page] or pages():
        text = page.read_text(encoding="utf-8")
        try:
            now = refreshed(text)
        except PageError as error:
            print(f"{page.relative_to(ROOT)}: {error}", file=sys.stderr)
            wrong = 1
            continue
        if now != text:
            print(f"{page.relative_to(ROOT)}: {'out of date' if asked.check else 'refreshed'}")
            wrong |= asked.check
            if not asked.check:
                page.write_text(now, encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
