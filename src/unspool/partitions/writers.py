"""Writers: the predictions for one file, a chunk at a time, as CSV, JSON lines or Parquet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from unspool.partitions.tables import as_csv, as_json, name_kept
from unspool.tasks.contract import PredictedChunk
from unspool.tasks.tolerant import NOTE

if TYPE_CHECKING:
    import polars as pl


class Writer(ABC):
    """Writes chunks to a stream.

    Args:
        stream: Where to.
        columns: Those of predictions, the first of which tells what a prediction is for.
        keep: Whether the input's columns are written, in place of that first one.
    """

    def __init__(self, stream: BinaryIO, columns: Sequence[str], keep: bool) -> None:
        self._stream, self._columns, self._keep = stream, tuple(columns), keep

    def add(self, chunk: PredictedChunk) -> None:
        """Write a chunk, or keep it until the end where a format has to know all of them."""
        kept, columns, names = self._arrange(chunk.given)
        records = [{name: record.get(name) for name in columns} for record in chunk.predicted]
        self.put(records, columns, kept, names)

    def add_empty(self, given: pl.DataFrame, example: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Write the columns of a table without rows; an example of a prediction has the types of its columns."""
        kept, columns, names = self._arrange(given)
        self.put([], columns, kept, names)

    def _arrange(self, given: pl.DataFrame | None) -> tuple[pl.DataFrame | None, Sequence[str], Mapping[str, str]]:
        """The columns of the input that are written, those of predictions, and the names of the former."""
        kept = given if self._keep else None
        columns = self._columns if kept is None else self._columns[1:]
        return kept, columns, {} if kept is None else name_kept(kept.columns, columns)

    @abstractmethod
    def put(
        self,
        records: list[dict[str, Any]],
        columns: Sequence[str],
        kept: pl.DataFrame | None,
        names: Mapping[str, str],
    ) -> None:
        """Write records of predictions beside rows of the input, whose columns get these names."""

    def finish(self) -> None:
        """Write what is left."""
        return


class LineWriter(Writer):
    """JSON lines, each written at once."""

    def put(
        self, records: list[dict[str, Any]], columns: Sequence[str], kept: pl.DataFrame | None, names: Mapping[str, str]
    ) -> None:
        self._stream.write(self.spell(_beside(records, kept, names), columns, tuple(names.values())).encode())

    def spell(self, records: list[dict[str, Any]], columns: Sequence[str], kept: Sequence[str]) -> str:  # noqa: ARG002
        """The lines of some records."""
        return as_json(records)


class CSVWriter(LineWriter):
    """A table with a header."""

    _begun = False

    def spell(self, records: list[dict[str, Any]], columns: Sequence[str], kept: Sequence[str]) -> str:
        header, self._begun = not self._begun, True
        return as_csv(records, columns, kept, header)

    def finish(self) -> None:
        if not self._begun:
            self._stream.write(as_csv([], self._columns).encode())


class ParquetWriter(Writer):
    """Parquet, which is written when all columns are known; until then these are kept, not the records."""

    def __init__(self, stream: BinaryIO, columns: Sequence[str], keep: bool) -> None:
        super().__init__(stream, columns, keep)
        self._frames: list[pl.DataFrame] = []

    def put(
        self, records: list[dict[str, Any]], columns: Sequence[str], kept: pl.DataFrame | None, names: Mapping[str, str]
    ) -> None:
        self._put_beside(_frame_of(records, columns), kept, names)

    def add_empty(self, given: pl.DataFrame, example: Mapping[str, Any]) -> None:
        kept, columns, names = self._arrange(given)
        record = {name: example.get(name) for name in columns}
        self._put_beside(_frame_of([record], columns).clear(), kept, names)

    def _put_beside(self, predicted: pl.DataFrame, kept: pl.DataFrame | None, names: Mapping[str, str]) -> None:
        self._frames.append(predicted if kept is None else kept.rename(dict(names)).hstack(predicted))

    def finish(self) -> None:
        import polars as pl

        frames = self._frames or [pl.DataFrame({name: [] for name in self._columns})]
        frame = pl.concat(frames, how="vertical_relaxed", rechunk=True)
        # a file without notes has the same columns, of the same types, as one with them
        empty = [name for name in (NOTE,) if frame.schema.get(name) == pl.Null]
        frame.with_columns(pl.col(empty).cast(pl.String)).write_parquet(self._stream)


#: Format → what writes it.
WRITERS: Mapping[str, type[Writer]] = {"csv": CSVWriter, "jsonl": LineWriter, "parquet": ParquetWriter}


def _frame_of(records: list[dict[str, Any]], columns: Sequence[str]) -> pl.DataFrame:
    """Predictions as a table."""
    import polars as pl

    entries = {name: [record[name] for record in records] for name in columns}
    return pl.DataFrame([pl.Series(name, column, strict=False) for name, column in entries.items()])


def _beside(records: list[dict[str, Any]], kept: pl.DataFrame | None, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The entries of the input, and then the predictions."""
    if kept is None:
        return records
    given = kept.rename(dict(names)).iter_rows(named=True)
    return [{**row, **record} for row, record in zip(given, records, strict=True)]
