"""Units there and back, and what is said of a value that has none or another."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from jaxroof import units
from jaxroof.errors import InputError, nearest, refusal, unknown

PARSED = [  # written, unit, SI
    ("2.039 TB/s", "B/s", 2.039e12), ("4.8TB/s", "B/s", 4.8e12), ("  8   TB/s ", "B/s", 8e12),
    ("100 GiB/s", "B/s", 107_374_182_400.0), ("400 Gbit/s", "B/s", 50e9), ("8 bit/s", "B/s", 1.0),
    ("80 GB", "B", 80e9), ("192 GiB", "B", 192 * 2.0**30), ("1 KiB", "B", 1024.0),
    ("512 B", "B", 512.0), ("20 us", "s", 20e-6), ("20 \u00b5s", "s", 20e-6),
    ("20 \u03bcs", "s", 20e-6), ("2.5 ms", "s", 2.5e-3), ("3 ns", "s", 3e-9),
    ("39.97 s", "s", 39.97), ("989.4 TFLOP/s", "FLOP/s", 989.4e12),
    ("989.4 TFLOPS", "FLOP/s", 989.4e12), ("2.5 Pflop/s", "FLOP/s", 2.5e15),
    ("3.1e23 FLOP", "FLOP", 3.1e23), ("38 YFLOP", "FLOP", 3.8e25), ("1.4 kW", "W", 1400.0),
    ("0.7", "1", 0.7), (".7", "1", 0.7), ("70 %", "1", 0.7), ("70%", "1", 0.7),
    ("1e12", "B/s", 1e12), ("1e3 GB", "B", 1e12), ("-1.5E-3", "1", -1.5e-3),
    ("1_000", "token", 1000.0), ("2048 token", "token", 2048.0), ("2048 tokens", "token", 2048.0),
    ("2 B/element", "B/element", 2.0), ("3 1/s", "1/s", 3.0), ("0 us", "s", 0.0),
    (2048, "token", 2048.0), (1e12, "B/s", 1e12), (0, "s", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("written", "unit", "expected"), PARSED)
def test_parse(written: object, unit: str, expected: float) -> None:
    value = units.parse(written, unit, "here")
    assert value == expected
    assert type(value) is float


BANDWIDTH = "expected B/s under any prefix, such as '2 TB/s'."
MEMORY = "expected B under any prefix, such as '80 GB'."
TIME = "expected s, ms, us, ns, min, h or days, such as '20 us'."
PLAIN = "expected a number or a percentage, such as '0.7' or '70 %'."
REFUSED = [  # written, unit, what is said after "where: "
    ("2 GB", "B/s", f"'GB' is not a bandwidth, given '2 GB'; {BANDWIDTH}"),
    ("8 GB/s", "B", f"'GB/s' is not an amount of memory, given '8 GB/s'; {MEMORY}"),
    ("2 TB/s", "FLOP/s",
     "'TB/s' is not a compute rate, given '2 TB/s'; "
     "expected FLOP/s under any prefix, such as '989.4 TFLOP/s'."),
    ("2 TFLOP/s", "FLOP",
     "'TFLOP/s' is not an amount of compute, given '2 TFLOP/s'; "
     "expected FLOP under any prefix, such as '2 PFLOP'."),
    ("7 V", "W", "'V' is not a power, given '7 V'; expected W under any prefix, such as '700 W'."),
    ("2 GB", "s", f"'GB' is not a time, given '2 GB'; {TIME}"),
    ("1 ks", "s", f"'ks' is not a time, given '1 ks'; {TIME}"),
    ("2k", "1", f"'k' is not a plain number, given '2k'; {PLAIN}"),
    ("2 ktoken", "token",
     "'ktoken' is not in token, given '2 ktoken'; "
     "expected a plain number, such as '2' or '2 token'."),
    ("2 tb/s", "B/s",
     "'tb/s' may mean bits or bytes, given '2 tb/s'; write TB/s for bytes or Tbit/s for bits."),
    ("400 Gb/s", "B/s",
     "'Gb/s' may mean bits or bytes, given '400 Gb/s'; write GB/s for bytes or Gbit/s for bits."),
    ("80 gb", "B", "'gb' may mean bits or bytes, given '80 gb'; write GB for bytes."),
    ("80 Gib", "B", "'Gib' may mean bits or bytes, given '80 Gib'; write GiB for bytes."),
    ("2 tB/s", "B/s",
     f"'tB/s' is not a bandwidth, given '2 tB/s'; {BANDWIDTH} Did you mean '2 TB/s'?"),
    ("2 TBps", "B/s",
     f"'TBps' is not a bandwidth, given '2 TBps'; {BANDWIDTH} Did you mean '2 TB/s'?"),
    ("1 KB", "B", f"'KB' is not an amount of memory, given '1 KB'; {MEMORY} Did you mean '1 kB'?"),
    ("2 TFLOPs", "FLOP/s",
     "'TFLOPs' is not a compute rate, given '2 TFLOPs'; expected FLOP/s under any prefix, "
     "such as '989.4 TFLOP/s'. Did you mean '2 TFLOP/s'?"),
    ("20 US", "s", f"'US' is not a time, given '20 US'; {TIME} Did you mean '20 us'?"),
    ("1,000 GB", "B", "a number in groups of digits, given '1,000 GB'; write '1000 GB'."),
    ("1 000 GB", "B", "a number in groups of digits, given '1 000 GB'; write '1000 GB'."),
    ("", "B", f"not a finite number, given ''; {MEMORY}"),
    ("  ", "B", f"not a finite number, given '  '; {MEMORY}"),
    ("GB", "B", f"not a finite number, given 'GB'; {MEMORY}"),
    ("1__0 GB", "B", f"not a finite number, given '1__0 GB'; {MEMORY}"),
    ("nan s", "s", f"not a finite number, given 'nan s'; {TIME}"),
    ("inf", "1", f"not a finite number, given 'inf'; {PLAIN}"),
    ("1e999", "1", f"not a finite number, given '1e999'; {PLAIN}"),
    ("1e308 GB", "B", f"not a finite number, given '1e308 GB'; {MEMORY}"),
    (math.nan, "s", f"not a finite number, given nan; {TIME}"),
    (-math.inf, "s", f"not a finite number, given -inf; {TIME}"),
    (True, "1", f"not a finite number, given true; {PLAIN}"),
    (None, "1", f"not a finite number, given None; {PLAIN}"),
    ([1, 2], "1", f"not a finite number, given [1, 2]; {PLAIN}"),
    ("a\nb", "1", f"not a finite number, given 'a\\nb'; {PLAIN}"),
    (10**400, "1", f"not a finite number, given 1{'0' * 56}...; {PLAIN}"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "unit", "text"), REFUSED)
def test_parse_refuses(written: object, unit: str, text: str) -> None:
    assert (
        refused(units.parse, written, unit, "gpt3.toml: system.field")
        == f"gpt3.toml: system.field: {text}"
    )
    assert refused(units.parse, written, unit) == text


def test_parse_refuses_an_integer_that_python_does_not_print() -> None:
    with pytest.raises(InputError, match="given an integer of thousands of digits; expected"):
        units.parse(10**5000, "B")


SHOWN = [  # SI, unit, as people write it
    (2.039e12, "B/s", "2.039 TB/s"), (80e9, "B", "80 GB"), (0.5, "B", "0.5 B"),
    (999_999.7, "B", "1 MB"), (-5e9, "B", "-5 GB"), (20e-6, "s", "20 us"), (1e-12, "s", "0.001 ns"),
    (86400, "s", "86400 s"), (0, "s", "0 s"), (math.inf, "s", "inf s"), (math.nan, "1", "nan"),
    (989.4e12, "FLOP/s", "989.4 TFLOP/s"), (2500e12, "FLOP/s", "2.5 PFLOP/s"),
    (3.8e25, "FLOP", "38 YFLOP"), (700, "W", "700 W"), (0.8, "1", "0.8"), (4096, "1", "4096"),
    (1_234_567, "1", "1.23457e6"), (1.5e-7, "1", "1.5e-7"), (64800, "token", "64800 token"),
    (2.0, "B/element", "2 B/element"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "unit", "expected"), SHOWN)
def test_show(value: float, unit: str, expected: str) -> None:
    assert units.show(value, unit) == expected


UNITS = ["FLOP/s", "FLOP", "B", "B/s", "s", "W", "1", "token", "sequence", "B/element", "1/s"]
SIZES = st.one_of(st.just(0.0), st.floats(1e-30, 1e30), st.floats(-1e30, -1e-30))


@given(SIZES, st.sampled_from(UNITS))
def test_there_and_back(value: float, unit: str) -> None:
    assert units.parse(units.show(value, unit), unit) == pytest.approx(value, rel=1e-5, abs=0.0)


QUANTITIES = r"[0-9]{1,5}(\.[0-9]{1,3})?(e[0-9])? ?[kKmMGTu]?i?(B|b|bit|s|FLOP)?(/s|ps)?"


@given(st.one_of(st.text(), st.from_regex(QUANTITIES)), st.sampled_from(UNITS))
def test_any_text_is_a_number_or_one_line(text: str, unit: str) -> None:
    said = "here: "
    try:
        assert math.isfinite(units.parse(text, unit, "here"))
    except InputError as error:
        said = str(error)
    assert said.startswith("here: ")
    assert len(said.splitlines()) == 1


NEAREST = [  # name, options, nearest
    ("GPT3_1T", ["gpt3", "gpt3-1t"], "gpt3-1t"),
    ("hbm-bandwidth", ["hbm_capacity", "hbm_bandwidth"], "hbm_bandwidth"),
    ("hbm_bandwith", ["hbm_capacity", "hbm_bandwidth"], "hbm_bandwidth"),
    ("zebra", ["hbm_capacity", "hbm_bandwidth"], None), ("", ["hbm_capacity"], None),
    ("anything", [], None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "expected"), NEAREST)
def test_nearest(name: str, options: list[str], expected: str | None) -> None:
    assert nearest(name, options) == expected


TWENTY = [f"field_{letter}" for letter in "abcdefghijklmnopqrst"]
UNKNOWN = [  # where, name, options, text
    ("a.toml", "heds", ["heads"], "a.toml: heds: no such field. Did you mean 'heads'?"),
    ("", "heds", ["heads"], "heds: no such field. Did you mean 'heads'?"),
    ("", "model.heds", ["heads"], "model.heds: no such field. Did you mean 'heads'?"),
    ("a.toml", "xyz", ["b", "a"], "a.toml: xyz: no such field; expected one of b, a."),
    ("", "", ["a"], "'': no such field; expected one of a."),
    ("", "xyz", [], "xyz: no such field; there is none to choose from."),
    ("", "xyz", TWENTY, f"xyz: no such field; expected one of {', '.join(TWENTY[:12])}, ..."),
]


@pytest.mark.parametrize(("where", "name", "options", "text"), UNKNOWN)
def test_unknown(where: str, name: str, options: list[str], text: str) -> None:
    assert str(unknown(where, name, "field", options)) == text


@given(st.text())
def test_an_error_is_one_line(text: str) -> None:
    assert len(str(InputError(text)).splitlines()) <= 1
    assert len(str(refusal("here", text)).splitlines()) == 1
    assert isinstance(InputError(text), ValueError)
