"""A plan that fits by less than the error of its memory: every road says so; --margin avoids it."""

from typing import Any

import pytest
import xarray as xr

from jaxroof.analyses.training_plans import fastest_plans
from jaxroof.estimators.training.step import training
from jaxroof.units import size
from jaxroof.views.text.margin import Margin
from jaxroof.views.text.plan import plan_sentence

ASKED = "--model llama3-70b --system h100-nvs8 --batch 256"
DOUBT = "The margin is less than the error of that number (± 15 %)."
SEARCH = f"search {ASKED} --gpus 128 --top 2 --where tp<=8,off=0"


def winner(**settings: Any) -> xr.Dataset:
    """Return the first plan of the search."""
    about = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 256, "gpus": 128}
    return fastest_plans(**about, where="tp<=8,off=0", settings=settings).isel(plan=0)


def test_search_says_of_its_winner_what_fit_says(jaxroof: Any) -> None:
    best = winner()
    said = jaxroof(SEARCH)
    assert DOUBT in said.words
    assert "~ within the error (± 15 %) of what there is" in said.words
    plan = ",".join(f"{name}={int(best[field])}" for name, field in training.short_names.items())
    fit = jaxroof(f"fit {ASKED} --plan {plan}")
    assert DOUBT in fit.words
    assert size(float(best.memory), "B") in fit.words
    assert "~96" in said.words
    assert "~96" in fit.words


def test_a_margin_leaves_memory_free_in_every_command(jaxroof: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("jaxroof.analyses.fit_changes.MOST", 0)  # changes are another question
    best = winner(**{"system.hbm_usable": 0.85})
    assert float(best.memory) <= 0.85 * 85520809984.0 < float(winner().memory)
    said = jaxroof(f"{SEARCH} --margin 15%").words
    assert DOUBT not in said
    assert "72.69" in said
    assert plan_sentence(best) in said
    others = (
        f"compare {ASKED} --gpus 32",
        f"pareto {ASKED} --gpus 8",
        f"fit {ASKED} --plan tp=8,dp=16,pp=1",
    )
    for line in others:
        with_margin = jaxroof(f"{line} --margin 15%")
        assert with_margin.out == jaxroof(f"{line} --set system.hbm_usable=0.85").out
        assert with_margin.out != jaxroof(line).out


@pytest.mark.parametrize("share", ["150%", "100%", "-1%", "x"])
def test_a_margin_that_leaves_nothing_is_refused(share: str, jaxroof: Any) -> None:
    said = jaxroof(f"{SEARCH} --margin={share}")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("jaxroof: --margin: ")
    twice = jaxroof(f"{SEARCH} --margin 10% --set system.hbm_usable=0.9")
    assert twice.code == 2


def test_the_error_is_of_what_there_is_whatever_margin_is_asked_for() -> None:
    own, asked = Margin(0.15, 1.0), Margin(0.15, 0.85)
    for need in (70.0, 80.0, 90.0, 110.0, 120.0):
        assert own.is_doubtful(need, 100.0) == asked.is_doubtful(need, 85.0)
    assert own.is_doubtful(90.0, 100.0)
    assert not own.is_doubtful(86.0, 100.0)
    assert not Margin(0.0, 1.0).is_doubtful(100.0, 100.0)
