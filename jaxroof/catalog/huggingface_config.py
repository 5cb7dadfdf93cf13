"""The fields of a ``config.json``, checked as they are read, and which of them were."""

from typing import Any

from jaxroof.errors import InputError, refusal, shown

WINDOWED = {"sliding_attention": True, "full_attention": False}  # kind of layer -> has a window


class Config:
    """A configuration; a field that is null is one that is not given."""

    def __init__(self, path: str, written: dict[str, Any]) -> None:
        self.path, self.written = path, written
        self.used: list[str] = []  # every field that was asked for

    def given(self, key: str) -> Any:
        """Return a field as written, or None."""
        self.used.append(key)
        return self.written.get(key)

    def stated(self, key: str) -> bool:
        """Return whether a field is not null: it has a value, or its default."""
        return self.given(key) is not None or key not in self.written

    def count(self, key: str, default: int | None = None, zero: bool = False) -> int:
        """Return a whole number above 0 (or 0, if allowed), or the default where there is none."""
        value = self.given(key)
        if value is None:
            value = default
        expected = f"a whole number {'of at least' if zero else 'above'} 0"
        if value is None:
            raise self.refuse(key, "missing", expected)
        if isinstance(value, bool) or not isinstance(value, int) or value < (not zero):
            raise self.refuse(key, f"given {shown(value)}", expected)
        return value

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

    def only(self, key: str, value: Any) -> None:
        """Raise an InputError for a field that is given and has another value."""
        found = self.given(key)
        if found is not None and (found != value or type(found) is not type(value)):
            raise self.refuse(key, f"given {shown(found)}", f"{shown(value)}, the only one counted")

    def local_layers(self) -> int:
        """Return how many layers have a window. Raises: InputError for layers of another kind."""
        kinds, layers = self.items("layer_types"), self.count("num_hidden_layers")
        if len(kinds) != layers:
            raise self.refuse("layer_types", f"given {shown(kinds)}", f"a list of {layers} kinds")
        for kind in kinds:
            if kind not in list(WINDOWED):
                raise self.refuse("layer_types", f"given {shown(kind)}", " or ".join(WINDOWED))
        return sum(WINDOWED[kind] for kind in kinds)

    def refuse(self, key: str, problem: str, expected: str) -> InputError:
        """Return the error for a field."""
        return refusal(f"{self.path}: {key}", f"{problem}; expected {expected}.")
