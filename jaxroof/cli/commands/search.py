"""The command `jaxroof search`: the plans of one or several machines."""

from typing import Any

import click

from jaxroof.cli.options import Command, shared
from jaxroof.errors import InputError, errors_in, refusal, unknown

# results by which plans of training can be ranked: in the order of the step time, and the memory
TIME = ("step_time", "throughput", "tokens_per_second", "mfu", "training_days")
MEMORY = ("memory", "device")
WHOLE = ("wall_days", "cost", "energy", "carbon")  # of a run, where an operation is given


@click.command(
    name="search",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof search --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048
  jaxroof search --model deepseek-v3 --system gb200-nvl72 --gpus 512,2048 \\
      --batch 15360 --set precision=mxfp8
  jaxroof search --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048 --mine tp=8,pp=16 --where 'tp<=8,zero<=1'
  jaxroof search --model llama3-70b --system h100-nvs8 --gpus 256 \\
      --batch 1024 --mine train.sh --as megatron
  jaxroof search --estimator published --model gpt3-1t --system h200-nvs4 \\
      --gpus 2048 --batch 4096 --set split=context
  jaxroof search --estimator two_level:estimator --set message='1 GB'

MODULE:NAME is an estimator of your own, of a file MODULE.py here or an installed module; --set
gives its inputs.
""",
)
@shared("model", "system", "estimator", "set", "output", "gpus", "batch", "sequence")
@click.option("--top", default=5, show_default=True, help="Plans to print.")
@shared("where", "margin")
@click.option(
    "--mine", metavar="PLAN", help="Rank your own plan: tp=8,pp=8,mb=1, launch options or a script."
)
@click.option(
    "--as", "launch", metavar="NAME",
    help="Print the best plan as options of megatron, nemo, torchtitan or deepspeed.",
)  # fmt: skip
@shared("tokens")
@click.option(
    "--objective",
    metavar="NAME",
    help="Result to improve: memory, or a result of the estimator.  [default: step_time]",
)
@click.option("--uncertain", metavar="FILE", help="Draw inputs from the ranges of a TOML table.")
@click.option("--dry-run", is_flag=True, help="With --uncertain: print points, memory, time.")
@shared("json", "quiet", "verbose", "format", "split")
def command(
    top: int,
    mine: str | None,
    objective: str | None,
    launch: str | None,
    uncertain: str | None,
    dry_run: bool,
    output: str | None,
    **options: Any,
) -> int:
    """Print the fastest plans of a cluster, and what binds them."""
    from jaxroof.cli import deliver
    from jaxroof.cli.question import PlansQuestion
    from jaxroof.estimators import is_step

    if dry_run and uncertain is None:
        raise refusal("--dry-run", "of draws alone; expected --uncertain FILE beside it")
    asked = PlansQuestion(**options)
    deliver.check_output(output)
    if uncertain is not None:
        if mine is not None:
            raise InputError("--mine: not with --uncertain; expected one of the two")
        return _uncertain(uncertain, asked, objective, top, output, dry_run)
    if is_step(asked.of):
        return _training(asked, objective, top, mine, output, launch)
    if launch is not None:
        raise InputError("--as: of plans of training; expected --estimator training")
    return _legal(asked, objective, top, mine, output)


def _legal(
    asked: Any, objective: str | None, top: int, mine: str | None, output: str | None
) -> int:
    """Print the best plans of any estimator that is searched; return 1 if none fits.

    Return 2 where the user's own plan is legal on no number of accelerators.
    """
    from jaxroof.analyses.legal_plans import legal_plans, of_sizes

    given: dict[str, Any] = {"where": asked.rules, "objective": objective, "top": top, "own": mine}

    def best(size: int | None) -> Any:
        sized = {} if size is None else {"gpus": size}
        found = legal_plans(asked.of, **given, settings={**sized, **asked.settings})
        refused.append("own_refused" in found.attrs)
        return found

    refused: list[bool] = []
    data = best(None) if asked.gpus is None else of_sizes(asked.gpus, best)
    assert data is not None
    data.attrs["title"] = asked.title
    _deliver(data, output)
    return 2 if all(refused) else 0 if bool(data.feasible.any()) else 1


def _training(
    asked: Any,
    objective: str | None,
    top: int,
    mine: str | None,
    output: str | None,
    launch: str | None,
) -> int:
    """Print the fastest plans of today's training on each of some numbers of accelerators.

    By memory where that is the objective, and where no plan fits. Return 1 if no plan fits.
    """
    import json

    from jaxroof.analyses.legal_plans import of_sizes
    from jaxroof.analyses.training_plans import NoPlanFits, better_batch, fastest_plans
    from jaxroof.catalog.launch_options import launchers
    from jaxroof.catalog.lookup import system
    from jaxroof.cli.progress import working
    from jaxroof.cli.question import launched
    from jaxroof.estimators import STEP

    torus = asked.of.name != STEP
    if objective in WHOLE:
        _operate(asked, objective)
        return _legal(asked, objective, top, mine, output)
    if objective not in (None, *TIME, *MEMORY):
        raise unknown("--objective", objective, "objective of training", (*TIME, *MEMORY, *WHOLE))
    if launch is not None and launch not in launchers():
        raise unknown("--as", launch, "software with launch options", launchers())
    if torus and launch is not None:
        raise refusal("--as", "of GPUs; MaxText on TPUs has no launch options here")
    if torus and objective in MEMORY:
        return _legal(asked, MEMORY[0], top, mine, output)
    mine = mine if mine is None or torus else launched(mine, asked.settings)
    question = {name: asked.settings[name] for name in ("model", "system", "global_batch")}
    rest = {name: value for name, value in asked.settings.items() if name not in question}
    question |= {"where": asked.where, "settings": rest}
    if objective in MEMORY:
        return _leanest(asked, question, top, mine, output)
    system(asked.system_name)  # an unknown name is refused as such

    def fastest(size: int) -> Any:
        return fastest_plans(gpus=size, top=top, own=mine, **question)

    def beside(other: int) -> Any:
        return fastest_plans(gpus=asked.gpus[0], **{**question, "global_batch": other})

    with working("weighing every legal plan"):
        data = of_sizes(asked.gpus, fastest, (NoPlanFits,))
        if data is None and torus:
            return _legal(asked, None, top, mine, output)
        if data is None:
            _leanest(asked, _of_memory(question), top, mine, output)
            return 1
        if len(asked.gpus) == 1 and (near := better_batch(data, asked.batch, beside)) is not None:
            data.attrs["near"] = json.dumps(near)
    data.attrs |= {} if launch is None else {"launch": launch}
    _deliver(data, output)
    return 0


def _operate(asked: Any, objective: str) -> None:
    """Ask for the whole run, whose result is the objective.

    Raises: InputError for prices or watts that nobody gives.
    """
    from jaxroof.analyses.budget import check_known
    from jaxroof.estimators.whole_run.operation import Operation

    check_known(asked.system_name, asked.settings, objective)
    asked.settings.setdefault("operation", Operation())


def _of_memory(question: dict[str, Any]) -> dict[str, Any]:
    """Return a question without the settings that the step time alone reads."""
    from jaxroof.estimators.training.inputs import StageInputs, TrainingInputs
    from jaxroof.settings import paths_of

    of_step, of_memory = (dict(paths_of(kind)) for kind in (TrainingInputs, StageInputs))

    def of_time(path: str) -> bool:
        chip = path.startswith(("system.chip", "chip"))
        return chip or (path in of_step and path not in of_memory)

    kept = {path: value for path, value in question["settings"].items() if not of_time(path)}
    return {**question, "settings": kept}


def _leanest(
    asked: Any, question: dict[str, Any], top: int, mine: str | None, output: str | None
) -> int:
    """Print the plans that need least on each number of accelerators; return 1 if none fits."""
    from jaxroof.analyses.legal_plans import of_sizes
    from jaxroof.analyses.training_plans import least_memory
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.cli.question import of_time_alone
    from jaxroof.views.text.said import usual

    def leanest(size: int) -> Any:
        return least_memory(gpus=size, top=top, own=mine, **question)

    with working("weighing the memory of every legal plan"):
        data = of_sizes(asked.gpus, leanest)
    assert data is not None
    _deliver(data, output)
    deliver.say_all(usual(of_time_alone(question["settings"])))
    return 0 if bool(data.feasible.any()) else 1


def _deliver(data: Any, output: str | None) -> None:
    """Print plans, and write them: a CSV has a column of numbers of accelerators."""
    from jaxroof.analyses.legal_plans import joined
    from jaxroof.cli import deliver

    csv = output is not None and output.endswith(".csv")
    single = csv and "gpus" in data and not data["gpus"].ndim
    deliver.deliver(data, output, table=joined([data], {}) if single else None)


def _uncertain(
    file: str, asked: Any, objective: str | None, top: int, output: str | None, dry_run: bool
) -> int:
    """Search one or several cluster sizes in every draw of what is uncertain.

    Every placement counts as a separate plan.
    """
    from functools import partial

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.config.toml_reader import read_uncertain
    from jaxroof.engine.runs.dry_run import dry_run_of_draws
    from jaxroof.engine.search.problem import check_search
    from jaxroof.engine.search.search import search
    from jaxroof.engine.uncertainty.uncertain import uncertain
    from jaxroof.estimators import is_step
    from jaxroof.views.text.interval import spread_words
    from jaxroof.views.text.uncertain import columns

    written = read_uncertain(file)
    if objective in WHOLE and is_step(asked.of):
        _operate(asked, objective)
    sizes = list(dict.fromkeys(asked.gpus or [None]))
    first = {**asked.settings, "gpus": sizes[0]}
    given: dict[str, Any] = {"where": asked.rules, "objective": objective}
    check_search(asked.of, None, top=top, settings=first, **given)  # no error of the file
    if len(sizes) > 1:
        given |= {"axes": {"gpus": sizes}, "settings": asked.settings}
    else:
        given |= {"settings": first}
    if dry_run:
        with errors_in(file):
            would = partial(dry_run_of_draws, asked.of, None, **written, **given)
            return deliver.print_dry_run(would)
    with errors_in(file), working("searching all plans in every draw"):
        data = uncertain(asked.of, None, top=max(top, 10), **written, **given)
    aim = str(data.attrs["objective"]).replace("_", " ")
    draws = f"{data.sizes['draw']:,} draws of what is uncertain"
    today = search(asked.of, None, where=asked.rules, settings=first)
    data.attrs |= {"title": f"{asked.words}: {aim} in {draws}"}
    data.attrs |= {"spread": spread_words(today), "top": str(top)}
    csv = output is not None and output.endswith(".csv")
    deliver.deliver(data, output, table=columns(data) if csv else None)
    return 0 if bool((data.feasible_share > 0).any()) else 1
