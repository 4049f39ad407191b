"""Equations as plain text, for comments in C."""

from __future__ import annotations

import re

from unspool.engine.graph import Node

OPERATORS = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "divide": "{} / {}",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
}
LONGEST = 100


def as_comment(text: str) -> str:
    """A text that can stand in a comment: names may come from a document of unknown origin."""
    return re.sub(r"[^\w +\-.,:()<>=|*/?]", " ", text).replace("*/", "* /").replace("/*", "/ *")


class Plain:
    """Texts of values; a value that has a name stands for itself outside its own line."""

    def __init__(self, names: dict[Node, str], states: list[str]) -> None:
        self._names, self._states = names, states
        self._texts: dict[Node, str] = {}

    def line(self, node: Node) -> str:
        """How a value is computed, or nothing if that would be too long."""
        text = self._text(node, own=True)
        text = text[1:-1] if text.startswith("(") and node.operation in OPERATORS else text
        return as_comment(text) if len(text) <= LONGEST else ""

    def _text(self, node: Node, own: bool = False) -> str:
        if node in self._names and not own:
            return self._names[node]
        if node not in self._texts or own:
            self._texts[node] = self._print(node)
        return self._texts[node]

    def _print(self, node: Node) -> str:
        return self._print_computed(node) if node.inputs else self._print_given(node)

    def _print_given(self, node: Node) -> str:
        match node.operation:
            case "before":
                return str(self._states[node.detail])
            case "constant":
                return f"{node.detail:g}"
            case "per_unit":
                return "1/units"
            case operation:
                return "x" if operation == "x" else str(node.detail)

    def _print_computed(self, node: Node) -> str:
        inputs = [self._text(value) for value in node.inputs]
        match node.operation:
            case "map":
                bias = [] if node.detail.bias is None else [node.detail.bias]
                return " + ".join([f"{m} {v}" for m, v in zip(node.detail.matrices, inputs, strict=True)] + bias)
            case "where":
                return f"({inputs[0]} ? {inputs[1]} : {inputs[2]})"
            case "negative":
                return f"-{inputs[0]}"
            case operation if operation in OPERATORS:
                text = OPERATORS[operation].format(*inputs)
                return f"({text[: LONGEST + 1]})"
            case operation:
                return f"{operation}({', '.join(inputs)[: LONGEST + 1]})"
