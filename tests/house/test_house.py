"""The house keeps its rules: who imports whom, what is written down, what the README promises."""

import ast
import dataclasses
import functools
import importlib
import inspect
import pathlib
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable

import click
import pytest
from places import ROOT

import jaxroof as jr
from jaxroof import catalog, cli
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.step import Report

HOUSE = ROOT / "jaxroof"

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(HOUSE.rglob("*.py"))
}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


@functools.cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@functools.cache
def nodes(name: str) -> list[ast.AST]:
    return [*ast.walk(tree(name))]


def public(name: str) -> list[ast.FunctionDef]:
    """Return the functions that a module offers."""
    kept = [node for node in tree(name).body if isinstance(node, ast.FunctionDef)]
    return [node for node in kept if not node.name.startswith("_")]


def under(head: str) -> list[str]:
    return [name for name in MODULES if name == head or name.startswith(head + ".")]


# ---- (a) Arrows ---------------------------------------------------------------------------------


@functools.cache
def imports(name: str) -> set[str]:
    """Return every module that a module imports, wherever in it, by its full name."""
    found: set[str] = set()
    for node in nodes(name):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            home = node.module or ""
            inside = {f"{home}.{alias.name}" for alias in node.names}
            found |= inside & set(MODULES) or {home}
    return found


def within(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or module.startswith(home + ".") for home in homes)


ORDER = [  # the rooms: each imports itself and those that stand before it, no other
    "errors", "units", "limits", "lazy_jax", "dual", "records", "structure", "dependence",
    "settings", "missing", "plan_lists", "estimator", "io", "formulas", "schedules", "catalog",
    "engine.grid", "engine.details", "engine.search", "engine.sensitivity", "engine.uncertainty",
    "engine.codesign", "engine.runs", "estimators", "analyses", "config", "validation", "views",
    "app", "cli",
]  # fmt: skip
NOT_OF = [  # a later room, rooms before it that are nevertheless none of its business
    ("formulas", ("io", "settings", "estimator")),
    ("schedules", ("io", "settings", "estimator")),
    ("catalog", ("io", "schedules")),
    ("engine", ("formulas", "schedules", "catalog")),
    ("estimators", ("io", "engine")),
]
LIBRARIES = [  # library, the rooms that may import it
    ("xarray", ("io", "engine", "analyses", "config", "validation", "views", "app", "cli")),
    ("pandas", ("io", "validation", "views", "cli")),
    ("scipy", ("formulas", "engine", "validation")),
    ("rich", ("views", "app", "cli")), ("click", ("cli",)),
    ("matplotlib", ("views.plots",)), ("filelock", ("io",)),
    ("distributed", ("engine.runs",)), ("panel", ("app",)), ("bokeh", ("app",)),
    ("param", ("app",)),
]  # fmt: skip


def room(module: str) -> str:
    """Return the room of the list in which a module stands."""
    inner = module.removeprefix("jaxroof.")
    rooms = [name for name in ORDER if within(inner, (name,))]
    return max(rooms, key=len, default="")


OUTSIDE = {
    "jaxroof",
    "jaxroof.__main__",
    "jaxroof.engine",
}  # of no room: names and docstrings alone


def test_every_module_stands_in_a_room():
    assert {name for name in MODULES if not room(name)} == OUTSIDE


