"""The names of `unspool.learning`: loaded on first use, documented, and light to import."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from unspool import learning

PACKAGE = Path(learning.__file__)

ALONE = """
import sys, types
package = types.ModuleType("unspool")  # the front door may load more
package.__path__ = [sys.argv[1]]
sys.modules["unspool"] = package
for statement in sys.argv[2:]:
    exec(statement)
    print(*sorted({"torch", "pydantic", "polars", "plotly"} & set(sys.modules)))
"""


def test_importing_it_loads_no_torch_and_using_it_no_data() -> None:
    use = "from unspool import learning; [getattr(learning, name) for name in learning.__all__]"
    command = [sys.executable, "-c", ALONE, str(PACKAGE.parent.parent), "import unspool.learning", use]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "pydantic torch"]  # checkpoints are checked by pydantic


def test_type_checkers_see_the_names_that_are_there() -> None:
    guarded = next(node for node in ast.parse(PACKAGE.read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    seen = [
        (part.module, name.name) for part in guarded.body if isinstance(part, ast.ImportFrom) for name in part.names
    ]
    assert sorted(name for _, name in seen) == learning.__all__ == sorted(dir(learning))
    for module, name in seen:
        assert getattr(learning, name).__module__ == module


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'unspool.learning' has no attribute 'find_rate'"):
        learning.find_rate  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", learning.__all__)
def test_every_name_is_documented_with_its_arguments_and_an_example(name: str) -> None:
    value = getattr(learning, name)
    text = inspect.getdoc(value) or ""
    assert "Example:" in text
    if name == "Progress":  # its fields are explained where they stand
        return
    arguments = text.partition("Args:")[2].partition("\n\n")[0]
    for parameter in inspect.signature(value).parameters:
        assert f"{parameter}: " in arguments
    if inspect.isfunction(value) and inspect.signature(value).return_annotation != "None" and name != "restored":
        assert "Returns:" in text
