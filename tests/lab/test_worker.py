"""Workers: one answers requests, one is started, asked and survives its chapters' mistakes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from unspool.lab import CLAIMS, Chapter, Found, Shown, Study, Verdict, at_most
from unspool.lab import worker as worker_module
from unspool.lab.folder import Folder
from unspool.lab.running import Event, run_chapters
from unspool.runs.worker_process import WorkerProcess


def chapter(measure: Any) -> Chapter:
    def judge(found: Found) -> Verdict:
        return at_most("error", found["error"], 1.0)

    return Chapter("S1-8", "a = b", "Nothing.", measure, judge, lambda found: Shown())


def answers(measure: Any, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    monkeypatch.setattr(worker_module, "find_chapter", lambda name: chapter(measure))
    request = json.dumps({"name": "parameters", "quick": True, "count": 2, "first": 7}) + "\n"
    out = io.StringIO()
    worker_module.serve(io.StringIO(request), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_progress_comes_before_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answers(lambda study: {"seeds": list(study.seeds()), "error": 0.0}, monkeypatch)
    assert [one.get("progress") for one in found] == [0.5, 1.0, None]
    assert found[-1]["found"] == {"seeds": [7, 8], "error": 0.0}


def test_numbers_that_cannot_be_judged_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(lambda study: {"other": 1}, monkeypatch) == [{"error": "KeyError: 'error'"}]


def test_an_exception_is_an_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(study: Study) -> Found:
        raise ValueError("no such thing")

    assert answers(fail, monkeypatch) == [{"error": "ValueError: no such thing"}]
    capsys.readouterr()


def test_chapters_are_run_and_kept(tmp_path: Path) -> None:
    claims = [CLAIMS["parameters"], CLAIMS["explosion"], CLAIMS["vanishing"]]
    events: list[Event] = []
    study = Study(quick=True)
    last = run_chapters(claims, study, Folder(tmp_path), events.append, jobs=2)
    assert [event.kind for event in last] == ["finished"] * 3
    assert [event.claim for event in last] == claims
    assert all((tmp_path / "chapters" / f"{claim.name}.json").exists() for claim in claims)
    again = run_chapters(claims, study, Folder(tmp_path), events.append)
    assert [event.kind for event in again] == ["kept"] * 3
    assert again[0].record == last[0].record
    other = run_chapters(claims[:1], Study(quick=True, count=4), Folder(tmp_path), events.append)
    assert other[0].kind == "finished"


def test_a_worker_that_dies_fails_one_chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = WorkerProcess.ask

    def die_once(self: WorkerProcess, request: Mapping[str, Any]) -> Any:
        if not asked:
            self.kill()
        asked.append(request["name"])
        return ask(self, request)

    monkeypatch.setattr(WorkerProcess, "ask", die_once)
    last = run_chapters(
        [CLAIMS["parameters"], CLAIMS["explosion"]], Study(True), Folder(tmp_path), lambda _: None, jobs=1
    )
    assert sorted(event.kind for event in last) == ["failed", "finished"]
    failed = next(event for event in last if event.kind == "failed")
    assert "the process ended with -9" in failed.problem
    assert Folder(tmp_path).read(failed.claim.name) is None


def test_ctrl_c_ends_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[WorkerProcess] = []
    ask = WorkerProcess.ask

    def interrupted(self: WorkerProcess, request: Mapping[str, Any]) -> Any:
        started.append(self)
        if len(started) == 1:
            raise KeyboardInterrupt
        return ask(self, request)

    monkeypatch.setattr(WorkerProcess, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_chapters([CLAIMS["parameters"], CLAIMS["explosion"]], Study(True), Folder(tmp_path), lambda _: None, jobs=2)
    assert all(worker.process.poll() is not None for worker in started)
