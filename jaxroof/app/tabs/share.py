"""The tab to take away: the question as a command, a sweep file and Python, and the data."""

import io
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import panel as pn

from jaxroof.app import share
from jaxroof.app.figures import BUTTON
from jaxroof.app.html import code, paragraph, text
from jaxroof.app.state import State
from jaxroof.app.tabs.view import Shown, View
from jaxroof.io.formats import write

COPY = """
const text = holder.tags[0];
const done = () => { button.label = "Copied"; setTimeout(() => { button.label = label; }, 1500); };
if (navigator.clipboard) navigator.clipboard.writeText(text).then(done);
else {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  done();
}
"""
TEXTS: tuple[tuple[str, str, Callable[..., str]], ...] = (
    ("As a command", "command", share.command),
    ("As a sweep file", "sweep file", share.sweep_file),
    ("As Python", "Python", share.python),
)
FILES = (".nc", ".csv")
MINE = "My plan is in the command; a sweep file and this Python have no place for it."
OWN = "My files are not in these texts: keep them beside these under their names."


def share_view() -> View:
    """Return the tab with the question to copy and the data to download."""
    latest: dict[str, Any] = {}
    parts, shows = [], []
    for title, name, made in TEXTS:
        part, shown = _copied(title, name)
        parts.append(part)
        shows.append((shown, made))
    files = [_download(kind, latest) for kind in FILES]
    said = text("<h3>The data</h3><p>The table of plans with all their results.</p>")
    note = text()
    download = pn.Column(said, pn.Row(*files, margin=0), sizing_mode="stretch_width", margin=0)
    body = pn.Column(note, *parts, download, sizing_mode="stretch_width")

    def show_question(state: State) -> None:
        words = "The address of this page holds the whole question: copy it to share it."
        notes = [OWN] * bool(state.own_model or state.own_system) + [MINE] * bool(state.mine)
        note.object = paragraph(words) + "".join(paragraph(one, "note") for one in notes)
        for one, made in shows:
            one(made(state))
        download.visible = False  # until there is an answer

    def show(shown: Shown, _: Any) -> None:
        latest["data"] = shown.data
        show_question(shown.state)
        download.visible = True

    return View(body, show=show, unanswered=show_question)


def _copied(title: str, name: str) -> tuple[Any, Callable[[str], None]]:
    """Return a text with a button that copies it, and the function that shows another text."""
    pane = text()
    button = pn.widgets.Button(name=f"Copy as {name}", stylesheets=[BUTTON], margin=(0, 3))
    button.js_on_click(
        args={"holder": pane, "button": button, "label": button.name},
        code=COPY,
    )

    def show(content: str) -> None:
        pane.object = f"<h3>{title}</h3>{code(content)}"
        pane.tags = [content]

    return pn.Column(pane, button, sizing_mode="stretch_width", margin=0), show


def _download(kind: str, latest: dict[str, Any]) -> pn.widgets.FileDownload:
    """Return a button that downloads the latest data in a format."""

    def content() -> io.BytesIO:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"plans{kind}"
            write(latest["data"], path)
            return io.BytesIO(path.read_bytes())

    return pn.widgets.FileDownload(
        callback=content,
        filename=f"plans{kind}",
        label=f"Download {kind}",
        stylesheets=[BUTTON],
        margin=3,
    )
