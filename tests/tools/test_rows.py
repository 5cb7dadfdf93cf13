"""Converters of measured runs: they make the packaged files, and say what a row lacks."""

import csv
import gzip
import io

import pytest
from refusals import refused

from jaxroof.catalog.lookup import training_system
from jaxroof.errors import InputError
from tools.rows import convert
from tools.rows.common import Row, count, options, read
from tools.rows.memory import measured_memory, memory_settings
from tools.rows.plans import capacity
from tools.rows.steps import measured_step, step_settings


def raw(name):
    """Return the rows of a source by their names."""
    (path,) = convert.RAW.glob(f"*/{name}.csv.gz")
    return {row.cells["row_id"]: row for row in read(path)}


def changed(row, cells):
    """Return a row with cells changed; "+" is a further option."""
    new = {**row.cells, **cells}
    new["settings"] = "; ".join(filter(None, (new.get("settings", ""), new.pop("+", ""))))
    return Row({name: cell for name, cell in new.items() if cell})


def test_the_packaged_files_are_what_the_raw_rows_make():
    files = {path.relative_to(convert.ROWS).as_posix(): path for path in convert.ROWS.glob("*/*")}
    files = {name: path for name, path in files.items() if not name.startswith("runs/")}
    made = convert.packaged()
    assert set(made) == set(files)
    for name, text in made.items():
        assert gzip.decompress(files[name].read_bytes()).decode() == text, name


@pytest.mark.slow
def test_rows_of_the_same_schema_are_converted_by_the_command(tmp_path):
    (path,) = convert.RAW.glob("*/mt_nlg_a100.csv.gz")
    convert.main(["steps", str(path), str(tmp_path / "rows.csv")])
    written = (tmp_path / "rows.csv").read_text(encoding="utf-8")
    assert written == convert.packaged()["steps/mt_nlg_a100.csv.gz"]


WRONG = [
    ("", "layers: blank; expected transformer layers"),
    ("x", "layers: not a number above 0, given 'x'; expected transformer layers"),
    ("nan", "layers: not a number above 0, given 'nan'; "),
    ("-2", "layers: not a number above 0, given '-2'; "),
    ("1e300", "layers: not a number above 0, given '1e300'; "),
    ("1.5", "layers: not a whole number, given 1.5; expected transformer layers"),
]


@pytest.mark.parametrize(("cell", "said"), WRONG)
def test_a_wrong_cell_is_named(cell, said):
    assert refused(count, Row({"layers": cell} if cell else {}), "layers").startswith(said)


def test_an_option_with_two_values_is_refused():
    with pytest.raises(InputError, match=r"^settings: tp: two values"):
        options(Row({"settings": "tp=2; tp=4"}))


SYSTEMS = [  # what rows call a system, what it reports [GB], rounded
    ("DGX H100 80GB", 85.5),
    ("H100 95GiB (8 per node)", 102.0),
    ("H100 96GB HBM2e 2.4 TB/s, 500W limit (Grand Teton, 8 per node, 400 Gb/s per GPU)", 96.0),
    ("A100 40GB", 42.9),
    ("V100-SXM2 32GB", 34.4),
    ("B200-SXM (1 node, 8 GPUs)", 192.3),
    ("DGX-H100", 85.5),
]


@pytest.mark.parametrize(("system", "expected"), SYSTEMS)
def test_the_memory_of_an_accelerator_is_what_it_reports(system, expected):
    assert round(capacity(Row({"system": system})) / 1e9, 1) == expected


OPEN = [
    ("A100 (8 per node)", "system: A100 comes with 40 GB, 80 GB; expected one of them"),
    ("TPU v5e", "system: 'TPU v5e' names no accelerator that is known; expected one that"),
]


@pytest.mark.parametrize(("system", "said"), OPEN)
def test_a_system_that_leaves_its_memory_open_is_refused(system, said):
    assert refused(capacity, Row({"system": system})).startswith(said)


