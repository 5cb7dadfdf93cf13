"""The command `jaxroof schedule`: pipeline schedules of a plan, compared."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, settings_of, shared

HELD = ("microbatch", "zero_stage", "recompute", "offload_optimizer")  # often left open
ENDS = ("first", "last")  # stages


@click.command(
    name="schedule",
    cls=Command,
    short_help="Compare the pipeline schedules of a plan.",
    epilog="""\b
Examples:
  jaxroof schedule --model llama3.1-405b --system h100-nvs8 --batch 2048 \\
      --plan dp=16,tp=8,pp=16,zero=1,rc=1
  jaxroof schedule --model llama3-70b --system h100-nvs8 --batch 64 \\
      --plan dp=2,tp=8,pp=4 --schedule 1f1b,zb-h1,dualpipe --trace 1f1b.json
  jaxroof schedule --estimator published --model gpt3-1t --system h200-nvs4 \\
      --plan dp=16,tp=4,pp=32,microbatch=1 --schedule 1f1b,zb-h1 \\
      --set first=0.1 --set last=0.8 --sends blocking -o schedules.png
""",
)
@shared("model", "system", "estimator")
@shared("plan")
@click.option(
    "--schedule", "names", default="1f1b,interleaved,zb-h1,dualpipe", show_default=True,
    metavar="NAME[,NAME...]", help="gpipe, 1f1b, 1f1b-greedy, interleaved, zb-h1 or dualpipe.",
)  # fmt: skip
@click.option(
    "--batch", default="4096", show_default=True, metavar="B", type=types.COUNT,
    help="Sequences of one step.",
)  # fmt: skip
@click.option(
    "--chunks",
    metavar="V",
    type=types.COUNT,
    help="Stages a device has when interleaved.  [default: vp of the plan, or 2]",
)
@click.option(
    "--sends", metavar="KIND",
    help="Between stages: overlapped with work, blocking or free.  [default: as the software does]",
)  # fmt: skip
@shared("sequence", "set", "output", "json", "quiet", "verbose")
@click.option(
    "--trace", metavar="FILE",
    help="Every visit of the first schedule: .json (Chrome, Perfetto), .csv, .nc, .png ...",
)  # fmt: skip
@click.option("--first", hidden=True)
@click.option("--last", hidden=True)
@shared("format", "split")
def command(
    model_name: str,
    system_name: str,
    estimator: str,
    plan_text: str,
    names: str,
    batch: int,
    chunks: int | None,
    sends: str | None,
    output: str | None,
    trace: str | None,
    first: str | None,
    last: str | None,
    number_format: str | None,
    **options: Any,
) -> int:
    """Print how fast and how full each pipeline schedule makes a plan, and which is best.

    Fields that --plan leaves open, dp not among them, are filled in as by search --mine.
    """
    import json

    from jaxroof.analyses import one_plan
    from jaxroof.analyses.training_plans import filled_settings
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.cli.question import left_open, machine, named, plan_settings
    from jaxroof.errors import refusal, unknown
    from jaxroof.estimators.pipelines import check_schedules
    from jaxroof.schedules import CHUNKED
    from jaxroof.schedules.clock import Sends
    from jaxroof.views.text.schedule import best_of

    deliver.check_output(output)
    deliver.check_output(trace)
    of = named(estimator, "schedule")
    listed = check_schedules(types.parse_names("--schedule", names), "--schedule")
    if chunks is not None and not {*listed} & {*CHUNKED}:
        what = f"none of {', '.join(listed)} has a choice of it"
        raise refusal("--chunks", f"{what}; expected it with {' or '.join(CHUNKED)}")
    kinds = [kind.value for kind in Sends]
    if sends is not None and sends not in kinds:
        raise unknown("--sends", sends, "kind of sends", kinds)
    settings = {
        "model": model_name,
        "system": machine(of, system_name, number_format),
        "global_batch": batch,
    }
    settings |= settings_of(**options, gpus="--plan")
    how: dict[str, Any] = {"chunks": chunks, "sends": sends, "first": first, "last": last}
    how = {name: value for name, value in how.items() if value is not None}
    settings, given = plan_settings(of, plan_text, settings)
    if given.get("pipeline", 1) < 2:
        raise refusal("--plan", "pp=1: a schedule is of a pipeline; expected pp=2 or more")
    filled: dict[str, str] = {}
    if of.usual:  # a plan may leave fields open
        fixed = {"interleave": chunks} if chunks is not None else {}
        fixed |= {} if chunks is not None or {*listed} & {*CHUNKED} else {"interleave": 1}
        settings, filled = filled_settings(settings, fixed)
    followed = batch / given.get("data", 1) / float(settings.get("plan.microbatch", 1))
    said = f"following {followed:,.0f} microbatches through the stages of each schedule"
    with working(said):
        data = one_plan.schedule(estimator=of, settings=settings, schedules=listed, **how)
    plan = json.loads(data.attrs["inputs"])
    data.attrs["title"] = f"{model_name} on {system_name}, {_heading(of, plan, data, how)}"
    if of.usual:
        held = {name: plan[f"plan.{name}"] for name in HELD}
        data.attrs.update(filled or {"left_open": left_open(plan_text, held)})
    deliver.deliver(data, output)
    if trace is not None:
        allowed = str(data.schedule.values[data.allowed.values][0])
        events = one_plan.trace(of.name, {**settings, "schedule": allowed, **how})
        deliver.write_or_draw(events, trace, events)
        deliver.report_written(trace)
    return 0 if best_of(data) is not None else 1


def _heading(of: Any, numbers: dict[str, float], data: Any, how: dict[str, Any]) -> str:
    """Return a plan, its microbatches, and what is not as usual."""
    from jaxroof.views.text.plan import heading

    plan = {k.removeprefix("plan."): v for k, v in numbers.items() if k.startswith("plan.")}
    if of.usual:
        said = heading(plan)
    else:
        shown = {f: int(v) for f, v in plan.items() if f not in of.placement}
        shown = {f: v for f, v in shown.items() if v > 1 or f == "microbatch"}
        said = " ".join(f"{of.shortest[field]} {value}" for field, value in shown.items())
    more = [f"{end} stage {float(how[end]):g} layers heavier" for end in ENDS if end in how]
    more += [f"{how['sends']} sends"] if how.get("sends", "overlapped") != "overlapped" else []
    return ", ".join([f"{said}: {int(data.microbatches):,} microbatches", *more])
