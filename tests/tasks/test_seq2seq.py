"""Sequence to sequence: pairs from files, what is learned of them, and bad input."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from unspool.cli.finish import compare
from unspool.data.labelled import Raw
from unspool.decoding.sequences import Decoded
from unspool.errors import ArgumentError, DataError
from unspool.models.translator import END, FIRST, PADDING, START, Translator
from unspool.runs.train import Trained, train
from unspool.settings.data import PairedData
from unspool.settings.model import Seq2SeqSettings
from unspool.tasks import seq2seq as translate
from unspool.tasks.examples import choose_examples
from unspool.tasks.metrics import edit_distance
from unspool.tasks.seq2seq import PairedPart, Translation, read_pairs

DATA = PairedData(files=("pairs.tsv",))
TINY = {"hidden": 48, "embedding": 16, "engine": "torch"}
PAIRS = [("ab", "b"), ("b", "aab"), ("bca", "ca"), ("c", "abcab"), ("caba", "c")]


def raw(pairs: Sequence[tuple[str, Any]]) -> Raw:
    """Pairs in memory."""
    names = [str(row) for row in range(len(pairs))]
    return Raw([source for source, _ in pairs], None, names, lambda row: f"pair {row}", [(to,) for _, to in pairs])


def make_task(pairs: Sequence[tuple[str, Any]] = PAIRS, data: PairedData = DATA) -> Translation:
    return Translation.of({"training": raw(pairs), "validation": raw(pairs)}, data)


def make_settings(**settings: Any) -> Seq2SeqSettings:
    return Seq2SeqSettings(**{"engine": "torch", **settings})


def make_learner(task: Translation, **settings: Any) -> Translator:
    """A small model in float64, set to evaluate, whose weights are large enough that it has opinions."""
    torch.manual_seed(3)
    chosen = make_settings(**{"hidden": 5, "embedding": 4, "init": 1.0, **settings})
    return task.make_learner(chosen).double().eval()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    """A file of strings of digits and what they are backwards, and the run that learns it."""
    folder = tmp_path_factory.mktemp("reverse")
    chance, found = random.Random(0), dict[str, None]()
    while len(found) < 600:
        found["".join(chance.choices("0123456789", k=chance.randint(2, 3)))] = None
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in found), encoding="utf-8")
    options: dict[str, Any] = {**TINY, "batch_size": 16, "lr": 0.01, "epochs": 12, "eval_every": 120}
    return folder, train(folder / "pairs.tsv", task="seq2seq", out=folder / "run", **options)


# ── what is learned ──


def test_learns_to_reverse_strings_of_digits(run: tuple[Path, Trained]) -> None:
    finished = run[1].finished
    assert finished.validation["exact match"] == finished.validation["token accuracy"] == 1.0
    assert finished.validation["edit distance"] == 0.0
    assert finished.validation["loss"] < 0.05
    for line in finished.sample.splitlines():
        mark, source, _, said = line.split()
        assert (mark, said) == ("✓", source[::-1])


def test_baseline_copies_the_source(run: tuple[Path, Trained]) -> None:
    task = run[1].task
    assert isinstance(task, Translation)
    texts = task.parts["validation"].raw.texts
    exact = sum(text == text[::-1] for text in texts) / len(texts)
    distance = sum(edit_distance(text, text[::-1]) for text in texts) / len(texts)
    assert task.baselines() == {
        "copying": {"exact match": pytest.approx(exact), "edit distance": pytest.approx(distance)}
    }
    assert 0 < exact < 0.5
    verdict = compare(run[1].finished)
    assert "copying" in verdict
    assert " of edit distance" in verdict


def test_predictions_after_restoring_are_those_before(run: tuple[Path, Trained]) -> None:
    folder, trained = run
    task, learner = trained.task, trained.learner
    assert isinstance(task, Translation)
    assert isinstance(learner, Translator)
    document = json.loads((trained.path / "vocabulary.json").read_text(encoding="utf-8"))
    restored = Translation.restore(document, task.data)
    again = restored.make_learner(make_settings(**TINY))
    again.load_state_dict(learner.state_dict())
    sources = ["12", "907", "55", "334"]
    (folder / "sources.tsv").write_text("\n".join(sources), encoding="utf-8")
    before, after = (
        list(one.predict(by, one.read(folder / "sources.tsv", targets=False)))
        for one, by in ((task, learner), (restored, again))
    )
    assert before == after
    assert [record["source"] for record in after] == sources
    assert [record["target"] for record in after] == ["21", "709", "55", "433"]
    assert all(-0.5 < record["log-probability"] < 0 for record in after)
    assert restored.baselines() == {}
    assert restored.evaluate_files(again, folder / "pairs.tsv")["exact match"] > 0.99


# ── the loss ──


@pytest.mark.parametrize("attention", [True, False])
@torch.no_grad()
def test_loss_is_the_mean_over_the_target_tokens_of_rows_read_alone(attention: bool) -> None:
    task = make_task()
    learner = make_learner(task, attention=attention, layers=2)
    part = task.parts["training"]
    total, right, units = 0.0, 0, 0
    for source, target in zip(part.sources, part.targets, strict=True):
        assert target[-1] == END
        told = torch.tensor([[START, *target[:-1]]])
        log_p = learner.network(torch.tensor(source)[None], told)[0].log_softmax(-1)
        total -= sum(float(log_p[step, token]) for step, token in enumerate(target))
        right += sum(int(log_p[step].argmax()) == token for step, token in enumerate(target))
        units += len(target)
    outcome = learner(part.batch(np.arange(len(PAIRS))))
    assert units == outcome.units == sum(len(target) + 1 for _, target in PAIRS)
    assert outcome.lengths.tolist() == [len(target) + 1 for _, target in PAIRS]
    assert float(outcome.loss) == pytest.approx(total / units, rel=1e-12)
    assert task.measure(learner, part, np.arange(5)) == pytest.approx((total / units, right / units), rel=1e-12)


@pytest.mark.parametrize("engine", ["kernel", "torch"])
@torch.no_grad()
def test_padding_changes_nothing(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    task = make_task()
    learner = make_learner(task, engine=engine)
    batch = task.parts["training"].batch(np.arange(len(PAIRS)))
    inputs = functional.pad(batch.inputs, (0, 0, 0, 3), value=FIRST + 1)  # lengths say where a source ends
    padded = batch._replace(inputs=inputs, targets=functional.pad(batch.targets, (0, 0, 0, 2), value=PADDING))
    assert float(learner(padded).loss) == pytest.approx(float(learner(batch).loss), rel=1e-12)
    for one, other in zip(*(learner.predictions(torch.empty(0), each) for each in (batch, padded)), strict=True):
        assert one.tokens == other.tokens
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-12)


@torch.no_grad()
def test_without_truth_the_model_reads_its_own_words() -> None:
    task = make_task()
    learner = make_learner(task)
    letter = FIRST + task.target.vocabulary.ids("a")[0]
    learner.network.head.bias[letter] += 100  # the only thing that it ever says
    batch = task.parts["training"].batch(np.arange(len(PAIRS)))
    told = torch.full_like(batch.targets, letter)
    told[0] = START
    logits, found = learner.network.decode(told, learner.network.encode(batch.inputs.T, batch.lengths))
    free, forced, nearly = (learner(batch, teacher_forcing=truth) for truth in (0.0, 1.0, 1 - 1e-12))
    assert float(free.loss) == pytest.approx(float(learner.summed_loss(logits, batch)) / batch.units, rel=1e-12)
    torch.testing.assert_close(free.output, found.sequences[-1], rtol=1e-12, atol=1e-12)
    assert float(nearly.loss) == pytest.approx(float(forced.loss), rel=1e-12)
    assert float((free.output - forced.output)[1:].abs().max()) > 0.1


@torch.no_grad()
def test_losses_of_lower_layers_and_penalties_on_gates_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    task = make_task()
    plain = make_learner(task, engine="kernel", layers=2)
    learner = make_learner(task, engine="kernel", layers=2, deep_supervision=0.5, gate_penalty=0.25).train()
    learner.load_state_dict({**learner.state_dict(), **plain.state_dict()})
    batch = task.parts["training"].batch(np.arange(len(PAIRS)))
    for truth in (0.0, 1.0):
        losses = []
        for one in (learner, plain):
            torch.manual_seed(0)
            losses.append(float(one(batch, teacher_forcing=truth).loss))
        assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    network, there = learner.network, batch.targets != PADDING
    read, ends = torch.cat((torch.full_like(batch.targets[:1], START), batch.targets[:-1])), there.sum(0)
    x, start = network.target_embedding(read), network.encode(batch.inputs.T, batch.lengths)[0]
    sequences, _ = network.decoder_side.backbone(x, start, every_layer=True)
    lower = functional.cross_entropy(network.lower_heads[0](sequences[0])[there], batch.targets[there])
    shut = _shut(network.encoder_side, network.source_embedding(batch.inputs), None, batch.lengths)
    shut += _shut(network.decoder_side, x, start, ends)
    assert float(learner(batch).extra) == pytest.approx(0.5 * float(lower) + 0.25 * shut, rel=1e-10)
    assert shut > 0.1


def _shut(side: Any, x: torch.Tensor, state: Any, lengths: torch.Tensor) -> float:
    """The mean over rows and steps of what both gates shut, in each direction, from a trace of all of them."""
    _, _, (below, above) = side.backbone(x, state, lengths=lengths, trace=True)
    total = 0.0
    for lower, upper in [(below, above)] if isinstance(below, dict) else zip(below, above, strict=True):
        shut = (1 - lower["o"] - upper["i"]).clamp(min=0).sum(-1)
        total += sum(float(shut[:length, row].sum()) for row, length in enumerate(lengths)) / int(lengths.sum())
    return total


# ── what is written ──


def test_a_beam_of_one_is_greedy_and_a_wider_one_finds_no_less() -> None:
    task = make_task()
    learner = make_learner(task)
    batch = task.parts["training"].batch(np.arange(len(PAIRS)))
    greedy = list(learner.predictions(torch.empty(0), batch))
    assert learner.network.beam(batch.inputs.T, batch.lengths, learner.longest, width=1) == greedy
    learner.beam_size = 4
    wide = learner.predictions(torch.empty(0), batch)
    assert wide == learner.network.beam(batch.inputs.T, batch.lengths, learner.longest, width=4) != greedy
    assert make_learner(task, beam_size=4).beam_size == 4


def test_nothing_longer_is_written_than_training_had() -> None:
    task = make_task()
    learner = make_learner(task)
    with torch.no_grad():
        learner.network.head.bias[END] = -1e9
    assert task.longest == len("abcab") + 1
    _, predictions = task.infer(learner, task.parts["validation"], np.arange(5))
    assert [len(one.tokens) for one in predictions] == [task.longest] * 5


def test_figures_compare_texts() -> None:
    task = make_task([("x", "ab"), ("y", "ba")])
    part = task.part(raw([("x", "ab"), ("y", "aQ"), ("x", "bbb")]))
    known = {letter: FIRST + task.target.vocabulary.ids(letter)[0] for letter in "ab"}
    said = [Decoded((known["a"], known["b"])), Decoded((known["a"], FIRST)), Decoded((known["a"],))]
    found = task.metrics(part, np.arange(3), said)
    assert found == {"exact match": pytest.approx(1 / 3), "edit distance": pytest.approx((0 + 1 + 3) / 3)}
    assert task.show(part, 0, said[0]) == "✓ x → ab"
    assert task.show(part, 2, said[2]) == "✗ x → a, not bbb"
    words = make_task([("one two", "eins  zwei"), ("two one", "zwei eins")])
    part = words.parts["validation"]
    said = [Decoded(tuple(FIRST + number for number in words.target.vocabulary.ids("eins zwei")))] * 2
    assert words.metrics(part, np.arange(2), said) == {"exact match": 0.5, "edit distance": pytest.approx(8 / 2)}
    assert words.record(part, 0, said[0]) == {"source": "one two", "target": "eins zwei", "log-probability": 0.0}


def test_on_the_way_only_some_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "DECODED", 2)
    task = make_task()
    learner, part = make_learner(task), task.parts["validation"]
    asked: list[list[int]] = []
    infer = task.infer

    def spy(learner: Any, part: Any, rows: Any) -> Any:
        asked.append(rows.tolist())
        return infer(learner, part, rows)

    monkeypatch.setattr(task, "infer", spy)
    some, every = task.evaluate_part(learner, part, 1000), task.evaluate_part(learner, part)
    assert asked == [choose_examples(part, 1000)[:2].tolist(), [0, 1, 2, 3, 4]]
    assert some["loss"] == pytest.approx(every["loss"], rel=1e-12)
    assert task.evaluate_part(learner, part, 1)["loss"] != pytest.approx(every["loss"], rel=1e-3)


# ── data ──


def test_ids_leave_room_for_padding_start_and_end() -> None:
    task = make_task()
    part = task.parts["training"]
    for row, (source, target) in enumerate(PAIRS):
        assert part.sources[row].tolist() == [FIRST + number for number in task.source.vocabulary.ids(source)]
        assert part.targets[row].tolist() == [FIRST + number for number in task.target.vocabulary.ids(target)] + [END]
    assert (PADDING, START, END, FIRST) == (0, 1, 2, 3)
    assert part.batch(np.array([0, 1])).targets.tolist()[2:] == [[PADDING, part.targets[1][2]], [PADDING, END]]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("bare.tsv", "1 May\t05-01\n2 May\t05-02\n", {}),
        ("bare.csv", "1 May,05-01\n2 May,05-02\n", {}),
        ("header.tsv", "Source\ttarget\n1 May\t05-01\n2 May\t05-02\n", {}),
        ("turned.csv", "output,input\n05-01,1 May\n05-02,2 May\n", {}),
        ("named.csv", "id,day,code\n7,1 May,05-01\n8,2 May,05-02\n", {"source_column": "day", "target_column": "code"}),
        ("half.csv", "day,code\n1 May,05-01\n2 May,05-02\n", {"source_column": "day"}),
        ("three.tsv", "1 May\tx\t05-01\n2 May\ty\t05-02\n", {"source_column": "1", "target_column": "3"}),
        ("a.jsonl", '{"tgt": "05-01", "src": "1 May"}\n{"tgt": "05-02", "src": "2 May"}\n', {}),
    ],
)
def test_pairs_are_read_from_any_table(name: str, content: str, options: Any, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = read_pairs(PairedData(files=(name,), **options), tmp_path / name)
    assert found.texts == ["1 May", "2 May"]
    assert found.targets == [("05-01",), ("05-02",)]
    alone = read_pairs(PairedData(files=(name,), **options), tmp_path / name, targets=False)
    assert (alone.texts, alone.targets) == (found.texts, None)


def test_sources_alone_are_read_to_predict(tmp_path: Path) -> None:
    for name, content in {"bare.tsv": "ab\nb\n", "header.csv": "source\nab\nb\n"}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert read_pairs(DATA, tmp_path / name, targets=False).texts == ["ab", "b"]


def test_auto_reads_words_only_where_both_sides_have_them() -> None:
    both = make_task([("one two", "eins zwei"), ("two", "zwei")])
    assert (both.source.unit, both.target.unit) == ("words", "words")
    one = make_task([("3 March 2021", "2021-03-03"), ("4 May 2020", "2020-05-04")])
    assert (one.source.unit, one.target.unit) == ("characters", "characters")
    said = make_task([("one two", "eins zwei"), ("two", "zwei")], DATA.model_copy(update={"tokenizer": "byte"}))
    assert (said.source.tokens, said.target.tokens) == (256, 256)


# ── bad input ──


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("a\tb\nc\td\ne\n", {}, ["pairs.tsv, line 3", "1 entries", "Complete the line"]),
        ("a\tb\nc\t \n", {}, ["pairs.tsv, line 2", "`2` is empty", "leave the row out"]),
        ("a\tb\n\td\n", {}, ["pairs.tsv, line 2", "`1` is empty", "leave the row out"]),
        ("a\tb\nabcdef\tb\n", {"max_length": 5}, ["line 2, source", "6 steps", "`max_length` (=5)", "`max_length=6`"]),
        ("a\tb\nb\tabcdef\n", {"max_length": 5}, ["line 2, target", "6 steps", "`max_length` (=5)", "`max_length=6`"]),
        ("a b\nc d\n", {}, ["pairs.tsv has one column only", "a source and a target", "Put a tab"]),
        ("a\tb\tc\nd\te\tf\n", {}, ["has 3 columns", "1, 2, 3", "`source_column`"]),
        ("id\tday\tcode\n7\ta\tb\n", {"source_column": "day"}, ["'id', 'day', 'code'", "targets", "`target_column`"]),
        ("day\tcode\na\tb\n", {"source_column": "dya"}, ["no column 'dya'", "Did you mean 'day'"]),
        ("a\tb\n", {}, ["1 example(s) are too few", "Give more"]),
        ("", {}, ["pairs.tsv is empty", "Give a table"]),
    ],
)
def test_bad_files_are_refused_with_their_line(content: str, options: Any, said: list[str], tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        Translation.prepare(PairedData(files=(str(file),), **{"validation": 0.5, **options}), seed=0)
    for words in said:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: make_task([("a", ""), ("b", "c")]), ["pair 0, target", "is empty", "Leave it out"]),
        (lambda: make_task([("a", "b"), ("", "c")]), ["pair 1, source", "is empty", "Leave it out"]),
        (lambda: make_task([("a", "b"), ("b", 7)]), ["pair 1", "the target is 7, not a text", "Give a string"]),
        (
            lambda: Translation.of({"training": replace(raw(PAIRS), targets=None)}, DATA),
            ["no targets", "Give the text"],
        ),
        (
            lambda: Translation.of({"training": replace(raw(PAIRS), texts=None, series=[np.ones((2, 1))] * 5)}, DATA),
            ["sources are numbers", "Give strings"],
        ),
        (lambda: Translation.restore({"source": {}}, DATA), ["vocabulary.json", "Train again"]),
        (
            lambda: Translation.restore({**make_task().dump(), "longest": "x"}, DATA),
            ["vocabulary.json", "Train again"],
        ),
    ],
)
def test_bad_pairs_and_documents_are_refused(make: Callable[[], object], said: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        make()
    for words in said:
        assert words in str(caught.value)


def test_a_window_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`bptt` .=8. is not for seq2seq"):
        make_task().batches(2, 8, 0)


def test_units_of_shared_batches_are_target_tokens() -> None:
    task = make_task()
    part = task.parts["training"]
    assert isinstance(part, PairedPart)
    batches = [task.batches(4, None, 0, rank, 2)[0] for rank in range(2)]
    rows = sum(batch.targets.shape[1] for batch in batches)
    assert rows == 4
    tokens = sum(int((batch.targets != PADDING).sum()) for batch in batches)
    assert math.isclose(sum(batch.units for batch in batches), tokens)