def of_each(names: Iterable[str]) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Make one test of a rule for all files; it names every file that breaks the rule."""

    def made(rule: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for name in names:
                try:
                    rule(name)
                except AssertionError as error:
                    broken.append(f"{name}: {error}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return made


@of_each(sorted(set(MODULES) - OUTSIDE))
def test_a_room_imports_only_rooms_before_it(name):
    for module in imports(name) & set(MODULES) - {"jaxroof"}:
        assert ORDER.index(room(module)) <= ORDER.index(room(name)), f"{name} imports {module}"


@pytest.mark.parametrize(("later", "others"), NOT_OF)
def test_a_room_keeps_to_its_business(later, others):
    for name in under(f"jaxroof.{later}"):
        wrong = {m for m in imports(name) if within(m.removeprefix("jaxroof."), others)}
        assert not wrong, f"{name} imports {wrong}"


@pytest.mark.parametrize(("library", "rooms"), LIBRARIES)
def test_a_library_stays_in_its_rooms(library, rooms):
    homes = tuple(f"jaxroof.{room}" for room in rooms)
    for name in MODULES:
        if not within(name, homes):
            assert not {m for m in imports(name) if within(m, (library,))}, name


LOOPING = (  # estimators and pipelines whose loops only JAX runs; all else runs on NumPy too
    "estimators.mlp_pipeline",
    "estimators.scaling_limits",
    "formulas.traced",
)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PACKAGES = [*PROJECT["dependencies"], *EXTRAS["plot"], *EXTRAS["cluster"], *EXTRAS["app"]]
CALLED = {"pillow": "PIL"}  # modules of packages that are called otherwise
BY_NAME = {"h5netcdf", "zarr"}  # the engines that xarray imports


def test_every_dependency_is_imported_and_every_import_is_a_dependency():
    names = {re.match(r"[\w-]+", one)[0].replace("-", "_") for one in PACKAGES}
    found = {module.partition(".")[0] for name in MODULES for module in imports(name)}
    found -= {"jaxroof", *sys.stdlib_module_names}
    assert found | BY_NAME == {CALLED.get(name, name) for name in names}


def test_formulas_and_estimators_import_jax_only_where_they_loop():
    for room in ("formulas", "schedules", "estimators"):
        for name in under(f"jaxroof.{room}"):
            if "jax" in imports(name):
                assert within(name.removeprefix("jaxroof."), LOOPING), name


# ---- (b) Docstrings -----------------------------------------------------------------------------


@of_each(under("jaxroof.formulas"))
def test_every_formula_says_whence_it_comes(name):
    """It says so itself, or its file does for all; the larger of two numbers has no source."""
    if name.endswith((".arithmetic", ".traced")) or "Source:" in (
        ast.get_docstring(tree(name)) or ""
    ):
        return
    for function in public(name):
        assert "Source:" in (ast.get_docstring(function) or ""), f"{name}.{function.name}"


SHEETS = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/models").glob("*.md")
}
SOURCE = re.compile(r"docs/models/(\w+\.md)(?:,\s+(?:sections?|parts?)\s+([^;(\n]*))?")


@of_each(MODULES)
def test_a_source_in_the_project_can_be_opened_at_its_section(name):
    for sheet, sections in SOURCE.findall(MODULES[name].read_text(encoding="utf-8")):
        assert sheet in SHEETS, f"{name} names {sheet}"
        for section in re.findall(r"\b(?:\d+(?:\.\d+)?|[A-D])\b", sections.split(", rule")[0]):
            heading = rf"^##+ {re.escape(section)}[. ]"
            assert re.search(heading, SHEETS[sheet], flags=re.MULTILINE), (
                f"{name}: {sheet} {section}"
            )


# ---- (c) How it is written -----------------------------------------------------------------------


@of_each(under("jaxroof.views") + under("jaxroof.cli"))
def test_per_cent_is_written_one_way(name):
    """As 81 % everywhere (units.percent), not as 81% here and 81 % there."""
    for node in nodes(name):
        spec = getattr(node, "format_spec", None)
        assert spec is None or not ast.unparse(spec).endswith("%'"), f"{name}: {ast.unparse(node)}"


@of_each(MODULES)
def test_nothing_hides_what_is_wrong(name):
    """No bare except, no NaN made a number, no record that JAX could not rebuild."""
    for node in nodes(name):
        assert not (isinstance(node, ast.ExceptHandler) and node.type is None), name
        assert not (isinstance(node, ast.Attribute) and node.attr == "nan_to_num"), name
        if isinstance(node, ast.ClassDef) and "record" in map(ast.unparse, node.decorator_list):
            assert "__post_init__" not in [getattr(one, "name", "") for one in node.body], name


# ---- (d) Records --------------------------------------------------------------------------------


def test_a_report_has_a_verdict_for_every_rule():
    flags = [f.name for f in dataclasses.fields(Report) if "Flag" in _type(f) or "bool" in _type(f)]
    rules = {rule.name for some in RULES.values() for rule in some}
    assert set(flags) == {*rules, "memory_fits", "feasible"}
    assert flags[-1] == "feasible"


def _type(field: "dataclasses.Field[object]") -> str:
    return str(field.type)


# ---- (e) Public names ---------------------------------------------------------------------------


def test_every_public_name_loads_and_is_documented():
    assert jr.__all__ == sorted(set(jr.__all__))
    assert set(jr.__all__) <= set(dir(jr))
    for name in jr.__all__:
        value = getattr(jr, name)
        about = value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
        assert inspect.getdoc(about), name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"no attribute 'serach'. Did you mean 'search'\?$"):
        jr.serach  # noqa: B018


def test_names_are_the_same_after_every_module_is_imported():
    for name in MODULES:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    for name in jr.__all__:
        assert not inspect.ismodule(getattr(jr, name)), name
        assert jr.__getattr__(name) is getattr(jr, name), name
    assert isinstance(jr.published, jr.Estimator)
    assert callable(jr.system)
    assert callable(jr.run)


# ---- (f) What the documents promise -------------------------------------------------------------


def blocks(path: pathlib.Path, kind: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def command_lines(text: str) -> list[list[str]]:
    """Return the arguments of every call of jaxroof in a shell's text."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|;&>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set("|;&>"):
                words.append(word)
                continue
            if words and words[0].rpartition("/")[2] == "jaxroof":
                found.append(words[1:])
            words = []
    return found


