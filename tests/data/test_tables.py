"""Tables: every format gives the same columns, and a mistake is named by its file and line."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.data import delimited
from unspool.data.tables import Table, read_table
from unspool.errors import ArgumentError, DataError, DataWarning


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def table_of(folder: Path, data: bytes | str, **options: bool) -> Table:
    return read_table(write(folder / "t.csv", data), **options)  # type: ignore[arg-type]


class TestFormats:
    def test_all_formats_give_the_same(self, tmp_path: Path) -> None:
        rows = [("2024-01-01", 1.5, 'a "b", c'), ("2024-01-02", -2e-7, "Ü\tz"), ("2024-01-03", 3.0, "x")]
        frame = pl.DataFrame(rows, schema=["day", "number", "words"], orient="row")
        frame.write_csv(tmp_path / "a.csv")
        frame.write_csv(tmp_path / "b.csv", separator=";", line_terminator="\r\n", include_bom=True)
        write(
            tmp_path / "c.tsv",
            "day\tnumber\twords\n" + "".join(f"{a}\t{b}\t{c}\n" for a, b, c in rows).replace("Ü\t", "Ü "),
        )
        frame.write_ndjson(tmp_path / "d.jsonl")
        frame.with_columns(pl.col("day").str.to_date()).write_parquet(tmp_path / "e.parquet")
        for file in sorted(tmp_path.iterdir()):
            table = read_table(file)
            assert table.columns == ["day", "number", "words"]
            assert table.numbers("number").tolist() == [1.5, -2e-7, 3.0]
            assert [text.replace("\t", " ") for text in table.text("words")] == ['a "b", c', "Ü z", "x"]
            times = table.times("day")
            assert np.diff(times.moments).tolist() == [24 * 3_600_000_000] * 2
            assert times.spell(1) == "2024-01-02"
            place = {".parquet": "row 3", ".jsonl": "line 3"}.get(file.suffix, "line 4")
            assert table.place(2) == f"{file}, {place}"

    @settings(deadline=None)
    @given(
        st.lists(st.lists(st.text(max_size=5).filter(lambda text: not {"\0", "\r"} & {*text}), min_size=3, max_size=3))
    )
    def test_what_the_csv_module_writes_is_read_with_its_lines(self, rows: list[list[str]]) -> None:
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        begins = []
        for row in [["a", "b", "c"], *rows]:
            begins.append(stream.getvalue().count("\n") + 1)
            writer.writerow(row)
        with tempfile.TemporaryDirectory() as folder:
            file = write(Path(folder) / "t.csv", stream.getvalue())
            if not rows:
                with pytest.raises(DataError, match="no rows"):
                    read_table(file)
                return
            table = read_table(file)
            assert [list(row) for row in table.frame.rows()] == rows
            assert table.lines.tolist() == begins[1:]

    def test_chunks_join(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delimited, "CHUNK", 2)
        table = table_of(tmp_path, '\na,b\n1,"x\ny"\n\n\n\n2,z\n3,"u\n\nv"\n4,w\n')
        assert table.numbers("a").tolist() == [1, 2, 3, 4]
        assert table.text("b") == ["x\ny", "z", "u\n\nv", "w"]
        assert table.lines.tolist() == [3, 8, 9, 12]

    def test_several_files_and_chosen_columns(self, tmp_path: Path) -> None:
        write(tmp_path / "a.csv", "x,y\n1,2\n3,4\n")
        write(tmp_path / "b.csv", "y,x\n5,6\n7,q\n")
        table = read_table(str(tmp_path / "*.csv"))
        assert table.text("x") == ["1", "3", "6", "q"]
        with pytest.raises(DataError, match=r"b\.csv, line 3: `x` is 'q'"):
            table.numbers("x")
        assert read_table(str(tmp_path / "*.csv"), columns=["y"]).columns == ["y"]
        write(tmp_path / "c.csv", "x,z\n5,6\n")
        with pytest.raises(DataError, match=r"c\.csv and .*a\.csv .* y, z"):
            read_table(str(tmp_path / "*.csv"))

    def test_json_of_all_kinds(self, tmp_path: Path) -> None:
        lines = [{"a": 1, "b": "x"}, {"b": True, "c": [1, {"d": None}]}, {"a": None, "b": 0.1}]
        file = write(tmp_path / "t.ndjson", "\n\n".join(map(json.dumps, lines)))
        table = read_table(file)
        assert table.columns == ["a", "b", "c"]
        assert table.text("b") == ["x", "true", "0.1"]
        assert table.text("c", empty=True) == ["", '[1, {"d": null}]', ""]
        np.testing.assert_array_equal(table.numbers("a", empty=True), [1, np.nan, np.nan])
        assert table.lines.tolist() == [1, 3, 5]

    def test_types_of_parquet(self, tmp_path: Path) -> None:
        frame = pl.DataFrame({"b": [True, None], "i": [1, 2], "l": [[1], [2]], "z": ["2024-01-01T01:00+01:00"] * 2})
        frame.with_columns(pl.col("z").str.to_datetime(time_zone="Europe/Paris")).write_parquet(tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
        np.testing.assert_array_equal(table.numbers("b", empty=True), [1, np.nan])
        assert (table.text("i"), table.times("i").moments.tolist()) == (["1", "2"], [1, 2])
        assert table.times("z").spell(0) == "2024-01-01T00:00:00Z"
        with pytest.raises(DataError, match="`l` holds List"):
            table.numbers("l")


def test_what_is_written_for_nothing_is_not_called_empty(tmp_path: Path) -> None:
    table = table_of(tmp_path, "a,b\n1,x\nnan,\n")
    with pytest.raises(DataError, match="line 3: `a` is 'nan', which stands for a missing number. Fill"):
        table.numbers("a")
    with pytest.raises(DataError, match="line 3: `b` is empty. Fill"):
        table.text("b")


class TestHeader:
    def test_none_or_one_with_numbers(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="line 1: '1' may be data.*header=True"):
            table_of(tmp_path, "1,2\n3,4\n")
        assert table_of(tmp_path, "1,2\n3,4\n", header=False).numbers("2").tolist() == [2, 4]
        assert table_of(tmp_path, "7,8\n3,4\n", header=True).numbers("8").tolist() == [4]
        assert table_of(tmp_path, ",a\n0,5\n").columns == ["1", "a"]

    def test_names_twice(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="line 1: two columns are called 'a'"):
            table_of(tmp_path, "a,b,a\n1,2,3\n")

    def test_no_such_column(self, tmp_path: Path) -> None:
        table = table_of(tmp_path, "Year,Activity\n1700,5\n")
        with pytest.raises(DataError, match=r"no column 'year'\. Did you mean 'Year'\? It has: Year, Activity"):
            table.numbers("year")
        with pytest.raises(DataError, match=r"no column 'activty'\. Did you mean 'Activity'"):
            read_table(tmp_path / "t.csv", columns=["activty"])

    def test_only_where_there_may_be_one(self, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError, match="`header` .=True. has no effect"):
            read_table(write(tmp_path / "t.jsonl", "{}"), header=True)


class TestNumbers:
    @settings(deadline=None)
    @given(st.one_of(st.floats(), st.integers(-(2**70), 2**70), st.text(max_size=6)))
    def test_numbers_are_what_python_reads(self, entry: float | int | str) -> None:
        text = str(entry)
        table = Table(pl.DataFrame({"a": [text]}), (Path("t.csv"),), (0,), np.array([2]))
        try:
            expected = float(text)
        except ValueError:
            expected = math.nan
        if text.strip().lower() in ("true", "false"):
            expected = float(text.strip().lower() == "true")
        try:
            found = table.numbers("a", empty=True)[0]
        except DataError:
            assert not math.isfinite(expected) or not text.isascii() or "_" in text or not text.isprintable()
        else:
            assert found == expected or (math.isnan(found) and math.isnan(expected))

    def test_switches_and_blanks(self, tmp_path: Path) -> None:
        table = table_of(tmp_path, "a,b\n True ,NA\nfalse, \n")
        assert table.numbers("a").tolist() == [1, 0]
        assert np.isnan(table.numbers("b", empty=True)).all()
        with pytest.raises(DataError, match="line 2: `b` is 'NA', which stands for"):
            table.numbers("b")
        with pytest.raises(DataError, match="line 3: `b` is empty"):
            table.text("b")

    @pytest.mark.parametrize("entry", ["x", "1;5", "inf", "1e999", "0x1", "1 000", "1_000", "--1"])
    def test_the_line_of_what_is_no_number(self, tmp_path: Path, entry: str) -> None:
        with pytest.raises(DataError, match=f"line 5: `a` is '{entry}', not a finite number"):
            table_of(tmp_path, f'a,b\n1,"\n"\n2,x\n{entry},x\n').numbers("a")

    def test_the_line_of_what_is_no_time(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="`a` cannot be read as times.*line 3: '2024-02-30'"):
            table_of(tmp_path, "a\n2024-02-29\n2024-02-30\n").times("a")


class TestRefused:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "is empty"),
            (b"\xef\xbb\xbf \n\n", "is empty"),
            (b"a,b\n", "no rows"),
            (b"a,b\n1,2\n\n3\n4,5\n", "line 4: 1 entries, where the first line has 2"),
            (b'a,b\n1,"x\ny"\n3,4,5\n', "line 4: 3 entries"),
            (b'a,b\n1,2\n3,"x\n4,5\n6,7\n', "line 3: .*quotation mark"),
            (b'a,b\n1,2\n3,"x"y\n4,5\n', "line 3: .*quotation mark"),
            (b"a,b\n1,2\n3,\0\n", "is not text: byte 10 is zero"),
        ],
    )
    def test_csv(self, tmp_path: Path, data: bytes, message: str) -> None:
        with pytest.raises(DataError, match=f"t.csv.*{message}"):
            table_of(tmp_path, data)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ('{"a": 1}\n{"a": }\n', "line 2: not JSON"),
            ('{"a": 1}\n\n[1]\n', "line 3: not a record"),
            ('{"a": "\\ud800"}\n', "line 1: not JSON"),
            ('{"a": ' + "[" * 100_000 + "\n", "line 1: not JSON"),
            ('{"a": ' + "1" * 5000 + "}\n", "line 1: not JSON"),
            ("{}\n{}\n", "no rows"),
        ],
    )
    def test_json(self, tmp_path: Path, data: str, message: str) -> None:
        with pytest.raises(DataError, match=message):
            read_table(write(tmp_path / "t.jsonl", data))

    def test_parquet_and_others(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="cannot be read as Parquet"):
            read_table(write(tmp_path / "t.parquet", b"PAR1 and no more"))
        with pytest.raises(DataError, match=r"needed\. Known formats: CSV, TSV, JSON"):
            read_table(write(tmp_path / "t.note", b"PK"))
        with pytest.raises(DataError, match="no file"):
            read_table(tmp_path / "none.csv")

    def test_long_entries(self, tmp_path: Path) -> None:
        limit = csv.field_size_limit()
        assert table_of(tmp_path, f"a,b\n{'x' * 300_000},1\n").text("a") == ["x" * 300_000]
        assert csv.field_size_limit() == limit


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin1"])
def test_another_encoding_is_read_and_said(encoding: str, tmp_path: Path) -> None:
    file = write(tmp_path / "my table.csv", "name,b\nélan vital,ü\n".encode(encoding))
    with pytest.warns(DataWarning, match=r"my table\.csv is not UTF-8: it is read as"):
        table = read_table(file)
    assert (table.text("name"), table.text("b")) == (["élan vital"], ["ü"])
