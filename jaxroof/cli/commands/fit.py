"""The command `jaxroof fit`: whether a training step fits, and what fills every stage."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, settings_of, shared
from jaxroof.errors import InputError

TOP = 5  # plans that are printed
NO_OFFLOAD = "off=0"


@click.command(
    name="fit",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 128 \\
      --set recompute=full
  jaxroof fit --model llama3.1-405b --system h100-nvs8 --batch 2048 \\
      --plan tp=8,pp=16,dp=128 --set layer_split=7,14x8,7
  jaxroof fit --model mixtral-8x7b --system h100-nvs8 --batch 128 \\
      --plan tp=2,pp=4,dp=8,ep=8 --sequence 8192 -o stages.png
  jaxroof fit --model llama3-8b --system h100-nvs8 --software fsdp2 \\
      --plan dp=8,replicas=4 --batch 64 --set recompute=op --set loss=chunked
  jaxroof fit --model llama3.1-405b --system h100-nvs8 --batch 2048 \\
      --where 'tp<=8,zero<=1,off=0'
\b
Plan: dp tp cp pp (degrees), ep etp (of experts), microbatch, interleave,
  sp=0 (no sequence parallelism), zero=0..3 (ZeRO stage, 1 if not given),
  replicas (of FSDP2 groups that each shard everything over dp).
Without a plan every legal one is tried, on --gpus or on the fewest that hold
  one; --where may constrain vp (interleave), mb (microbatch), rc (computed
  again: 0 none, 1 selective, 2 full) and off (optimizer in host memory) too.
""",
)
@shared("model", "system")
@click.option(
    "--plan", "plan_text", metavar="PLAN",
    help="tp=8,pp=4,dp=16.  [default: every legal plan is tried]",
)  # fmt: skip
@shared("batch", "where", "sequence", "margin")
@click.option(
    "--gpus", metavar="N", type=types.COUNT,
    help="Accelerators; the product of the degrees, or the fewest.",
)  # fmt: skip
@click.option("--software", metavar="NAME", help="Who trains: jaxroof list software.")
@click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE",
    help="Change a choice or a number, such as recompute=full, attention_kernel=flash or "
    "system.hbm_capacity='85.5 GB'.",
)  # fmt: skip
@shared("json", "quiet", "verbose", "output")
def command(
    model_name: str,
    system_name: str,
    plan_text: str | None,
    batch: int,
    where: str,
    gpus: int | None,
    software: str | None,
    output: str | None,
    **options: Any,
) -> int:
    """Print whether a training step fits, what is missing, and the memory of every stage.

    If it does not fit, the cheapest changes that make it fit follow; if it does, those that make
    a step shorter. Fields that --plan leaves open are filled in as by search --mine, where the
    number of accelerators is known. Without a plan: whether any fits on --gpus, the fastest and the
    leanest of them; without --gpus too: the fewest accelerators that hold a step.
    """
    from jaxroof.cli import deliver

    deliver.check_output(output)
    asked = {"model": model_name, "system": system_name, "global_batch": batch}
    asked["settings"] = settings_of(**options)
    if plan_text is not None:
        if where:
            raise InputError("--where: constrains the plans of a search; expected no --plan")
        return _one(asked, plan_text, gpus, software, output)
    if software is not None:
        raise InputError("--software: the plans of a search are Megatron's; expected a --plan")
    return _any(asked, where, gpus, output)


def _one(
    asked: dict[str, Any], text: str, gpus: int | None, software: str | None, output: str | None
) -> int:
    """Print or write the memory of every stage; return 1 if the fullest one does not fit."""
    import json

    from jaxroof.analyses.fit import fit
    from jaxroof.analyses.fit_changes import MOST
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.cli.question import left_open
    from jaxroof.engine.search.plan_text import plan_items

    plan = plan_items("--plan", text)
    with working("weighing the memory of every stage, and of changes"):
        data = fit(**asked, plan=plan, gpus=gpus, software=software, changes=MOST, fill=True)
    if "filled" not in data.attrs:
        numbers = json.loads(data.attrs["inputs"])
        fields = ["interleave"] * (numbers.get("plan.pipeline", 1.0) > 1.0)
        fields += ["microbatch", "zero_stage", "offload_optimizer"]  # often left open
        held = {f: numbers[f"plan.{f}"] for f in fields if f"plan.{f}" in numbers}
        data.attrs["left_open"] = left_open(text, held, asked["settings"])
    deliver.deliver(data, output)
    return 0 if bool(data.fits) else 1


