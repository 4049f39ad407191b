"""unspool sweep: what it prints to a terminal, to a pipe and as JSON, and what it refuses."""

from __future__ import annotations

import io
import json
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.calling import call, refused
from tests.sweeps.test_page import FAILED, row, snapshot

from unspool.cli.sweep_view import JsonSweep, PlainSweep, choose_rows, render
from unspool.cluster import connect
from unspool.sweeps import engines
from unspool.sweeps.folder import SweepFolder, take
from unspool.sweeps.searching import Told


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.csv"
    path.write_text("text,label\n" + "".join(f"{a} {b},{a}\n" for a in "ab" for b in "cdefghijkl"))
    return path


def test_a_sweep_from_start_to_end_and_again(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = (
        "--trials",
        2,
        "--jobs",
        1,
        "--search",
        "lr",
        "--steps",
        2,
        "--hidden",
        4,
        "--engine",
        "torch",
        "--out",
        tmp_path / "s",
    )
    assert call("sweep", data, *how) == 0
    said = capsys.readouterr().out
    assert "2 trials; lr 0.0004 to 0.016" in said
    assert "trial 1: finished, accuracy" in said
    assert f"best run: {tmp_path / 's' / 'best'}    page: {tmp_path / 's' / 'sweep.html'}" in said
    assert call("sweep", data, *how, "--resume", "--json") == 0  # there is nothing left to do
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["event"], last["state"]) == ("best", "finished")
    assert call("evaluate", tmp_path / "s" / "best", data) == 0


def test_what_is_refused_is_one_line_with_options_spelled(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", tmp_path / "s")
    said = refused(capsys, "sweep", data, "--search", "lr,hiden", *out)
    assert said == "error: --search (='hiden') is not known. Did you mean --hidden?\n"
    assert refused(capsys, "sweep", data, "--dask", "nowhere", *out).startswith("error: --dask (='nowhere') is no ")
    assert "FILE" in refused(capsys, "sweep", *out)
    assert not (tmp_path / "s").exists()


def test_no_cluster_and_a_folder_in_use_are_one_line_each(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "connect", partial(connect, timeout=0.3))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        said = refused(capsys, "sweep", data, "--dask", address, "--out", tmp_path / "s")
    assert said.startswith(f"error: --dask (='{address}') has no cluster that answers within 0.3 s. Start one there. ")
    assert said.count("\n") == 1
    lock = take(SweepFolder(tmp_path / "used"))
    try:
        said = refused(capsys, "sweep", data, "--out", tmp_path / "used")
    finally:
        lock.release()
    assert said.endswith("is in use: another process runs this sweep. Wait for it, or give another --out.\n")
    assert said.count("\n") == 1


def test_the_table_has_running_trials_first_and_fits_a_narrow_terminal() -> None:
    running = replace(row(5, 0.6), state="running")
    sweep = snapshot(row(0, 0.5), row(1, 0.9), FAILED, running)
    assert [one.number for one in choose_rows(sweep)] == [5, 1, 0, 3]
    for width in (60, 160):
        out = Console(width=width, record=True, file=io.StringIO())
        out.print(render(sweep, width))
        text = out.export_text()
        assert "best trial 1: accuracy 0.9" in text
        assert ("curve" in text) == (width == 160)
        assert "best accuracy so far" in text


def test_a_pipe_gets_lines_and_json_objects(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = snapshot(row(0, 0.5), row(1, 0.9))
    for view in (PlainSweep(), JsonSweep()):
        with view:
            for told in (
                Told("began", snapshot()),
                Told("trial", sweep, sweep.rows[1]),
                Told("moved", sweep),
                Told("ended", sweep, sweep.best),
            ):
                view(told)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["runs/<b>sweep", "trial 1", "2 finished of 8 trials; best"]
    assert [json.loads(line)["event"] for line in lines[3:]] == ["trial", "best"]
