"""What a measured row means: every input of every row of the sheet, and what is refused."""

import numpy as np
import pytest
from measured_steps import CHIPS, MODEL, PLAN, SOFTWARE, datasheet, rows

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.errors import InputError
from jaxroof.estimators.training.plan_time import timed
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.prediction import answers, step_groups
from jaxroof.validation.steps.sources import SOURCES, packaged
from jaxroof.validation.steps.step_rows import SYSTEMS, step_row


@pytest.fixture(scope="module")
def found():
    """Return every packaged row that has a prediction, by name."""
    every = answers(row for name in SOURCES for row in packaged(name).rows)
    return {one.row.cells["row_id"]: one for one in every if one.step is not None}


def test_every_input_of_every_row_of_the_sheet(found):
    """What a step follows from, as ``training`` makes it of the inputs, is what the sheet has."""
    sheet = rows()
    steps = [found[row["row_id"]].step for row in sheet]
    groups, refused = step_groups(steps)
    assert not refused
    for places, inputs, recipe in groups:
        asked = timed(inputs, recipe)
        some = [sheet[place] for place in places]
        latent = asked.model.latent > 0.0
        expected = {
            **{name: (getattr(asked.model, name), column) for name, column in MODEL.items()},
            "head_size": (np.where(latent, 128.0, asked.model.head_size), "head_size"),
            **{name: (getattr(asked.plan, name), name) for name in PLAN},
            **{name: (getattr(asked.software, name), column) for name, column in SOFTWARE.items()},
            "dedup": (asked.software.dedup * (asked.model.experts > 0.0), "dedup"),
            "expert": (asked.plan.expert, "expert_parallel"),
            "sequence": (inputs.model.sequence, "sequence"),
            "slow_bandwidth": (inputs.system.slow_bandwidth, "slow_rate"),
            "measured": (np.array([steps[place].measured for place in places]), "measured"),
        }
        for name, (values, column) in expected.items():
            written = [float(row[column] or 0) for row in some]
            np.testing.assert_allclose(
                np.broadcast_to(values, len(some)), written, rtol=1e-9, err_msg=name
            )
    for row, step in zip(sheet, steps, strict=True):
        assert step.chip == CHIPS[row["chip"]][1], row["row_id"]


def test_every_time_of_every_row_of_the_sheet(found):
    times = [(found[row["row_id"]].time, float(row["out_step_time"])) for row in rows()]
    assert len(times) == 1312
    np.testing.assert_allclose(*zip(*times, strict=True), rtol=1e-10)


def test_rows_of_the_sheet_without_experts_or_new_sources_are_all_that_is_answered(found):
    """Rows that the sheet lacks became visible after it was made; no other source is answered."""
    asked = {row["row_id"] for row in rows()}
    later = {one.row.cells["source"] for name, one in found.items() if name not in asked}
    assert all(
        text.startswith(("NVIDIA DGX Cloud", "torchtitan", "BigScience", "NVIDIA Megatron-Bridge"))
        for text in later
    )


@pytest.mark.parametrize("system", sorted({name for name, _, _ in SYSTEMS.values()}))
def test_machines_are_those_of_the_datasheets(system):
    made, peaks = lookup.system(system), catalog.entry("systems", system, {})["peaks"]
    sheet = datasheet({"h100-nvs8": "h100-80-sxm"}.get(system, system))
    expected = {
        "matrix_flops": "bf16_flops",
        "hbm_bandwidth": "hbm_bandwidth",
        "fast_domain": "fast_domain_size",
        "fast_bandwidth": "fast_bw_per_dir",
        "slow_bandwidth": "nic_bw_per_dir",
    }
    for field, column in expected.items():
        assert getattr(made, field) == float(sheet[column]), (system, field)
    for name in ("fp8", "fp4"):
        assert peaks.get(name, 0.0) == float(sheet[f"{name}_flops"]), (system, name)
    for other, _, slow in SYSTEMS.values():
        if other == system:
            assert slow == float(sheet["nic_bw_per_dir"])


REFUSED = [  # source, cells changed, what is said
    ("simumax_b200", {"task": "LoRA"}, "task: LoRA: not modelled; expected pretrain or SFT"),
    ("simumax_b200", {"system": "TPU v5p"}, "system: TPU v5p: not calibrated; expected one of"),
    ("simumax_b200", {"layers": ""}, "layers: blank; expected transformer layers"),
    ("simumax_b200", {"gpus": "7", "tp": "2"}, "gpus: given 7, which tp pp cp do not divide"),
    ("simumax_b200", {"source": "me"}, "source: me: software not known; expected a text that beg"),
    ("simumax_b200", {"seq": "x"}, "seq: not a number above 0, given 'x'; expected tokens"),
    ("dgxc_benchmarking", {"tp": "", "pp": ""}, "tp: neither tp nor pp is stated"),
]


@pytest.mark.parametrize(("source", "cells", "said"), REFUSED)
def test_a_row_that_lacks_what_is_needed_is_refused(source, cells, said):
    row = packaged(source).rows[0]
    changed = {**row.cells, **cells}
    with pytest.raises(InputError) as refused:
        step_row(Row(2, {name: cell for name, cell in changed.items() if cell}))
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_a_row_of_ones_own_names_its_software():
    row = packaged("simumax_b200").rows[0]
    cells = {**row.cells, "source": "torchtitan, our cluster"}
    cells.pop("derived_step_time_s")
    cells.pop("measured_step_time_s", None)
    step = step_row(Row(2, cells))
    assert step.settings["plan.zero_stage"] == 3.0
    assert step.measured is None
    assert step_row(Row(2, {**cells, "measured_step_time_s": "2.5"})).measured == 2.5
