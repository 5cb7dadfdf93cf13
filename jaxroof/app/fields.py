"""The numbers that a slider moves: their names in words, and the values at its stops."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.app.state import PATHS, WHOLE, ungrouped, whole_number
from jaxroof.errors import refusal
from jaxroof.units import parse, show
from jaxroof.views.parameter_words import WORDS as SHARED

TOKENS, SEQUENCE = "model.training_tokens", "model.sequence"
WORDS = {"gpus": "GPUs", "global_batch": "batch", SEQUENCE: "sequence", TOKENS: "training tokens"}
MAIN = (  # numbers that always have a slider, where the system has them
    "system.matrix_flops",
    "system.hbm_bandwidth",
    "system.hbm_capacity",
    "system.fast_domain",
    "system.fast_bandwidth",
    "system.slow_bandwidth",
)
MAPPED = ("gpus", "global_batch", *MAIN, "system.nics", SEQUENCE)
MOVED = ("system.", "software.", "shared.", SEQUENCE, TOKENS)  # that a slider may move
SIZES = {path: WHOLE[name] for name, path in PATHS.items()}
SPAN = 16.0  # a slider goes from 1 / SPAN to SPAN times the system's own value
REACH = 1e6  # times the system's own value, beyond which no value is taken
USABLE = "system.hbm_usable"  # what a margin of memory changes: its rest stays free
MARGINS = tuple(p / 100.0 for p in (0, 1, 2, 3, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50))
UNITS = ("B", "B/s", "FLOP/s", "s", "FLOP", "W")  # that a number must be typed with
TRILLIONS = 1e10  # tokens from which on they are shown in trillions
STOPS = 97  # of a slider; the middle one is the system's own value
DOMAINS = (1, 2, 4, 8, 16, 32, 36, 64, 72, 128, 144, 256, 576)


class Number(NamedTuple):
    """A number of the question: its path, its name, unit and sentence, and its slider's stops."""

    path: str
    words: str
    unit: str
    about: str
    value: float
    stops: tuple[float, ...]

    def read(self, text: str) -> float:
        """Return the value that is typed, which has its unit; what is shown is exact.

        Raises: InputError for what is no such quantity, or has no unit where it needs one.
        """
        if self.path in WHOLE:
            return whole_number(self.path, text)
        plain = ungrouped(text.strip())
        if plain == ungrouped(shown(self.value, self.unit)):
            return self.value
        found = parse(plain, "1" if self.unit == "%" else self.unit, self.words)
        if self.unit in UNITS and _bare(plain):
            example = f"such as {shown(self.value, self.unit)}"
            raise refusal(self.words, f"expected a number with its unit, {example}, given {plain}")
        return found

    def check(self, value: float) -> None:
        """Check that a value is not absurdly far from the catalogue's.

        Raises: InputError that says the limits.
        """
        least, most = self.value / REACH, self.value * REACH
        if self.value > 0.0 and value > 0.0 and not least <= value <= most:
            span = f"expected {show(least, self.unit)} to {show(most, self.unit)}"
            raise refusal(self.words, f"{span}, given {show(value, self.unit)}")


def number_of(path: str, value: float, about: Mapping[str, Any]) -> Number:
    """Return a number of the inputs by the metadata of its field."""
    unit, said = str(about["unit"]), str(about["doc"])
    return Number(path, words_of(path), unit, said, value, stops(path, value, about))


def words_of(path: str) -> str:
    """Return a number's everyday name.

    >>> words_of("system.fast_bandwidth"), words_of("software.year")
    ('NVLink bandwidth', 'software year')
    """
    leaf = path.removeprefix("system.")
    return WORDS.get(path) or SHARED.get(leaf) or leaf.replace(".", " ").replace("_", " ")


def of_machine(path: str) -> bool:
    """Return whether a number is the machine's; memory to leave free is of the question."""
    return path.startswith("system.") and path != USABLE


def _bare(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def stops(path: str, value: float, about: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values of a slider around a value, in equal ratios.

    >>> stops("system.nics", 1.0, {"whole": False, "most": None})[48]
    1.0
    >>> stops("model.sequence", 100.0, {})
    (8.0, 16.0, 32.0, 64.0, 100.0, 128.0, 256.0, 512.0, 1024.0)
    """
    if path == "system.fast_domain":
        return tuple(sorted({*map(float, DOMAINS), value}))
    if path == SEQUENCE:
        least, most = np.ceil(np.log2(max(value / SPAN, 1.0))), np.floor(np.log2(value * SPAN))
        return tuple(sorted({*(2.0 ** np.arange(least, most + 1.0)).tolist(), value}))
    if value == 0.0:
        return tuple(np.linspace(0.0, float(about["most"] or 1.0), STOPS).tolist())
    found = [float(f"{v:.3g}") for v in value * np.geomspace(1.0 / SPAN, SPAN, STOPS)]
    found[STOPS // 2] = value
    most = about["most"]
    if about["whole"]:
        found = sorted({max(1.0, round(v)) for v in found})
    return tuple(dict.fromkeys(v if most is None else min(v, float(most)) for v in found))


def sizes(most: int) -> tuple[float, ...]:
    """Return the stops of a number of accelerators or of sequences: powers of two."""
    return tuple(2.0**k for k in range(int(np.log2(most)) + 1))


def shown(value: float, unit: str) -> str:
    """Return a value as a slider shows it.

    >>> shown(4.8e12, "B/s"), shown(2048.0, "1"), shown(0.7, "1"), shown(0.1, "%")
    ('4.8 TB/s', '2,048', '0.7', '10 %')
    >>> shown(15.6e12, "token"), shown(8192.0, "token")
    ('15.6 T', '8,192')
    """
    if unit == "%":
        return f"{100.0 * value:.4g} %"
    if unit == "token" and value >= TRILLIONS:
        return f"{value / 1e12:.4g} T"
    if float(value).is_integer() and unit not in UNITS:
        return f"{value:,.0f}"
    return show(float(f"{value:.4g}"), unit)


@functools.lru_cache(maxsize=512)
def texts(stops: tuple[float, ...], unit: str) -> list[str]:
    """Return what a slider shows at each of its stops."""
    return [shown(value, unit) for value in stops]