COMMANDS = {
    name: cli.cli.get_command(click.Context(cli.cli), name)
    for name in cli.cli.list_commands(click.Context(cli.cli))
}
SHOWN = {
    f"{path.name}: {shlex.join(words)}": words
    for path in DOCUMENTS
    if path.exists()
    for text in blocks(path, "sh")
    for words in command_lines(text)
}
HELPED = {
    f"help: {shlex.join(words)}": words
    for command in [cli.cli, *COMMANDS.values()]
    for words in command_lines(re.sub(r"^ +", "", command.epilog or "", flags=re.MULTILINE))
}


TODAY = "architectures"  # the kind of the models of today


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_of_80_columns(name):
    command = COMMANDS[name] if name else cli.cli
    settings = {**cli.cli.context_settings, "terminal_width": 80}
    said = command.get_help(click.Context(command, info_name=f"jaxroof {name}", **settings))
    assert [line for line in said.splitlines() if len(line) > 80] == []


def _of_today(name: str, given: dict[str, object]) -> bool:
    """Return whether a command line asks about a model of today."""
    of = ("training", "serving", "serving_prefill", "serving_decode")
    return name in ("fit", "serve") or given.get("estimator") in of


def is_own_file(name: str) -> bool:
    """Return whether a name is of a file that a page shows, or that a command of it writes."""
    titled = any(f'title="{name}"' in page.read_text(encoding="utf-8") for page in DOCUMENTS)
    return titled or any(words[-2:] == ["-o", name] for words in SHOWN.values())


@pytest.mark.parametrize("words", [*SHOWN.values(), *HELPED.values()], ids=[*SHOWN, *HELPED])
def test_a_command_line_that_is_shown_can_be_typed(words):
    """It parses, and what it names exists; that it runs is the business of test_cli."""
    name, *rest = words
    command = COMMANDS[name]
    try:
        context = command.make_context(
            name, list(rest), parent=click.Context(cli.cli, **cli.cli.context_settings)
        )
    except click.exceptions.Exit:  # --help
        return
    given = context.params
    for key, kind in (("model_name", "models"), ("system_name", "systems")):
        if given.get(key):
            known = {
                *catalog.names(kind),
                *(catalog.names(TODAY) if _of_today(name, given) else ()),
                *(catalog.names("fabrics") if kind == "systems" else ()),
            }
            assert given[key] in known or is_own_file(given[key])
    if name == "run":
        assert (ROOT / given["file"]).is_file()
    if name == "list":
        assert catalog.names(given["kind"])
    if name == "show":
        known = {*catalog.names("models"), *catalog.names("systems")}
        assert given["name"] in known or is_own_file(given["name"])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_a_file_that_is_shown_is_the_file_that_is_there(path):
    for text in blocks(path, "toml"):
        tomllib.loads(text)
        named = re.match(r"# (\S+\.toml)\n", text)
        if named:
            assert (ROOT / named[1]).read_text(encoding="utf-8") == text.removeprefix(named[0])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_are_there(path):
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    for link in links:
        assert (path.parent / link).exists(), link
    rooms = "tests|sweeps|notebooks|benchmarks|docs|jaxroof"
    named = re.findall(rf"`((?:{rooms})/[\w./-]+\.\w+)`", text)
    for name in named:
        assert (ROOT / name).exists(), name


def test_names_that_the_readme_uses_are_public():
    text = "".join("".join(blocks(path, "python")) for path in DOCUMENTS)
    used = set(re.findall(r"\bjr\.([A-Za-z_]+)", text))
    assert used
    assert used <= set(dir(jr))


# ---- (g) No trace of where it was built ---------------------------------------------------------

PLACES = ["/" + name + "/" for name in ("work", "tmp")]
TEXTS = sorted(
    path
    for pattern in (
        "*.md",
        "*.toml",
        "docs/**/*",
        "sweeps/**/*",
        "notebooks/**/*",
        "benchmarks/**/*",
        "jaxroof/**/*",
    )
    for path in ROOT.glob(pattern)
    if path.is_file()
    and path.suffix not in {".gz", ".png"}
    and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
)


def test_no_text_names_a_path_of_a_machine():
    assert len(TEXTS) > len(MODULES)
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        for place in PLACES:
            assert place not in text, f"{path.relative_to(ROOT)} names {place}"
