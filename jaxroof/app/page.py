"""The page of one session: its state, the form, the answer in tabs, and what happens between."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, NamedTuple

import panel as pn

from jaxroof.app import plans
from jaxroof.app.components import Form, Tabs, static
from jaxroof.app.controls import (
    Controls,
    applied,
    at_place,
    can_be_shown,
    check_numbers,
    control_of,
    question_form,
    tab_form,
)
from jaxroof.app.html import alert, cards, in_controls, paragraph, text, waiting
from jaxroof.app.live import Live, line_of
from jaxroof.app.question import asked
from jaxroof.app.state import TABS, State, from_link, to_link
from jaxroof.app.tabs import USUAL, Shown, View, picture_width
from jaxroof.app.tabs.binds import binds_view
from jaxroof.app.tabs.collective import collective_view
from jaxroof.app.tabs.compare import compare_view, with_mine
from jaxroof.app.tabs.map import map_view
from jaxroof.app.tabs.memory import memory_view
from jaxroof.app.tabs.plans import plans_view, time_view
from jaxroof.app.tabs.run import run_view
from jaxroof.app.tabs.schedule import schedule_view
from jaxroof.app.tabs.serving import serving_view
from jaxroof.app.tabs.share import share_view
from jaxroof.errors import printable
from jaxroof.units import seconds

VIEWS: dict[str, tuple[str, Callable[..., View]]] = {  # the title of a tab, and who makes it
    "plans": ("Plans", plans_view),
    "time": ("Time", time_view),
    "memory": ("Memory", memory_view),
    "binds": ("What binds", binds_view),
    "map": ("Map", map_view),
    "schedule": ("Schedule", schedule_view),
    "collective": ("Network", collective_view),
    "compare": ("Compare", compare_view),
    "run": ("Whole run", run_view),
    "serving": ("Serving", serving_view),
    "share": ("Share", share_view),
}
PALE, PLAIN = {"opacity": "0.45"}, {"opacity": "1"}  # of an earlier question; of this one
WIDTH = "width"  # the message of a browser: how wide its window is
LINK = "link"  # the message of a browser that goes back: the question to ask again
MORE = "more"  # the control that chooses a number to move; no part of the state
SETTLED = 0.2  # seconds without a change after which the form and the address follow
LAYOUT = (  # that change which controls there are
    *("more", "model", "system", "own_model", "own_system", "dispatcher", "paid"),
)


class Answer(NamedTuple):
    """An answer to a state: what is said first, and what its tab computed."""

    shown: Shown
    head: str
    short: str  # the same in a few words
    tab: Any
    late: bool = False  # of the part that may take longer


class Page:
    """One session: nothing of it is shared with another."""

    def __init__(self, state: State, error: str = "") -> None:
        """Make the page of a state; ``error`` says what is wrong with the link that was asked."""
        self.state, self.more, self.last = state, "", ""
        self.before = ""  # the last answer, in short
        self.wide = picture_width(USUAL)
        self.of_link = error  # stands until the first change
        self.document = pn.state.curdoc
        self.lasts = True
        self._settling: asyncio.TimerHandle | None = None
        wide: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": 0}
        self.form = Form(self.told, **wide)
        self.inner = Form(self.told, always=True, **wide)  # the controls of a tab
        titles = [[name, title] for name, (title, _) in VIEWS.items()]
        self.tabs = Tabs(tabs=titles, chosen=state.tab, **{**wide, "margin": (10, 0)})
        self.tabs.param.watch(self._turned, "chosen")
        self.alert, self.head, self.status = text(), text(), text(waiting(""))
        self.bodies = pn.Column(**wide, min_height=300)
        self.views: dict[str, View] = {}
        self.filled: set[str] = set()  # tabs that have shown an answer
        self.live = Live(self.quick, self.late, self.show, self.failed, self.busy, self.later)
        parts = [self.alert, self.status, self.head, self.tabs, self.inner, self.bodies]
        self.answer = pn.Column(*parts, **wide)
        self._controls()
        self._complain(error, control_of(error, "", state))

    # ---- What a person does ----------------------------------------------------------------------

    def told(self, name: str, value: Any) -> None:
        """Take a new value of a control."""
        try:
            if name == MORE:
                self.more = str(value)
                self._controls()
            elif name == WIDTH:
                self._measured(value)
            elif name == LINK:
                self._return(can_be_shown(from_link(str(value))))
            else:
                self._become(applied(self.state, name, value), name)
        except Exception as error:
            self._refuse(line_of(error), name)

    def clicked(self, across: tuple[str, float], up: tuple[str, float]) -> None:
        """Take the machine at a place of the map."""
        try:
            self._become(at_place(self.state, across, up))
        except Exception as error:
            self._refuse(line_of(error), "")

    def _measured(self, value: Any) -> None:
        """Take how wide the window is, and draw anew what has room for more or for less."""
        if isinstance(value, int) and not isinstance(value, bool):
            wide = picture_width(value)
            if wide != self.wide:
                self.wide = wide
                self.ask()

    def _return(self, state: State) -> None:
        """Take the state of an earlier question."""
        self._become(state)
        self.tabs.chosen = state.tab

    def _turned(self, event: Any) -> None:
        if event.new in TABS and event.new != self.state.tab:
            self._become(dataclasses.replace(self.state, tab=event.new), "tab")

    def _become(self, state: State, name: str = "") -> None:
        self.state, self.last, self.of_link = state, name, ""
        self._complain("", "")
        self.ask()
        loop = asyncio.get_running_loop()
        if self._settling is not None:
            self._settling.cancel()
        if name in LAYOUT or not name:
            self._controls()
        else:
            self._settling = loop.call_later(SETTLED, lambda: self.later(self._controls))

    def ask(self) -> None:
        """Answer the state."""
        self._open(self.state.tab)
        self.live.ask(dataclasses.replace(self.state))  # asked anew, also if the same

    # ---- What is wrong ---------------------------------------------------------------------------

    def _complain(self, words: str, control: str) -> None:
        """Say what is wrong, above the answer and at the control; no words: nothing is."""
        words = in_controls(printable(words))
        said, errors = alert(words), {control: words} if control else {}
        if self.alert.object != said:
            self.alert.object = said
        for form in (self.form, self.inner):
            if form.errors != errors:
                form.errors = errors

    def _refuse(self, words: str, control: str) -> None:
        """Say that a question has no answer; the headline does not stand for another one."""
        self._complain(words, control_of(words, control, self.state))
        note = f"The question before it: {self.before}." if self.before else ""
        self.head.object = (
            '<div class="headline"><h2>No answer to this question</h2>'
            f"{paragraph(note, 'note')}</div>"
        )

    def _controls(self) -> None:
        """Show which controls there are, and what they have."""
        _show(self.form, question_form(self.state, self.more))
        self.form.link = to_link(self.state)

    # ---- The answer ------------------------------------------------------------------------------

    def _open(self, name: str) -> None:
        """Show the body of a tab; it is made when it is first seen."""
        if name not in self.views:
            made = VIEWS[name][1]
            self.views[name] = made(self.clicked) if made is map_view else made()
            self.views[name].body.visible = False  # until it has an answer
            self.bodies.append(self.views[name].body)
        _show(self.inner, tab_form(self.state, name))
        self.inner.visible = bool(self.inner.groups)
        for other, view in self.views.items():
            shown = other == name and name in self.filled
            if view.body.visible != shown:
                view.body.visible = shown

    def quick(self, state: State) -> Answer:
        """Return the quick answer to a state; nothing of the page is touched."""
        check_numbers(state)
        view = self.views[state.tab]
        if view.head and view.quick:
            shown = Shown(state, wide=self.wide)
            found = view.quick(shown)
            return Answer(shown, *view.head(found), found)
        data, wrong = with_mine(state)
        shown = Shown(state, asked(state), data, wrong, self.wide)
        told = plans.headline(shown.data)
        head = (
            f'<div class="headline"><h2>{escape(told.what)}</h2>{paragraph(told.how_sure)}'
            f"{paragraph(told.plan, 'plan')}{paragraph(told.why)}"
            f"{paragraph(told.assumed)}"
            f"{cards(plans.figures_of_merit(shown.data))}</div>"
        )
        best = shown.data.isel(plan=[0])
        short = f"{plans.names(best)[0]}, {seconds(float(best.step_time[0]))} a step"
        return Answer(shown, head, short, view.quick(shown) if view.quick else None)

    def late(self, quick: Answer) -> Iterator[Answer | str]:
        """Yield what a tab has more to answer and takes longer; words say how far it is."""
        view = self.views[quick.shown.state.tab]
        for found in view.later(quick.shown) if view.later is not None else ():
            yield found if isinstance(found, str) else quick._replace(tab=found, late=True)

    def show(self, answer: Answer | str) -> None:
        """Show an answer, or words on how far it is."""
        if isinstance(answer, str):
            self.status.object = waiting(answer)
            return
        with pn.io.hold():
            if not answer.late:
                self.before = answer.short
                wrong = answer.shown.wrong
                words, control = (wrong, "mine") if wrong else (self.of_link, "")
                self._complain(words, control_of(words, control, self.state))
            if self.head.object != answer.head:
                self.head.object = answer.head
            view = self.views[answer.shown.state.tab]
            if answer.late or view.quick:
                view.show(answer.shown, answer.tab)
                view.body.visible = answer.shown.state.tab == self.state.tab
                self.filled.add(answer.shown.state.tab)
            self.bodies.styles = PLAIN

    def failed(self, words: str, late: bool) -> None:
        """Show why there is no answer, and what a tab can say without one."""
        view = self.views[self.state.tab]
        if late:  # the controls of a tab may be what mends it
            self._complain(words, control_of(words, "", self.state))
            self.bodies.styles, view.body.visible = PALE, True
            return
        self._refuse(words, self.last)
        view.body.visible = view.unanswered is not None
        if view.unanswered is not None:
            self.bodies.styles = PLAIN
            view.unanswered(self.state)

    def busy(self, on: bool) -> None:
        """Show whether work goes on."""
        words, waits = waiting("Working ..."), self.status.object != waiting("")
        if on != waits:
            self.status.object = words if on else waiting("")

    def later(self, do: Any) -> None:
        """Run a function where the page may be changed, while the session lasts."""
        if self.lasts:
            self.document.add_next_tick_callback(do)

    def ended(self, _: Any) -> None:
        """Let go of what is still computed when the session ends."""
        self.lasts = False


def _show(form: Form, held: Controls) -> None:
    """Show controls: they are made anew where there are others than before."""
    if held.fields != form.groups:
        form.groups = held.fields
    form.values = held.values


def template(page: Page) -> pn.Template:
    """Return the whole page around the form and the answer."""
    made = pn.Template(static("page.html"))
    made.add_panel("question", page.form)
    made.add_panel("answer", page.answer)
    return made
