"""A ``config.json`` as it is read."""

from collections.abc import Callable, Sequence
from typing import Any

from jaxroof.errors import InputError, refusal, shown
from jaxroof.limits import BOUNDS

Entry = dict[str, Any]  # fields of an Architecture and choices of its recipe
Kind = Callable[[int], str]  # number of a layer, from 0 -> its kind where no list says it
FULL, WINDOW, CHUNKS, LINEAR = (
    f"{kind}_attention" for kind in ("full", "sliding", "chunked", "linear")
)
CLASS = "as its class has it"


class Config:
    """A configuration; a field that is null is one that is not given."""

    def __init__(self, path: str, written: dict[str, Any]) -> None:
        self.path, self.written = path, written
        self.used: list[str] = []  # every field that was asked for
        self.taken: dict[str, str] = {}  # field of an Architecture -> what it was read from

    def given(self, key: str) -> Any:
        """Return a field as written, or None."""
        self.used.append(key)
        return self.written.get(key)

    def count(self, key: str, default: int | None = None, zero: bool = False) -> int:
        """Return a whole number above 0 (or 0, if allowed), or the default where there is none.

        A list with one value a layer is that value, if all are equal.
        """
        value = self.given(key)
        if value is None and default is not None:
            return default
        expected = f"a whole number {'of at least' if zero else 'above'} 0"
        if value is None:
            raise self.refuse(key, "given null" if key in self.written else "missing", expected)
        if isinstance(value, list) and len(value) == self.written.get("num_hidden_layers"):
            if value.count(value[0]) < len(value):
                raise self.refuse(key, f"given {shown(value)}", "the same number for every layer")
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int) or value < (not zero):
            raise self.refuse(key, f"given {shown(value)}", expected)
        return value

    def counts(self, zero: bool = False, **keys: Any) -> Entry:
        """Return whole numbers by the fields of an Architecture that they are.

        A pair is a key and its default.
        """
        found = {}
        for name, asked in keys.items():
            key, default = (asked, None) if isinstance(asked, str) else asked
            found[name] = self.count(key, default, zero)
            self.taken[name] = key if self.written.get(key) is not None else CLASS
        return found

    def items(self, key: str) -> list[Any]:
        """Return a list, empty where there is none. Raises: InputError for something else."""
        value = self.given(key)
        if value is not None and not isinstance(value, list):
            raise self.refuse(key, f"given {shown(value)}", "a list")
        return value or []

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false. Raises: InputError for something else."""
        value = self.given(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.refuse(key, f"given {shown(value)}", "true or false")
        return value

    def only(self, value: Any, *keys: str) -> None:
        """Raise an InputError for a field that is given and has another value."""
        for key in keys:
            found = self.given(key)
            if found is not None and (found != value or type(found) is not type(value)):
                raise self.refuse(
                    key, f"given {shown(found)}", f"{shown(value)}, the only one counted"
                )

    def layers(self) -> int:
        """Return the number of layers."""
        layers = self.count("num_hidden_layers")
        if layers > BOUNDS["layers"]:
            most = f"at most {BOUNDS['layers']:,.0f}"
            raise self.refuse("num_hidden_layers", f"given {shown(layers)}", most)
        return layers

    def pattern(self, key: str, known: Sequence[Any], otherwise: Kind | None = None) -> list[Any]:
        """Return the kind of every layer, as a list or a text has it.

        Raises: InputError for another length than that of the layers, or an unknown kind.
        """
        written, layers = self.given(key), self.layers()
        if written is None and otherwise is not None:
            return [otherwise(layer) for layer in range(layers)]
        if not isinstance(written, list | str) or len(written) != layers:
            said = "missing" if written is None else f"given {shown(written)}"
            if isinstance(written, list | str):
                said += f", of {len(written)}"
            raise self.refuse(key, said, f"the kinds of {layers} layers, as num_hidden_layers says")
        for kind in written:
            if not any(kind == one and type(kind) is type(one) for one in known):
                raise self.refuse(key, f"given {shown(kind)}", " or ".join(map(str, known)))
        return list(written)

    def refuse(self, key: str, problem: str, expected: str) -> InputError:
        """Return the error for a field."""
        return refusal(f"{self.path}: {key}", f"{problem}; expected {expected}.")
