"""Errors repeat what a user wrote on one line, cut and printable."""

import pytest

from jaxroof.config.toml_reader import load
from jaxroof.errors import InputError, refusal, shown, unknown

LONG = "x" * 10_000


@pytest.mark.parametrize("error", [
    InputError(f"axes.{LONG}: no such field"),
    unknown("sweep.toml", LONG, "model", ["gpt3"]),
    refusal("a" + "\x1b[2J", "not text, given \x07 \u202e"),
    refusal("gpus", f"not a number, given {shown('8 ' * 10_000)}"),
])  # fmt: skip
def test_an_error_is_short_and_printable(error):
    assert len(str(error)) < 200
    assert str(error).isprintable()


def test_a_path_is_not_cut():
    path = "/" + "/".join(["folder"] * 40) + "/sweep.toml"
    assert str(refusal(path, "no such file")) == f"{path}: no such file"


COMMANDS = ['title = "a\\u001b[2J"', '[axes]\n"a\\u0007" = [1]', 'a = ["\\u009b"]']


@pytest.mark.parametrize("text", COMMANDS)
def test_a_file_with_control_characters_is_refused(text, tmp_path):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(InputError, match="a control character; expected text") as told:
        load(tmp_path / "sweep.toml")
    assert str(told.value).isprintable()
