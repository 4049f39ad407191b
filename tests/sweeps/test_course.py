"""The course of a trial, from its log; and which trial is the best."""

from __future__ import annotations

from pathlib import Path

from tests.sweeps.made_up import evaluated, finished, log

from unspool.sweeps.course import Course, Goal, Row, read_course


def test_a_run_that_is_not_there_has_no_course(tmp_path: Path) -> None:
    assert read_course(tmp_path / "none") == Course()


def test_a_line_that_is_still_in_writing_does_not_count(tmp_path: Path) -> None:
    log(tmp_path, evaluated(1, 0.5), evaluated(2, 0.75))
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"event": "evalu')
    found = read_course(tmp_path)
    assert found.curve("accuracy") == (0.5, 0.75)
    assert (found.fraction, found.seconds, found.finished) == (0.2, 1.0, {})


def test_an_interrupted_run_is_not_finished_and_one_that_ended_is(tmp_path: Path) -> None:
    log(tmp_path, evaluated(1, 0.5), finished(0.5, "interrupted"))
    assert read_course(tmp_path).finished == {}
    log(tmp_path, evaluated(1, 0.5), finished(0.5, "interrupted"), evaluated(2, 0.6), finished(0.6))
    found = read_course(tmp_path)
    assert found.finished["validation"]["accuracy"] == 0.6
    assert found.fraction == 1.0


def row(number: int, value: float | None, loss: float = 0.0, state: str = "finished") -> Row:
    course = Course(finished={"validation": {"loss": loss}} if state == "finished" else {})
    return Row(number, state, {}, Path(), course, value)  # type: ignore[arg-type]


def test_the_best_has_the_best_metric_then_the_lower_loss_then_the_lower_number() -> None:
    more, less = Goal("accuracy", True), Goal("loss", False)
    rows = [
        row(0, 0.5),
        row(1, 0.9, 0.4),
        row(2, 0.9, 0.3),
        row(3, 0.9, 0.3),
        row(4, 0.99, state="pruned"),
        row(5, None),
    ]
    best = more.find_best(rows)
    assert best is not None
    assert best.number == 2
    worst = less.find_best(rows)
    assert worst is not None
    assert worst.number == 0


def test_without_a_finished_trial_the_best_so_far_counts() -> None:
    best = Goal("accuracy", True).find_best([row(0, 0.2, state="stopped"), row(1, 0.3, state="stopped")])
    assert best is not None
    assert best.number == 1
    assert Goal("accuracy", True).find_best([row(0, None, state="failed")]) is None
