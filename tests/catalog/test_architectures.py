"""Models of today in the catalogue and in files, and what is said of a wrong one."""

import copy
import pickle
import tomllib
from pathlib import Path

import pytest
from architectures import architecture_of_2025, rows
from daily import daily
from refusals import refused

import jaxroof as jr
from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import (
    ARCHITECTURE_CHOICES,
    architecture_with_choices,
    only_parameters,
)
from jaxroof.errors import InputError
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.records import checked, units
from jaxroof.settings import choices_of, choose

NAMES = catalog.names("architectures")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory, so that errors show the bare name of a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_choice_of_the_recipe_is_stated_by_every_model() -> None:
    assert list(ARCHITECTURE_CHOICES) == choices_of(Recipe())
    allowed = {*units(Architecture), *ARCHITECTURE_CHOICES, "title", "source", "note"}
    allowed |= {"family", "released"}
    for name in NAMES:
        written = catalog.describe("architectures", name)
        assert set(written) <= allowed
        assert set(ARCHITECTURE_CHOICES) <= set(written)
        assert written["source"]
        assert written["note"]
        choose(Recipe(), architecture_with_choices(name)[1])


def test_no_model_has_two_meanings() -> None:
    assert not {*NAMES} & {*catalog.names("models")}
    assert not {*NAMES} & {*catalog.names("systems"), *catalog.names("mlps")}


def test_a_file_changes_a_model(here: Path) -> None:
    (here / "mine.toml").write_text('base = "llama3-8b"\nlayers = 16\nembeddings = "tied"\n')
    found = jr.evaluate("model_size", model="mine.toml")
    whole = jr.evaluate("model_size", model="llama3-8b", embeddings="tied")
    assert float(found.parameters_attention) == float(whole.parameters_attention) / 2.0
    assert float(found.parameters_head) == 0.0


