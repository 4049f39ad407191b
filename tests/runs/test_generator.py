"""What a trained model says and how likely it finds a text, against its tensors in torch.nn by hand."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.runs.tiny_run import LINES, ByHand, TinyRun, content

from unspool.data.vocabulary import Bytes, Characters, Vocabulary, Words
from unspool.decoding.sampling import Sampling
from unspool.errors import ArgumentError, DataError
from unspool.learning.files import read_tensors, write_tensors
from unspool.models.language_model import make_model
from unspool.runs.generator import TextGenerator
from unspool.runs.train import plan, train
from unspool.settings.model import LanguageModelSettings
from unspool.storage.documents import seal
from unspool.tasks.lm import LanguageModelling

pytestmark = pytest.mark.usefixtures("own_cache")


def evaluate(generator: TextGenerator, source: Path) -> dict[str, float]:
    """The figures of a text, as a restored task has them."""
    task = LanguageModelling.restore(generator.vocabulary.dump(), None)  # type: ignore[arg-type]
    return task.evaluate_files(generator.model, source)


def fresh(vocabulary: Vocabulary) -> TextGenerator:
    """A generator who has learned nothing."""
    torch.manual_seed(0)
    model = make_model(vocabulary, LanguageModelSettings.model_validate({"hidden": 8, "engine": "torch"}))
    return TextGenerator(model, vocabulary, plan("text.txt"))


def say(generator: TextGenerator, prompt: str, count: int = 30, seed: int = 1, stop: tuple[str, ...] = ()) -> str:
    return "".join(generator.stream(prompt, count, Sampling(banned=generator.banned), seed, stop))


# ── a run's folder ──


def test_the_loss_of_a_text_is_that_of_torch_reading_it_unbroken(tiny_run: TinyRun, tmp_path: Path) -> None:
    """Far beyond a window's end, so that the state must go on; and with letters that the model does not know."""
    text = LINES * 20 + "Zoë sleeps.\n"
    assert len(text) > 1024
    (tmp_path / "other.txt").write_text(text, encoding="utf-8")
    found = evaluate(TextGenerator.load(tiny_run.path), tmp_path / "other.txt")
    loss = ByHand(tiny_run.path).loss(text)
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert found["bits"] == pytest.approx(loss / math.log(2), rel=1e-5)


