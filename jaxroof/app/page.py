"""The page of one session: its state, the form, the answer in tabs, and what happens between."""

import asyncio
import dataclasses
from html import escape
from typing import Any, NamedTuple

import panel as pn

from jaxroof.app.answers import plans
from jaxroof.app.changes import applied, at_place
from jaxroof.app.form import question_groups, question_values
from jaxroof.app.live import Live
from jaxroof.app.panes.binds_view import binds_view
from jaxroof.app.panes.compare_view import compare_view
from jaxroof.app.panes.components import Form, Tabs, static
from jaxroof.app.panes.light import plans_view, time_view
from jaxroof.app.panes.map_view import map_view
from jaxroof.app.panes.memory_view import memory_view
from jaxroof.app.panes.schedule_view import schedule_view
from jaxroof.app.panes.share_view import share_view
from jaxroof.app.panes.text import alert, cards, paragraph, text, waiting
from jaxroof.app.panes.view import Shown, View
from jaxroof.app.question import asked
from jaxroof.app.state import TABS, State, to_link
from jaxroof.errors import InputError, printable

TITLES = {
    "plans": "Plans",
    "time": "Time",
    "memory": "Memory",
    "binds": "What binds",
    "map": "Map",
    "schedule": "Schedule",
    "compare": "Compare",
    "share": "Share",
}
PALE = {"opacity": "0.45"}  # of what is not of the question any more
MORE = "more"  # the control that chooses a number to move; no part of the state
SETTLED = 0.2  # seconds without a change after which the form and the address follow
LAYOUT = (
    "more",
    "model",
    "system",
    "estimator",
    "own_model",
)  # controls that change which there are


class Answer(NamedTuple):
    """An answer to a state: what is said first, and what its tab computed."""

    shown: Shown
    head: str
    tab: Any
    late: bool  # of the part that may take longer