CI = "mcore-gpt-gpt3_mcore_te_tp1_pp1_dist_optimizer_fim_dataset-dev_dgx_gb200"
TITAN, BENCH, SIMUMAX, LOG = "titanlog-01a", "titan-00", "simumax-b200-05", "bigsci-058"
CI_ROWS = "megatron_lm_ci_memory"
OF_MEMORY = [  # source, row, cells changed, what is said
    (CI_ROWS, CI, {"gpus": "16"}, "gpus: given 16, but dp tp pp cp make 8"),
    (CI_ROWS, CI, {"gbs": "33"}, "gbs: 33, but the settings say global-batch-size=32"),
    (CI_ROWS, CI, {"mbs": ""}, "mbs: blank; expected sequences of a microbatch"),
    (CI_ROWS, CI, {"layers": "13"}, "layers: 13, but the settings say num-layers=12"),
    (CI_ROWS, CI, {"system": "Trainium"}, "system: 'Trainium' names no accelerator"),
    (CI_ROWS, CI, {"+": "fp8-format=e4m3"}, "fp8-format: FP8 copies of weights"),
    (CI_ROWS, CI, {"+": "recompute-granularity=some"}, "recompute-granularity: some"),
    ("torchtitan_logs", TITAN, {"pp": "2", "gpus": "16"}, "pp: FSDP2 with a pipeline"),
    ("torchtitan_logs", TITAN, {"moe_experts": "8"}, "moe_experts: experts under FSDP2"),
    ("torchtitan_logs", TITAN, {"settings": "recompute=op"}, "compile: not given; expected no"),
    ("torchtitan_logs", TITAN, {"hidden": "4224"}, "model: no model of the catalogue has this"),
    ("torchtitan", BENCH, {"recompute": ""}, "recompute: blank; expected none, selective, full"),
    ("torchtitan", BENCH, {"date_version": "v2"}, "date_version: no date, which says how"),
    ("simumax_b200", SIMUMAX, {"seqpar": "", "tp": "2", "dp": "2"}, "seqpar: blank; expected yes"),
    ("simumax_b200", SIMUMAX, {"ep": ""}, "ep: blank; expected expert-parallel degree"),
    ("simumax_b200", SIMUMAX, {"note": ""}, "note: does not say how many layers of a cut model"),
    ("simumax_b200", SIMUMAX, {"precision": "FP8"}, "precision: FP8: copies of weights not"),
    ("simumax_b200", SIMUMAX, {"zero_fsdp": "ZeRO-3"}, "zero_fsdp: ZeRO-3: not modelled; expected"),
    ("simumax_b200", SIMUMAX, {"layers": "1e9"}, "layers: given 1000000000, but the model of this"),
    ("bigscience_a100", LOG, {"heads": ""}, "heads: blank; expected query heads"),
    ("bigscience_a100", LOG, {"zero_fsdp": "ZeRO-2"}, "zero_stage: deepspeed with ZeRO 2"),
    ("bigscience_a100", LOG, {"layers": "71"}, "pp: does not divide the layers, and their"),
    ("llm_foundry_mpt", "mpt-000", {"model": "Other 7b"}, "model: expected an MPT: the shape of"),
]
OF_STEPS = [
    ({"system": "TPU v5p"}, "system: TPU v5p: not calibrated; expected one of"),
    ({"layers": ""}, "layers: blank; expected transformer layers"),
    ({"gpus": "7", "tp": "2"}, "gpus: given 7, which tp pp cp do not divide"),
    ({"source": "me"}, "source: me: software not known; expected a text that beg"),
    ({"source": "NVIDIA DGX Cloud", "tp": "", "pp": ""}, "tp: neither tp nor pp is stated"),
]


@pytest.mark.parametrize(("source", "name", "cells", "said"), OF_MEMORY)
def test_a_row_that_lacks_what_memory_needs_is_refused(source, name, cells, said):
    row = raw(source)[name]
    memory_settings(row)
    assert refused(memory_settings, changed(row, cells)).startswith(said)


