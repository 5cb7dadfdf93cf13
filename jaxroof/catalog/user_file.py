"""Files of the user in the form of the catalogue: read, and their parts checked."""

import tomllib
from pathlib import Path
from typing import Any

from jaxroof import units
from jaxroof.catalog import huggingface
from jaxroof.catalog.kinds import FORMATS, SINGULAR
from jaxroof.errors import refusal, shown, unknown


def read_entry(kind: str, path: str) -> dict[str, Any]:
    """Return the table of a user's TOML file, or a model from a ``config.json``."""
    expected = f"expected a TOML file of one {SINGULAR[kind]}"
    expected += " or a config.json" * (kind == "architectures")
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise refusal(path, f"no such file; {expected}.") from None
    except IsADirectoryError:
        raise refusal(path, f"a directory; {expected}.") from None
    except OSError as error:
        raise refusal(path, f"cannot be read ({error.strerror}); {expected}.") from None
    except UnicodeDecodeError as error:
        raise refusal(path, f"not UTF-8 text at byte {error.start}; {expected}.") from None
    if path.endswith(".json"):
        if kind != "architectures":
            raise refusal(path, f"a whole model, if anything; {expected}.")
        return huggingface.entry(path, text)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise refusal(path, f"not TOML: {error}; {expected}.") from None


def check_type(value: object, kind: type, meaning: str, where: str) -> None:
    """Raise for a value of another type."""
    if not isinstance(value, kind):
        raise refusal(where, f"not {meaning}, given {shown(value)}; expected {meaning}.")


def read_peaks(written: object, where: str) -> dict[str, float]:
    """Return the peak rate of each native number format in FLOP/s."""
    if not isinstance(written, dict):
        expected = "expected a table of rates by number format, such as { bf16 = '312 TFLOP/s' }"
        raise refusal(where, f"not a table, given {shown(written)}; {expected}.")
    peaks = {}
    for name, rate in written.items():
        if name not in FORMATS:
            raise unknown(where, name, "number format", FORMATS)
        peaks[name] = units.parse(rate, "FLOP/s", f"{where}.{name}")
        if peaks[name] <= 0.0:
            expected = "expected a positive rate, or no entry where the format is not native"
            raise refusal(f"{where}.{name}", f"out of range, given {shown(rate)}; {expected}.")
    return peaks