def test_the_run_s_figures_are_those_of_its_kept_model(tiny_run: TinyRun) -> None:
    """The last two tenths of the text, by hand."""
    text = tiny_run.text.read_text(encoding="utf-8")
    ends = [len(text) * 8 // 10, len(text) * 9 // 10, len(text)]
    by_hand = ByHand(tiny_run.path)
    assert tiny_run.finished.validation["loss"] == pytest.approx(by_hand.loss(text[ends[0] : ends[1]]), rel=1e-5)
    assert tiny_run.finished.test["loss"] == pytest.approx(by_hand.loss(text[ends[1] :]), rel=1e-5)


def test_at_temperature_0_it_says_the_likeliest(tiny_run: TinyRun) -> None:
    generator = TextGenerator.load(tiny_run.path)
    said = "".join(generator.stream("the ", 25, Sampling(0, banned=generator.banned)))
    assert said == ByHand(tiny_run.path).greedy("the ", 25)[0]


def test_a_search_of_width_1_is_greedy_and_scores_add_up(tiny_run: TinyRun) -> None:
    ((score, said),) = TextGenerator.load(tiny_run.path).search("床前", 12, 1)
    expected, total = ByHand(tiny_run.path).greedy("床前", 12)
    assert said == expected
    assert score == pytest.approx(total, rel=1e-5)


def test_a_search_as_wide_as_the_vocabulary_finds_the_likeliest_pair(tiny_run: TinyRun) -> None:
    by_hand = ByHand(tiny_run.path)
    size = len(by_hand.tokens)
    first = by_hand.logits(by_hand.ids("dog"))[-1].log_softmax(-1)
    scores: dict[str, float] = {}
    for one in range(1, size):
        then = by_hand.logits(by_hand.ids("dog" + by_hand.tokens[one]))[-1].log_softmax(-1)
        scores |= {by_hand.tokens[one] + by_hand.tokens[two]: float(first[one] + then[two]) for two in range(1, size)}
    best = max(scores, key=scores.__getitem__)
    score, said = TextGenerator.load(tiny_run.path).search("dog", 2, size)[0]
    assert said == best
    assert score == pytest.approx(scores[best], rel=1e-5)


def test_a_search_stops_at_a_token(tiny_run: TinyRun) -> None:
    """Every continuation that ended has the score of its text and of the new line after it."""
    by_hand = ByHand(tiny_run.path)
    found = TextGenerator.load(tiny_run.path).search("sleeps", 4, 40, "\n")
    assert all("\n" not in said for _, said in found)
    ended = [(score, said) for score, said in found if len(said) < 4]
    assert ended
    for score, said in ended:
        ids = by_hand.ids("sleeps" + said + "\n")
        log_p = by_hand.logits(ids)[:-1].log_softmax(-1)
        own = log_p.gather(1, ids[1:, None])[len("sleeps") - 1 :]
        assert score == pytest.approx(float(own.sum()), rel=1e-5)


@pytest.mark.parametrize("stop", ["\n\n", "é", ""])
def test_a_search_refuses_to_stop_at_what_is_not_one_token(stop: str, tiny_run: TinyRun) -> None:
    with pytest.raises(ArgumentError, match="is not one token"):
        TextGenerator.load(tiny_run.path).search("the", 4, 2, stop)


def test_the_share_of_what_it_has_never_read_is_told(tiny_run: TinyRun, tmp_path: Path) -> None:
    known, foreign = tmp_path / "known.txt", tmp_path / "foreign.txt"
    known.write_text("the ", encoding="utf-8")
    foreign.write_text("the é", encoding="utf-8")
    generator = TextGenerator.load(tiny_run.path)
    assert "unknown" not in evaluate(generator, known)
    assert evaluate(generator, foreign)["unknown"] == 1 / 5


# ── prompts ──


@pytest.mark.parametrize(
    ("vocabulary", "end"), [(Characters(["<unk>", "e", "\n"]), 2), (Words(["<unk>", "the", "<eos>"]), 2), (Bytes(), 10)]
)
def test_an_empty_prompt_is_a_line_that_is_said_to_itself(vocabulary: Vocabulary, end: int) -> None:
    found = fresh(vocabulary).prompt("  \t " if vocabulary.kind == "word" else "")  # blanks are no words
    assert found[0] == found[-1] == end
    assert len(found) >= 2
    assert not {end, 0} & set(found[1:-1]) or vocabulary.kind == "byte"


def test_where_there_are_no_lines_an_empty_prompt_is_the_most_frequent_token() -> None:
    assert fresh(Characters(["<unk>", "e", "t"])).prompt("") == [1]  # the unknown token was never read
    assert fresh(Words(["<unk>", "the"])).prompt(" ") == [1]
    assert fresh(Words(["<unk>"])).prompt(" ") == [0]


def test_a_prompt_may_be_foreign_and_it_is_known_what_is() -> None:
    generator = fresh(Characters(["<unk>", "e", "t", "\n"]))
    assert generator.prompt("été") == [0, 2, 0]
    assert generator.unknown_characters("été 的 e") == ["é", " ", "的"]
    assert len(say(generator, "été")) == 30
    assert fresh(Bytes()).unknown_characters("été") == []


def test_half_a_character_is_refused_before_anything_is_said() -> None:
    with pytest.raises(DataError, match="half of a pair"):
        fresh(Bytes()).stream("\udcff", 3, Sampling())


def test_bad_stops_and_counts_are_refused_at_the_call() -> None:
    generator = fresh(Bytes())
    with pytest.raises(ArgumentError, match="empty string"):
        generator.stream("a", 3, Sampling(), stop=[""])
    with pytest.raises(ArgumentError, match="count"):
        generator.stream("a", -1, Sampling())


def test_words_are_set_apart_from_the_prompt() -> None:
    generator = fresh(Words(["<unk>", "the", "sea"]))
    for text in (say(generator, "the", 3), generator.search("the", 3, 2)[0][1]):
        assert text[0] == " "
        assert len(text.split()) == 3
        assert "<unk>" not in text


def test_the_same_seed_says_the_same_and_another_does_not() -> None:
    generator = fresh(Bytes())
    assert say(generator, "a", seed=4) == say(generator, "a", seed=4) != say(generator, "a", seed=5)


def test_it_stops_before_the_string_and_says_what_it_would_have_said() -> None:
    generator = fresh(Characters(["<unk>", *"abc月\n"]))
    whole = say(generator, "a", 200)
    stop = whole[10:12]
    assert say(generator, "a", 200, stop=(stop,)) == whole[: whole.index(stop)]


# ── damage ──


def test_a_truncated_model_is_refused(tiny_run: TinyRun, tmp_path: Path) -> None:
    for size in (0, 7, 100, -1):
        run = tmp_path / str(size)
        shutil.copytree(tiny_run.path, run)
        whole = (run / "model.safetensors").read_bytes()
        (run / "model.safetensors").write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"model\.safetensors cannot be read: .* damaged"):
            TextGenerator.load(run)


