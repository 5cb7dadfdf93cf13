"""The command fit: one sentence, the stages, what was assumed; in a terminal, as JSON, in files."""

import io
import json

import pytest
from daily import daily
from rich.console import Console

import jaxroof as jr
from jaxroof.units import seconds
from jaxroof.views.text import fit as views
from jaxroof.views.text.fit import set_words

SMALL = "fit --model llama3-8b --system h100-nvs8 --plan dp=8,mb=1,zero=1 --batch 128"
LARGE = (
    "fit --model llama3.1-405b --system h100-nvs8 --plan tp=8,cp=1,pp=16,dp=128 --batch 2048 "
    "--gpus 16384 --set layer_split=7,14x8,7"
)


def test_the_first_sentence_is_the_answer(jaxroof):
    said = jaxroof(f"{SMALL} --set recompute=full --verbose")
    assert said.code == 0
    first, second, third, *_ = said.out.splitlines()
    assert first == "llama3-8b on 8 x h100-nvs8, dp 8 mb 1, batch 128 of 8,192 tokens"
    about = {"plan": {"dp": 8}, "global_batch": 128, "settings": {"recompute": "full"}}
    data = jr.fit(model="llama3-8b", system="h100-nvs8", **about)
    assert second == (
        "It fits: the one stage needs 71.69 GB of the 85.52 GB that the device reports (80 GB on "
        "its label); 13.83 GB are left. Largest term: gradients, without routed experts, 32.12 GB. "
        f"A step takes {seconds(float(data.step_time))}."
    )
    assert third.startswith("A shorter step on as many accelerators: ")
    assert "Assumed, because not given: attention kernel cudnn; cross entropy fused;" in said.words
    less = jaxroof(f"{SMALL} --set recompute=full --set system.hbm_capacity=80GB")
    assert "needs 71.69 GB of the 80 GB given; 8.306 GB are left." in less.words
    assert (
        "The answer hangs on the cross entropy: with cross_entropy=native (80.6 GB) or "
        "cross_entropy=eager (85.06 GB) it would not fit."
    ) in less.words


def test_what_does_not_fit_exits_with_1(jaxroof):
    said = jaxroof(LARGE)
    assert said.code == 1
    assert said.out.splitlines()[1].startswith(
        "It does not fit: stage 1, the fullest of 16, needs 91.38 GB, 5.859 GB more than the 85.52 "
        "GB that the device reports (80 GB on its label). Largest term: inside dense MLPs, 39.26 "
    )
    assert said.out.splitlines()[3].startswith("Cheapest change that makes it fit: ")
    assert "the cheapest changes, single ones first, on as many accelerators" in said.words
    assert "with recompute=full (28.35 GB) it would fit." in said.words


def test_json_is_what_python_says(jaxroof):
    said = jaxroof(f"{LARGE} -o told.json")
    told = jr.read("told.json")
    plan = {"tp": 8, "pp": 16, "dp": 128}
    asked = {"model": "llama3.1-405b", "system": "h100-nvs8", "plan": plan, "global_batch": 2048}
    data = jr.fit(**asked, layer_split="7,14x8,7")
    assert said.code == 1
    assert (bool(told.fits), int(told.fullest_stage)) == (False, 1)
    assert float(told.missing) == float(data.missing)
    assert told.device.values.tolist() == data.device.values.tolist()
    assert told.allocated.attrs["bound"] == "± 1 % + 15 MiB"
    found = jr.fit_changes(**asked, layer_split="7,14x8,7")
    changes = json.loads(told.attrs["changes"])
    assert [json.dumps(one["set"]) for one in changes] == found.set.values.tolist()
    about = {"reported": 85520809984.0, "label": 80e9, "usable": 1.0}
    assert about.items() <= told.capacity.attrs.items()


@pytest.mark.parametrize("kind", [".csv", ".json", ".nc"])
def test_files_hold_a_row_a_stage(kind, jaxroof, tmp_path, monkeypatch):
    monkeypatch.setattr("jaxroof.analyses.fit_changes.MOST", 0)  # changes are another question
    path = tmp_path / f"stages{kind}"
    said = jaxroof(f"{LARGE} -o {path}")
    assert said.err == f"wrote {path}\n"
    assert jr.read(path).device.size == 16


