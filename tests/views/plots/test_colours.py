"""One colour, one meaning: tables from words to colours."""

import itertools

import pytest

from jaxroof.views.plots import colours
from jaxroof.views.plots.colours import DEGREES, EVENTS, MEMORY, RESOURCES, TIMES
from jaxroof.views.plots.tornado import COLOURS
from jaxroof.views.plots.trace import LOOKS


@pytest.mark.parametrize("table", [RESOURCES, MEMORY, EVENTS, DEGREES])
def test_no_two_things_of_a_table_share_a_colour(table: dict[str, str]) -> None:
    assert len(set(table.values())) == len(table)


def test_parts_of_a_step_have_the_colour_of_what_they_wait_for() -> None:
    assert TIMES["compute"] == RESOURCES["compute"] == EVENTS["forward"]
    assert TIMES["HBM"] == RESOURCES["hbm"]
    assert TIMES["messages"] == RESOURCES["fast_links"] == DEGREES["tensor"]
    assert TIMES["data-parallel messages"] == RESOURCES["slow_links"] == DEGREES["data"]
    assert TIMES["stage sends"] == EVENTS["send"] == DEGREES["pipeline"]
    assert TIMES["update"] == EVENTS["optimizer"] == MEMORY["optimizer"]


def test_a_memory_has_no_colour_of_a_time() -> None:
    shared = {"optimizer", "outside"}
    own = {colour for name, colour in MEMORY.items() if name not in shared}
    assert not own & {TIMES[name] for name in TIMES if name != "attention and other kernels"}


def test_names_of_no_meaning_take_what_is_left() -> None:
    names = ["compute", *map(str, range(8)), "HBM"]
    found = colours.colours_of(names)
    assert found["compute"] == colours.BLUE
    assert found["HBM"] == colours.SKY
    assert not any(found[a] == found[b] for a, b in itertools.combinations(names, 2))


def test_pictures_read_the_tables() -> None:
    assert COLOURS is RESOURCES
    assert LOOKS is EVENTS
