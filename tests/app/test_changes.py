"""What a person does becomes a state; what no control of the page sends is refused."""

import dataclasses
import pathlib

import pytest

from jaxroof.app.controls import (
    applied,
    at_place,
    check_numbers,
    control_of,
    numbers_of,
    question_form,
    tab_form,
)
from jaxroof.app.plans import best_plans
from jaxroof.app.question import asked, operation_of
from jaxroof.app.served import served
from jaxroof.app.state import START, State, from_link, to_link
from jaxroof.app.tabs.share import command
from jaxroof.engine.search.one_machine import limit_of
from jaxroof.errors import InputError

CONFIGS = sorted((pathlib.Path(__file__).parents[1] / "catalog" / "huggingface").glob("*.json"))


def text_of(state: State, name: str) -> str:
    """Return what a slider shows."""
    return question_form(state).values[name]["text"]


def test_every_control_shows_a_value_that_it_can_have_and_every_slider_moves_its_number():
    form = question_form(START)
    for name, control in form.controls.items():
        field, value = control.field, control.value
        if field["kind"] == "select":
            assert value in [one for one, *_ in field["options"]]
        if field["kind"] == "range":
            assert field["texts"][value["index"]] == value["text"]
            stop = 1 if value["index"] == 0 else 0
            moved = applied(START, name, {"index": stop})
            assert moved != START
            now = question_form(moved).values[name]
            assert (now["index"], now["text"]) == (stop, field["texts"][stop])
            assert applied(moved, name, {"text": field["texts"][-1]}) != moved


@pytest.mark.parametrize("paid", ["rented", "bought"])
def test_prices_and_failures_move_the_run_alone(paid):
    state = dataclasses.replace(START, paid=paid)
    for name, control in tab_form(state, "run").controls.items():
        if control.field["kind"] == "range":
            moved = applied(state, name, {"text": control.field["texts"][-1]})
            assert operation_of(moved)[name] != operation_of(state)[name]
            assert asked(moved).inputs.operation is None
            assert from_link(to_link(moved)) == moved
    assert applied(state, "paid", "bought").paid == "bought"


def test_controls_of_servers_move_the_server_alone():
    state = dataclasses.replace(START, tab="serving")
    for name, control in tab_form(state, "serving").controls.items():
        if control.field["kind"] == "range":
            moved = applied(state, name, {"text": control.field["texts"][-1]})
        else:
            moved = applied(state, name, control.field["options"][-1][0])
        assert served(moved) != served(state) or name == "other"
        assert asked(moved).inputs.gpus == state.gpus  # none of these is of a step
        assert from_link(to_link(moved)) == moved
    loaded = applied(state, "limits.load", {"text": "3/s"})
    assert served(loaded)["load"] == "3 /s"
    assert applied(loaded, "limits.load", {"text": "any"}) == state
    assert control_of("precision: fp4: the chip's rate is not known", "gpus", state) == "weights"


def test_a_slider_back_at_the_catalogue_s_number_is_no_change():
    number = numbers_of(START)["system.hbm_bandwidth"]
    away = applied(START, number.path, {"index": 0})
    assert away.changes
    assert applied(away, number.path, {"index": number.stops.index(number.value)}) == START
    assert applied(away, "reset", True) == START


