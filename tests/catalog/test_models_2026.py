"""Architectures of 2023 to 2026 against the published counts of their checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest
from architectures import architecture, rows

import jaxroof as jr
from jaxroof import catalog
from jaxroof.catalog import huggingface
from jaxroof.errors import InputError
from jaxroof.estimators.training.layer_kinds import layer_kinds
from jaxroof.records import leaves

ROWS = {row["name"]: row for row in rows("models/models_2026")}
TODAY = Path(__file__).parent / "huggingface" / "today"
FILES = sorted(path.stem for path in TODAY.glob("*.json"))
ONLY_PARAMETERS = ("gemma-4-31b-text", "mimo-v2-flash")
UNPUBLISHED = ("minimax-m2",)  # its prediction modules stand in the file, not in the checkpoint
COUNTS = ("parameters", "active_parameters", "parameters_mtp", "parameters_embedding")
COMPUTED = ("computed_total", "computed_active", "computed_mtp", "computed_embedding")


def row_of(name: str) -> dict[str, str]:
    """Return the golden row of a model of the catalogue."""
    return next(row for key, row in ROWS.items() if catalog.canonical("architectures", key) == name)


@pytest.mark.parametrize("name", ROWS)
def test_counts_are_those_of_the_table(name: str) -> None:
    row, found = ROWS[name], jr.evaluate("model_size", model=name)
    counts = [int(found[count]) for count in COUNTS]
    assert counts == [int(row[column]) for column in COMPUTED]
    if row["difference"]:
        assert counts[0] - int(row["published_total"]) == int(row["difference"])
    if row["published_with_mtp"]:
        copies = int(row["mtp_copies"] or 0) * int(found.parameters_embedding)
        assert counts[0] + counts[2] + copies == int(row["published_with_mtp"])


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_kinds_of_layers_sum_to_the_model(name: str) -> None:
    model, recipe = architecture(name)
    kinds, found = layer_kinds(model, recipe), jr.evaluate("model_size", model=name)
    assert sum(kind.parameters for kind in kinds) == pytest.approx(float(found.parameters), 1e-14)
    active = float(found.active_parameters)
    assert sum(kind.active for kind in kinds) == pytest.approx(active, 1e-14)
    assert all(0.0 < kind.active <= kind.parameters for kind in kinds)


SHOWN = {  # model: words of what is said of its layers
    "gemma3-27b-text": [
        "52 of 62 layers see a window of 1,024 tokens.",
        "81,920 B a token in 10 layers that see all tokens; 425,984 B a token in 52 layers with a "
        "window, so at most 436.208 MB.",
    ],
    "llama-4-scout": ["36 of 48 layers see chunks of 8,192 tokens."],
    "deepseek-v3": ["Cache in 16 bits: 70,272 B a token in 61 layers"],
    "glm-5.2": ["21 of 78 layers own an indexer; a query sees the 2,048 keys that it keeps."],
    "nemotron-3-super": ["in 40 Mamba-2 layers, which does not grow.", "Mamba-2 40 4,385,438,720"],
    "mimo-v2-flash": ["No training step: value_size: 128 beside keys of 192: parameters only"],
    str(TODAY / "gemma-3-27b.json"): [
        "layers 62 (num_hidden_layers)",
        "vocabulary 262208 (as its class has it)",
        "left_out vision_config: only the text is counted",
        "attention in windows 52 3,435,148,288 12.72 %",
    ],
}


@pytest.mark.parametrize("name", SHOWN)
def test_show_tells_of_layers_windows_and_cache(name: str, jaxroof: Any) -> None:
    said = jaxroof(f"show {name}")
    assert (said.code, said.err) == (0, "")
    assert all(words in said.words for words in SHOWN[name]), said.out


def test_list_fits_80_columns(jaxroof: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = jaxroof("list models").out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert listed == [*catalog.names("architectures")]
    assert lines.index("Shapes of published studies") > lines.index("Llama")


def test_all_but_one_of_the_published_counts_are_met_to_the_digit() -> None:
    differences = [row["difference"] for row in ROWS.values() if row["difference"]]
    assert (len(ROWS), len(differences), differences.count("0")) == (74, 58, 57)


def test_the_catalogue_stands_by_family_newest_first() -> None:
    entries = [catalog.describe("architectures", name) for name in catalog.names("architectures")]
    families = list(dict.fromkeys(entry["family"] for entry in entries))
    dates = {one: [e["released"] for e in entries if e["family"] == one] for one in families}
    assert [e["family"] for e in entries] == [one for one in families for _ in dates[one]]
    assert all(listed == sorted(listed, reverse=True) for listed in dates.values())
    newest = [dates[family][0] for family in families]
    assert newest[:-1] == sorted(newest[:-1], reverse=True)
    assert families[-1] == "studies"


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_says_what_the_catalogue_says(name: str) -> None:
    (found, recipe), (known, chosen) = architecture(str(TODAY / f"{name}.json")), architecture(name)
    ours, theirs = (
        {path: float(value) for path, _, value in leaves(model) if value is not None}
        for model in (found, known)
    )
    unsaid = ["sequence", "training_tokens"]  # not in a config.json
    unsaid += ["mtp_layers", "mtp_blocks"] if name in UNPUBLISHED else []
    for one in unsaid:
        ours.pop(one, None), theirs.pop(one, None)
    assert ours == theirs
    assert recipe == chosen
    row = row_of(catalog.canonical("architectures", name))
    counted = jr.evaluate("model_size", model=str(TODAY / f"{name}.json"))
    some = 2 if name in UNPUBLISHED else 3
    assert [int(counted[c]) for c in COUNTS[:some]] == [int(row[c]) for c in COMPUTED[:some]]


@pytest.mark.parametrize("name", ONLY_PARAMETERS)
def test_what_has_parameters_only_is_not_trained(name: str) -> None:
    asked = {"system": "h100-nvs8", "gpus": 8, "global_batch": 8}
    with pytest.raises(InputError, match=rf"^{name}: .*: parameters only; ") as raised:
        jr.search("training", model=name, **asked)
    assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match=r"^model: .*: parameters only; "):
        jr.search("training", model=jr.architecture(name), **asked)


def test_towers_beside_the_text_are_left_out_and_said() -> None:
    text = (TODAY / "gemma-3-27b.json").read_text("utf-8")
    entry = huggingface.entry("config.json", text)
    assert entry["left_out"] == "vision_config: only the text is counted"
    assert entry["taken"]["windowed_layers"] == "as its class has it"
    outer = json.loads(text) | {"tie_word_embeddings": False}
    assert huggingface.entry("config.json", json.dumps(outer))["embeddings"] == "separate"
