"""One plan in detail: its layer by operation, its stages, its step under schedules or by event.

Each is a detail that its estimator declares; see ``jaxroof.engine.details``.
"""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

from jaxroof.analyses.named_questions import estimator_for
from jaxroof.engine.details import detail, options_of, rows_of
from jaxroof.engine.grid.axes import AxisValues
from jaxroof.engine.grid.dataset import provenance
from jaxroof.engine.grid.question import Question, ask
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.io.traces import trace_of


def layers(
    inputs: Any = None,
    recipe: Any = None,
    *,
    estimator: Estimator | str | None = None,
    axes: AxisValues | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the operations of one layer and one microbatch under one plan, as `jaxroof layers`.

    Arguments: ``inputs`` is a record, or settings that make one; ``settings`` and ``more`` change
    them, as in ``evaluate``. The estimator is that of the record, by default ``training``; others
    are ``published`` and ``unfused``. ``axes`` are as in ``tabulate``, each a dimension.
    Returns: a Dataset over ``operation`` of FLOP and seconds in both directions, and of what else
    the estimator knows of an operation.
    Raises: InputError for settings that are missing, unknown or out of range, and without a plan.

    >>> data = layers(model="llama3-8b", system="h100-nvs8", global_batch=8, dp=8)
    >>> str(data.operation.values[0])
    'qkv'
    """
    given = {**(settings or {}), **more}
    return _asked("layers", estimator, inputs, recipe, axes, given)


def training_layers(inputs: Any, recipe: Any = None, **more: Any) -> xr.Dataset:
    """Return the ``layers`` of ``training``: what sums to the time of an average layer.

    Beside seconds and FLOP a row has its share of the layer's time and its rate over the 16-bit
    peak; ``kind`` says what an operation is. Messages are what nothing hides of them; ``launch
    limit`` is what waiting for the host adds.
    """
    return layers(inputs, recipe, estimator="training", **more)


def unfused_layers(inputs: Any, recipe: Any = None, **more: Any) -> xr.Dataset:
    """Return the ``layers`` of ``unfused``, by operator: the MLP block, then the attention block.

    Coordinates name the block, the collectives and the links. An operator that does not communicate
    has a message of NaN and a group of -1.
    """
    return layers(inputs, recipe, estimator="unfused", **more)


def stages(
    settings: Mapping[str, Any] | None = None, /, *, axes: AxisValues | None = None, **more: Any
) -> xr.Dataset:
    """Return work, idle time and memory of every stage; settings as in ``jr.evaluate("pipeline")``.

    Returns: a Dataset over ``stage``: seconds of its visits, shares of the step, bytes.

    >>> plan = {"plan.data": 1, "plan.tensor": 1, "plan.pipeline": 2, "plan.microbatches": 4}
    >>> found = stages(plan, model="mlp-xs", system="distir-a", profile="distir-a")
    >>> [round(float(share), 3) for share in found.idle_share]
    [0.181, 0.181]
    """
    given = {**(settings or {}), **more}
    return _asked("stages", "pipeline", given, None, axes, {})


def schedule(
    inputs: Any = None,
    recipe: Any = None,
    *,
    estimator: Estimator | str | None = None,
    axes: AxisValues | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return a step under each of several pipeline schedules, as `jaxroof schedule`.

    Arguments are as in ``layers``; ``schedules`` are their names; ``chunks`` the stages per device
    in schedules with several; ``sends`` between stages are ``"overlapped"`` with work,
    ``"blocking"`` or ``"free"``. With ``published``, ``first`` and ``last`` are the extra time and
    weights of the first and the last stage, in units of one layer (0.1 for an embedding).
    Returns: a Dataset over ``schedule`` and ``device``. A schedule that does not allow the plan
    keeps its row: its numbers are missing and ``reason`` says why. DualPipe stores every weight
    twice.
    Raises: InputError as ``layers``, for an illegal plan, and if no schedule allows the plan.

    >>> data = schedule(model="llama3-8b", system="h100-nvs8", global_batch=8, pp=2, tp=2)
    >>> "1f1b" in data.schedule.values
    True
    """
    given = {**(settings or {}), **more}
    return _asked("schedule", estimator, inputs, recipe, axes, given)


def training_schedule(inputs: Any, recipe: Any = None, **more: Any) -> xr.Dataset:
    """Return the ``schedule`` of ``training``, with the 80 % interval of each step time.

    ``chunks`` are by default the plan's ``interleave``, or 2; ``sends`` as the software sends.
    """
    return schedule(inputs, recipe, estimator="training", **more)


def trace(
    estimator: str = "pipeline", settings: Mapping[str, Any] | None = None, /, **more: Any
) -> xr.Dataset:
    """Return every event of one step: a Dataset over ``event``, in program order.

    An MLP (``"pipeline"``) is traced operation by operation, in the order of its recipe; a
    transformer (``"training"``, ``"published"``) visit by visit, under a ``schedule`` and with the
    other arguments of ``schedule``.
    Returns: name, kind and phase of each event, its device (numbered from 1, stages innermost,
    replicas outermost), replica, tensor rank, stage, microbatch, start and duration [s]. ``write``
    makes a .json of it that Chrome and Perfetto open, ``plot.timeline`` a picture.

    >>> mlp = {"model.layers": 4, "model.hidden": 512, "system": "distir-a", "profile": "distir-a"}
    >>> plan = {"plan.data": 1, "plan.tensor": 1, "plan.pipeline": 2, "plan.microbatches": 2}
    >>> trace("pipeline", {**mlp, **plan}).sizes["event"]
    56
    """
    asked, chosen = _able(estimator, "events"), {**(settings or {}), **more}
    for path, value in chosen.items():
        if getattr(value, "shape", ()):
            raise refusal(path, "a trace is of one configuration; expected one number")
    options = {name: chosen.pop(name) for name in options_of(asked, "events") if name in chosen}
    inputs, recipe = _settled(asked, chosen, None, {})
    inputs, (columns, attrs) = rows_of(asked, "events", inputs, recipe, **options)
    events = {name: column.values for name, column in columns.items()}
    return trace_of(events, provenance(asked, inputs, recipe, question="trace", **attrs))


def question_of(data: xr.Dataset) -> tuple[Any, Any]:
    """Return the inputs and the recipe of one plan from the attributes of its detail."""
    numbers, choices = (json.loads(data.attrs[name]) for name in ("inputs", "recipe"))
    settings = {**numbers, **choices}
    return ask(named(data.attrs["estimator"]), settings=settings, whole=True)[1:3]


# ---- Settings or records in, checked inputs out -------------------------------------------------


def _asked(
    question: str,
    estimator: Estimator | str | None,
    inputs: Any,
    recipe: Any,
    axes: AxisValues | None,
    given: Mapping[str, Any],
) -> xr.Dataset:
    """Return a detail of the estimator that is given, else of that of the inputs."""
    of = _able(estimator or estimator_for({} if inputs is None else inputs), question)
    own = options_of(of, question)
    options = {key: value for key, value in given.items() if key in own}
    chosen = {key: value for key, value in given.items() if key not in own}
    if axes is None:
        asked = Question(of, *_settled(of, inputs, recipe, chosen))
    else:
        asked = ask(of, inputs, recipe, chosen, axes)
    return detail(of, question, asked, **options)


def _able(estimator: Estimator | str, question: str) -> Estimator:
    """Return an estimator, by name or itself, that has a detail."""
    of = named(estimator) if isinstance(estimator, str) else estimator
    if question not in of.details():
        raise refusal("estimator", f"{of.name}: has no {question}; expected one that has")
    return of


def _settled(
    estimator: Estimator, inputs: Any, recipe: Any, chosen: Mapping[str, Any]
) -> tuple[Any, Any]:
    if not estimator.usual:  # a plan has every field
        return ask(estimator, inputs, recipe, chosen)[1:3]
    from jaxroof.analyses.training_plans import training_step

    return training_step(inputs, recipe, chosen)
