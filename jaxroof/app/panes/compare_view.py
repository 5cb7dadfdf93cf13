"""The tab that compares: a plan of one's own beside the best, and two machines side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import panel as pn

from jaxroof.app.answers import compare
from jaxroof.app.answers.mine import Side
from jaxroof.app.form import compare_groups
from jaxroof.app.panes.components import Form
from jaxroof.app.panes.figures import Bars, framed, part_colours
from jaxroof.app.panes.text import alert, legend, paragraph, table, text
from jaxroof.app.panes.view import Shown, View
from jaxroof.errors import InputError

FIELDS = (("field", "A field of the plan"), ("best", "The best plan"), ("mine", "My plan"))
NO_PLAN = "Type a plan of your own under Rules and my plan, such as tp=8,pp=4, to see it here."


def compare_view(told: Callable[[str, Any], None]) -> View:
    """Return the tab that compares plans and machines; ``told`` is the listener of its form."""
    mine, machines = Bars("step time [s]"), Bars("step time [s]")
    about_mine, about_machines = text(), text()
    form = Form(told, always=True, sizing_mode="stretch_width")
    of_mine = framed(mine.picture, "my_plan")
    of_machines = framed(machines.picture, "two_machines")
    body = pn.Column(
        about_mine, of_mine, form, about_machines, of_machines, sizing_mode="stretch_width"
    )

    def show(shown: Shown, _: Any) -> None:
        form.groups = compare_groups(shown.state)
        form.values = {"other": shown.state.other}

    def show_later(shown: Shown, two: Any) -> None:
        of_mine.visible = shown.mine is not None
        of_machines.visible = not isinstance(two, str)
        about_mine.object = "<h3>My plan beside the best</h3>" + _of_mine(shown, mine)
        about_machines.object = "<h3>Two machines side by side</h3>" + _of_machines(
            two, machines, part_colours(shown.data, "step_time")
        )

    return View(body, lambda _: None, show, _later, show_later, early=False)


def _later(shown: Shown) -> Iterator[Any]:
    yield _or_error(
        lambda: (compare.two_machines(shown.state, shown.data), compare.machine_rows(shown.state))
    )


def _or_error(answer: Callable[[], Any]) -> Any:
    """Return an answer, or the line that says why there is none."""
    try:
        return answer()
    except InputError as error:
        return str(error)


def _of_mine(shown: Shown, bars: Bars) -> str:
    if shown.wrong:
        return alert(shown.wrong)
    if shown.mine is None:
        return paragraph(NO_PLAN)
    own = shown.mine
    entries = bars.show(_parts((own.best, own.own)), part_colours(shown.data, "step_time"))
    different = table(FIELDS, own.different, "Where the two plans differ", left=1)
    said = "".join(map(paragraph, own.sentences))
    return said + (different if own.different else "") + legend(entries)


def _of_machines(two: Any, bars: Bars, colours: Mapping[str, str]) -> str:
    if isinstance(two, str):
        return alert(two)
    (here, there), rows = two
    entries = bars.show(_parts((here, there)), colours)
    heads = [("", "What is compared"), (here.name, "This machine"), (there.name, "The other")]
    told = [("best plan", here.plan, there.plan)]
    told += [(h, a, b) for h, a, b in zip(compare.HEADS, here.numbers, there.numbers, strict=True)]
    told += [(words, a, b) for words, a, b, _ in rows]
    said = paragraph(compare.machines_sentence(here, there))
    return said + table(heads, told, "Both machines, each with its best plan", 1) + legend(entries)


def _parts(sides: Iterable[Side | compare.Machine]) -> list[tuple[str, str, float, float, float]]:
    """Return the parts of both sides as they are stacked."""
    found = []
    for side in sides:
        start = 0.0
        for name, value in side.parts.items():
            if value > 0.0:
                share = value / side.step_time
                found.append((side.name, name, start, start + value, share))
                start += value
    return found
