"""Predictions of many files into a folder: the values of single files, what is kept, redone and refused."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.calling import call, refused
from tests.partitions.small_data import make_run, make_texts, read_all, write_partitions

from unspool.cluster import connect
from unspool.errors import ArgumentError, DataError
from unspool.partitions import predict as module
from unspool.partitions.inputs import find_partitions
from unspool.partitions.predict import Options, predict_partitions
from unspool.partitions.work import predict_partition

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"))


def count_work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of partitions that are worked on from now."""
    done: list[str] = []

    def counted(job: Any) -> Any:
        done.append(Path(job.source).name)
        return predict_partition(job)

    monkeypatch.setattr(module, "predict_partition", counted)
    return done


def test_the_predictions_are_those_of_the_files_one_by_one(run: Path, tmp_path: Path, capsys: Output) -> None:
    data = write_partitions(tmp_path / "data", 2, 7)
    assert call("predict", run, data / "*.parquet", "--out", tmp_path / "out") == 0
    assert "14 predictions in 2 files" in capsys.readouterr().err
    for file in sorted(data.iterdir()):
        assert call("predict", run, file, "--json") == 0
        alone = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        found = pl.read_parquet(tmp_path / "out" / file.name)
        assert found.schema["number"] == pl.Int64
        assert found.columns[-1] == "note"
        for one, row in zip(alone, found.iter_rows(named=True), strict=True):
            assert row.pop("note") is None
            assert list(row) == list(one)
            for name, value in one.items():  # the single files are predicted by torch
                assert row[name] == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value)