def test_the_table_fits_80_columns():
    plan = {"tp": 8, "pp": 16, "dp": 128}
    asked = {"model": "llama3.1-405b", "system": "h100-nvs8", "plan": plan, "global_batch": 2048}
    data = jr.fit(**asked, layer_split="even")
    page = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    page.print(views.stages_table(data))
    lines = page.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(word in lines[2] or word in lines[3] for word in ("weights", "vations", "fers"))


@pytest.mark.parametrize("width", daily([60, 80], 0))
@pytest.mark.parametrize("line", [SMALL.replace("zero=1", "zero=1,rc=0"), LARGE])
def test_every_line_fits_the_columns_asked_for(line, width, jaxroof, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    said = jaxroof(f"{line} --verbose")
    assert max(map(len, said.out.splitlines())) <= width
    words = " ".join(said.out.split())
    assert "on its label" in words
    assert "Cheapest change that makes it fit:" in words
    assert "buffers are workspaces, placeholders and gathered weights" in words


def test_a_picture_is_written(jaxroof, tmp_path):
    said = jaxroof(f"{SMALL} --set recompute=full -o {tmp_path / 'stages.png'}")
    assert said.err.startswith("wrote ")
    assert (tmp_path / "stages.png").stat().st_size > 10_000


BAD = [
    (f"{SMALL} --set recompute=ful", "recompute: ful: no such Recompute. Did you mean 'full'?"),
    (f"{SMALL} --set gpus=8", "--set: gpus: has an option; expected it in --gpus alone"),
    (f"{SMALL} -o stages.txt", "stages.txt: cannot tell the kind of file from '.txt'; expected a"),
    (SMALL.replace("llama3-8b", "vit-22b"), "model: a model of pictures, without a vocabulary; "),
    (f"{SMALL.replace('mb=1', 'mb=1,tp=1,pp=1,cp=1')} --gpus 64",
     "plan: dp=8: not legal (splits that do not use every accelerator once)"),
    (SMALL.replace("dp=8,mb=1,zero=1", "dp"),
     "--plan: expected FIELD=NUMBER, such as tp=8, given 'dp'"),
    (SMALL.replace("dp=8,mb=1,zero=1", "tp=3"),
     "plan: tp=3: not legal (tensor degrees that do not divide"),
    (f"{SMALL} --set model.layers=320000",
     "model.layers: expected a whole number above 0 and at most 4096"),
    (SMALL.replace("dp=8,mb=1,zero=1", "pp=320000"),
     "plan.pipeline: expected a whole number above 0 and at most 4096"),
    (SMALL.replace("dp=8,mb=1,zero=1", "tp=80"),
     "plan: tp=80: not legal (tensor degrees that do not divide"),
    (SMALL.replace("dp=8,mb=1,zero=1", "dp=80"),
     "plan: dp=80: not legal (data degrees and microbatches that"),
    (SMALL.replace("dp=8,mb=1,zero=1", "pp=320"),
     "plan: pp=320: not legal (more chunks than layers, emb"),
    (f"{SMALL} --sequence 81920000000", "--sequence: expected whole numbers from 1 to 1e9, given"),
    (SMALL.replace("dp=8,mb=1,zero=1", "tp=x"),
     "plan.tensor: not a finite number, given 'x'; expected"),
    (SMALL.replace("128", "1.5"), "--batch: expected whole numbers from 1 to 1e9, given '1.5'"),
    (SMALL.replace("llama3-8b", "gpt3"), "gpt3: bare layers"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), BAD)
def test_bad_input_is_one_line(line, said, jaxroof):
    ended = jaxroof(line)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"jaxroof: {said}")


LLAMA = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 128}


def test_what_a_plan_leaves_open_is_said(jaxroof):
    """With the values that it has; what the plan or a setting gives is not named."""
    line = "fit --model llama3-8b --system h100-nvs8 --batch 128 --plan"
    said = jaxroof(f"{line} tp=8,pp=4,mb=1")  # on accelerators that are not known
    assert "Left open in --plan, so as usual: vp 1 zero 1 off 0; search --mine" in said.words
    said = jaxroof(f"{line} tp=8,pp=4,mb=1,vp=1,off=0 --set zero_stage=2")
    assert said.out
    assert "Left open" not in said.words


