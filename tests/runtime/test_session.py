"""Sessions: the same bits however steps are fed, forks that part, and saved memories."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.small_models import CASES, MAKERS, TOKENS, Made, classify_words
from tests.runtime.test_play import player_of

from unspool.decoding.sampling import Sampling
from unspool.errors import ArgumentError, DataError, UnspoolError
from unspool.runtime.blob import HEAD
from unspool.runtime.network import Array
from unspool.runtime.session import Session, restore, step_many
from unspool.runtime.stream import Stream, make_stream

STEPS = 7
#: One-directional models, by what they read: how many numbers, or None for ids.
STREAMED: dict[str, tuple[dict[str, Any], int | None]] = {
    "language": ({}, None),
    **{f"classify-{pooling}": ({"pooling": pooling}, 3) for pooling in ("last", "mean", "max", "attention")},
    "classify-window": ({"pooling": "mean", "input_window": 3}, 3),
    "classify-members": ({"pooling": "attention", "members": 3}, 3),
    "multilabel": ({"pooling": "last"}, None),
    "regress": ({"pooling": "mean"}, 3),
}
LAYERS: tuple[dict[str, Any], ...] = (
    {"hidden": 5, "cell": "gru"},
    {"hidden": (4, 3), "cell": ["lstm", "elman"], "skip": True},
    {"hidden": 4, "layers": 3, "residual": True, "cell": "lstm", "zoneout": 0.2},
)
each_stream = pytest.mark.parametrize("kind", STREAMED)
each_layers = pytest.mark.parametrize("layers", LAYERS, ids=["one", "skip", "residual"])


class Plain:
    """A reader whose inputs are those of the stream."""

    digest, tokens = b"d" * 32, TOKENS

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def encode(self, given: Any) -> Any:
        return np.asarray(given)[:, None]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(97 + one) for one in ids)

    def encode_step(self, x: Any) -> Any:
        return x

    def sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> Sampling:
        return Sampling(temperature, top_k, top_p)


def make(kind: str, layers: dict[str, Any]) -> tuple[Made, Plain]:
    """A model with random weights, and what starts its sessions."""
    settings, _ = STREAMED[kind]
    both = {} if kind == "language" else {"bidirectional": False}
    torch.manual_seed(1)
    maker = next(one for one in MAKERS if one.__name__ == kind.partition("-")[0])
    made = maker(**settings, **both, **layers)
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    made.model.eval()
    return made, Plain(make_stream(player_of(made), made.extras.get("undo")))


def draw(kind: str, rows: int = 1) -> Array:
    """Inputs (time, rows, …)."""
    random, width = np.random.default_rng(0), STREAMED[kind][1]
    if width is None:
        return random.integers(0, TOKENS, (STEPS, rows))
    return random.normal(size=(STEPS, rows, width)).astype(np.float32)


def start(reader: Plain) -> Session:
    return Session(reader, reader.stream.start(1))


def fed_by(session: Session, inputs: Array, size: int) -> list[Array | None]:
    return [session.feed(inputs[at : at + size, 0]) for at in range(0, len(inputs), size)]


@each_stream
@each_layers
def test_one_two_or_all_steps_at_a_time_give_the_same_bits(kind: str, layers: dict[str, Any]) -> None:
    _, reader = make(kind, layers)
    inputs = draw(kind)
    whole = start(reader)
    expected = whole.feed(inputs[:, 0])
    for size in (1, 2, 5):
        session = start(reader)
        assert np.array_equal(fed_by(session, inputs, size)[-1], expected)  # type: ignore[arg-type]
        assert session.save() == whole.save()
    stepped = start(reader)
    for one in inputs[:, 0]:
        last = stepped.step(one if one.shape else int(one))
    assert np.array_equal(last, expected)  # type: ignore[arg-type]
    assert stepped.save() == whole.save()


@each_stream
@each_layers
@torch.no_grad()
def test_the_last_output_is_the_prediction_of_the_torch_model(kind: str, layers: dict[str, Any]) -> None:
    made, reader = make(kind, layers)
    inputs = draw(kind)
    found = start(reader).feed(inputs[:, 0])
    tensor = torch.from_numpy(inputs)
    if kind == "language":
        expected = np.asarray(made.model.predict(inputs, made.model.initial_state(1))[0][0])
    else:
        batch = made.batch._replace(inputs=tensor, lengths=torch.tensor([STEPS]))
        expected = made.model.predictions(made.model.score(batch).levels[-1], batch)[0]
    assert found is not None
    assert np.abs(found - expected).max() <= 1e-6 * max(1, np.abs(expected).max())


@each_stream
def test_sessions_that_step_together_have_the_bits_of_those_that_step_alone(kind: str) -> None:
    _, reader = make(kind, LAYERS[1])
    inputs = draw(kind, rows=5)
    alone, together = ([start(reader) for _ in range(5)] for _ in range(2))
    for t, step in enumerate(inputs):
        expected = [session.step(x if x.shape else int(x)) for session, x in zip(alone, step, strict=True)]
        order = np.random.default_rng(t).permutation(5)
        found = step_many([together[row] for row in order], [step[row] for row in order])
        for row, output in zip(order, found, strict=True):
            assert np.array_equal(output, expected[row])
    for one, other in zip(alone, together, strict=True):
        assert one.save() == other.save()


@each_stream
def test_sessions_that_stepped_together_do_not_keep_each_other_alive(kind: str) -> None:
    _, reader = make(kind, LAYERS[0])
    sessions = [start(reader) for _ in range(3)]
    outputs = step_many(sessions, list(draw(kind, rows=3)[0]))
    assert all(one.base is None for one in outputs)
    assert all(part.base is None for session in sessions for part in session.lend())


def test_a_session_may_be_shared_by_threads() -> None:
    """Every step is taken once, whichever thread comes first: steps of equal inputs are those of one thread."""
    _, reader = make("language", LAYERS[1])
    shared, alone, others = start(reader), start(reader), [start(reader) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            jobs: list[Any] = [pool.submit(lambda: [shared.step(1) for _ in range(50)]) for _ in range(3)]
            jobs += [pool.submit(lambda: [shared.feed([1, 1]) for _ in range(25)])]
            jobs += [pool.submit(lambda: [step_many([shared, others[0]], [1, 1]) for _ in range(50)])]
            jobs += [pool.submit(lambda: [step_many([others[1], shared], [1, 1]) for _ in range(50)])]
            jobs += [pool.submit(lambda: [shared.fork() for _ in range(50)])]
            for job in jobs:
                job.result()
    finally:
        sys.setswitchinterval(interval)
    alone.feed([1] * 300)
    assert shared.save() == alone.save()


@each_stream
def test_a_fork_goes_on_by_itself_and_what_was_saved_goes_on_as_it_would_have(kind: str) -> None:
    _, reader = make(kind, LAYERS[0])
    inputs = draw(kind)[:, 0]
    session = start(reader)
    session.feed(inputs[:4])
    fork, saved = session.fork(), session.save()
    fork.feed(inputs[:2])
    assert session.save() == saved
    back = restore(reader, saved)
    assert back.position == 4
    assert np.array_equal(back.feed(inputs[4:]), session.feed(inputs[4:]))  # type: ignore[arg-type]
    assert back.save() == session.save() != fork.save()


def test_text_is_the_same_by_seed_and_stops() -> None:
    _, reader = make("language", LAYERS[0])
    session = start(reader)
    with pytest.raises(ArgumentError, match="prompt"):
        session.generate(3)
    session.feed([1, 2])
    texts = ["".join(session.fork().generate(20, seed=seed)) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) == 20
    stop = texts[0][5]
    assert "".join(session.fork().generate(20, seed=0, stop=stop)) == texts[0].partition(stop)[0]
    session.generate(20, seed=0, temperature=0)
    assert session.position == 2  # nothing was read before the first piece is asked for
    assert "".join(session.generate(3, seed=0)) == texts[0][:3]
    assert session.position == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda blob: blob[:-1], "byte"),
        (lambda blob: blob + b"x", "byte"),
        (lambda _: b"", "not a saved session"),
        (lambda _: "text", "saved as bytes"),
        (lambda blob: b"X" + blob[1:], "not a saved session"),
        (lambda blob: blob[:8] + b"\x09" + blob[9:], "version 9"),
        (lambda blob: blob[:100] + bytes([blob[100] ^ 1]) + blob[101:], "checksum"),
    ],
    ids=["cut", "longer", "empty", "text", "magic", "version", "flipped"],
)
def test_what_is_not_the_session_that_was_saved_is_refused(change: Any, said: str) -> None:
    _, reader = make("language", LAYERS[0])
    session = start(reader)
    session.feed([1, 2])
    with pytest.raises(DataError, match=said):
        restore(reader, change(session.save()))


def test_a_session_of_another_model_is_refused() -> None:
    _, reader = make("language", LAYERS[0])
    saved = start(reader).save()
    reader.digest = b"e" * 32
    with pytest.raises(DataError, match="another model"):
        restore(reader, saved)


def mutate(blob: bytes, random: np.random.Generator) -> bytes:
    """Another blob: bytes changed, cut, or added; mostly near the beginning."""
    data = bytearray(blob)
    for _ in range(int(random.integers(1, 4))):
        place = int(random.integers(0, len(data) if random.random() < 0.5 else HEAD.size))
        kind = random.integers(0, 3)
        if kind == 0:
            data[place] ^= int(random.integers(1, 256))
        elif kind == 1:
            del data[place : place + int(random.integers(1, 9))]
        else:
            data[place:place] = random.bytes(int(random.integers(1, 9)))
    return bytes(data)


def check_mutations(count: int) -> None:
    _, reader = make("language", LAYERS[0])
    session = start(reader)
    session.feed([1, 2])
    blob, random = session.save(), np.random.default_rng(0)
    for _ in range(count):
        changed = mutate(blob, random)
        if changed != blob:
            with pytest.raises(DataError):
                restore(reader, changed)


def test_mutated_sessions_are_refused() -> None:
    check_mutations(2_000)


@pytest.mark.long
def test_many_mutated_sessions_are_refused() -> None:
    check_mutations(100_000)


def test_a_step_of_text_says_what_reads_text() -> None:
    _, reader = make("language", LAYERS[0])
    with pytest.raises(ArgumentError, match=r"`token` \(='a'\) is text, .*Call `feed` with text"):
        start(reader).step("a")


def test_what_cannot_be_streamed_says_why() -> None:
    made = CASES["classify-0"]()  # both directions
    with pytest.raises(ArgumentError, match="Predict whole sequences, or train with `bidirectional=False`"):
        make_stream(player_of(made))
    with pytest.raises(ArgumentError, match="whole sequences"):
        make_stream(player_of(CASES["forecast-0"]()))


@pytest.mark.parametrize(
    "wrong", [np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(3), np.array([["a", "b", "c"]])], ids=str
)
def test_inputs_of_another_width_are_refused(wrong: Array) -> None:
    _, reader = make("regress", LAYERS[0])
    with pytest.raises(UnspoolError):
        start(reader).feed(wrong)
    with pytest.raises(UnspoolError):
        start(reader).step(wrong[0])


@pytest.mark.parametrize("kind", ["language", "multilabel"])
@pytest.mark.parametrize("wrong", [TOKENS, -1, 2.0, "a", None, np.array([1, 2])], ids=str)
def test_steps_that_are_no_tokens_are_refused_and_change_nothing(kind: str, wrong: Any) -> None:
    _, reader = make(kind, LAYERS[0])
    session = start(reader)
    session.step(3)
    before = session.save()
    with pytest.raises(ArgumentError, match="is not a token from 0 to|is text, and a step is the id"):
        session.step(wrong)
    assert session.save() == before


def test_steps_after_a_fork_a_feed_and_others_are_those_of_one_session() -> None:
    _, reader = make("language", LAYERS[1])
    ids = [int(one) for one in np.random.default_rng(1).integers(0, TOKENS, 40)]
    whole, session = start(reader), start(reader)
    whole.feed(ids)
    session.step(ids[0])
    session.feed(ids[1:20])
    session.step(ids[20])
    session = session.fork()
    session.step(ids[21])
    step_many([session], [ids[22]])
    for one in ids[23:]:
        session.step(one)
    assert session.save() == whole.save()


def test_sessions_that_cannot_step_together_are_refused() -> None:
    _, reader = make("language", LAYERS[0])
    one = start(reader)
    with pytest.raises(ArgumentError, match="twice"):
        step_many([one, one], [1, 2])
    with pytest.raises(ArgumentError, match="as many"):
        step_many([one], [])
    other = start(make("language", LAYERS[0])[1])
    with pytest.raises(ArgumentError, match="several players"):
        step_many([one, other], [1, 2])
    with pytest.raises(ArgumentError, match="token"):
        one.step(TOKENS)
    assert step_many([], []) == []


def test_words_with_ngrams_are_fed_as_text_not_stepped_by_ids() -> None:
    torch.manual_seed(0)
    made = classify_words(hidden=4, bidirectional=False)
    made.model.eval()
    reader = Plain(make_stream(player_of(made)))
    with pytest.raises(ArgumentError, match="spelling"):
        start(reader).step(1)
