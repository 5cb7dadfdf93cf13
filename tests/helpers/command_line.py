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