def _any(asked: dict[str, Any], where: str, size: int | None, output: str | None) -> int:
    """Print whether a step fits on some accelerators, or on the fewest, and plans that do."""
    import json

    from jaxroof.analyses.training_plans import NoPlanFits, fastest_plans, least_memory
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import progress_bar
    from jaxroof.cli.question import of_time_alone
    from jaxroof.errors import NoAnswer
    from jaxroof.estimators import on_system
    from jaxroof.estimators.training.step import training
    from jaxroof.views.text.fastest_plans import answer_of_fit
    from jaxroof.views.text.said import usual

    def fastest(size: int) -> Any:
        """Return the fastest plans, None if none fits, or no run of the chip was measured."""
        try:
            return fastest_plans(gpus=size, where=where, top=TOP, **asked)
        except (NoAnswer, NoPlanFits):
            if on_system(training, asked["system"]) is not training:
                raise
            return None

    with progress_bar() as progress:
        fast = None if size is None else fastest(size)
        lean = None
        if fast is None:
            lean = least_memory(gpus=size, where=where, top=TOP, progress=progress, **asked)
            if size is None and bool(lean.fits):
                fast = fastest(int(lean.gpus))
            elif bool(lean.fits):
                lean = _sensible(asked, where, lean)
        ways = {} if lean is None else _ways(asked, where, lean, size, progress)
    data = fast if lean is None else lean
    assert data is not None
    data.attrs["ways"] = json.dumps(ways)
    deliver.deliver(data, output, said=answer_of_fit(lean, fast))
    deliver.say_all(usual(of_time_alone(asked["settings"]) if fast is None else ""))
    return 0 if fast is not None or (lean is not None and bool(lean.fits)) else 1


def _sensible(asked: dict[str, Any], where: str, lean: Any) -> Any:
    """Return the leanest plans without offload whose tensor groups share fast links, if any fits.

    Counts are those of all plans.
    """
    import json

    from jaxroof.analyses.training_plans import least_memory

    given = json.loads(lean.attrs["inputs"])
    domain = given.get("system.tiers.0.size", given.get("system.fast_domain"))
    rules = filter(None, (where, NO_OFFLOAD, domain and f"tp<={domain:.0f}"))
    some = least_memory(gpus=int(lean.gpus), where=",".join(rules), top=TOP, **asked)
    whole = {name: lean[name] for name in lean.data_vars if lean[name].dims == ()}
    return some.assign(whole).assign_attrs(lean.attrs) if bool(some.fits) else lean


def _ways(
    asked: dict[str, Any], where: str, lean: Any, size: int | None, progress: Any
) -> dict[str, int | None]:
    """Return under which other rules, and on which other numbers of accelerators, a plan fits."""
    from jaxroof.analyses.training_plans import fewest_accelerators, least_memory

    here = int(lean.gpus)
    if bool(lean.fits):
        if size is not None or not int(lean.offload_optimizer[0]):
            return {}
        rules = ",".join(filter(None, (where, NO_OFFLOAD)))
        fewest = fewest_accelerators(above=here - 1, where=rules, progress=progress, **asked)
        return {"offload": fewest}
    ways: dict[str, int | None] = {}
    if where:
        ways["constraints"] = here if bool(least_memory(gpus=here, **asked).fits) else None
    if size is not None:
        above = fewest_accelerators(above=size, where=where, progress=progress, **asked)
        ways["accelerators"] = above
    return ways
