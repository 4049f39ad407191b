"""Sessions that join and leave between steps have the bits of those that step alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.runtime.small_models import TOKENS
from tests.runtime.test_session import LAYERS, STREAMED, draw, each_stream, make, start

from unspool.decoding.sampling import Sampling
from unspool.errors import ArgumentError, UnspoolError
from unspool.runtime.together import Together
from unspool.runtime.writing import Writing, draw_together


@each_stream
def test_sessions_that_join_and_leave_have_the_bits_of_those_that_step_alone(kind: str) -> None:
    _, reader = make(kind, LAYERS[1])
    inputs, random = draw(kind, rows=6), np.random.default_rng(3)
    alone, together = ([start(reader) for _ in range(6)] for _ in range(2))
    resident = Together(reader)
    for step in inputs:
        here = [row for row in range(6) if random.random() < 0.6]
        resident.leave([one for one in resident.sessions if together.index(one) not in here])
        resident.join([together[row] for row in here if together[row] not in resident.sessions])
        order = [together.index(one) for one in resident.sessions]
        if not order:
            continue
        found = resident.step([together[row].prepare(own(step[row])) for row in order])
        for row, output in zip(order, found, strict=True):
            assert np.array_equal(output, alone[row].step(own(step[row])))
    resident.leave(list(resident.sessions))
    assert resident.sessions == []
    for one, other in zip(alone, together, strict=True):
        assert one.save() == other.save()


@each_stream
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_several_steps_at_once_have_the_bits_of_single_ones(kind: str, rows: int) -> None:
    _, reader = make(kind, LAYERS[1])
    inputs = draw(kind, rows=rows)
    alone, together = ([start(reader) for _ in range(rows)] for _ in range(2))
    resident, cuts = Together(reader), (0, 1, 4, len(inputs))
    resident.join(together)
    for begin, end in itertools.pairwise(cuts):
        steps = inputs[begin:end]
        found = resident.advance([[one.prepare(own(x[row])) for x in steps] for row, one in enumerate(together)])
        for outputs, step in zip(found, steps, strict=True):
            for row, output in enumerate(outputs):
                assert np.array_equal(output, alone[row].step(own(step[row])))
    resident.leave(together)
    assert [one.save() for one in alone] == [one.save() for one in together]


def own(x: Any) -> Any:
    return x if x.shape else int(x)


def test_a_session_joins_once_and_after_an_error_nothing_has_changed() -> None:
    _, reader = make("language", LAYERS[0])
    one, other = start(reader), start(reader)
    resident = Together(reader)
    resident.join([one, other])
    with pytest.raises(ArgumentError, match="twice"):
        resident.join([one])
    with pytest.raises(UnspoolError):
        resident.step([1, TOKENS])
    assert one.position == other.position == 0
    resident.step([1, 2])
    resident.leave([one])
    assert resident.sessions == [other]
    assert one.save() != start(reader).save()


@pytest.mark.parametrize("kind", STREAMED)
def test_what_step_refuses_is_refused_before(kind: str) -> None:
    _, reader = make(kind, LAYERS[0])
    session = start(reader)
    wrong = [-1, TOKENS, 0.5, "a", None, [1]] if STREAMED[kind][1] is None else [1, [1, 2], [1, 2, np.nan], "abc"]
    for x in wrong:
        with pytest.raises(UnspoolError):
            session.prepare(x)
    assert session.position == 0


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, 4), Sampling(1.3, None, 0.8), Sampling(0)], ids=str)
def test_tokens_drawn_together_are_those_drawn_alone(sampling: Sampling) -> None:
    _, reader = make("language", LAYERS[0])

    def written(together: bool) -> list[list[int]]:
        sessions = [start(reader) for _ in range(9)]
        for number, session in enumerate(sessions):
            session.feed([number % TOKENS])
        texts = [session.writing(12, sampling, (), seed) for seed, session in enumerate(sessions)]
        for _ in range(12):
            tokens = draw_together(texts) if together else [text.draw() for text in texts]
            for text, session, token in zip(texts, sessions, tokens, strict=True):
                text.push(session.step(token))
        assert all(isinstance(text, Writing) and text.done for text in texts)
        return [text.tokens for text in texts]

    assert written(True) == written(False)