class Page:
    """One session: nothing of it is shared with another."""

    def __init__(self, state: State, error: str = "") -> None:
        """Make the page of a state; ``error`` says what of a link could not be read."""
        self.state, self.more = state, ""
        self.document = pn.state.curdoc
        self.lasts = True
        self._settling: asyncio.TimerHandle | None = None
        self.form = Form(self.told, sizing_mode="stretch_width", margin=0)
        self.tabs = Tabs(
            tabs=[[name, TITLES[name]] for name in TABS],
            chosen=state.tab,
            sizing_mode="stretch_width",
            margin=(10, 0),
        )
        self.tabs.param.watch(self._turned, "chosen")
        self.alert, self.head, self.status = text(alert(error)), text(), text(waiting(""))
        self.bodies = pn.Column(sizing_mode="stretch_width", margin=0, min_height=300)
        self.views: dict[str, View] = {}
        self.filled: set[str] = set()  # tabs that have shown an answer
        self.live = Live(self.quick, self.late, self.show, self.failed, self.busy, self.later)
        self.answer = pn.Column(
            self.alert, self.head, self.tabs, self.status, self.bodies,
            sizing_mode="stretch_width", margin=0,
        )  # fmt: skip
        self._controls()

    # ---- What a person does ----------------------------------------------------------------------

    def told(self, name: str, value: Any) -> None:
        """Take a new value of a control."""
        try:
            if name == MORE:
                self.more = str(value)
            else:
                self._become(applied(self.state, name, value), name)
                return
        except InputError as error:
            self.alert.object = alert(printable(str(error)))
        self._controls()

    def clicked(self, across: tuple[str, float], up: tuple[str, float]) -> None:
        """Take the machine at a place of the map."""
        try:
            self._become(at_place(self.state, across, up))
        except InputError as error:
            self.alert.object = alert(printable(str(error)))

    def _turned(self, event: Any) -> None:
        if event.new in TABS and event.new != self.state.tab:
            self._become(dataclasses.replace(self.state, tab=event.new), "tab")

    def _become(self, state: State, name: str = "") -> None:
        self.state = state
        if self.alert.object:
            self.alert.object = ""
        self.ask()
        loop = asyncio.get_running_loop()
        if self._settling is not None:
            self._settling.cancel()
        how = self._values if name and name not in LAYOUT else self._controls
        if how == self._controls:
            how()
        else:
            self._settling = loop.call_later(SETTLED, lambda: self.later(how))

    def ask(self) -> None:
        """Answer the state."""
        self._open(self.state.tab)
        self.live.ask(self.state)

    # ---- The form --------------------------------------------------------------------------------

    def _controls(self) -> None:
        groups = question_groups(self.state, self.more)
        if groups != self.form.groups:
            self.form.groups = groups
        self._values()

    def _values(self) -> None:
        self.form.param.update(
            values=question_values(self.state, self.more), link=to_link(self.state)
        )

    # ---- The answer ------------------------------------------------------------------------------

    def _open(self, name: str) -> None:
        """Show the body of a tab; it is made when it is first seen."""
        if name not in self.views:
            self.views[name] = self._view(name)
            self.views[name].body.visible = False  # until it has an answer
            self.bodies.append(self.views[name].body)
        for other, view in self.views.items():
            shown = other == name and name in self.filled
            if view.body.visible != shown:
                view.body.visible = shown

    def _view(self, name: str) -> View:
        makers = {
            "plans": plans_view,
            "time": time_view,
            "memory": memory_view,
            "binds": binds_view,
            "map": lambda: map_view(self.told, self.clicked),
            "schedule": lambda: schedule_view(self.told),
            "compare": lambda: compare_view(self.told),
            "share": share_view,
        }
        return makers[name]()

    def quick(self, state: State) -> Answer:
        """Return the quick answer to a state; nothing of the page is touched."""
        shown = Shown(state, asked(state), plans.best_plans(state))
        told = plans.headline(shown.data)
        head = (
            f'<div class="headline"><h2>{escape(told.what)}</h2>'
            f"{paragraph(told.by_how_much)}{paragraph(told.why)}"
            f"{cards(plans.figures_of_merit(shown.data))}</div>"
        )
        return Answer(shown, head, self.views[state.tab].compute(shown), late=False)

    def late(self, quick: Answer) -> Answer | None:
        """Return what a tab has more to answer and takes longer, None where it has no more."""
        view = self.views[quick.shown.state.tab]
        if view.later is None:
            return None
        return quick._replace(tab=view.later(quick.shown), late=True)

    def show(self, answer: Answer) -> None:
        """Show an answer."""
        with pn.io.hold():
            if self.head.object != answer.head:
                self.head.object = answer.head
            view = self.views[answer.shown.state.tab]
            (view.show_later if answer.late else view.show)(answer.shown, answer.tab)
            if answer.late or view.early:
                view.body.visible = answer.shown.state.tab == self.state.tab
                self.filled.add(answer.shown.state.tab)
            self.bodies.styles, self.head.styles = {}, {}

    def failed(self, words: str, late: bool) -> None:
        """Show why there is no answer; what was shown before turns pale."""
        self.alert.object = alert(printable(words))
        self.bodies.styles = PALE
        if late:  # the controls inside a tab may be what mends it
            self.views[self.state.tab].body.visible = True
        else:
            self.head.styles = PALE

    def busy(self, on: bool) -> None:
        """Show whether work goes on."""
        words = waiting("Working ..." if on else "")
        if self.status.object != words:
            self.status.object = words

    def later(self, do: Any) -> None:
        """Run a function where the page may be changed, while the session lasts."""
        if self.lasts:
            self.document.add_next_tick_callback(do)

    def ended(self, _: Any) -> None:
        """Let go of what is still computed when the session ends."""
        self.lasts = False


def template(page: Page) -> pn.Template:
    """Return the whole page around the form and the answer."""
    made = pn.Template(static("page.html"))
    made.add_panel("question", page.form)
    made.add_panel("answer", page.answer)
    return made
