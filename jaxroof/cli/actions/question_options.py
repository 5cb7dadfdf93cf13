"""The options that every question about plans of a training step has, as they were typed."""

import dataclasses

from jaxroof.cli.counts import parse_count, parse_counts


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlansQuestion:
    """One model on one system, split over some numbers of accelerators.

    Its properties raise an InputError for a text that cannot be read.
    """

    model_name: str
    system_name: str
    gpus: str
    batch: str
    where: str
    sets: tuple[str, ...]
    output: str | None

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of accelerators."""
        return parse_counts("--gpus", self.gpus)

    @property
    def sequences(self) -> int:
        """Return the sequences of one step."""
        return parse_count("--batch", self.batch)
