"""Strategies of links to the page that a stranger writes: markup, huge numbers, damaged files."""

import dataclasses
import json
import pathlib
from urllib.parse import urlencode

from hostile import VALUES, damaged_text
from hypothesis import strategies as st
from places import ROOT

from jaxroof.app.state import CHOICE, FIELDS, SCHEDULES, START, TABS, UPLOADS, Upload, to_link

MARKUP = [
    "<img src=x onerror=alert(7)>", '"><script>alert(7)</script>', "'onmouseover='alert(7)",
    "</textarea><svg/onload=alert(7)>", "javascript:alert(7)",
    "{{constructor.constructor('alert(7)')()}}",
    "<iframe srcdoc='<script>parent.alert(7)</script>'>", "\u202e<b>\x00\x1b[2J\ud800",
    "&lt;img src=x onerror=alert(7)&gt;",
    "a\n<script>alert(7)</script>",
]  # fmt: skip
SOUND = {  # values that fields have
    "model": ["llama3-8b", "gpt3-1t", "deepseek-v3", "gpt2-124m"],
    "system": ["h100-nvs8", "h200-nvs4", "tpu-v5e", "b200-nvs8"],
    "gpus": ["1", "8", "1e3", "2,048"], "batch": ["1", "64", "1e6"],
    "precision": ["bf16", "fp8", "mxfp8"],
    "where": ["tp<=8", "pp=4,mb=1", "tp=3"], "mine": ["tp=8", "tp=8,pp=1"], "tab": list(TABS),
    "schedule": list(SCHEDULES),
}  # fmt: skip
PATHS = [
    *("system.hbm_bandwidth", "system.nics", "system.chip.matmul", "model.sequence", "model.heads"),
    *("model.layers", "model.hidden", "model.experts", "model.vocabulary", "software.year"),
    *("plan.tensor", "global_batch", "a.b", ".", "..", "system.", "system.__class__"),
]
NUMBERS = ["0", "-1", "1", "8", "2.5", "1e9", "1e15", "1e308", "1e-320", "nan", "inf", "9" * 400]
CHOICES = [
    "attention_kernel", "schedule", "norm", "split", "gpus", "model", "chip", "", "__class__",
]  # fmt: skip
MODEL = """layers = 4
hidden = 1024
heads = 16
kv_heads = 16
head_size = 64
sequence = 2048
feedforward = 4096
vocabulary = 32000
attention = "heads"
mlp = "gated"
norm = "rmsnorm"
biases = "none"
embeddings = "separate"
"""
SYSTEM = """base = "h100-nvs8"
hbm_bandwidth = "5 TB/s"
nics = 2
[chip]
base = "hopper"
matmul = 0.7
"""
CONFIGS = sorted((ROOT / "tests" / "catalog" / "huggingface").glob("*.json"))

text = st.sampled_from(MARKUP) | st.sampled_from(VALUES) | st.text(max_size=30)
mixed = st.tuples(text, text).map("".join) | text


@st.composite
def packed_files(draw) -> str:
    """Return a file as a link has it: markup in its name or inside, damaged."""
    end = draw(st.sampled_from([".toml", ".json", ".py", ""]))
    name = draw(st.just("config") | mixed) + end
    sound = st.sampled_from([MODEL, SYSTEM])
    if end == ".json":
        sound = st.sampled_from(CONFIGS).map(pathlib.Path.read_text)
    content = draw(
        sound.flatmap(damaged_text) | mixed.map(lambda one: one.encode("utf-8", "replace"))
    )
    own = Upload(name, content.decode("utf-8", "replace"))
    link = to_link(dataclasses.replace(START, own_model=own))
    packed = link.removeprefix("?own_model=")
    damaged = draw(st.integers(0, 3)) == 0
    return draw(damaged_text(packed)).decode("utf-8", "replace") if damaged else packed


@st.composite
def fields(draw) -> tuple[str, str]:
    """Return the name and the value of one field of a link."""
    kind = draw(st.sampled_from([*3 * ["sound"], *2 * ["path"], "field", "choice", "file", "any"]))
    if kind == "sound":
        name = draw(st.sampled_from(sorted(SOUND)))
        return name, draw(st.sampled_from(SOUND[name]))
    if kind == "file":
        return draw(st.sampled_from(UPLOADS)), draw(packed_files())
    if kind == "path":
        return draw(st.sampled_from(PATHS) | mixed.map("system.".__add__)), draw(
            st.sampled_from(NUMBERS) | mixed
        )
    if kind == "choice":
        return f"{CHOICE}{draw(st.sampled_from(CHOICES) | mixed)}", draw(mixed)
    return draw(st.sampled_from(FIELDS) if kind == "field" else mixed), draw(mixed)


SMALL = {"model": "llama3-8b", "gpus": "8", "batch": "64"}
twice = st.sampled_from([[], [], [], [("gpus", "4")]])
links = st.tuples(st.lists(fields(), max_size=3), twice).map(
    lambda found: urlencode(
        [*{**SMALL, **dict(found[0])}.items(), *found[1]], errors="surrogatepass"
    )
)


def packed(name: str, content: object) -> str:
    """Return a link with a model's file, of a text or of JSON."""
    words = content if isinstance(content, str) else json.dumps(content)
    return to_link(dataclasses.replace(START, own_model=Upload(name, words))).removeprefix("?")


def packed_system(content: str) -> str:
    """Return a link with a system's file."""
    return packed("m.toml", content).replace("own_model", "own_system")


REPRODUCERS = [  # each ran a stranger's JavaScript, opened a file here, or took gigabytes
    "choice.%3Cimg%20src%3Dx%20onerror%3Dalert(7)%3E=1",
    packed("config.json", {"model_type": "<img src=x onerror=alert(7)>"}),
    packed("m.toml", "'<img src=x onerror=alert(7)>' = 1"),
    packed("<img src=x onerror=alert(7)>.toml", "layers = 1"),
    packed("m.toml", 'base = "/dev/zero"'),
    packed_system("'<img src=x onerror=alert(7)>' = 1"),
    "model.layers=1e9",
    packed("m.toml", MODEL.replace("layers = 4", "layers = 1e9")),
]


def with_markup(words: str) -> list[str]:
    """Return links that have a text wherever a link has one."""
    plain = words.encode("utf-8", "replace").decode()
    places = ["model", "system", "where", "mine", "across", "tab", "gpus", f"{CHOICE}norm"]
    pairs = [(name, plain) for name in places]
    pairs += [(f"{CHOICE}{plain}", "1"), (f"system.{plain}", "1"), (plain, "1")]
    return (
        [urlencode([pair]) for pair in pairs]
        + [packed(f"{plain}.toml", f"'{plain}' = 1")]
        + [packed_system(f"'{plain}' = 1")]
    )


FOR_A_BROWSER = [*REPRODUCERS, *(link for words in MARKUP for link in with_markup(words))]
