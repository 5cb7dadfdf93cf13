"""The sentences of a grid compare points only where there are several."""

import pytest

import jaxroof as jr
from jaxroof.views.text.sweep import sweep_sentences

TIGHT, ROOMY = 60e9, 192e9


@pytest.mark.parametrize(("capacities", "ending"), [
    ([ROOMY], "at hbm_capacity 192 GB."),
    ([TIGHT, ROOMY], "at hbm_capacity 192 GB; no other point is feasible."),
    ([ROOMY, 2 * ROOMY], "times as long."),
])  # fmt: skip
def test_a_point_alone_is_compared_with_none(capacities, ending):
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"))
    axes = {"system.hbm_capacity": capacities}
    found = jr.search(jr.published, inputs, axes=axes, gpus=256, global_batch=4096)
    said = next(line for line in sweep_sentences(found) if "s a step" in line)
    assert said.startswith("Fastest: ") == (len(capacities) > 1)
    assert said.endswith(ending)
