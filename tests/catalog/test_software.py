"""Software in the catalogue: what it sets exists, what it can do holds what it sets."""

import pytest

from jaxroof import catalog
from jaxroof.analyses.fit_question import BESIDE, FIT
from jaxroof.catalog.lookup import TODAY, software
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import Activations, Buffers, StateSizes, TrainingPlan
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.settings import choices_of

NAMES = catalog.names("software")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_software_sets_and_can_do_are_fields_and_choices(name: str) -> None:
    found = software(name)
    known = {*FIT.shorthand, *FIT.plan_fields, *BESIDE, *choices_of(TrainingRecipe())}
    assert set(found.settings) <= known
    assert {key for key in found.only if "." not in key} <= known
    for key, values in found.only.items():
        assert values, key
        if key in found.settings:
            assert found.settings[key] in values
    written = catalog.describe("software", name)
    assert written["source"].startswith("docs/models/")
    assert written["note"].endswith(".")


def test_the_software_of_today_sets_what_is_taken_anyway() -> None:
    defaults = {
        name: getattr(record, name)
        for record in (TrainingPlan(), StateSizes(), Activations(), Buffers())
        for name in vars(record)
    }
    found = software(TODAY)
    assert {name: defaults[name] for name in found.settings} == dict(found.settings)


def test_an_unknown_software_has_a_nearest_name() -> None:
    with pytest.raises(InputError, match=r"^fdsp2: no such software. Did you mean 'fsdp2'\?"):
        software("fdsp2")