@pytest.mark.parametrize(("cells", "said"), OF_STEPS)
def test_a_row_that_lacks_what_a_step_needs_is_refused(cells, said):
    assert refused(
        step_settings, changed(raw("simumax_b200")["simumax-b200-01"], cells)
    ).startswith(said)


def test_a_measured_number_without_a_name_is_refused():
    row = changed(raw("simumax_b200")[SIMUMAX], {"source": "Somebody"})
    with pytest.raises(InputError, match="memory_kind: blank; the measured number has no name"):
        measured_memory(row)


def test_a_row_names_its_software_and_its_date():
    """Software says what a step does; a row without a date is of that of a question."""
    row = raw("simumax_b200")["simumax-b200-01"]
    other = changed(row, {"source": "torchtitan, our cluster", "derived_step_time_s": ""})
    assert step_settings(other)["plan.zero_stage"] == 3.0
    assert measured_step(changed(other, {"measured_step_time_s": "2.5"})) == {
        "#measured_step_time_s": 2.5
    }
    dated = next(one for one in raw("nemo_releases").values() if "date_version" in one.cells)
    blank = changed(dated, {"date_version": ""})
    assert step_settings(dated)["software.year"] < step_settings(blank)["software.year"] == 2026.9


@pytest.mark.slow
@pytest.mark.parametrize("of", convert.MEASURES)
def test_no_row_ends_in_anything_but_inputs_or_a_reason(of):
    """Every cell of a row of each source in turn blank, a word, negative, huge or a fraction."""
    for path in convert.RAW.glob(f"*{of}*/*.csv.gz"):
        row = read(path)[0]
        rows = [
            changed(row, {column: cell})
            for column in row.cells
            if column != "row_id"
            for cell in ("", "x", "-1", "1e12", "0.5", "7", "nan")
        ]
        assert convert.converted(rows, of).count("\n") == len(rows) + 1


# ---- What public files fill ---------------------------------------------------------------------

SUPER = "mbridge-061"  # Nemotron 3 Super on B300, without dimensions


def test_blank_dimensions_and_kinds_of_layers_are_those_of_the_model():
    found = step_settings(raw("megatron_bridge_moe")[SUPER])
    layers = {"full": 8.0, "windowed": 0.0, "mamba": 40.0, "dense": 0.0, "routed": 40.0}
    assert {kind: found[f"model.{kind}_layers"] for kind in layers} == layers
    assert (found["model.layers"], found["model.mtp_layers"], found["model.mtp_blocks"]) == (
        *(88.0, 2.0, 4.0),
    )
    assert (found["recurrence"], found["mlp"], found["model.rotary"]) == ("mamba", "plain", 0.0)
    assert found["#filled"].startswith("nemotron-3-super-120b-a12b: layers hidden")
    assert found["software.exchange_domain"] == 8.0, "of B300"


def test_a_stated_dimension_is_never_replaced_and_a_cut_model_keeps_its_mix():
    row = raw("megatron_bridge_moe")["mbridge-141"]
    found = step_settings(changed(row, {"layers": "12", "vocab": ""}))
    assert (found["model.layers"], found["model.windowed_layers"]) == (12.0, 6.0)
    assert found["model.vocabulary"] == 201088.0
    assert found["#filled"] == "gpt-oss-120b: vocab"
    assert found["biases"] == "experts"


