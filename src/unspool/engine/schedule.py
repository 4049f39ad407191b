"""The order of work within a step: levels of elementwise work with products between them.

A level is what can be computed once the products before it are done. Within a level, one loop over the units of a
row computes everything that has the same width. A value that a later level reads is put into a buffer, a *cut*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unspool.cells.symbols import CONDITIONS
from unspool.engine.graph import COLLECTED, ELEMENTWISE, INDEXED, LEAVES, ROW, Lowered, Node, order
from unspool.engine.reverse import Reversed


@dataclass(frozen=True)
class Sink:
    """A value to be stored at a level: where to is told by kind and index."""

    kind: str
    index: int
    node: Node
    width: str


@dataclass
class Program:
    """The levels of one direction, forward or backward."""

    sinks: list[list[Sink]]  # per level
    cuts: list[Node] = field(default_factory=list)
    sums: list[Node] = field(default_factory=list)
    levels: dict[Node, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """A run of neighbouring maps that read one operand: one product forward, one back, one sum of outer products."""

    operand: Node  # of the forward graph
    first: int
    count: int
    matrices: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A run of neighbouring maps that read the same operands at the same level: one product forward."""

    first: int
    count: int
    level: int  # done before this level
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """Everything that the emitted kernel and its driver need to know about a cell."""

    lowered: Lowered
    reversed: Reversed
    maps: tuple[Node, ...]  # in the order in which their values lie side by side
    groups: tuple[Group, ...]
    blocks: tuple[Block, ...]
    operands: tuple[Node, ...]  # forward nodes, neither x nor states, that maps read
    forward: Program
    backward: Program
    backs: tuple[Node, ...]  # reverse nodes: products with gradients, results in buffers


def schedule(lowered: Lowered, reverse: Reversed) -> Schedule:
    """Plan both directions."""
    maps = _ordered_maps(lowered.nodes)
    levels = _levels(lowered.nodes)
    groups = _groups(maps, levels)
    operands = tuple(dict.fromkeys(group.operand for group in groups if group.operand.operation not in ("x", "before")))
    forward = _program(_forward_sinks(lowered, reverse, operands), levels)
    results = (reverse.d_maps, reverse.d_before, reverse.d_vectors, reverse.d_extras, reverse.operands)
    roots = [node for part in results for node in part.values()] + ([reverse.d_x] if reverse.d_x else [])
    nodes = order(roots)
    backs = tuple(node for node in nodes if node.operation == "back")
    backward = _program(_backward_sinks(lowered, reverse, maps, operands), _levels(nodes))
    blocks = _blocks(maps, groups, levels)
    return Schedule(lowered, reverse, maps, groups, blocks, operands, forward, backward, backs)


def _forward_sinks(lowered: Lowered, reverse: Reversed, operands: Sequence[Node]) -> list[Sink]:
    """What the forward step writes: states, what backward needs, named values, and what maps read."""
    return [
        *(Sink("after", k, node, _width(node)) for k, node in enumerate(lowered.results)),
        *(Sink("slot", slot, node, node.width or ROW) for slot, node in enumerate(reverse.slots)),
        *(Sink("trace", k, node, _width(node)) for k, node in enumerate(lowered.named.values())),
        *(Sink("operand", k, node, _width(node)) for k, node in enumerate(operands)),
    ]


def _backward_sinks(lowered: Lowered, reverse: Reversed, maps: Sequence[Node], operands: Sequence[Node]) -> list[Sink]:
    """What the backward step writes: the gradients of maps, states, vectors and x, and what maps had read."""
    equations = lowered.equations
    states, names = list(equations.states.values()), list(equations.parameters)
    place = {node: k for k, node in enumerate(maps)}
    return [
        *(Sink("d_map", place[value], node, _width(value)) for value, node in reverse.d_maps.items()),
        *(Sink("d_before", k, node, states[k]) for k, node in reverse.d_before.items()),
        *(
            Sink("d_vector", names.index(name), node, "*".join(equations.parameters[name]))
            for name, node in reverse.d_vectors.items()
        ),
        *(
            Sink("d_operand", k, reverse.operands[node], _width(node))
            for k, node in enumerate(operands)
            if node in reverse.operands
        ),
        *([Sink("d_x", 0, reverse.d_x, "input")] if reverse.d_x else []),
        *(Sink("d_extra", k, node, list(equations.inputs.values())[k]) for k, node in reverse.d_extras.items()),
    ]


def _width(node: Node) -> str:
    assert node.width is not None
    return node.width


#: The most operations of one level: a loop is one piece of work for a compiler, whose time grows faster than the loop.
LARGEST_LEVEL = 96


def _levels(nodes: Iterable[Node]) -> dict[Node, int]:
    """The level of each node; products and sums over rows begin a new one, and so do too many operations."""
    levels: dict[Node, int] = {}
    counts: dict[int, int] = {}
    for node in nodes:
        level = _level(node, levels)
        if node.operation in ELEMENTWISE:
            while counts.get(level, 0) >= LARGEST_LEVEL:
                level += 1
            counts[level] = counts.get(level, 0) + 1
        levels[node] = level
    return levels


def _level(node: Node, levels: Mapping[Node, int]) -> int:
    if node.operation == "map":
        inner = [levels[value] for value in node.inputs if value.operation not in ("x", "before")]
        return max(inner) + 1 if inner else 0
    if node.operation == "back" or node.operation in COLLECTED:
        return max(levels[value] for value in node.inputs) + 1
    if node.operation in INDEXED:
        return levels[node.inputs[0]] + (not is_at_hand(node.inputs[0]))
    return max((levels[value] for value in node.inputs), default=0)


