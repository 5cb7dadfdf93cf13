"""Strategies that damage a sound text, file or command line, as people and disks do."""

import re
import struct

from hypothesis import strategies as st

VALUES = [  # of TOML, JSON and CSV: numbers, texts and tables where none is expected
    *("0", "-1", "1", "2.5", "1e400", "-1e400", "1e308", "1e-320", "nan", "inf", "-inf", "NaN"),
    *("99999999999999999999", "9" * 5000, "1_000_000_000_000", "0x10", "1e9999", "-0.0", "1e15"),
    *("4096", "4097", "1e9", "1000000000", "735134400", "640000", "65536", "1048576", "20000"),
    *("true", "false", "null", '""', '" "', '"8"', '"2 GB"', '"80 GB"', '"2 TB/s"', '"-3 GB"'),
    *('"nan GB"', '"1e400 B"', '"3 furlongs"', '"GB"', '"50 %"', '"-5 %"', '"1d"', '"summa"'),
    *("[]", "[[]]", "[1, 2]", "[-1]", '["80 GB", 3]', "[" * 2000, "{}", "{a = 1}", '{"a": 1}'),
    *("{ from = 1, to = 4, count = 3 }", "{ from = 4, to = 1, count = 1000000000 }"),
    *('{ from = "1 GB", to = "0 GB", count = 2, spacing = "log" }', "{ between = [1, 2] }"),
    *("1979-05-27", '"\\u001b[2J"', '"\\ud800"', "'" + "x" * 3000 + "'", '"../../x"', '"."', '"/"'),
    *('"gpt3-1t"', '"llama3-8b"', '"h100-nvs8"', '"gpt3"', '"training"', '"published"', '"none"'),
    *(
        '"a:b"',
        '"a,b"',
        '"tp<=8"',
        '"tp<=1e99"',
        "=",
        ",",
        '"',
        "\\",
        "#",
        "\x00",
        "\x1b",
        "é",
        "𝟙",
    ),
]
WORD = re.compile(r'"[^"\n]*"|[\w.+-]+')
values = (
    st.sampled_from(VALUES) | st.text(max_size=8) | st.integers().map(str) | st.floats().map(repr)
)


@st.composite
def _changed(draw, text: str) -> str:
    """Replace, repeat, swap or drop a word or a line, or cut the text."""
    how = draw(st.sampled_from(["word", "word", "word", "value", "drop", "twice", "swap", "cut"]))
    lines = text.splitlines(keepends=True) or [""]
    at = draw(st.integers(0, len(lines) - 1))
    if how in ("word", "value"):
        words = list(WORD.finditer(text))
        if how == "value":  # of a TOML or JSON line: all behind its first mark
            words = list(re.finditer(r"(?<=[=:] )[^\n]+", text)) or words
        if not words:
            return text + draw(values)
        word = draw(st.sampled_from(words))
        other = draw(st.sampled_from([w[0] for w in words]) | values | values)
        return text[: word.start()] + other + text[word.end() :]
    if how == "drop":
        return "".join(lines[:at] + lines[at + 1 :])
    if how == "twice":
        return "".join(lines[: at + 1] + lines[at:])
    if how == "swap":
        other = draw(st.integers(0, len(lines) - 1))
        lines[at], lines[other] = lines[other], lines[at]
        return "".join(lines)
    return text[: draw(st.integers(0, len(text)))]


@st.composite
def damaged_text(draw, sound: str) -> bytes:
    """Return a sound text with one to three changes, now and then with bytes that are no text."""
    text = sound
    for _ in range(draw(st.integers(1, 2))):
        text = draw(_changed(text))
    content = text.encode("utf-8", "surrogatepass")
    return draw(damaged_bytes(content)) if draw(st.integers(0, 9)) == 0 else content


@st.composite
def damaged_bytes(draw, sound: bytes) -> bytes:
    """Return bytes that are cut, flipped, overwritten, repeated or of another length."""
    how = draw(st.sampled_from(["cut", "flip", "flip", "patch", "zero", "insert", "number"]))
    at = draw(st.integers(0, max(len(sound) - 1, 0)))
    if how == "cut":
        return sound[:at]
    if how == "flip" and sound:
        return sound[:at] + bytes([sound[at] ^ (1 << draw(st.integers(0, 7)))]) + sound[at + 1 :]
    if how == "zero":
        return sound[:at] + bytes(min(512, len(sound) - at)) + sound[at + 512 :]
    if how == "number":  # a size that is not there
        some = struct.pack("<q", draw(st.sampled_from([-1, 0, 2**31, 2**62])))
        return sound[:at] + some + sound[at + 8 :]
    other = draw(st.binary(min_size=1, max_size=40))
    return sound[:at] + other + sound[at + (len(other) if how == "patch" else 0) :]


@st.composite
def damaged_line(draw, sound: list[str]) -> list[str]:
    """Return a command line with words that are changed, left out, repeated or added."""
    words = list(sound)
    for _ in range(draw(st.integers(1, 2))):
        how = draw(st.sampled_from(["value", "value", "text", "drop", "twice", "add"]))
        at = draw(st.integers(0, max(len(words) - 1, 0)))
        if how == "drop" or not words:
            words = words[:at] + words[at + 1 :]
        elif how == "twice":
            words = words[: at + 1] + words[at:]
        elif how == "add":
            words.insert(at, draw(st.sampled_from(OPTIONS)))
        elif how == "text":
            changed = draw(_changed(words[at]))
            words[at] = changed
        else:
            words[at] = draw(values).strip('"')
    return [word.replace("\x00", "") for word in words]


OPTIONS = [
    *("--top", "3", "--where", "tp<=8", "--mine", "tp=8", "--json", "--set", "precision=fp8"),
    *("system.nics=0", "global_batch=0", "--help", "-h", "--", "-", "--objective", "device"),
    *("--estimator", "published", "--gpus", "7", "8..64", "--batch", "1e99", "--unknown", ""),
    *("--split", "summa", "--quiet", "--model", "--system", "vit-era5", "tpu-v5e"),
]
