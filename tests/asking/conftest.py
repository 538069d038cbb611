"""Sessions to test, and a rater who prefers later letters."""

import pytest

from rankwise.asking import Session

LETTERS = "abcdefgh"


@pytest.fixture
def session():
    with Session(LETTERS) as made:
        yield made


@pytest.fixture
def rate():
    """Answer some questions; the later letter is better."""

    def rate(session, n_answers, rater="me"):
        for _ in range(n_answers):
            question = session.ask(rater)
            first = question.first.id > question.second.id
            session.answer(question.token, "first" if first else "second")

    return rate
