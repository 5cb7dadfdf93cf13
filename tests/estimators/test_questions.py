"""Every estimator answers the question that is listed for it."""

from jaxroof import estimators
from jaxroof.estimators.questions import QUESTIONS


def test_the_questions_are_those_of_the_estimators_in_their_order():
    about = {name: estimators.estimator(name).about for name in estimators.names()}
    assert [*about.items()] == [*QUESTIONS.items()]
