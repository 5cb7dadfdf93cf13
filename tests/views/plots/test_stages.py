"""The picture of the stages of a pipeline: seconds worked and idled, and memory."""

import pytest

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.views import plots

SWEEP = """
title = "Stages"
estimator = "pipeline"
answer = "stages"
model = "mlp-xs"
system = "h200-nvs8"
plan = { data = 1, tensor = 1, pipeline = 2, microbatches = 4 }
"""


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("sweep") / "stages.toml"
    path.write_text(SWEEP)
    return jr.run(path)


def test_every_stage_works_and_idles_for_the_step(stages) -> None:
    left, right = plots.draw(stages).axes
    ends = [bar.get_x() + bar.get_width() for bar in left.containers[-1]]
    shares = (stages.busy_share + stages.idle_share) * float(stages.step_time)
    unit = {"[s]": 1.0, "[ms]": 1e-3, "[us]": 1e-6}[left.get_xlabel().rpartition(" ")[2]]
    assert [end * unit for end in ends] == pytest.approx(shares.values.tolist())
    held = [bar.get_x() + bar.get_width() for bar in right.containers[-1]]
    assert held[0] / held[1] == pytest.approx(float(stages.memory[0] / stages.memory[1]))
    names = [text.get_text() for text in left.get_yticklabels()]
    assert names == [f"stage {number}" for number in stages.stage.values]


def test_more_dimensions_are_refused_with_the_option_that_chooses(stages) -> None:
    many = stages.expand_dims(recompute=["none", "full"])
    with pytest.raises(InputError, match=r"'recompute'; choose one point: --at recompute=none,"):
        plots.stages(many)
