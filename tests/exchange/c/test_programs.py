"""Programs around exported models: tokenizers give the ids of the vocabulary, and lines give predictions."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.exchange.c.calls import CALLS
from tests.exchange.c.compiled import STRICT, as_floats, compile_all
from tests.exchange.c.test_networks import network_of

from unspool.data.subwords import hash_ngrams
from unspool.data.vocabulary import Bytes, Characters, Smiles, Vocabulary, Words
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.interface import Interface
from unspool.runtime.network import Language
from unspool.runtime.play import make_player

TEXT = "Straße und ÄRGER\nThe naïve café — 雨 rains  on\u3000Ωmega \U0001f40d\nCl[nH]%12Br@@C%1 [x y]\n"
OTHER = "neue straße, cafés\n\n雨雨 [nH] Brr \u2028 end"


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Players compute by the equations, in NumPy."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def sized(network: Language, tokens: int) -> Language:
    """A language model of another number of tokens."""
    weight = np.resize(network.embedding.weight, (tokens, network.embedding.weight.shape[1]))
    head = replace(network.head, weight=np.resize(network.head.weight, (tokens, network.head.weight.shape[1])))
    head = replace(head, bias=None if head.bias is None else np.resize(head.bias, tokens))
    return replace(network, embedding=replace(network.embedding, weight=weight), head=head)


def test_tokenizers_give_the_ids_of_the_vocabulary(tmp_path: Path) -> None:
    network = network_of("language-1")[0]
    made: dict[str, tuple[Vocabulary, bool]] = {
        f"{kind.kind}{int(lower)}": (kind.fit([TEXT.lower() if lower else TEXT]), lower)
        for kind in (Characters, Words, Smiles, Bytes)
        for lower in (False, True)
        if not (lower and kind in (Bytes, Smiles))
    }
    written = [
        write_c(sized(network, len(vocabulary)), name, interface=Interface(vocabulary, lower))
        for name, (vocabulary, lower) in made.items()
    ]
    models = compile_all(tmp_path, written)
    for name, (vocabulary, lower) in made.items():
        for text in (TEXT, OTHER, "", " ", "x"):
            ids, raw = np.full(400, -1, np.int32), np.frombuffer(text.encode() + b"\0", np.uint8)
            count = models[name]._call("encode", raw, len(raw) - 1, ids, 400, restype=ctypes.c_size_t)
            found = ids[ids >= 0].tolist()
            assert found == vocabulary.ids(text.lower() if lower else text), (name, text)
            assert count == len(found)


def test_ngrams_are_hashed_as_in_python(tmp_path: Path) -> None:
    network = network_of("classify_words-1")[0]
    (model,) = compile_all(tmp_path, [write_c(network, "words")]).values()
    for word in ("a", "Cat", "straße", "ÄRGER", "雨", "\U0001f40d" * 3):
        raw, hashes = np.frombuffer(word.encode() + b"\0", np.uint8), np.zeros(100, np.uint32)
        model._call("hash_ngrams", raw, len(raw) - 1, hashes, 100)
        expected = hash_ngrams(word)
        assert hashes[: len(expected)].tolist() == expected
        assert not hashes[len(expected) :].any()


def run(folder: Path, written: Any, text: str, *arguments: str) -> list[str]:
    """The lines that a program writes."""
    (folder / f"{written.name}.c").write_text(written.code)
    (folder / f"{written.name}.h").write_text(written.header)
    program = folder / written.name
    sanitize = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    command = ["gcc", *STRICT, *sanitize, str(program) + ".c", "-o", str(program), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    said = subprocess.run([str(program), *arguments], input=text, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr[:3000]
    return said.stdout.splitlines()


def test_a_program_classifies_lines_of_numbers(tmp_path: Path) -> None:
    network, batch, interface, extras = network_of("classify-1")
    labels = ("@_init", 'say "é"', "mid\\", "high??/")
    lines = [" ".join(map(repr, batch.inputs[:n, row].ravel().tolist())) for row, n in enumerate(batch.lengths)]
    written = write_c(network, "numbers", interface=replace(interface, labels=labels), main=True)
    found = run(tmp_path, written, "\n".join(lines) + "\n")
    expected = CALLS[type(network)][1](make_player(network, **extras), network, batch)
    assert found == [f"{labels[y.argmax()]}\t{y.max():.6f}" for y in expected]


def test_a_program_classifies_words_with_subwords(tmp_path: Path) -> None:
    network = network_of("classify_words-3")[0]
    vocabulary = Words.fit(["a bc def a\n"])
    assert len(vocabulary) == network.members[0].embedding.weight.shape[0]
    written = write_c(network, "spelled", interface=Interface(vocabulary), main=True)
    found = run(tmp_path, written, "a bc\nunseen words def\n")
    assert [line.split("\t")[0] in "0123" for line in found] == [True, True]


def test_a_program_tags_and_another_translates(tmp_path: Path) -> None:
    network, _, interface, _ = network_of("tag-1")
    words, letters = Words(["<unk>", *"abcdefgh"]), Characters(["<unk>", *"abcd"])
    interface = replace(interface, vocabulary=words, letters=letters, labels=("O", "B", "I"))
    tags = run(tmp_path, write_c(network, "tags", interface=interface, main=True), "a b xyz\nc\n\n")
    assert [len(line.split()) for line in tags] == [3, 1, 0]
    network = network_of("translate-1")[0]
    vocabulary, target = Characters(["<unk>", *"abcde"]), Characters(["<unk>", *"vwxyzu"])
    written = write_c(network, "translation", interface=Interface(vocabulary, target=target), main=True)
    assert len(run(tmp_path, written, "abc\ne\n")) == 2


def test_a_program_forecasts(tmp_path: Path) -> None:
    network = network_of("forecast-1")[0]
    read, context = network.decoder.input_size, network.stack.output_size
    assert read > context + 1  # future covariates, which a program does not know
    with pytest.raises(ValueError, match="future covariates"):
        write_c(network, "forecast", main=True)


def test_a_program_generates_text(tmp_path: Path) -> None:
    network = network_of("language-9")[0]
    vocabulary = Characters(["<unk>", *"abcdefg\n"])
    written = write_c(network, "text", interface=Interface(vocabulary), main=True)
    one, again, other = (run(tmp_path, written, "", "60", "1.0", seed, "abc") for seed in ("1", "1", "2"))
    assert one == again != other
    assert len("\n".join(one)) == 60
    assert "\ufffd" not in "".join([*one, *other])
    greedy = "".join(run(tmp_path, written, "", "5", "0", "1", "abc"))
    player: Any = make_player(network)
    logits, state = player.predict(np.array([vocabulary.ids("abc")]).T, None)
    expected = []
    for _ in range(5):
        expected.append(1 + int(logits[0, 1:].argmax()))  # the unknown is never written
        logits, state = player.predict(np.array([[expected[-1]]]), state)
    assert greedy == vocabulary.decode(expected).replace("\n", "")
    assert as_floats(logits).shape == (1, len(vocabulary))
