"""The state of the page: links carry all of it, and what is no state is refused in a line."""

import dataclasses
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from jaxroof import catalog
from jaxroof.app import state as states
from jaxroof.app.state import START, State, Upload, from_link, to_link
from jaxroof.errors import InputError

words = st.text(string.printable, max_size=40)
names = st.from_regex(r"[a-z0-9 <&]{1,9}[.](json|toml)", fullmatch=True)
drawn = st.builds(
    State,
    model=st.sampled_from(catalog.names("architectures")),
    own_model=st.none() | st.builds(Upload, names, words),
    system=st.sampled_from(catalog.names("systems")),
    other=st.sampled_from(catalog.names("systems")),
    gpus=st.integers(1, states.MOST_GPUS),
    batch=st.integers(1, states.MOST_BATCH),
    precision=st.sampled_from(states.PRECISIONS),
    where=words,
    mine=words,
    schedule=st.sampled_from((states.OWN, *states.SCHEDULES)),
    tab=st.sampled_from(states.TABS),
    software=st.sampled_from(["", *catalog.names(states.SERVERS)]),
    weights=st.sampled_from(states.CHOSEN["weights"]),
    cache=st.sampled_from(states.CHOSEN["cache"]),
    split=st.sampled_from(states.SPLITS),
    changes=st.dictionaries(
        st.sampled_from(["system.nics", "system.hbm_bandwidth", "limits.tpot", "software.year"]),
        st.floats(1e-9, 1e20),
    ).map(lambda found: tuple(found.items())),
    choices=st.dictionaries(st.sampled_from(["schedule", "attention"]), st.just("x")).map(
        lambda found: tuple(found.items())
    ),
)


@given(drawn)
@settings(max_examples=60, deadline=None)
def test_a_link_carries_the_whole_state(state):
    # a link cannot tell an empty field from one that is not there: the first page's is empty too
    assert from_link(to_link(state)) == state


def test_the_first_page_has_no_link():
    assert to_link(START) == ""
    assert from_link("") == START


WRONG = [
    ("?gpus=0", "gpus: expected a whole number from 1"),
    ("?gpus=1e12", "gpus: expected a whole number from 1"),
    ("?gpus=2&gpus=4", "given twice"),
    ("?estimator=mine:run", "no such field of the page"),
    ("?model=../../secret.toml", "no such model"),
    ("?model=/etc/passwd", "no such model"),
    ("?system=./x.toml", "no such system"),
    ("?system.nics=many", "not a finite number"),
    ("?system.nics=nan", "not a finite number"),
    ("?own_model=xyz", "damaged"),
    ("?own_model=eJw=", "damaged"),
    ("?colour=red", "no such field of the page"),
    ("?tab=secret", "no such tab"),
    ("?weights=fp1", "no such weights"),
    ("?software=./x.toml", "no such software"),
    (f"?where={'a' * 300}", "at most 200 characters"),
    (f"?where={'a' * 20_000}", "at most 16,384 characters"),
    ("?" + "&".join(f"system.f{i}=1" for i in range(100)), "at most 64 fields"),
]


@pytest.mark.parametrize(("link", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_no_state_is_refused_in_a_line(link, said):
    assert said in refused(from_link, link)


def test_a_large_file_cannot_hide_in_a_short_link():
    packed = to_link(dataclasses.replace(START, own_model=Upload("m.toml", "a" * 10_000_000)))
    assert len(packed) < 20_000
    with pytest.raises(InputError, match=r"damaged|at most"):
        from_link(packed)
