"""Calls the command line in this process: importing torch once is enough."""

from __future__ import annotations

import pytest

from unspool.cli.main import main


def call(*arguments: object) -> int:
    """Run a command and return its exit code; anything but an exit goes through, as a trace would."""
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    code = left.value.code
    assert isinstance(code, int)
    return code


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What is said on standard error of a command that is wrong; nothing is said on standard output."""
    capsys.readouterr()
    assert call(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err
