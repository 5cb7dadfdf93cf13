"""The schedule command, by estimator: pipeline schedules of one plan, printed, written, drawn."""

from collections.abc import Callable
from typing import Any

from jaxroof.cli.actions.published_schedule import published_command
from jaxroof.cli.actions.training_schedule import training_command
from jaxroof.errors import unknown

SCHEDULES: dict[str, Callable[..., int]] = {
    "training": training_command,
    "published": published_command,
}


def schedule_command(estimator: str, **options: Any) -> int:
    """Print, write and draw the schedules of one plan; return 1 if none fits.

    Raises: InputError for an estimator without schedules, with the nearest name that has them.
    """
    if estimator not in SCHEDULES:
        raise unknown("--estimator", estimator, "estimator of schedules", SCHEDULES)
    return SCHEDULES[estimator](**options)
