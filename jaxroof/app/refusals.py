"""Which control of the form an error is about, and what the page calls what the shell names."""

import re

from jaxroof.app.fields import MAPPED, words_of
from jaxroof.app.state import FIELDS, FILES, UPLOADS, State

CONTROLS = {  # with what an error begins -> the control that it is about
    **{name: name for name in FIELDS},
    "my plan": "mine",
    "memory to leave free": "margin",
    **{words_of(path): path for path in MAPPED if "." in path},
}

LABELS = {"where": "Rules", "mine": "My plan", "gpus": "GPUs", "margin": "Memory to leave free"}
SHELL = (  # what sentences say of the shell -> what the page has for it
    (r" `jaxroof fit --plan` with it says [^.]*\.", ""),
    (r", or see what needs least: jaxroof fit", ", or of more memory"),
    (r"ask with --estimator \w+( \(in a file: [^)]*\))?", "the page has none of these"),
    (r"--set ([\w.]+)=(\S+)", r"\1 \2"),
)
OPTION = re.compile(r"--([a-z]+)")


def in_controls(words: str) -> str:
    """Return a sentence that names controls of the page, not options of the shell.

    >>> in_controls("none of the 464 legal plans that --where leaves has these fields")
    'none of the 464 legal plans that Rules leaves has these fields'
    """
    for pattern, other in SHELL:
        words = re.sub(pattern, other, words)
    return OPTION.sub(lambda found: LABELS.get(found[1], found[1].capitalize()), words)


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
