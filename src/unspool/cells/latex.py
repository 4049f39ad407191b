"""Equations as LaTeX, the way a textbook prints them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from unspool.cells.equations import Equations
from unspool.cells.symbols import GIVEN, LinearMap, Symbol

# How tightly each form binds; an operand that binds less than its place asks for gets parentheses, and so does one
# that starts with a minus sign after an operator.
SUM, PRODUCT, ATOM = 1, 2, 3

FUNCTIONS = {
    "sigmoid": r"\sigma",
    "tanh": r"\tanh",
    "relu": r"\operatorname{relu}",
    "exp": r"\exp",
    "log": r"\ln",
    "log1p": r"\operatorname{log1p}",
    "sin": r"\sin",
    "cos": r"\cos",
    "erf": r"\operatorname{erf}",
    "softplus": r"\operatorname{softplus}",
    "minimum": r"\min",
    "maximum": r"\max",
    "normalise": r"\operatorname{norm}",
    "softmax": r"\operatorname{softmax}",
    "cumsum": r"\operatorname{cumsum}",
    "sum": r"\operatorname{sum}",
    "mean": r"\operatorname{mean}",
    "max": r"\operatorname{largest}",
    "columns": r"\operatorname{columns}",
}

#: A value without a name that is longer than this, and used more than once, gets a line of its own.
LONG = 200


class Operator(NamedTuple):
    """How an operator is printed: its text, how tightly each operand must bind, whether it is after a sign."""

    text: str
    operands: tuple[tuple[int, bool], ...]
    binding: int


OPERATORS = {
    "add": Operator("{} + {}", ((SUM, False), (SUM, True)), SUM),
    "subtract": Operator("{} - {}", ((SUM, False), (PRODUCT, True)), SUM),
    "multiply": Operator(r"{} \odot {}", ((PRODUCT, False), (PRODUCT, True)), PRODUCT),
    "divide": Operator(r"\frac{{{}}}{{{}}}", ((SUM, False), (SUM, False)), ATOM),
    "negative": Operator("-{}", ((PRODUCT, True),), PRODUCT),
    "sqrt": Operator(r"\sqrt{{{}}}", ((SUM, False),), ATOM),
    "absolute": Operator(r"\left|{}\right|", ((SUM, False),), ATOM),
    "less": Operator("{} < {}", ((SUM, False), (SUM, False)), SUM),
    "less_equal": Operator(r"{} \le {}", ((SUM, False), (SUM, False)), SUM),
    "outer": Operator(r"{} \otimes {}", ((ATOM, False), (ATOM, True)), PRODUCT),
    "matvec": Operator(r"{} \cdot {}", ((ATOM, False), (ATOM, True)), PRODUCT),
    "vecmat": Operator(r"{}^\top \cdot {}", ((ATOM, False), (ATOM, True)), PRODUCT),
    "where": Operator(r"\begin{{cases}} {1} & {0} \\ {2} & \text{{else}} \end{{cases}}", ((SUM, False),) * 3, ATOM),
}
#: The product with a number.
SCALED = OPERATORS["multiply"]._replace(text=r"{} \, {}")


def latex(equations: Equations) -> str:
    """One line for each named value, each state last under its own name."""
    return "\\begin{aligned}\n" + " \\\\\n".join(_Printer(equations).lines()) + "\n\\end{aligned}"


class _Printer:
    """Prints value after value, each from the texts of its inputs; named values stand for themselves."""

    def __init__(self, equations: Equations) -> None:
        self.equations = equations
        self._texts: dict[Symbol, tuple[str, int]] = {}

    def lines(self) -> list[str]:
        """`name = text` for every named value."""
        named = self.equations.named
        names = {id(value): name for name, value in named.items() if value.operation not in GIVEN}
        uses = Counter(id(value) for node in self.equations.nodes for value in node.inputs)
        lines: list[str] = []
        helpers = 0
        for node in self.equations.nodes:
            text, binding = self._print(node)
            if id(node) in names:
                letter = _letter(names[id(node)])
            elif _is_worth_a_line(text, uses[id(node)]):
                helpers += 1
                letter = f"s^{{({helpers})}}"
            else:
                self._texts[node] = text, binding
                continue
            lines.append(f"{letter}_t &= {text}")
            self._texts[node] = f"{letter}_t", ATOM
        return lines + self._shifted()

    def _shifted(self) -> list[str]:
        """States that are what another one, or the input, was before."""
        shifted = {name: value for name, value in self.equations.named.items() if value.operation in GIVEN}
        return [f"{_letter(name)}_t &= {self._texts[value][0]}" for name, value in shifted.items()]

    def _print(self, node: Symbol) -> tuple[str, int]:
        """The text of a value, and how tightly it binds."""
        match node.operation:
            case "input":
                return "x_t", ATOM
            case "extra":
                return f"{_letter(node.detail)}_t", ATOM
            case "expand" | "view":
                return self._texts[node.inputs[0]]
            case "state":
                return f"{_letter(node.detail)}_{{t-1}}", ATOM
            case "vector":
                return _subscripted(node.detail), ATOM
            case "constant":
                return _number(node.detail)
            case "linear":
                return self._linear(node.detail, node.inputs)
            case "multiply" if any(factor.operation == "constant" for factor in node.inputs):
                return self._operator(node, SCALED)
            case operator if operator in OPERATORS:
                return self._operator(node, OPERATORS[operator])
            case function:
                operands = ", ".join(self._at(node, place, SUM) for place in range(len(node.inputs)))
                return rf"{FUNCTIONS[function]}\left({operands}\right)", ATOM

    def _operator(self, node: Symbol, operator: Operator) -> tuple[str, int]:
        places = enumerate(operator.operands)
        return operator.text.format(*(self._at(node, place, *operand) for place, operand in places)), operator.binding

    def _at(self, node: Symbol, place: int, binding: int, after: bool = False) -> str:
        """The text of an operand for its place, which may be `after` an operator."""
        text, own = self._texts[node.inputs[place]]
        return text if own >= binding and not (after and text.startswith("-")) else rf"\left({text}\right)"

    def _linear(self, linear: LinearMap, operands: tuple[Symbol, ...]) -> tuple[str, int]:
        terms = []
        for matrix, operand in zip(linear.matrices, operands, strict=True):
            text, own = self._texts[operand]
            factor = text if own == ATOM and not text.startswith("-") else rf"\left({text}\right)"
            terms.append(f"{_subscripted(matrix)} {factor}")
        if linear.bias is not None:
            terms.append(_subscripted(linear.bias))
        return " + ".join(terms), SUM if len(terms) > 1 else PRODUCT


def _is_worth_a_line(text: str, uses: int) -> bool:
    """Whether a value without a name is so long, or so long and often used, that it gets one."""
    return len(text) > LONG and (uses > 1 or len(text) > 10 * LONG)


def _number(value: float) -> tuple[str, int]:
    """A number as a textbook prints it, and how tightly it binds."""
    digits, _, exponent = f"{value:g}".partition("e")
    if not exponent:
        return digits, ATOM
    power = f"10^{{{int(exponent)}}}"
    return (power, ATOM) if digits == "1" else (rf"{digits} \cdot {power}", PRODUCT)


def _letter(name: str) -> str:
    """A name as one mathematical letter; what follows its underscore goes above, since below stands the time."""
    head, _, mark = name.partition("_")
    text = head if len(head) == 1 else rf"\mathrm{{{head}}}"
    return text + (rf"^{{({mark.replace('_', ' ')})}}" if mark else "")


def _subscripted(name: str) -> str:
    """A parameter's name, with what follows its underscore below: W_r, U1_h, p_i."""
    head, _, mark = name.partition("_")
    letter, number = head[0], head[1:]
    text = letter if not number else rf"{letter}^{{({number})}}" if number.isdigit() else rf"\mathrm{{{head}}}"
    return text + (rf"_{{{mark.replace('_', ' ')}}}" if mark else "")
