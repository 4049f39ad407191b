"""Tasks that predict for every example of a file: one that cannot be read has no prediction, and a note."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspool.data.formats import find_format
from unspool.data.sequences import Indices
from unspool.data.sources import find_items, held_out
from unspool.data.text import Source, read_lines
from unspool.errors import DataError
from unspool.tasks.contract import ExampleModel, PredictedChunk, PredictedRow
from unspool.tasks.examples import ExampleTask

#: The column of predictions that says why there is none.
NOTE = "note"


class TolerantTask(ExampleTask):
    """A task over examples that are read one by one. A subclass says how they are read and encoded."""

    @abstractmethod
    def gather(self, source: Source, *, targets: bool = True) -> Any:
        """Examples from files.

        Without `targets`, these need not be known, and examples that cannot be read are kept, and noted in `bad`.
        """

    @abstractmethod
    def gather_texts(self, texts: Sequence[str], place: Callable[[int], str]) -> Any:
        """Examples from texts in memory; `place` is what a message calls one of them."""

    @abstractmethod
    def part(self, given: Any) -> Any:
        """Examples, encoded as the training data is."""

    @abstractmethod
    def show_given(self, given: Any, index: int) -> Any:
        """The first entry of a record: the example that it is for."""

    @classmethod
    def is_column_file(cls, file: Path) -> bool:  # noqa: ARG003
        """Whether a text is one that `gather` reads; of other texts each line is an example."""
        return False

    def read(self, source: Source, *, targets: bool = True) -> Any:
        return self.part(self.gather(source, targets=targets))

    def predict_files(self, learner: Any, source: Source) -> Iterator[dict[str, Any]]:
        return (row.predicted for row in self.predict_rows(learner, source))

    def predict_rows(self, learner: Any, source: Source) -> Iterator[PredictedRow]:
        return self.predict_given(learner, self._gather_any(held_out(source)))

    def predict_chunks(self, learner: Any, source: Source, size: int) -> Iterator[PredictedChunk]:
        """Encodes and predicts `size` examples at a time: only their rows are all in memory."""
        given = self._gather_any(held_out(source))
        rows = getattr(given, "rows", None)
        for first in range(0, len(given), size):
            some = given.take(np.arange(first, min(first + size, len(given))))
            predicted = [row.predicted for row in self.predict_given(learner, some)]
            yield PredictedChunk(None if rows is None else rows.slice(first, size), predicted)

    def predict_texts(self, learner: Any, texts: Sequence[str]) -> Iterator[dict[str, Any]]:
        given = self.gather_texts(texts, lambda row: f"text {row + 1}")
        return (row.predicted for row in self.predict_given(learner, given))

    def _gather_any(self, source: Source) -> Any:
        """Examples of files in any format; of plain texts, each line is an example."""
        files = [item.path for item in find_items(source)]
        if not all(self._is_plain(file) for file in files):
            return self.gather(source, targets=False)
        lines = [(file, row, line) for file in files for row, line in enumerate(read_lines(file), 1)]
        return self.gather_texts(
            [line.strip() for _, _, line in lines], lambda index: f"{lines[index][0]}, line {lines[index][1]}"
        )

    def _is_plain(self, file: Path) -> bool:
        return not file.is_dir() and find_format(file) == "text" and not self.is_column_file(file)

    def predict_given(self, learner: ExampleModel, given: Any) -> Iterator[PredictedRow]:
        """A row of a table for each example; one that cannot be read has no prediction, and a note that says why."""
        part, notes = self._encode_readable(given)
        predicted = iter(()) if part is None else self.predict(learner, part)
        rows = getattr(given, "rows", None)
        for index in range(len(given)):
            entries = {} if rows is None else rows.row(index, named=True)
            if index in notes:
                empty = dict.fromkeys(self.prediction_columns)
                record = {**empty, self.prediction_columns[0]: self.show_given(given, index), NOTE: notes[index]}
                yield PredictedRow(entries, record)
            else:
                yield PredictedRow(entries, next(predicted))

    def _encode_readable(self, given: Any) -> tuple[Any, dict[int, str]]:
        """The examples that can be read, None if there are none; and why the others cannot."""
        bad = dict(getattr(given, "bad", {}))
        part, problem = self._try(given, np.setdiff1d(np.arange(len(given)), [*bad]))
        if problem is not None:  # some cannot be read: which ones is found one by one
            for index in range(len(given)):
                alone = None if index in bad else self._try(given, np.array([index]))[1]
                if alone is not None:
                    bad[index] = alone
            part, _ = self._try(given, np.setdiff1d(np.arange(len(given)), [*bad]))
        return part, bad

    def _try(self, given: Any, indices: Indices) -> tuple[Any, str | None]:
        """Some examples, None if there are none; or why they cannot be encoded."""
        try:
            return (self.part(given.take(indices)) if len(indices) else None), None
        except DataError as error:
            return None, str(error)
