"""RunPlayer: a trained model that predicts, generates and streams, without torch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from unspool.cells.cell import check_size
from unspool.data.vocabulary import Vocabulary
from unspool.decoding.sampling import Sampling
from unspool.decoding.text_stream import TextStream, read_stops
from unspool.errors import DivergenceError
from unspool.runtime import session
from unspool.runtime.network import Array, Network
from unspool.runtime.options import PlayOptions
from unspool.runtime.play import make_player
from unspool.runtime.run import Kept, read_run
from unspool.runtime.session import Session
from unspool.runtime.stream import Stream, make_stream
from unspool.storage.run import MODEL, VOCABULARY
from unspool.tasks.catalogue import find_task
from unspool.tasks.contract import Task, refuse_generation
from unspool.tasks.divergence import diverged
from unspool.tasks.lm import textless_ids
from unspool.tasks.plain_settings import PlainSettings
from unspool.tasks.restoring import restore
from unspool.tasks.text_generator import TextGenerator


def load(run: str | Path, *, int8: bool = False, threads: int | None = None) -> RunPlayer:
    """Load the best model of a run, to play it. It needs neither torch nor a compiler.

    Args:
        run: The folder that `unspool train` wrote.
        int8: Round embeddings and the matrices of layers and heads to integers of 8 bits, with a scale per row: half of
            the memory or less. `unspool evaluate RUN --int8` tells what that changes.
        threads: The most threads that a call uses; None: as many as there are cores. Single steps use one.

    Returns:
        A player: `predict`, `evaluate`, `generate`, and `start()` for a session.

    Raises:
        DataError: The folder is not that of a finished run, is damaged, or its model has no recurrent layers.

    Example:
        >>> player = unspool.load("runs/book")
        >>> print("".join(player.generate("The ", 80, temperature=0.8, seed=0)))
        >>> session = player.start()
        >>> session.feed("The ")
        >>> saved = session.save()
    """
    options = PlayOptions(count_cores() if threads is None else check_size("threads", threads), int8)
    return RunPlayer(read_run(run), Path(run), options)


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class RunPlayer:
    """The best model of a run. `unspool.load` makes it."""

    def __init__(self, kept: Kept, run: Path, options: PlayOptions) -> None:
        self.run, self.options, self.config = run, options, kept.config
        data = PlainSettings.of(kept.config["data"])
        self.task: Task = restore(find_task(kept.config["task"]), run / VOCABULARY, kept.vocabulary, data)
        self._facts = self.task.player_facts()
        self.model = make_player(kept.network, **self._facts, options=options)
        self.network: Network = cast(Any, self.model).network  # with int8, the rounded one: the other is not kept
        self.step = kept.facts.get("step")
        self.digest = hashlib.sha256(f"{kept.digest} {options.int8}".encode()).digest()

    def __repr__(self) -> str:
        return f"RunPlayer({str(self.run)!r}, task={self.task.name!r}, int8={self.options.int8})"

    # ── whole examples ──

    def predict(self, examples: Any) -> list[dict[str, Any]]:
        """Predict.

        Args:
            examples: A list of texts, of sequences of numbers (steps, features), of sentences as lists of words, or
                of series, as the task reads them.

        Returns:
            One dict per example, with the columns that `unspool predict` writes.

        Example:
            >>> unspool.load("runs/intents").predict(["play some jazz"])[0]["label"]
        """
        return list(self.task.predict_examples(self.model, examples))

    def evaluate(self, examples: Any, targets: Any = None) -> dict[str, float]:
        """The loss and the metrics of the task on examples.

        Args:
            examples: As `predict` takes them; a text, for a language model.
            targets: One per example: labels, numbers, lists of tags, texts. Language models and forecasts need none.

        Returns:
            Metric → value.
        """
        found = self.task.evaluate_examples(self.model, examples, targets)
        return {name: float(value) for name, value in found.items()}

    # ── text ──

    def generate(
        self,
        prompt: str,
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | Sequence[str] | None = (),
        seed: int | None = None,
    ) -> Iterator[str]:
        """Sample text that follows a prompt.

        Args:
            prompt: The text to continue; empty: a new line.
            count: The most tokens.
            temperature: Divides the logits; 0 takes the most probable token.
            top_k: Only the k most probable tokens.
            top_p: Only the fewest most probable tokens with this probability together.
            stop: Text, or texts, before which to end; None: none.
            seed: Of the random numbers; None: another one each time.

        Returns:
            Pieces of text, each as soon as it is certain.
        """
        sampling = self.sampling(temperature, top_k, top_p)
        return self.generator().stream(prompt, count, sampling, seed, read_stops(stop))

    def generator(self) -> TextGenerator:
        """What generates text, also by beam search; refused where the task generates none."""
        refuse_generation(self.task, self.run)
        lines = self.config["data"].get("split") == "lines"
        return RunGenerator(self, lines)

    # ── sessions ──

    def start(self) -> Session:
        """A session that reads step by step and remembers.

        Raises:
            ArgumentError: The model needs whole sequences, as one that reads in both directions does.
        """
        return Session(self, self.stream.start(1))

    def restore(self, saved: bytes) -> Session:
        """The session that `Session.save` saved.

        Args:
            saved: The bytes, which may come from anywhere.

        Raises:
            DataError: They are not a session of this model, or are damaged.
        """
        return session.restore(self, saved)

    def step_many(self, sessions: Sequence[Session], inputs: Sequence[Any]) -> list[Array]:
        """One step of several sessions at once: the same as `step` of each, and faster.

        Args:
            sessions: Different sessions of this player.
            inputs: An input for each.

        Returns:
            The output of each.
        """
        return session.step_many(sessions, inputs, self)

    def diverged(self, fault: object) -> DivergenceError:
        """The error that says that this model has diverged, and what is not finite."""
        return diverged(self.run / MODEL, self.step, fault)

    # ── what sessions ask ──

    @cached_property
    def stream(self) -> Stream:
        """The network, step by step."""
        return make_stream(self.model, self._facts.get("undo"))

    @property
    def tokens(self) -> int:
        """How many tokens there are; 0 where steps are not tokens."""
        return len(self.vocabulary) if self.stream.reads_ids else 0

    def encode(self, given: Any) -> Any:
        """What `feed` reads, as `Session.read` takes it, one step after the other.

        Args:
            given: A text, ids of a language model, or numbers, one row per step.

        Returns:
            Of a language model the ids, (time, 1): `session.step(ids[0, 0])` reads the first.

        Example:
            >>> for token in player.encode("The ")[:, 0]:
            ...     logits = session.step(token)
        """
        return self.task.encode_steps(given)

    def fewest_tokens(self, text: str) -> int:
        """The fewest tokens that a text can have, found without reading it; 0 where that is not known."""
        vocabulary = getattr(self.task, "vocabulary", None)
        return vocabulary.fewest(text) if isinstance(vocabulary, Vocabulary) else 0

    def encode_step(self, x: Any) -> Any:
        """One step of numbers, as the stream reads it."""
        return self.task.encode_step(x)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return self.vocabulary.decode(list(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text that is certain with each id, where ids may end within a character."""
        stream = TextStream(self.decode)
        return [stream.push(token) for token in ids]

    def sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> Sampling:
        """How tokens are sampled; refused where the task generates no text."""
        refuse_generation(self.task, self.run)
        return Sampling(temperature, top_k, top_p, textless_ids(self.vocabulary))

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens that the model reads; an error where it reads none."""
        vocabulary: Vocabulary = cast(Any, self.task).vocabulary
        return vocabulary


class RunGenerator(TextGenerator):
    """What generates text with a player."""

    def __init__(self, player: RunPlayer, lines: bool) -> None:
        super().__init__(cast(Any, player.model), player.vocabulary, lines)
        self._player = player

    def explain(self, error: DivergenceError, ids: Sequence[int]) -> None:  # noqa: ARG002
        """NaN and infinity are reported with the step of the run."""
        raise self._player.diverged(error) from error