@pytest.mark.parametrize("size", [3, 1000])
def test_chunks_do_not_change_predictions(
    run: Path, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_partitions(tmp_path / "data", 1, 10)
    monkeypatch.setattr("unspool.partitions.work.CHUNK", size)
    predict_partitions(run, [data], tmp_path / "out")
    found = pl.read_parquet(tmp_path / "out" / "part-000.parquet")
    assert found["number"].to_list() == list(range(10))
    assert found["text"].to_list() == make_texts(10, 0)


@pytest.mark.parametrize(("name", "written"), [("a.csv", "a.csv"), ("a.txt", "a.txt.csv"), ("a.jsonl", "a.jsonl")])
def test_the_format_is_that_of_the_input_where_it_can_be(run: Path, tmp_path: Path, name: str, written: str) -> None:
    texts = ["red hot", "blue, cold"]
    rows = {
        "a.csv": 'text\nred hot\n"blue, cold"\n',
        "a.txt": "red hot\nblue, cold\n",
        "a.jsonl": "".join(json.dumps({"text": text}) + "\n" for text in texts),
    }
    (tmp_path / name).write_text(rows[name], encoding="utf-8")
    predict_partitions(run, [tmp_path / name], tmp_path / "out")
    out = tmp_path / "out" / written
    with out.open(encoding="utf-8") as stream:
        found = [json.loads(line) for line in stream] if written.endswith("jsonl") else list(csv.DictReader(stream))
    assert [row["text"] for row in found] == texts
    assert all(row["label"] in "xyz" for row in found)
    assert list(found[0])[-1] == "note"


def test_json_lines_are_written_for_all_if_asked_for(run: Path, tmp_path: Path) -> None:
    data = write_partitions(tmp_path / "data", 1, 3)
    assert call("predict", run, data, "--out", tmp_path / "out", "--json", "--top", "1") == 0
    lines = (tmp_path / "out" / "part-000.parquet.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]


def test_finished_partitions_are_not_done_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_partitions(tmp_path / "data", 3, 4), tmp_path / "out"
    predict_partitions(run, [data], out)
    before = read_all(out)
    done = count_work(monkeypatch)
    summary = predict_partitions(run, [data], out)
    assert (done, summary.kept, summary.rows) == ([], 3, 12)

    os.utime(data / "part-000.parquet")  # touched, and the same
    (out / "part-001.parquet").unlink()
    pl.DataFrame({"number": [9], "text": ["cold"]}).write_parquet(data / "part-002.parquet")
    summary = predict_partitions(run, [data], out)
    assert (done, summary.kept, summary.rows) == (["part-001.parquet", "part-002.parquet"], 1, 9)
    after = read_all(out)
    assert after.pop("part-002.parquet") != before.pop("part-002.parquet")
    assert after == before


def test_a_new_file_joins_the_others(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_partitions(tmp_path / "data", 1, 4), tmp_path / "out"
    predict_partitions(run, [data], out)
    write_partitions(data, 2, 4)
    done = count_work(monkeypatch)
    predict_partitions(run, [data], out)
    assert done == ["part-001.parquet"]


def test_a_bad_partition_is_named_and_the_others_finish(run: Path, tmp_path: Path, capsys: Output) -> None:
    data, out = write_partitions(tmp_path / "data", 3, 4), tmp_path / "out"
    (data / "part-001.parquet").write_bytes(b"PAR1 and then nothing")
    said = refused(capsys, "predict", run, data / "*.parquet", "--out", out)
    assert "8 predictions in 2 files" in said
    assert said.count("part-001.parquet") == 1
    assert sorted(read_all(out)) == ["part-000.parquet", "part-002.parquet"]
    write_partitions(data, 3, 4)
    assert call("predict", run, data / "*.parquet", "--out", out) == 0
    assert len(read_all(out)) == 3


@pytest.mark.parametrize("given", [{}, {"keep_columns": False}, {"form": "csv"}, {"form": "jsonl"}])
def test_a_partition_without_rows_has_an_output_without_rows(run: Path, tmp_path: Path, given: Any) -> None:
    """With the columns of the others, of the same types, so that they can be read together."""
    data, out, options = write_partitions(tmp_path / "data", 2, 4), tmp_path / "out", Options(**given)
    pl.read_parquet(data / "part-001.parquet").clear().write_parquet(data / "part-001.parquet")
    summary = predict_partitions(run, [data], out, options)
    assert (summary.rows, summary.missing, summary.failed) == (4, 0, [])
    full, empty = (out / f"part-00{number}.parquet" for number in (0, 1))
    if options.form is None:
        assert pl.read_parquet(empty).schema == pl.read_parquet(full).schema
        assert pl.read_parquet([full, empty]).height == 4
    else:
        lines = [path.with_name(f"{path.name}.{options.form}").read_text().splitlines(True) for path in (full, empty)]
        assert lines[1] == (lines[0][:1] if options.form == "csv" else [])
    assert predict_partitions(run, [data], out, options).kept == 2


def test_rows_that_cannot_be_read_have_a_note(run: Path, tmp_path: Path, capsys: Output) -> None:
    pl.DataFrame({"text": ["red", None, "hot"]}).write_parquet(tmp_path / "a.parquet")
    assert call("predict", run, tmp_path / "a.parquet", "--out", tmp_path / "out") == 0
    assert capsys.readouterr().err.count("1 of 3 rows have no prediction") == 1
    found = pl.read_parquet(tmp_path / "out" / "a.parquet")
    assert [note is None for note in found["note"]] == [True, False, True]
    assert found["p(x)"].dtype == pl.Float64


def test_another_run_is_refused(run: Path, tmp_path: Path, capsys: Output) -> None:
    data, out = write_partitions(tmp_path / "data", 1, 4), tmp_path / "out"
    predict_partitions(run, [data], out)
    other = make_run(tmp_path, seed=1)
    assert "predictions of another run" in refused(capsys, "predict", other, data, "--out", out)
    assert "predictions of another run" in refused(capsys, "predict", run, data, "--out", out, "--int8")
    assert "top=None" in refused(capsys, "predict", run, data, "--out", out, "--top", 1)


def test_folders_of_others_and_of_the_input_are_refused(run: Path, tmp_path: Path, capsys: Output) -> None:
    data = write_partitions(tmp_path / "data", 1, 4)
    before = read_all(data)
    assert "would replace" in refused(capsys, "predict", run, data / "*.parquet", "--out", data)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    assert "not predictions" in refused(capsys, "predict", run, data, "--out", tmp_path / "other")
    assert read_all(data) == before


def test_wrong_commands_are_refused_in_one_line(run: Path, tmp_path: Path, capsys: Output) -> None:
    data, out = write_partitions(tmp_path / "data", 1, 4), tmp_path / "out"
    assert "there is no file" in refused(capsys, "predict", run, data / "*.csv", "--out", out)
    assert not out.exists()
    assert "must be files" in refused(capsys, "predict", run, "--text", "red", "--out", out)
    assert "many files" in refused(capsys, "predict", run, data, "--dask", "local:2")
    assert "no address" in refused(capsys, "predict", run, data, "--out", out, "--dask", "here")


def test_no_cluster_at_the_address_is_one_line(
    run: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = write_partitions(tmp_path / "data", 1, 4), tmp_path / "out"
    monkeypatch.setattr(module, "connect", partial(connect, timeout=0.3))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        said = refused(capsys, "predict", run, data, "--out", out, "--dask", address)
    assert said.startswith(f"error: --dask (='{address}') has no cluster that answers within 0.3 s. Start one there. ")
    assert said.count("\n") == 1


def test_a_model_that_changes_meanwhile_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_partitions(tmp_path / "data", 1, 4)
    describe = module._describe
    monkeypatch.setattr(module, "_describe", lambda *given: describe(*given)._replace(digest="0"))
    summary = predict_partitions(run, [data], tmp_path / "out")
    assert "has another model" in summary.failed[0].problem
    assert read_all(tmp_path / "out") == {}


def test_names_follow_the_pattern(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.tsv").touch()
    assert [one.name for one in find_partitions([str(tmp_path / "*" / "x.tsv")])] == ["a/x.tsv.csv", "b/x.tsv.csv"]
    assert [one.name for one in find_partitions([tmp_path / "a" / "x.tsv"])] == ["x.tsv.csv"]
    with pytest.raises(DataError, match="both be written to x"):
        find_partitions([tmp_path / "a" / "x.tsv", tmp_path / "b" / "x.tsv"])


def test_options_are_part_of_the_origin(run: Path, tmp_path: Path) -> None:
    data = write_partitions(tmp_path / "data", 1, 4)
    predict_partitions(run, [data], tmp_path / "out", Options(keep_columns=False))
    assert pl.read_parquet(tmp_path / "out" / "part-000.parquet").columns[:2] == ["text", "label"]
    with pytest.raises(ArgumentError, match="keep_columns=False"):
        predict_partitions(run, [data], tmp_path / "out")


def test_torch_is_not_imported(run: Path, tmp_path: Path) -> None:
    data = write_partitions(tmp_path / "data", 1, 4)
    code = (
        "import sys; from unspool.partitions.predict import predict_partitions;"
        "print(predict_partitions(*sys.argv[1:2], sys.argv[2:3], sys.argv[3]).rows, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(run), str(data), str(tmp_path / "out")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["4", "False"]
