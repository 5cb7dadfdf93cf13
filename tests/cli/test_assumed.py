"""What commands say of experts, of layers that were counted, and of dispatchers by name."""

import json

import pytest
import xarray as xr
from daily import daily

from jaxroof.views.text.assumed import assumed_sentences

ASKED = "--model qwen3-30b-a3b --system h100-nvs8 --gpus 64 --batch 256"
RULES = "--where tp=1,pp=1,mb=1,zero<=1"
EVEN = "Experts: exchange by DeepEP or HybridEP, load balanced."


@pytest.mark.parametrize("command", daily(["search", "fit", "explain", "compare"], 0, 1, 3))
def test_an_answer_names_the_dispatcher_and_the_load_where_there_are_experts(jaxroof, command):
    assert EVEN in jaxroof(f"{command} {ASKED} {RULES}").out
    dense = ASKED.replace("qwen3-30b-a3b", "llama3-8b")
    assert "Experts" not in jaxroof(f"{command} {dense} {RULES}").out


def test_what_is_not_usual_of_experts_is_named(jaxroof):
    more = "--set dispatcher=megatron-25.09 --set constants=2025 --set routing_imbalance=1.3"
    said = " ".join(jaxroof(f"search {ASKED} {RULES} {more}").out.split())
    own = "tokens above a capacity dropped, constants of 2025, load 1.3 times the mean on"
    assert f"Experts: exchange by plain all-to-all, {own} the fullest rank, which nobody" in said


def test_dispatchers_stand_side_by_side(jaxroof):
    pair = "--set dispatcher=alltoall,hybridep"
    said = " ".join(jaxroof(f"compare {ASKED} {RULES} {pair}").out.split())
    assert "On h100-nvs8, hybridep is" in said
    assert "as fast as the next, alltoall" in said
    assert "It is sooner with a probability of" in said
    assert "Experts: load balanced." in said


def test_memory_leaves_a_dispatcher_out_and_says_so(jaxroof):
    asked = f"search {ASKED} {RULES} --objective memory --set dispatcher="
    assert "Memory does not hang on dispatcher" in jaxroof(f"{asked}hybridep").out
    wrong = jaxroof(f"{asked}hybridp")
    assert (wrong.code, "Did you mean 'hybridep'?" in wrong.err) == (2, True)


def test_a_layer_of_a_hybrid_is_the_mean_of_its_layers(jaxroof):
    asked = "layers --model qwen3-next-80b-a3b --system h100-nvs8 --plan dp=8,ep=8"
    mean = "The layer is the mean of 48: 12 with full attention, 36 with gated DeltaNet and 48"
    assert mean in " ".join(jaxroof(asked).out.split())


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ({}, []),
        ({"mamba_layers": 8.0}, ["Memory of Mamba-2 layers is counted, nobody measured it."]),
        (
            {"kda_layers": 8.0},
            ["Layers of Kimi Delta Attention are counted, nobody measured them."],
        ),
    ],
)
def test_layers_that_nobody_measured_are_named(layers, said):
    numbers = {f"model.{name}": number for name, number in layers.items()}
    assert assumed_sentences(xr.Dataset(attrs={"inputs": json.dumps(numbers)})) == said