def test_a_run_without_a_model_says_how_to_come_to_one(tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"has no model yet\. Resume it with `resume=True`"):
        TextGenerator.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", "it has no entries by name"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"kind": "char", "tokens": ["<unk>", "a"]}', "it has no 'digest'"),
        (json.dumps(seal({"tokens": []})), "has no `kind`"),
        (json.dumps(seal({"kind": "charcters"})), "(='charcters') is not known"),
        (json.dumps(seal({"kind": "char", "tokens": ["<unk>", "ab"]})), "not single characters"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(text: str, said: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "run")
    (tmp_path / "run" / "vocabulary.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        TextGenerator.load(tmp_path / "run")
    assert "vocabulary.json cannot be read: " in str(caught.value)
    assert said in str(caught.value)
    assert ".." not in str(caught.value)


def test_a_vocabulary_of_another_run_does_not_fit(tiny_run: TinyRun, tmp_path: Path) -> None:
    shutil.copytree(tiny_run.path, tmp_path / "run")
    other = {"kind": "char", "tokens": ["<unk>", "a"]}
    (tmp_path / "run" / "vocabulary.json").write_text(json.dumps(seal(other)), encoding="utf-8")
    with pytest.raises(DataError, match=r"vocabulary.json is not the one that .*model.safetensors was made with"):
        TextGenerator.load(tmp_path / "run")


def test_a_vocabulary_in_another_order_is_refused(tiny_run: TinyRun, tmp_path: Path) -> None:
    """The model would load, and say other letters; what is written in another form is the same."""
    shutil.copytree(tiny_run.path, tmp_path / "run")
    file = tmp_path / "run" / "vocabulary.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(document), encoding="utf-8")
    TextGenerator.load(tmp_path / "run")
    document["tokens"][1:3] = document["tokens"][2:0:-1]
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(
        DataError, match="vocabulary.json cannot be read: it was changed since the run wrote it.*`resume=True`"
    ):
        TextGenerator.load(tmp_path / "run")
    del document["digest"]
    file.write_text(json.dumps(seal(document)), encoding="utf-8")  # the model knows its vocabulary
    with pytest.raises(DataError, match="vocabulary.json is not the one that .*model.safetensors was made with"):
        TextGenerator.load(tmp_path / "run")


def test_a_config_that_was_changed_does_not_fit(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run.path, run)
    config = run / "config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("hidden = 12", "hidden = 24"), encoding="utf-8")
    for command in (lambda: TextGenerator.load(run), lambda: train(out=run, resume=True)):
        with pytest.raises(DataError) as caught:
            command()
        assert "`hidden` is 24 in config.toml and 12 in " in str(caught.value)
        assert "Restore" in str(caught.value)


def test_a_vocabulary_that_is_lost_is_written_anew_by_going_on(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(tiny_run.path, run)
    lost = (run / "vocabulary.json").read_bytes()
    (run / "vocabulary.json").unlink()
    with pytest.raises(DataError) as caught:
        TextGenerator.load(run)
    assert (
        "vocabulary.json cannot be read: No such file or directory. Restore it, or resume the run with `resume=True`"
        in str(caught.value)
    )
    train(out=run, resume=True)
    assert (run / "vocabulary.json").read_bytes() == lost


def test_speaking_and_judging_leave_the_run_as_it_was(tiny_run: TinyRun) -> None:
    before = content(tiny_run.path)
    generator = TextGenerator.load(tiny_run.path)
    say(generator, "a")
    evaluate(generator, tiny_run.text)
    assert content(tiny_run.path) == before


def test_a_text_of_one_token_cannot_be_judged(tiny_run: TinyRun, tmp_path: Path) -> None:
    generator = TextGenerator.load(tiny_run.path)
    (tmp_path / "one.txt").write_text("a", encoding="utf-8")
    with pytest.raises(DataError, match=r"one\.txt has 1 character"):
        evaluate(generator, tmp_path / "one.txt")
    (tmp_path / "word.txt").write_text("word", encoding="utf-8")
    with pytest.raises(DataError, match=r"word\.txt has 1 token"):
        evaluate(fresh(Words(["<unk>", "word"])), tmp_path / "word.txt")


def test_the_unknown_token_is_never_said_however_likely(tiny_run: TinyRun, tmp_path: Path) -> None:
    """A model that is as good as sure of it says something else, and a search passes it over."""
    run = tmp_path / "run"
    shutil.copytree(tiny_run.path, run)
    tensors, facts = read_tensors(run / "model.safetensors")
    tensors["head_bias"][0] = 50.0
    write_tensors(run / "model.safetensors", tensors, facts)
    assert float(safetensors.torch.load_file(run / "model.safetensors")["head_bias"][0]) == 50.0
    generator = TextGenerator.load(run)
    assert "\ufffd" not in say(generator, "the", 100)
    assert "\ufffd" not in "".join(text for _, text in generator.search("the", 5, 3))
