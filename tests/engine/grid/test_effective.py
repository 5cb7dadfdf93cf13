"""A field that nothing depends on is refused; what an estimator reads is found by running it."""

import pytest

import jaxroof as jr
from jaxroof.catalog.needs import TRAINING_READS
from jaxroof.engine.grid.dependencies import effective
from jaxroof.records import leaves, value_or
from jaxroof.structure import structure

QUESTION = {"model": "llama3-8b", "system": "h100-nvs8", "gpus": 8, "global_batch": 64}


def read_of_the_machine(estimator):
    inputs = estimator.example()
    read = effective(estimator, estimator.recipe, structure(inputs))
    held = {path for path, _, _ in leaves(inputs)}
    return {path for path in read & held if path.startswith("system.")}


def test_the_fields_of_a_machine_that_training_reads_are_those_that_show_names():
    named = {
        path for path in read_of_the_machine(jr.training) if not path.startswith("system.chip")
    }
    assert named == {f"system.{field}" for field in TRAINING_READS}


@pytest.mark.parametrize("path", ["system.fast_latency", "system.matrix_efficiency"])
def test_training_refuses_a_field_that_it_does_not_read(path):
    said = f"{path}: does not enter the estimator training; expected one of system.fast_bandwidth"
    with pytest.raises(jr.InputError, match=said):
        jr.search("training", **QUESTION, settings={path: 0.5})
    with pytest.raises(jr.InputError, match=said):
        jr.search("training", **QUESTION, axes={path: [0.5, 0.6]})
    with pytest.raises(jr.InputError, match=said):
        jr.evaluate("training", **QUESTION, dp=8, **{path: 0.5})


@pytest.mark.parametrize(
    ("path", "other"), [("window", "windowed_layers"), ("windowed_layers", "window")]
)
def test_a_window_that_no_layer_has_is_refused(path, other):
    said = f"model.{path}: 32, without effect while model.{other} is 0; expected also"
    given = {f"model.{path}": 32}
    with pytest.raises(jr.InputError, match=said):
        jr.search("training", **QUESTION, settings=given)
    with pytest.raises(jr.InputError, match=said):
        jr.evaluate("training", **QUESTION, dp=8, **given)
    found = jr.evaluate("training", given, axes={f"model.{other}": [8, 16]}, **QUESTION, dp=8)
    assert found.step_time.shape == (2,)


def test_the_study_reads_them():
    asked = jr.published.example()
    found = jr.search(jr.published, asked, settings={"system.fast_latency": "1 ms"})
    assert float(found.step_time) > float(jr.search(jr.published, asked).step_time)


@jr.record
class Racks:
    """A number that counts where another is given."""

    domain: float | None = jr.quantity("1", "Accelerators of a rack.", default=None)
    bandwidth: float | None = jr.quantity("B/s", "Of a rack.", default=None)


def over_racks(inputs, recipe):
    domain = value_or(inputs.domain, None)
    return {"rate": 1.0 if domain is None else domain * inputs.bandwidth}


def test_a_field_counts_that_is_read_where_an_axis_gives_another():
    racks = jr.Estimator(name="racks", inputs=Racks, step=over_racks, names={"of": str})
    with pytest.raises(jr.InputError, match="bandwidth: does not enter"):
        jr.evaluate(racks, bandwidth=2.0)
    found = jr.evaluate(racks, bandwidth=2.0, axes={"domain": [8.0, 64.0]})
    assert found.rate.values.tolist() == [16.0, 128.0]
