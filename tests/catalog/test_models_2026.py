"""Architectures of 2023 to 2026 against the published counts of their checkpoints."""

import json
from pathlib import Path

import pytest
from architectures import architecture, rows

import jaxroof as jr
from jaxroof import catalog
from jaxroof.catalog import huggingface
from jaxroof.errors import InputError
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


def test_towers_beside_the_text_are_left_out_and_said() -> None:
    text = (TODAY / "gemma-3-27b.json").read_text("utf-8")
    entry = huggingface.entry("config.json", text)
    assert entry["left_out"] == "vision_config: only the text is counted"
    assert entry["taken"]["windowed_layers"] == "as its class has it"
    outer = json.loads(text) | {"tie_word_embeddings": False}
    assert huggingface.entry("config.json", json.dumps(outer))["embeddings"] == "separate"
