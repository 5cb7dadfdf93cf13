"""The tab to take away: the question as a command, a sweep file and Python, and the data."""

import dataclasses
import io
import json
import pathlib
import shlex
import tempfile
from collections.abc import Callable
from typing import Any

import panel as pn

from jaxroof.app.figures import BUTTON
from jaxroof.app.html import code, paragraph, text
from jaxroof.app.question import asked, numbers, unchanged
from jaxroof.app.state import START, State
from jaxroof.app.tabs import Shown, View
from jaxroof.io.formats import write
from jaxroof.units import parse, show

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
TOP = 5  # plans
FILES = (".nc", ".csv")
MINE = "My plan is in the command; a sweep file and this Python have no place for it."
OWN = "My files are not in these texts: keep them beside these under their names."


def settings(state: State) -> dict[str, str]:
    """Return what the question changes, by path, with units; numbers are those of the state."""
    known = numbers(asked(dataclasses.replace(unchanged(state), where="", choices=())))
    units = {path: str(about["unit"]) for path, (_, about) in known.items()}
    found = {path: _exact(value, units.get(path, "1")) for path, value in state.changes}
    found |= dict(state.choices)
    if state.precision != START.precision:
        found["precision"] = state.precision
    return found


def _exact(value: float, unit: str) -> str:
    """Return a number with its unit where that keeps every digit, else the number."""
    spelled = show(value, unit)
    return spelled if parse(spelled, unit) == value else repr(value)


def command(state: State) -> str:
    """Return the command line that answers the question of a state.

    >>> command(START)
    'jaxroof search --model llama3-70b --system h100-nvs8 --gpus 256 --batch 1024'
    """
    words = ["jaxroof", "search", "--model", state.model_words, "--system", state.system_words]
    words += ["--gpus", str(state.gpus), "--batch", str(state.batch)]
    for path, value in settings(state).items():
        words += ["--set", f"{path}={value}"]
    words += ["--where", state.where] if state.where else []
    words += ["--mine", state.mine] if state.mine else []
    return shlex.join(words)


def sweep_file(state: State) -> str:
    """Return a sweep file of the question, over the two fields of the map.

    >>> print(sweep_file(START).splitlines()[1])
    model = "llama3-70b"
    """
    said = f"{state.model_words} on {state.gpus:,} x {state.system_words}"
    lines = [f"title = {_text(said)}"]
    lines += [f"model = {_text(state.model_words)}", f"system = {_text(state.system_words)}"]
    lines += [f"plan = {{ gpus = {state.gpus}, global_batch = {state.batch} }}"]
    changes = [f"{_text(path)} = {_text(value)}" for path, value in settings(state).items()]
    lines += [f"set = {{ {', '.join(changes)} }}"] if changes else []
    where = f", where = {_text(state.where)}" if state.where else ""
    lines += [f"search = {{ top = {TOP}{where} }}"]
    return "\n".join(lines) + "\n"


def python(state: State) -> str:
    """Return the question as a Python program.

    >>> print(python(START).splitlines()[0])
    import jaxroof as jr
    """
    given = {
        "model": state.model_words,
        "system": state.system_words,
        "gpus": state.gpus,
        "global_batch": state.batch,
        "where": state.where,
        "top": TOP,
        "settings": settings(state),
    }
    lines = [f"    {name}={value!r},\n" for name, value in given.items() if value]
    asks = f'data = jr.search(\n    "training",\n{"".join(lines)})'
    return f"import jaxroof as jr\n\n{asks}\nprint(data.step_time.values)\n"


def _text(words: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(words, ensure_ascii=False)


# ---- The tab ------------------------------------------------------------------------------------

TEXTS: tuple[tuple[str, str, Callable[..., str]], ...] = (
    ("As a command", "command", command),
    ("As a sweep file", "sweep file", sweep_file),
    ("As Python", "Python", python),
)


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
