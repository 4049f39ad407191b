"""Arrays: .ts files in all their forms, and .npz files by the names of their arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool.data.arrays import find_array_splits, is_series_file, read_arrays
from unspool.errors import DataError

TS = "# made up\n@problemName Waves\n@timestamps false\n@univariate {}\n@classLabel true up down\n\n@data\n"
X = np.arange(24.0).reshape(4, 3, 2)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


class TestTs:
    def test_one_dimension_and_different_lengths(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.ts", TS.format("true") + "1,2.5,-3:up\n\n4,5:down\n")
        assert is_series_file(file)
        found = read_arrays(file)
        assert [one.tolist() for one in found.series] == [[[1], [2.5], [-3]], [[4], [5]]]
        assert found.targets == ["up", "down"]
        assert found.places == [f"{file}, line 8", f"{file}, line 10"]

    def test_several_dimensions_missing_values_and_no_labels(self, tmp_path: Path) -> None:
        header = TS.format("false").replace("@classLabel true up down", "@classLabel false")
        found = read_arrays(write(tmp_path / "a.ts", header + "1,2:3,?\n"))
        np.testing.assert_array_equal(found.series[0], [[1, 3], [2, np.nan]])
        assert found.targets is None

    def test_dimensions_of_different_lengths_are_refused_by_case(self, tmp_path: Path) -> None:
        rows = "1,2:3,4:up\n1,2,3:4,5:up\n1,2:3,4:down\n1,2:3,4:5,6:down\n"
        with pytest.raises(DataError) as caught:
            read_arrays(write(tmp_path / "a.ts", TS.format("false") + rows))
        said = str(caught.value)
        assert (
            "case 2: its 2 dimensions have different lengths, 3, 2. Cut them, or fill them in, to one length." in said
        )
        assert "case 4: 3 dimensions, and the cases before have 2. Give each case as many." in said
        assert "case 1" not in said
        assert "case 3" not in said

    def test_timestamps_and_numbers_as_targets(self, tmp_path: Path) -> None:
        header = TS.format("true").replace("timestamps false", "timestamps true")
        header = header.replace("@classLabel true up down", "@targetlabel true")
        found = read_arrays(write(tmp_path / "a.ts", header + "(0,1.5),(1,2):0.25\n"))
        assert (found.series[0].tolist(), found.targets) == ([[1.5], [2.0]], ["0.25"])

    def test_what_is_wrong_is_said_at_once(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.ts", TS.format("false") + "1,2:3,x:up\n1,2:3:up\n1:2:up\n")
        with pytest.raises(
            DataError, match=r"2 problems:\n.*line 8, case 1: could not convert.*\n.*line 9, case 2: .*dimension"
        ):
            read_arrays(file)
        file = write(tmp_path / "d.ts", TS.format("true") + "1,2,3\n" * 3)
        with pytest.raises(DataError, match=r"^3 problems:\n.*line 8: there is no label\. Write it after the numbers"):
            read_arrays(file)
        with pytest.raises(DataError, match="has no line @data"):
            read_arrays(write(tmp_path / "b.ts", "@problemName x\n"))
        with pytest.raises(DataError, match="no sequences below @data"):
            read_arrays(write(tmp_path / "c.ts", TS))

    def test_a_program_is_no_series(self, tmp_path: Path) -> None:
        assert not is_series_file(write(tmp_path / "a.ts", "export const x = 1;\n"))
        assert not is_series_file(write(tmp_path / "a.txt", TS))


class TestNpz:
    @pytest.mark.parametrize("names", [("X", "y"), ("x", "y"), ("data", "labels")])
    def test_names(self, tmp_path: Path, names: tuple[str, str]) -> None:
        file = tmp_path / "a.npz"
        np.savez(file, **{names[0]: X, names[1]: np.array(["a", "b", "a", "b"]), "other": X})  # type: ignore[arg-type]
        found = read_arrays(file)
        np.testing.assert_array_equal(np.stack(found.series), X)
        assert found.targets == ["a", "b", "a", "b"]
        assert find_array_splits(file) == []

    def test_splits_and_one_feature(self, tmp_path: Path) -> None:
        file = tmp_path / "a.npz"
        np.savez(file, x_train=X[..., 0], y_train=[0, 1, 2, 0], x_test=X[:1, :, 0], y_test=[[2]])
        assert find_array_splits(file) == ["train", "test"]
        test = read_arrays(file, "test")
        assert ([one.tolist() for one in test.series], test.targets) == ([[[0], [2], [4]]], [2])
        assert test.places == [f"{file}, x_test[0]"]
        assert read_arrays(file, "train").targets == [0, 1, 2, 0]

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"a": X}, "has the arrays a, and none for the sequences. Name them X and y"),
            ({"X": X, "y": [1]}, r"`y` has shape \(1,\), and `x` 4 samples"),
            ({"X": np.array(["a"]), "y": [1]}, r"`x` has shape \(1,\) and type <U1. Give numbers"),
            ({"X": np.array([{}, []], object), "y": [1, 2]}, "cannot be read as .npz.*numpy.savez"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(DataError, match=message):
            read_arrays(tmp_path / "a.npz")

    def test_what_is_no_npz(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="cannot be read as .npz"):
            read_arrays(write(tmp_path / "a.npz", "PK"))
        np.save(tmp_path / "a.npy", X)
        (tmp_path / "a.npy").rename(tmp_path / "a.npz")
        for read in (read_arrays, find_array_splits):
            with pytest.raises(DataError, match=r"cannot be read as \.npz: it is one array.*numpy\.savez"):
                read(tmp_path / "a.npz")
