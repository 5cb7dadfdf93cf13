"""System fields that each estimator needs and that some systems lack, known without running it."""

from collections.abc import Collection, Mapping, Sequence

from jaxroof import catalog
from jaxroof.errors import InputError, refusal
from jaxroof.units import parse

# Estimator -> the fields; a test compares each with what a run requires.
NEEDS: dict[str, tuple[str, ...]] = {
    "published": (
        *("vector_flops", "hbm_capacity", "fast_domain", "fast_bandwidth", "fast_latency"),
        *("slow_bandwidth", "slow_latency"),
    ),
    "unfused": ("vector_flops", "fast_domain", "fast_bandwidth", "slow_bandwidth"),
    "matmul": (),
    "torus": ("link_bandwidth", "link_latency"),
    "limits": ("network_bandwidth",),
}
ALWAYS = ("matrix_flops", "hbm_bandwidth")  # of every published system; a file must have them too
TRAINING_READS = (  # fields of a system that a step of `training` depends on; a test holds it
    *("matrix_flops", "hbm_bandwidth", "hbm_capacity", "hbm_usable"),
    *("fast_domain", "fast_bandwidth", "slow_bandwidth", "nics"),
)
LINKS = ("fast_domain", "fast_bandwidth")  # of a machine that is no torus
QUESTIONS = {  # what each estimator answers, in words
    "published": "a training step",
    "unfused": "a layer of unfused blocks",
    "matmul": "a product of matrices",
    "torus": "a collective on a torus",
    "limits": "a limit of scaling",
}


def lacking(estimator: str, name: str, given: Collection[str]) -> list[str]:
    """Return the fields an estimator needs that neither a system nor the given fields provide.

    Empty for a file with keys that no published system has: the file's reader handles them.
    """
    written = catalog.describe("systems", name)
    known = {
        key for other in catalog.names("systems") for key in catalog.describe("systems", other)
    }
    if not set(written) <= known:
        return []
    always = [field for field in ALWAYS if field not in written]
    return always + [field for field in NEEDS[estimator] if field not in {*written, *given}]


def refuse(
    where: str, estimator: str, missing: Mapping[str, Sequence[str]], setting: str
) -> InputError:
    """Return the error for systems that lack fields, with the settings or systems that would help.

    Arguments: ``missing`` are the fields by system; ``setting`` is the form of a setting, with
    ``{field}`` and ``{value}`` in it.
    """
    question, (name, *more) = QUESTIONS[estimator], missing
    fields = missing[name]
    base = catalog.giving("systems", NEEDS[estimator], like=name)
    assert base is not None
    start = f'base = "{base}"'
    file = f"a file with {start}"
    if more:
        each = "; ".join(f"{system} lacks {_listed(lacks)}" for system, lacks in missing.items())
        return refusal(where, f"{question} needs more of some systems: {each}; expected {file}.")
    value = catalog.describe("systems", base)[fields[0]]
    such = setting.format(field=fields[0], value=value)
    them = "them" if len(fields) > 1 else "it"
    remedy = f"give {them} with {such}, or {file}"
    if catalog.is_file(name):
        remedy = f"add {them} to {name}, such as {fields[0]} = {value!r}, or {start}"
    return refusal(
        where or name,
        f"{f'{name}: ' * bool(where)}{question} needs {_listed(fields)}, which this system lacks; "
        f"{remedy}.",
    )


def answers(name: str) -> list[str]:
    """Return the questions that a published system can answer, one word each."""
    written = catalog.describe("systems", name)
    needed = ("link_bandwidth", "torus_axes") if "torus_axes" in written else LINKS
    found = ["training"] if {*needed, "hbm_capacity", "slow_bandwidth"} <= {*written} else []
    words = {"published": "published", "matmul": "roofline", "torus": "torus", "limits": "limits"}
    return found + [word for key, word in words.items() if set(NEEDS[key]) <= set(written)]


def training_capacities(reported: bool = False) -> dict[str, float]:
    """Return the memory [B] of each accelerator that can be asked for a training step, ascending.

    ``reported`` says whether a step may fill what the device reports, where that is known.
    """
    found: dict[str, float] = {}
    for name in catalog.names("systems"):
        if not lacking("published", name, ()):
            written = catalog.describe("systems", name)
            capacity = written.get("hbm_reported" if reported else "", written["hbm_capacity"])
            found.setdefault(name.partition("-nvs")[0], parse(capacity, "B"))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def training_note(name: str) -> str:
    """Return what a training step of today reads of a published system, empty where it has none."""
    written = catalog.describe("systems", name)
    if "training" not in answers(name):
        return ""
    said = f"A step of training reads {_listed(TRAINING_READS)}, and efficiencies of its chip."
    if "hbm_reported" in written:
        filled = f"hbm_capacity is {written['hbm_reported']} there, as the device reports"
        said += f" Its {filled}; {written['hbm_capacity']} is the label."
    return said


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