LAYERS = "layers = 2\nhidden = 8\nfeedforward = 32\nheads = 2\nkv_heads = 2\nhead_size = 4\n"
WRONG = [  # a file, what is said of it
    (LAYERS, "vocabulary: missing; expected a value, or a published entry to change, such as base"),
    (LAYERS + "vocabulary = 9\nmlp = 'plain'", "attention, norm, biases, embeddings: missing; exp"),
    (LAYERS + "kv_head = 2", "kv_head: no such field of Architecture. Did you mean 'kv_heads'?"),
    ('base = "gpt3"', "base: gpt3: bare layers, a model of the study: ask with"),
    ('base = "llama3-8b"\nmlp = 3', "mlp: not a string, given 3; expected a string."),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_wrong_file_is_one_line(here: Path, text: str, said: str) -> None:
    (here / "mine.toml").write_text(text)
    assert refused(jr.evaluate, "model_size", model="mine.toml").startswith(f"mine.toml: {said}")


def test_a_wrong_choice_names_the_nearest(here: Path) -> None:
    (here / "mine.toml").write_text('base = "llama3-8b"\nmlp = "gate"')
    with pytest.raises(InputError, match=r"mlp: gate: no such Mlp\. Did you mean 'gated'\?$"):
        jr.evaluate("model_size", model="mine.toml")


def test_bare_layers_and_whole_models_are_told_apart() -> None:
    with pytest.raises(InputError, match=r"^llama3-8b: a model of today: .* such as 'gpt3'\.$"):
        jr.model("llama3-8b")
    with pytest.raises(InputError, match=r"^gpt3: bare layers, .* such as 'gpt3-175b'\.$"):
        jr.evaluate("model_size", model="gpt3")
    with pytest.raises(InputError, match=r"^llama3\.2-405b: .* Did you mean 'llama3\.1-405b'\?$"):
        jr.evaluate("model_size", model="llama3.2-405b")


def test_a_model_answers_to_its_other_names() -> None:
    text = (Path(catalog.__file__).parent / "aliases.toml").read_text(encoding="utf-8")
    for kind, others in tomllib.loads(text).items():
        for other, name in others.items():
            assert other not in catalog.names(kind), "an alias would hide an entry"
            assert catalog.describe(kind, other) == catalog.describe(kind, name)
    found = jr.evaluate("model_size", model="Llama3-405B")
    assert float(found.parameters) == float(
        jr.evaluate("model_size", model="llama3.1-405b").parameters
    )


COLUMNS = {  # of models.csv: our field
    "layers": "layers", "hidden": "hidden", "ffn": "feedforward", "heads": "heads",
    "kv_heads": "kv_heads", "head_dim": "head_size", "norms_per_layer": "norms_per_layer",
    "pos_params": "positions", "experts": "experts", "topk": "active_experts",
    "expert_ffn": "expert_feedforward", "first_dense_layers": "first_dense_layers",
    "q_lora_rank": "q_rank", "kv_lora_rank": "kv_rank", "mtp_layers": "mtp_layers",
    "window": "window", "train_seq": "sequence", "extra_params": "extra_parameters",
}  # fmt: skip
GATED = {"0": "plain", "1": "gated"}
TIED = {"0": "separate", "1": "tied"}


@pytest.mark.parametrize("row", rows("models/models"), ids=lambda row: row["name"])
def test_every_figure_of_the_table_stands_in_the_catalogue(row: dict[str, str]) -> None:
    model, _ = architecture_of_2025(row["name"])
    choices = architecture_with_choices(row["name"])[1]
    pictures = row["family"] == "vit"
    latent = row["attention"] == "mla"
    skipped = {"head_dim"} if latent else set()
    for column, field in COLUMNS.items():
        if column not in skipped and row[column]:
            assert float(getattr(model, field)) == float(row[column]), field
    assert float(model.classes if pictures else model.vocabulary) == float(row["vocab"])
    shared = float(row["shared_experts"]) * float(row["expert_ffn"])
    assert float(model.shared_feedforward) == shared
    assert choices["mlp"] == GATED[row["gated_mlp"]]
    assert choices["norm"] == row["norm"]
    assert pictures or choices["embeddings"] == TIED[row["tied_embeddings"]]
    assert float(model.head_norms) == 2.0 * float(row["qk_norm"])
    if latent:
        sizes = [float(row[f"{name}_dim"]) for name in ("qk_nope", "qk_rope", "v_head")]
        assert [float(model.nope_size), float(model.rope_size), float(model.value_size)] == sizes
    written = catalog.describe("architectures", row["name"])
    assert row["config_source"] in written["source"]
    assert row["total_source"] in written["source"]


def test_models_move_along_an_axis_with_their_choices() -> None:
    some = ["gpt2-124m", "llama3-8b", "deepseek-v3"]
    found = jr.evaluate("model_size", axes={"model": some}).parameters
    alone = [float(jr.evaluate("model_size", model=name).parameters) for name in some]
    assert found.values.tolist() == alone


# dense with tied embeddings, experts of latent attention, windows, an old one, hybrids
KINDS = ("gemma-3-1b", "deepseek-v3.2", "gpt-oss-20b", "gpt2-124m", "qwen3-next-80b-a3b")
KINDS += ("nemotron-3-super-120b-a12b", "kimi-linear-48b-a3b")
TRAINED = [name for name in NAMES if not only_parameters(*architecture_with_choices(name))]


@pytest.mark.parametrize("name", daily(TRAINED, *map(TRAINED.index, KINDS)))
def test_a_model_as_a_record_is_the_model_by_name(name: str) -> None:
    """What it is goes along with its numbers, into every question that gives no recipe."""
    plan, system = jr.TrainingPlan(recompute=1.0), jr.training_system("h100-nvs8")
    asked = {"system": system, "global_batch": 8.0, "plan": plan}
    found = [
        jr.training.evaluate(jr.TrainingInputs(model=jr.architecture(name), **asked)),
        jr.evaluate("training", model=jr.architecture(name), **asked),
        jr.evaluate("training", model=name, **asked),
    ]
    for result in ("step_time", "memory"):
        assert len({float(getattr(one, result)) for one in found}) == 1, result
    sizes = [jr.evaluate("model_size", model=one) for one in (name, jr.architecture(name))]
    assert float(sizes[0].parameters) == float(sizes[1].parameters)


def test_the_choices_of_a_record_stay_with_its_copies_and_give_way_to_what_is_said() -> None:
    held = jr.architecture("gpt3-175b", layers=24)
    for copied in (held, copy.deepcopy(held), pickle.loads(pickle.dumps(held)), checked(held)):
        assert (
            float(jr.evaluate("model_size", model=copied).parameters_mlp) == 24 * 2 * 4 * 12288**2
        )
    gated = jr.evaluate("model_size", model=held, mlp="gated")
    assert float(gated.parameters_mlp) == 24 * 3 * 4 * 12288**2
    recipe = jr.TrainingRecipe()
    inputs = jr.TrainingInputs(
        model=held, system=jr.training_system("h100-nvs8"), global_batch=8.0, plan=jr.TrainingPlan()
    )
    own, other = (float(jr.training.evaluate(inputs, one).memory) for one in (None, recipe))
    assert own < other