def _ordered_maps(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Maps side by side such that those that read one operand are neighbours, as far as that goes."""
    maps = [node for node in nodes if node.operation == "map"]

    def place(node: Node) -> tuple[int, int]:
        kinds = {value.operation for value in node.inputs}
        # x alone, x and states, states alone; maps of other values last within each
        return (0 if kinds == {"x"} else 1 if "x" in kinds else 2, len(kinds - {"x", "before"}))

    return tuple(sorted(maps, key=place))


def _groups(maps: Sequence[Node], levels: dict[Node, int]) -> tuple[Group, ...]:
    operands = dict.fromkeys(value for node in maps for value in node.inputs)
    return tuple(_group(operand, run, maps) for operand in operands for run in _runs(operand, maps, levels))


def _runs(operand: Node, maps: Sequence[Node], levels: dict[Node, int]) -> list[list[int]]:
    """The maps that read an operand, in runs of neighbours; those of one run are ready at the same time."""
    early = operand.operation in ("x", "before")
    runs: list[list[int]] = []
    for k, node in enumerate(maps):
        if operand not in node.inputs:
            continue
        last = runs[-1][-1] if runs else None
        if last == k - 1 and last is not None and (early or levels[maps[last]] == levels[node]):
            runs[-1].append(k)
        else:
            runs.append([k])
    return runs


def _group(operand: Node, run: list[int], maps: Sequence[Node]) -> Group:
    matrices = tuple(maps[k].detail.matrices[maps[k].inputs.index(operand)] for k in run)
    return Group(operand, run[0], len(run), matrices)


def _blocks(maps: Sequence[Node], groups: Sequence[Group], levels: dict[Node, int]) -> tuple[Block, ...]:
    readers = [tuple(g for g, it in enumerate(groups) if it.first <= k < it.first + it.count) for k in range(len(maps))]
    blocks: list[Block] = []
    for k, node in enumerate(maps):
        last = blocks[-1] if blocks else None
        if last and (last.level, last.groups) == (levels[node], readers[k]):
            blocks[-1] = Block(last.first, last.count + 1, last.level, last.groups)
        else:
            blocks.append(Block(k, 1, levels[node], readers[k]))
    return tuple(blocks)


def _program(sinks: Sequence[Sink], levels: dict[Node, int]) -> Program:
    depth = max((levels[sink.node] for sink in sinks), default=0)
    program = Program([[] for _ in range(depth + 1)], levels=levels)
    pending = list(sinks)
    done: set[tuple[str, int]] = set()
    while pending:
        sink = pending.pop(0)
        if (sink.kind, sink.index) in done:
            continue
        done.add((sink.kind, sink.index))
        level = levels[sink.node]
        program.sinks[level].append(sink)
        pending += [
            further for node in closure(sink.node, level, levels) for further in _write_first(node, level, program)
        ]
    return program


def _write_first(node: Node, level: int, program: Program) -> list[Sink]:
    """What must be written before a level reads this node: a sum over rows, or a value of an earlier level."""
    if node.operation in ("row_sum", "row_max"):
        if node in program.sums:
            return []
        program.sums.append(node)
        return [Sink("sum", program.sums.index(node), node.inputs[0], _units(node.inputs[0]))]
    if node.operation in INDEXED:
        source = node.inputs[0]
        return _write_first(source, level, program) if is_at_hand(source) else _cut(source, source, "cut", program)
    if node.operation in COLLECTED:
        return _cut(node, node.inputs[0], node.operation, program)
    return _cut(node, node, "cut", program) if is_cut(node, level, program.levels) else []


def _cut(node: Node, value: Node, kind: str, program: Program) -> list[Sink]:
    """A buffer for a node, and what fills it."""
    if node in program.cuts:
        return []
    program.cuts.append(node)
    return [Sink(kind, program.cuts.index(node), value, _width(value))]


def _units(node: Node) -> str:
    """The width of the loop that sums a value over a row."""
    assert node.width not in (None, ROW)
    return _width(node)


def is_at_hand(node: Node) -> bool:
    """Whether a value can be loaded at any level: leaves, maps' values, results of products."""
    return node.operation in LEAVES or node.operation in ("map", "back") or node.operation in COLLECTED


def is_cut(node: Node, level: int, levels: dict[Node, int]) -> bool:
    """Whether a value of an earlier level is read from a buffer.

    Comparisons and repeated values are made again, and so are numbers a row that take few operations.
    """
    if levels[node] >= level or is_at_hand(node):
        return False
    again = node.operation in CONDITIONS or node.operation in INDEXED
    return not again and not (node.width == ROW and _is_short(node))


def _is_short(root: Node, most: int = 12) -> bool:
    """Whether a value takes no more than so many operations from what is at hand."""
    seen: set[Node] = set()
    pending = [root]
    while pending and len(seen) <= most:
        node = pending.pop()
        if node not in seen and not is_at_hand(node):
            seen.add(node)
            pending.extend(node.inputs)
    return len(seen) <= most


def closure(root: Node, level: int, levels: dict[Node, int]) -> tuple[Node, ...]:
    """The nodes that a sink at this level computes or loads, each after its inputs."""
    seen: dict[Node, None] = {}
    pending = [(root, False)]
    while pending:
        node, ready = pending.pop()
        if node in seen:
            continue
        if ready or is_at_hand(node) or node.operation in INDEXED or is_cut(node, level, levels):
            seen[node] = None
        else:
            pending.append((node, True))
            pending.extend((value, False) for value in reversed(node.inputs))
    return tuple(seen)
