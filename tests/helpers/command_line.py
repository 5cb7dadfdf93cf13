"""How a command of the command line ended."""

from typing import NamedTuple


class Said(NamedTuple):
    """How a command ended."""

    code: int | str | None
    out: str
    err: str

    @property
    def words(self) -> str:
        """Return what was printed, lines joined: sentences do not depend on the width."""
        return " ".join(self.out.split())


def last_words(err: str) -> str:
    """Return what a command said at its end, without what it did meanwhile on a slow machine."""
    return "\n".join(line for line in err.strip().splitlines() if not line.endswith(" ..."))
