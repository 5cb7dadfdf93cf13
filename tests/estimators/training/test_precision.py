"""A number format by name: on axes, with systems, and in settings, always the same numbers."""

import numpy as np
import pytest

import jaxroof as jr

QUESTION = {"model": "llama3-8b", "gpus": 8, "global_batch": 64, "where": "off=0,tp<=2"}
PAIRS = [("h100-nvs8", "bf16"), ("h100-nvs8", "fp8"), ("b200-nvs8", "mxfp8")]


def alone(system, precision):
    return jr.search("training", **QUESTION, system=system, precision=precision)


def test_a_format_on_an_axis_is_that_format_alone():
    formats = ["bf16", "fp8"]
    found = jr.search("training", **QUESTION, system="h100-nvs8", axes={"precision": formats})
    assert found.precision.values.tolist() == formats
    each = [float(alone("h100-nvs8", name).step_time) for name in formats]
    assert found.step_time.values.tolist() == each


def test_formats_and_systems_move_together():
    systems, formats = (list(some) for some in zip(*PAIRS, strict=True))
    axes = {"machine": {"system": systems, "precision": formats}}
    found = jr.search("training", **QUESTION, axes=axes)
    each = [alone(*pair) for pair in PAIRS]
    assert found.step_time.values.tolist() == [float(one.step_time) for one in each]
    assert found.memory.values.tolist() == [float(one.memory) for one in each]


def test_one_format_on_several_systems():
    systems = ["h100-nvs8", "b200-nvs8"]
    found = jr.search("training", **QUESTION, axes={"system": systems}, precision="fp8")
    each = [float(alone(name, "fp8").step_time) for name in systems]
    assert found.step_time.values.tolist() == each


def test_a_record_of_a_system_knows_its_formats():
    inputs = jr.TrainingInputs(
        model=jr.architecture("llama3-8b"),
        system=jr.training_system("h100-nvs8"),
        gpus=np.float64(8),
        global_batch=np.float64(64),
    )
    found = jr.search(jr.training, inputs, where=QUESTION["where"], settings={"precision": "fp8"})
    assert float(found.step_time) == float(alone("h100-nvs8", "fp8").step_time)
    with pytest.raises(jr.InputError, match="nvfp4: the system has no products at it"):
        jr.search(jr.training, inputs, axes={"precision": ["bf16", "nvfp4"]})


WRONG = [
    ({"axes": {"precision": ["bf16", "fp7"]}}, "precision: fp7: no such number format"),
    ({"axes": {"precision": ["bf16", "fp8"]}, "precision": "fp8"}, "given beside the axes too"),
    ({"axes": {"precision": "fp8"}}, "precision: expected a list of names"),
]


@pytest.mark.parametrize(("more", "said"), WRONG)
def test_a_wrong_format_is_one_line(more, said):
    with pytest.raises(jr.InputError, match=said):
        jr.search("training", **QUESTION, system="h100-nvs8", **more)


def test_formats_and_systems_on_two_axes_are_refused():
    axes = {"system": ["h100-nvs8", "b200-nvs8"], "precision": ["bf16", "fp8"]}
    with pytest.raises(jr.InputError, match="expected one axis, machine ="):
        jr.search("training", **QUESTION, axes=axes)


def test_a_file_may_name_it_at_the_top_and_on_an_axis(tmp_path):
    start = 'model = "llama3-8b"\nsystem = "h100-nvs8"\nplan = { gpus = 8, global_batch = 64 }\n'
    start += f'search = {{ where = "{QUESTION["where"]}" }}\n'
    texts = {
        "top": f'precision = "fp8"\n{start}',
        "axis": f'{start}[axes]\nprecision = ["fp8", "bf16"]\n',
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    top, axis = (jr.run(tmp_path / f"{name}.toml") for name in texts)
    assert float(top.step_time) == float(axis.step_time[0]) < float(axis.step_time[1])
