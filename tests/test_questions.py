"""What can be asked: estimators are listed and shown, and answer settings by name."""

import numpy as np
import pytest

import jaxroof as jr
from jaxroof import estimators
from jaxroof.errors import InputError
from jaxroof.settings import begin


def test_every_estimator_is_listed_with_its_question(jaxroof) -> None:
    listed = jaxroof("list estimators").out.splitlines()
    assert [line.split()[0] for line in listed] == list(estimators.names())
    assert all(line.endswith("?") for line in listed)


@pytest.mark.parametrize("name", ["training", "matmul", "limits", "torus"])
def test_an_estimator_is_shown_with_what_it_asks_and_answers(name, jaxroof) -> None:
    shown = jaxroof(f"show {name}").out
    assert "inputs" in shown
    assert "results" in shown
    assert f"jaxroof evaluate {name}" in shown


PLAN = {f"plan.{field}": 1 for field in ("data", "tensor", "pipeline", "microbatch")}
MACHINE = {"model": "gpt3", "system": "h200-nvs4"}


def test_settings_by_name_are_the_records() -> None:
    """Names, fields that differ from them, texts with units and choices make the same inputs."""
    found = jr.evaluate(
        "training", {**MACHINE, **PLAN, "split": "1d"}, **{"system.hbm_bandwidth": "2 TB/s"}
    )
    plan = jr.Plan(data=1.0, tensor=1.0, pipeline=1.0, microbatch=1.0)
    system = jr.system("h200-nvs4", hbm_bandwidth=2e12)
    expected = jr.tabulate(jr.training, jr.Inputs(model=jr.model("gpt3"), system=system, plan=plan))
    np.testing.assert_equal(float(found.step_time), float(expected.step_time))


def test_a_record_is_made_of_its_fields() -> None:
    made = begin(jr.System, {"matrix_flops": "1 PFLOP/s", "hbm_bandwidth": np.array([1e12, 2e12])})
    assert made.hbm_bandwidth.tolist() == [1e12, 2e12]
    assert made.fast_domain is None


MISTAKES = [
    ({}, "model: missing; expected a name of the catalogue or its fields, model.FIELD"),
    ({**MACHINE, "plan.tensor": 4}, "plan.data: missing; expected a value: Data-parallel degree"),
    (MACHINE, "plan: not given; expected its fields, such as plan.data"),
    ({**MACHINE, **PLAN, "systm.nics": 1}, "systm.nics: no such field of Inputs"),
    ({**MACHINE, **PLAN, "system.nic": 1}, "Did you mean 'system.nics'?"),
    ({**MACHINE, **PLAN, "system.nics": -1}, "system.nics: expected a finite number above 0"),
    ({**MACHINE, **PLAN, "system.nics": "2 GB"}, "'GB' is not a plain number"),
    ({**MACHINE, **PLAN, "system.nics": "nan"}, "system.nics: not a finite number"),
    ({**MACHINE, **PLAN, "split": "2d"}, "split: 2d: no such Split"),
    ({"model": 3.0}, "model: a record, not a number, given 3.0; expected a name"),
    ({"model": "gpt3", "system": "tpu-v5", **PLAN}, "tpu-v5: no such system"),
    (
        {"model": "gpt3", "system.matrix_flops": 1e15, "system.hbm_bandwidth": 1e12, **PLAN},
        "system.slow_latency, system.fast_latency, system.fast_domain and system.hbm_capacity: not",
    ),
]


@pytest.mark.parametrize(("settings", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_a_mistake_names_the_field(settings, says) -> None:
    with pytest.raises(InputError) as told:
        jr.evaluate("training", settings)
    assert says in str(told.value)


def test_an_unknown_estimator_is_answered_by_the_nearest() -> None:
    with pytest.raises(InputError, match=r"trainig: no such estimator. Did you mean 'training'\?"):
        jr.evaluate("trainig")


def test_systems_of_different_kinds_share_an_axis() -> None:
    """What only some systems of an axis give is given for none; the question says if it lacks."""
    bare = jr.System(matrix_flops=1e15, hbm_bandwidth=1e12, vector_flops=1e14)
    axes = {"system": {"bare": bare, "whole": jr.system("h200-nvs4")}}
    plan = jr.Plan(data=1.0, tensor=1.0, pipeline=1.0, microbatch=1.0)
    inputs = jr.Inputs(model=jr.model("gpt3"), system=jr.system("h200-nvs4"), plan=plan)
    with pytest.raises(InputError, match=r"system\.\w+ and system\.\w+: not given"):
        jr.tabulate(jr.training, inputs, axes=axes)


def test_a_setting_is_one_number_and_a_record_of_its_kind() -> None:
    shape = {"system": "tpu-v5e", "hidden": 8, "feedforward": 8}
    with pytest.raises(InputError, match=r"^batch: expected one number, given 2 of them; several"):
        jr.evaluate("matmul", shape, batch=np.array([1.0, 2.0]))
    with pytest.raises(InputError, match=r"^system: expected a System, given a Model$"):
        jr.evaluate("matmul", shape, system=jr.model("gpt3"), batch=4)
    with pytest.raises(InputError, match=r"^fed: no such field .* Did you mean 'feed'\?$"):
        jr.evaluate("matmul", shape, batch=4, fed="host")


def test_an_input_of_a_results_name_makes_an_axis() -> None:
    """A kernel's work is input and result: the axis over it has a name of its own."""
    found = jr.evaluate("kernel", system="tpu-v5e", axes={"flops": [1e9, 1e12], "traffic": [1e6]})
    assert dict(found.sizes) == {"input_flops": 2, "input_traffic": 1}
    np.testing.assert_allclose(found.flops.squeeze(), [1e9, 1e12], rtol=1e-15)