RECIPES = [  # source, row, cells changed, recipe, what it says
    ("megatron_bridge_moe", "mbridge-039", {}, "26.06 DEEPSEEK_V3_PRETRAIN_CONFIG_GB300_FP8_MX_V1",
     {"flex": 1.0, "graph": 1.0, "attention8": 1.0, "exchange_overlap": 1.0, "host": 0.0}),
    ("megatron_bridge_moe", "mbridge-271", {}, "25.09 run_script.py and yaml rules",
     {"flex": 0.0, "dedup": 0.0, "token_drop": 1.0}),
    ("megatron_bridge_moe", "mbridge-091", {},
     "26.04.01 GPT_OSS_120B_PRETRAIN_CONFIG_GB300_BF16_V1",
     {"flex": 0.0, "graph": 0.0, "graph_part": 1.0, "attention8": 0.0}),
    ("megatron_bridge_moe", "mbridge-091", {"date_version": "24.09 NeMo Container"}, None,
     {"flex": 0.0, "dedup": 0.0}),
    ("papers_and_automodel", "automodel-3", {}, None, {"flex": 1.0, "dedup": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("source", "name", "cells", "recipe", "says"), RECIPES)
def test_experts_run_as_the_recipe_of_the_release_most_like_the_row(
    source, name, cells, recipe, says
):
    found = step_settings(changed(raw(source)[name], cells))
    assert found.get("#recipe") == recipe
    assert {name: found[f"software.{name}"] for name in says} == says


def test_modules_of_a_recipe_are_those_that_it_names():
    found = step_settings(raw("megatron_bridge_moe")["mbridge-088"])
    assert (found["plan.recompute"], found["selective"]) == (1.0, "+mlp")
    stated = {"source": "NVIDIA NeMo performance", "recompute": "selective: moe_act, layernorm"}
    found = step_settings(changed(raw("megatron_bridge_moe")["mbridge-088"], stated))
    assert found["selective"] == "+layernorm+moe_act"


@pytest.mark.parametrize(("gpus", "expert"), [("256", 64.0), ("8", 8.0)])
def test_experts_of_automodel_have_the_degree_of_its_recipes(gpus, expert):
    cells = {"ep": "-", "gpus": gpus, "gbs": "4096"}
    row = changed(raw("papers_and_automodel")["automodel-3"], cells)
    assert step_settings(row)["plan.expert"] == expert


def test_a_pipeline_of_torchtitan_gathers_once_and_has_as_many_microbatches_as_stages():
    row = raw("torchtitan")["titan-10"]
    cells = {"pp": "8", "gpus": "512", "dp": "8", "note": "Interleaved 1F1B, async TP, float8"}
    found = step_settings(changed(row, cells))
    assert (found["plan.zero_stage"], found["plan.reshard"]) == (3.0, 0.0)
    assert (found["plan.microbatch"], found["plan.interleave"]) == (8.0, 2.0)
    assert (found["software.fused"], found["software.tensor_async"]) == (1.0, 1.0)
    assert found["system.hbm_bandwidth"] == 2.4e12
    assert found["system.matrix_flops"] == pytest.approx(989.4e12 * (5.0 / 7.0) ** 0.76)


def test_rows_of_several_sources_in_one_file_are_each_of_its_machine():
    rows = [raw("torchtitan")["titan-10"], raw("simumax_b200")["simumax-b200-01"]]
    titan, other = csv.DictReader(io.StringIO(convert.converted(rows, "steps")))
    assert float(titan["system.hbm_bandwidth"]) == 2.4e12
    assert float(other["system.hbm_bandwidth"]) == training_system("b200-180-sxm").hbm_bandwidth


@pytest.mark.parametrize(
    ("source", "model", "rank"),
    [
        ("NVIDIA DGX Cloud benchmarking recipes", "Llama 3.1 8B", 8.0),
        ("NVIDIA Megatron-Bridge performance summary", "Llama 3 70B", 16.0),
        ("NVIDIA Megatron-Bridge performance summary", "Llama 3 8B", 32.0),
    ],
)
def test_adapters_of_a_row_are_those_of_the_recipe_of_its_source(source, model, rank):
    row = raw("simumax_b200")["simumax-b200-01"]
    cells = {"source": source, "model": model, "tp": "1", "pp": "1"}
    found = step_settings(changed(row, cells | {"task": "LoRA"}))
    assert (found["lora_rank"], found["adapters"]) == (rank, "qkv")
    assert "lora_rank" not in step_settings(changed(row, cells | {"task": "SFT"}))
