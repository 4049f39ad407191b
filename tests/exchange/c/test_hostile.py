"""Names and titles of unknown origin stay within the comments and names of exported C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.exchange.c.compiled import compile_all
from tests.exchange.c.random_stacks import cell_stack

from unspool.exchange.c.convert import write_c
from unspool.exchange.c.names import identifier
from unspool.runtime.network import Layer, Stack

TITLES = ("*/ int evil(void); int evil(void) { return 1; } /*", "/* @_x \\\n", "é */\n#error no\n/*", "??/")


def test_a_title_cannot_leave_its_comment(tmp_path: Path) -> None:
    (layer,) = cell_stack(1).layers
    (one,) = layer.directions
    written = []
    for number, title in enumerate(TITLES):
        equations = replace(one.equations, title=title)
        stack = Stack((Layer((replace(one, equations=equations),), False),), False, 0)
        written.append(write_c(stack, f"hostile{number}"))
    models = compile_all(tmp_path, written)
    assert len(models) == len(TITLES)
    assert not hasattr(models["hostile0"].library, "evil")


def test_names_are_identifiers() -> None:
    assert [identifier(name) for name in ("int", "2d", "", "my-model.v2", "é", "_x")] == [
        *("m_int", "m_2d", "model", "my_model_v2", "model", "x")
    ]
