"""What is refused, which is one line whoever refuses it."""

from collections.abc import Callable
from typing import Any

import pytest

from jaxroof.errors import InputError


def refused(action: Callable[..., Any], *arguments: Any, **more: Any) -> str:
    """Return the one line with which an action ends that cannot be done."""
    with pytest.raises(InputError) as told:
        action(*arguments, **more)
    assert "\n" not in str(told.value)
    return str(told.value)