WRONG = [
    ("__class__", "x"),
    ("estimator_of", "module:name"),
    ("system.hbm_bandwidth", {"index": 10_000}),
    ("system.hbm_bandwidth", {"index": -1}),
    ("system.hbm_bandwidth", {"index": "0"}),
    ("system.hbm_bandwidth", {}),
    ("system.hbm_bandwidth", "4 TB/s"),
    ("system.hbm_bandwidth", {"text": "4 GB"}),
    ("system.chip", {"text": "mine.toml"}),
    ("operation.rent", {"text": "2"}),
    ("operation.life", {"text": "2 s"}),
    ("system.hbm_bandwidth", {"text": "5"}),
    ("system.hbm_bandwidth", {"text": "1e40 B/s"}),
    ("system.hbm_bandwidth", {"text": "1e-30 B/s"}),
    ("gpus", {"text": "many"}),
    ("gpus", {"text": "1,0,2"}),
    ("gpus", {"index": 1.5}),
    ("model", "/etc/passwd"),
    ("system", "mine.toml"),
    ("precision", "fp1"),
    ("tab", "secret"),
    ("where", "x" * 1000),
    ("own_model", "no file"),
    ("own_model", {"file": "large.json", "size": 10**9}),
    ("own_model", {"file": "model.py", "text": "import os"}),
    ("own_model", {"file": "config.json", "text": "["}),
    ("own_model", {"file": "m.toml", "text": 'base = "../secret.toml"'}),
    ("own_model", {"file": "m.toml", "text": 'base = "/dev/zero"'}),
    ("own_system", {"file": "m.toml", "text": 'base = "/dev/zero"'}),
    ("own_system", {"file": "m.toml", "text": 'base = "h100-nvs8"\nchip = "/dev/zero"'}),
    ("own_system", {"file": "m.toml", "text": 'base = "h100-nvs8"\nchip = {base = "/x"}'}),
    ("own_system", {"file": "m.toml", "text": 'base = "h100-nvs8"\nhbm_bandwidth = "4 GB"'}),
    ("own_system", {"file": "m.toml", "text": 'base = "rtx-4090"'}),  # lacks numbers
    ("own_system", {"file": "config.json", "text": "{}"}),
    ("own_system", {"file": "m.toml"}),
    ("own_system", {"file": "m.toml", "text": "a." * 30_000 + "a = 1"}),  # a minute to read
    ("margin", {"text": "100 %"}),
    ("margin", {"text": "-1 %"}),
    ("margin", {"text": "2 GB"}),
    ("margin", {"index": 1000}),
    ("margin", "10 %"),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{n} {v!s:.20}" for n, v in WRONG])
def test_what_no_control_sends_is_refused_in_a_line(name, value):
    with pytest.raises(InputError) as refused:
        applied(START, name, value)
    assert "\n" not in str(refused.value)


def test_a_rule_or_a_choice_that_is_none_is_refused_when_it_is_asked():
    for state in (
        dataclasses.replace(START, where="tp<<8"),
        dataclasses.replace(START, choices=(("chip", "mine.toml"),)),
        dataclasses.replace(START, changes=(("plan.tensor", 8.0),)),
        dataclasses.replace(START, changes=(("system.hbm_bandwidth", -1.0),)),
    ):
        with pytest.raises(InputError):
            asked(state)


@pytest.mark.parametrize("path", CONFIGS[:4], ids=lambda path: path.name)
def test_a_config_that_is_dropped_in_is_the_model(path):
    text = path.read_text(encoding="utf-8")
    state = applied(START, "own_model", {"file": f"C:\\models\\{path.name}", "text": text})
    assert state.model_words == path.name
    assert asked(state).inputs.model.layers >= 1
    assert from_link(to_link(state)) == state
    assert applied(state, "model", START.model).own_model is None


def test_a_system_s_file_that_is_dropped_in_is_the_system():
    content = {"file": "/x/mine.toml", "text": 'base = "h100-nvs8"\nhbm_bandwidth = "5 TB/s"'}
    changed = applied(START, "system.nics", {"text": "2"})
    state = applied(changed, "own_system", content)
    assert (state.system_words, state.changes) == ("mine.toml", ())
    assert asked(state).inputs.system.hbm_bandwidth == 5e12
    assert numbers_of(state)["system.hbm_bandwidth"].value == 5e12
    assert from_link(to_link(state)) == state
    assert applied(state, "system", "file:mine.toml") == state
    assert applied(state, "system", START.system) == START
    same = applied(START, "own_system", {"file": "a.toml", "text": 'base = "h100-nvs8"'})
    times = [best_plans(one, 1).step_time.values[0] for one in (same, START)]
    assert times[0] == times[1]


def test_a_path_in_a_file_is_never_opened(tmp_path):
    secret = tmp_path / "secret.toml"
    secret.write_text('layers = "the secret"', encoding="utf-8")
    for name in ("own_model", "own_system"):
        with pytest.raises(InputError, match="expected a name of the catalogue") as refused:
            applied(START, name, {"file": "m.toml", "text": f"base = {str(secret)!r}"})
        assert "the secret" not in str(refused.value)


def test_memory_that_stays_free_is_a_control_of_the_question_on_any_machine():
    state = START
    free = applied(state, "margin", {"text": "10 %"})
    assert free.changes == (("system.hbm_usable", 0.9),)
    assert limit_of(asked(free)) == pytest.approx(0.9 * limit_of(asked(state)))
    assert text_of(free, "margin") == "10 %"
    best = best_plans(free, 1)
    assert float(best.memory.values[0]) <= 0.9 * limit_of(asked(state))
    assert applied(free, "system", state.other).changes == free.changes
    assert applied(free, "margin", {"index": 0}) == state


def test_the_exchange_of_context_is_a_control_beside_the_rules():
    of = {group["name"]: {f["name"]: f for f in group["fields"]} for group in GROUPS}
    name = "choice.context_exchange"
    assert name not in of["choices"]
    values = [value for value, _ in of["plan"][name]["options"]]
    assert values[0] == ""
    times = {}
    for value in values:
        state = applied(dataclasses.replace(START, where="cp=8,pp=1"), name, value)
        assert question_form(state).values[name] == value
        times[value] = float(best_plans(state, 1).step_time.values[0])
    assert len({*times.values()}) == 2


GROUPS = question_form(START).fields


def test_a_dispatcher_is_a_control_where_the_model_has_experts():
    """It goes where the model has none, and is in the command of the tab that shares."""
    state = dataclasses.replace(START, model="gpt-oss-120b", where="pp=1,tp=1,mb=8")
    assert not {"dispatcher", "activations.routing_imbalance"} & {*numbers_of(START)}
    plain = applied(state, "dispatcher", "alltoall")
    times = [float(best_plans(one, 1).step_time[0]) for one in (state, plain)]
    assert times[0] < times[1]
    assert from_link(to_link(plain)) == plain
    assert "--set dispatcher=alltoall" in command(plain)
    dense = applied(plain, "model", "llama3-8b")
    assert dense.dispatcher == ""
    assert "dispatcher" not in question_form(dense).controls


def test_a_sequence_moves_by_powers_of_two_and_tokens_are_a_control():
    number = numbers_of(START)["model.sequence"]
    powers = {2.0**k for k in range(31)}
    assert set(number.stops) - {number.value} <= powers
    assert len(number.stops) >= 8
    days = []
    for text in ("15 T", "1.5e12"):
        moved = applied(START, "model.training_tokens", {"text": text})
        days.append(float(best_plans(moved, 1).training_days.values[0]))
    assert days[0] == pytest.approx(10.0 * days[1])


def test_a_click_on_the_map_sets_both_numbers():
    state = at_place(START, ("system.hbm_bandwidth", 4e12), ("gpus", 512.0))
    assert dict(state.changes) == {"system.hbm_bandwidth": 4e12}
    assert state.gpus == 512
    with pytest.raises(InputError):
        at_place(START, ("system.secret", 1.0), ("gpus", 512.0))


@pytest.mark.parametrize("path", ["system.hbm_bandwidth", "system.hbm_capacity"])
def test_what_is_shown_can_be_typed_back(path):
    assert applied(START, path, {"text": text_of(START, path)}) == START


def test_a_refusal_says_the_limits_and_the_unit():
    for text, said in (("5", "with its unit, such as"), ("1e40 B/s", "to 3.35 EB/s")):
        with pytest.raises(InputError, match=said):
            applied(START, "system.hbm_bandwidth", {"text": text})
    linked = dataclasses.replace(START, changes=(("system.hbm_bandwidth", 1e-30),))
    with pytest.raises(InputError, match="HBM bandwidth: expected"):
        check_numbers(linked)


def test_a_sequence_that_the_file_does_not_say_is_marked_as_assumed():
    path = next(one for one in CONFIGS if "qwen3" in one.name)
    state = applied(START, "own_model", {"file": path.name, "text": path.read_text("utf-8")})
    assert question_form(state).values["model.sequence"]["mark"] == "assumed"
    state = applied(state, "model.sequence", {"text": "1024"})
    assert question_form(state).values["model.sequence"]["mark"] == "changed"
