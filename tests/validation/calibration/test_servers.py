"""Constants of software that serves, fitted to measured servers."""

import numpy as np
import pandas as pd
import pytest

from jaxroof.catalog.serving_software import serving_software
from jaxroof.errors import InputError
from jaxroof.validation.calibration.server import calibrate_servers
from jaxroof.validation.serving import server_answers

SYSTEM = "h100-nvs8"
TRUE = {"layer": 45e-6, "hbm": 0.70, "request": 60e-6}  # of the software that "ran"
NOISE = 0.02


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return rows that a server with other constants would measure, with some noise."""
    path = tmp_path_factory.mktemp("true") / "true.toml"
    lines = ['base = "vllm-2026"', *(f"{name} = {value}" for name, value in TRUE.items())]
    path.write_text("\n".join(lines), encoding="utf-8")
    batches = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    models = [("llama3-8b", 1), ("llama3-8b", 2), ("llama3-70b", 4), ("qwen3-32b", 2)]
    asked = [(model, tp, b) for model, tp in models for b in batches]
    frame = pd.DataFrame(
        {
            "id": [f"{model} {tp} {batch}" for model, tp, batch in asked],
            "#kind": "batch",
            "model": [model for model, _, _ in asked],
            "system": SYSTEM,
            "software": str(path),
            "prompt": "512",
            "output": "256",
            "chunk": "512",
            "tp": [str(tp) for _, tp, _ in asked],
            "batch": [str(batch) for *_, batch in asked],
            "#step_s": "1",
        }
    )
    found = server_answers(frame)["predicted"].to_numpy()
    noise = np.exp(NOISE * np.random.default_rng(0).standard_normal(len(found)))
    times = [repr(value) for value in (found * noise).tolist()]
    return frame.drop(columns=["software", "system"]).assign(**{"#step_s": times})


def test_constants_that_rows_tell_are_found(measured, tmp_path):
    fit = calibrate_servers(measured, SYSTEM, "vllm-2026")
    told = {one.name: one for one in fit.constants}
    for name in TRUE:
        assert told[name].low < TRUE[name] < told[name].high, name
    error, before = (np.median(np.abs(np.expm1(one))) for one in (fit.after, fit.before))
    assert error < NOISE < 5 * NOISE < before
    assert 0.0 == fit.own["experts"] < 0.1 <= fit.own["dense"] < 0.17
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(fit.written), encoding="utf-8")
    mine = serving_software(path, SYSTEM)
    assert float(mine.layer) == told["layer"].value
    assert (float(mine.calibrated), float(mine.tile)) == (1.0, 59.7)
    again = calibrate_servers(measured, SYSTEM, str(path))
    kept = {one.name for one in again.constants}
    assert {*again.written} >= {f"{n} = {told[n].value!r}" for n in told if n not in kept}
    assert np.median(np.abs(np.expm1(again.before))) == pytest.approx(error)


def test_rows_of_another_machine_are_refused(measured):
    rows = measured.assign(system="b200-180-sxm")
    with pytest.raises(InputError, match="--system: h100-nvs8: rows of b200-180-sxm; expected"):
        calibrate_servers(rows, SYSTEM, "vllm-2026")
    with pytest.raises(InputError, match=r"no row can be used; the first: .*faster"):
        calibrate_servers(measured.assign(**{"#step_s": "1e-9"}), SYSTEM, None)
    with pytest.raises(InputError, match=r"#kind: bach: no such kind of row.*'batch'"):
        calibrate_servers(measured.assign(**{"#kind": "bach"}), SYSTEM, None)
