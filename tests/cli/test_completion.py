"""Names of the catalogue that a shell completes."""

import pytest
from click.testing import CliRunner

from jaxroof import catalog
from jaxroof.cli.main import cli


def completed(line: str) -> list[str]:
    """Return what bash would offer for the last word of a line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    env = {"_JAXROOF_COMPLETE": "bash_complete", **words}
    said = CliRunner().invoke(cli, prog_name="jaxroof", env=env).output
    return [each.partition(",")[2] for each in said.splitlines()]


@pytest.mark.parametrize(("line", "kind"), [
    ("jaxroof search --model llama3", "architectures"),
    ("jaxroof pareto --system h100", "systems"),
    ("jaxroof show b200", "systems"),
])  # fmt: skip
def test_names_that_begin_as_typed_are_offered(line, kind):
    typed = line.split()[-1]
    expected = {name for name in catalog.names(kind) if name.startswith(typed)}
    assert expected
    assert expected <= {*completed(line)}
    assert all(name.startswith(typed) for name in completed(line))


def test_the_last_of_a_list_is_completed():
    found = completed("jaxroof compare --system h100-nvs8,gb200")
    assert "h100-nvs8,gb200-nvl72" in found


def test_files_are_offered_where_no_name_begins_so():
    assert completed("jaxroof search --model ./mine") == ["./mine"]


def test_kinds_are_completed():
    assert completed("jaxroof list mod") == ["models"]