def test_fields_that_are_left_open_are_filled_in_and_said(jaxroof, monkeypatch):
    """Settings hold the fields that they name; the rest is what a search fills in."""
    monkeypatch.setattr("jaxroof.analyses.fit_changes.MOST", 0)  # changes are another question
    said = jaxroof(f"{SMALL.replace(',mb=1,zero=1', '')} --set zero_stage=0 --set recompute=full")
    own = jr.fastest_plans(**LLAMA, gpus=8, own="dp=8,zero=0,rc=2")
    filled = json.loads(str(own.own_filled.values))
    assert {*filled} == {"microbatch"}
    assert f"Filled in: mb {filled['microbatch']}." in said.words
    assert "Filled in" not in jaxroof(f"{SMALL} --set recompute=full").words
    whole = jr.fit(**LLAMA, plan={"dp": 8, "zero": 0, "mb": filled["microbatch"], "rc": 2})
    assert f"A step takes {seconds(float(whole.step_time))}." in said.words


@pytest.mark.parametrize(("level", "selective"), [(1, "mlp"), (1, "core_attn"), (0, "mlp")])
def test_selective_means_what_it_means_in_a_search(level, selective):
    """What ``rc=1`` computes again; beside ``modules``, which say the same, it is refused."""
    plan = {"dp": 8, "mb": 1, "zero": 1, "rc": level}
    fit = jr.fit(**LLAMA, plan=plan, settings={"selective": selective})
    own = ",".join(f"{name}={value}" for name, value in plan.items())
    search = jr.fastest_plans(**LLAMA, gpus=8, own=own, settings={"selective": selective})
    assert float(fit.device.max()) == float(search.own_device)
    assert float(fit.step_time) == pytest.approx(float(search.own), rel=1e-12)
    with pytest.raises(jr.InputError, match="selective: given twice, as modules too"):
        jr.fit(**LLAMA, plan=plan, settings={"selective": "mlp", "modules": "mlp"})
    with pytest.raises(jr.InputError, match="selective: ml: no such Selective"):
        jr.fit(**LLAMA, plan={**plan, "rc": 1}, settings={"selective": "ml"})


def test_modules_beside_rc_1_are_what_it_computes_again():
    plan = {"dp": 8, "mb": 1, "zero": 1}
    alone = jr.fit(**LLAMA, plan=plan, settings={"modules": "mlp"})
    both = jr.fit(**LLAMA, plan={**plan, "rc": 1}, settings={"modules": "mlp"})
    assert both.device.values.tolist() == alone.device.values.tolist()
    assert float(both.step_time) == float(alone.step_time)
    for level, modules in ((1, "nonsense"), (0, "mlp"), (2, "mlp")):
        with pytest.raises(jr.InputError, match=r"^modules: "):
            jr.fit(**LLAMA, plan={**plan, "rc": level}, settings={"modules": modules})


@pytest.mark.parametrize("plan", daily(["dp=8,mb=1,zero=1,rc=0", "dp=4,cp=2,mb=2,zero=1,rc=0"], 1))
def test_the_headline_names_the_cheapest_change_of_its_own_table(plan, jaxroof):
    asked = f"fit --model llama3-8b --system h100-nvs8 --batch 64 --plan {plan}"
    said = jaxroof(f"{asked} -o told.json")
    changes = json.loads(jr.read("told.json").attrs["changes"])
    fitting = [one for one in changes if one["fits"] and one["cost"] is not None]
    cheapest = min(fitting, key=lambda one: one["cost"])
    assert f"Cheapest change that makes it fit: {set_words(cheapest)} needs" in said.words


def test_modules_in_a_search_name_the_choice_that_it_takes():
    said = "modules: only fit takes them; expected selective, one of light, core_attn, mlp, moe"
    for ask in (
        lambda: jr.search("training", **LLAMA, gpus=8, modules="mlp"),
        lambda: jr.evaluate("training", **LLAMA, modules="mlp", dp=8),
        lambda: jr.fastest_plans(**LLAMA, gpus=8, settings={"modules": "mlp"}),
    ):
        with pytest.raises(jr.InputError, match=f"^{said}"):
            ask()
