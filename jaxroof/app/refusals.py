"""Which control of the form an error is about."""

from jaxroof.app.fields import MAPPED, words_of
from jaxroof.app.state import FIELDS, FILES, UPLOADS, State

CONTROLS = {  # with what an error begins -> the control that it is about
    **{name: name for name in FIELDS},
    "my plan": "mine",
    **{words_of(path): path for path in MAPPED if "." in path},
}


def control_of(words: str, last: str, state: State) -> str:
    """Return the control that an error is about: the one that it names, else the last that moved.

    An error of a link is about none of the numbers, but on how many accelerators is always asked.

    >>> from jaxroof.app.state import START
    >>> control_of("where: tp<<8 is not a constraint", "gpus", START)
    'where'
    >>> control_of("plan: none is legal on 102 accelerators", "batch", START)
    'batch'
    >>> control_of("link: own_model: damaged; expected the whole link", "", START)
    'own_model'
    """
    head = words.removeprefix("link: ").partition(":")[0]
    changed = {path: path for path, _ in state.changes}
    if head.endswith(FILES) and last not in UPLOADS:
        return "own_model"
    named = {**changed, **CONTROLS}.get(head)
    return named or last or ("gpus" if head == "plan" else "")
