"""The folder of predictions: whose they are, and which partitions are finished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unspool.errors import ArgumentError, DataError
from unspool.partitions.inputs import Partition, is_same
from unspool.storage.documents import read_json
from unspool.storage.files import find_temporaries, make_folder, write_file

#: Inside the output folder: what is known about it. Patterns such as *.parquet do not see it.
HIDDEN = ".unspool"
ORIGIN = "origin.json"
#: Changes when the predictions of the same model for the same file would have other bytes.
FORMAT = 1
REMEDY = "Give another folder"


class Finished(NamedTuple):
    """What is known of a finished partition."""

    rows: int
    missing: int  # of these, rows without a prediction


class OutputFolder:
    """A folder of predictions of one model.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, origin: Mapping[str, Any]) -> None:
        """Make the folder, or continue one with predictions of the same origin.

        Args:
            origin: The digest of the model, and the options that predictions depend on.

        Raises:
            ArgumentError: It holds predictions of another run or with other options, or files of others.
        """
        wanted = json.loads(json.dumps({"format": FORMAT, **origin}))
        place = self.path / HIDDEN / ORIGIN
        if place.is_file():
            self._compare(read_json(place, REMEDY), wanted)
            return
        if self.path.exists() and (not self.path.is_dir() or self._has_files()):
            raise ArgumentError.of("out", str(self.path), "holds files that are not predictions", REMEDY)
        make_folder(place.parent)
        write_file(place, json.dumps(wanted).encode())

    def _has_files(self) -> bool:
        return any(one.name != HIDDEN for one in self.path.iterdir())

    def _compare(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        """Refuse predictions of another model, or with other options: two kinds would be mixed."""
        if found.get("run") != wanted["run"]:
            problem = "holds predictions of another run, or of this one before it was trained further"
            raise ArgumentError.of("out", str(self.path), problem, REMEDY)
        for name in wanted:
            if found.get(name) != wanted[name]:
                problem = f"holds predictions that were made with {name}={found.get(name)!r}, not {wanted[name]!r}"
                raise ArgumentError.of("out", str(self.path), problem, REMEDY)

    def clean(self, targets: Sequence[str]) -> None:
        """Remove what writes of files that were cut off have left behind; for when nobody writes any more."""
        for folder in {Path(one).parent for one in targets}:
            for left in find_temporaries(folder):
                left.unlink(missing_ok=True)

    def target(self, partition: Partition) -> Path:
        """The file of a partition's predictions."""
        return self.path / partition.name

    def record(self, partition: Partition) -> Path:
        """The file that says that a partition is finished."""
        return self.path / HIDDEN / f"{partition.name}.json"

    def find_finished(self, partition: Partition) -> Finished | None:
        """What is known of a partition, if its predictions are there and its input has not changed since."""
        try:
            found = read_json(self.record(partition), REMEDY)
            whole = self.target(partition).stat().st_size == found["output"]
            if not whole or not is_same(partition.path, found["input"]):
                return None
            return Finished(int(found["rows"]), int(found["missing"]))
        except (DataError, OSError, KeyError, TypeError, ValueError):
            return None


def write_record(record: Path, target: Path, known: Mapping[str, Any], finished: Finished) -> None:
    """Note that a partition is finished; its predictions are in their place.

    Args:
        record: The file to write.
        target: The file of predictions.
        known: The fingerprint of the input.
        finished: Rows, and how many of them have no prediction.
    """
    document = {"input": dict(known), "output": target.stat().st_size, **finished._asdict()}
    make_folder(record.parent)
    write_file(record, json.dumps(document).encode())
