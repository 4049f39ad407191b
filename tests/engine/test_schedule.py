"""The order of work: every product once, after what it reads and before what reads it."""

from __future__ import annotations

from typing import Any

from tests.engine.random_cells import random_cell
from tests.variants import each_cell

from unspool.cells import Cell, find_cell
from unspool.engine.graph import lower
from unspool.engine.reverse import reverse
from unspool.engine.schedule import schedule


def check_schedule(cell: Cell) -> None:
    lowered = lower(cell.equations())
    plan = schedule(lowered, reverse(lowered))
    # every product exactly once, its maps side by side, after the level that makes its operand
    products = [(plan.maps[k], group.operand) for group in plan.groups for k in _run(group)]
    wanted = [(node, operand) for node in plan.maps for operand in node.inputs]
    assert sorted(map(id, sum(products, ()))) == sorted(map(id, sum(wanted, ())))
    assert set(products) == set(wanted)
    for group in plan.groups:
        matrices = [plan.maps[k].detail.matrices[plan.maps[k].inputs.index(group.operand)] for k in _run(group)]
        assert list(group.matrices) == matrices
    # every map in one block, with all its operands, after the level that makes them and before the one that reads it
    assert [k for block in plan.blocks for k in _run(block)] == list(range(len(plan.maps)))
    for block in plan.blocks:
        operands = [plan.groups[g].operand for g in block.groups]
        assert all(set(plan.maps[k].inputs) == set(operands) for k in _run(block))
        assert all(plan.forward.levels[plan.maps[k]] == block.level for k in _run(block))
        assert all(plan.forward.levels[it] < block.level for it in operands if it.operation not in ("x", "before"))
    # every result, every named value and every kept value is stored exactly once
    stored = [(sink.kind, sink.index) for level in plan.forward.sinks for sink in level]
    assert len(stored) == len(set(stored))
    for kind, count in (
        ("after", len(lowered.results)),
        ("trace", len(lowered.named)),
        ("slot", len(plan.reversed.slots)),
    ):
        assert {index for found, index in stored if found == kind} == set(range(count))
    # what a level reads from a buffer, an earlier level has put there
    for program in (plan.forward, plan.backward):
        put = {}
        for level, sinks in enumerate(program.sinks):
            for sink in sinks:
                if sink.kind in ("cut", "sum", "reduce", "cumsum"):
                    put["sum" if sink.kind == "sum" else "cut", sink.index] = level
        for index, cut in enumerate(program.cuts):
            collected = cut.operation in ("reduce", "cumsum")  # such a buffer is filled by what is summed
            assert put["cut", index] == program.levels[cut.inputs[0] if collected else cut]
            assert cut.operation not in ("less", "less_equal")
        for index, total in enumerate(program.sums):
            assert put["sum", index] < program.levels[total]


def _run(group: Any) -> range:
    return range(group.first, group.first + group.count)


@each_cell
def test_schedule_of_every_cell(cell: Cell) -> None:
    check_schedule(cell)


def test_schedule_of_random_cells() -> None:
    for seed in range(100):
        check_schedule(random_cell(seed))


def test_products_that_share_an_operand_are_one() -> None:
    lowered = lower(find_cell("lstm").equations())
    plan = schedule(lowered, reverse(lowered))
    assert [(group.operand.operation, group.count) for group in plan.groups] == [("x", 4), ("before", 4)]
    assert len(plan.forward.sinks) == 1
    lowered = lower(find_cell("gru").equations())
    plan = schedule(lowered, reverse(lowered))
    assert [(group.operand.operation, group.count) for group in plan.groups] == [
        ("x", 3),
        ("before", 2),
        ("multiply", 1),
    ]
    assert [len(level) > 0 for level in plan.forward.sinks] == [True, True]
