"""What a server may be given, and where from: arguments, variables or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.errors import ArgumentError
from unspool.server.settings import ServeSettings, gather


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "0.0.0.0"}, "token"),
        ({"host": "192.168.1.2"}, "token"),
        ({"host": "example.org"}, "token"),
        ({"token": ("short",)}, "8 or more"),
        ({"token": ("with a space in it",)}, "ASCII"),
        ({"port": 65536}, "port"),
        ({"timeout": 0}, "timeout"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"idle": float("nan")}, "idle"),
        ({"workers": 0}, "workers"),
        ({"workers": 2}, "redis"),
        ({"redis": "http://:a-password@127.0.0.1"}, "redis://"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said) as caught:
        ServeSettings(**given)
    assert not any(one in str(caught.value) for one in (*given.get("token", ()), "a-password"))


def test_arguments_count_more_than_variables_and_these_more_than_the_file(tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text('runs = ["a", "b"]\nport = 1\nqueue = 2\nidle = 3\ntoken = "from-the-file"\n')
    variables = {
        "UNSPOOL_SERVE_PORT": "4",
        "UNSPOOL_SERVE_INT8": "true",
        "UNSPOOL_SERVE_ALLOW_HOST": "x,y",
        "HOME": "/",
    }
    found = gather({"port": None, "queue": 5}, variables, config)
    assert found == {
        **{"runs": ("a", "b"), "port": 4, "queue": 5, "idle": 3.0, "token": ("from-the-file",)},
        **{"int8": True, "allow_host": ("x", "y")},
    }
    for name, text in (("PORT", "x"), ("INT8", "maybe"), ("PROT", "1")):
        with pytest.raises(ArgumentError, match=f"UNSPOOL_SERVE_{name}"):
            gather({}, {f"UNSPOOL_SERVE_{name}": text})
    for line in ('port = "1"', "prot = 1", "token = 1", "runs = [1]", "port ="):
        config.write_text(line)
        with pytest.raises(ArgumentError):
            gather({}, {}, config)
    with pytest.raises(ArgumentError, match="cannot be read"):
        gather({}, {}, tmp_path / "none.toml")
