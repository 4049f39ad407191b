"""Remedies that several rules give: settings with which gates start open, and how settings are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unspool.insight.gate_bias import propose_cell, propose_forget_bias
from unspool.insight.verdicts.rules import Case
from unspool.language import Message


def open_gates(case: Case) -> dict[str, Any] | None:
    """Settings with which gates start open, as `plan` proposes them; None where the data needs too short a memory."""
    specimen = case.specimen
    bias = propose_forget_bias(needed_memory(case), specimen.forget_bias)
    if bias is None:
        return None
    engine = {} if specimen.engine == "kernel" else {"engine": "kernel"}  # torch.nn's layers have no such setting
    return {**({} if case.gated else {"cell": propose_cell(needed_memory(case))}), **engine, "forget_bias": bias}


def needed_memory(case: Case) -> int | None:
    """The steps to be remembered: what the loss was seen to need, or else what the training data needs."""
    if case.need is not None and case.need.furthest:
        return max(case.need.furthest, case.specimen.memory or 0)
    return case.specimen.memory


def spell_settings(settings: Mapping[str, Any]) -> str:
    """Settings as a message has them."""
    return ", ".join(f"`{name}={json.dumps(value)}`" for name, value in settings.items())


def advise_gates(case: Case, settings: Mapping[str, Any]) -> Message:
    """The remedy that opens gates, in words."""
    said = spell_settings(settings)
    if case.gated:
        return Message("Start with open gates, so that gradients have a way back: {settings}.", settings=said)
    return Message(
        "Use a cell whose gate keeps the state, and start with that gate open: {settings}. Or start from "
        'orthogonal recurrent matrices, which preserve the norm of a gradient: `init="orthogonal"`.',
        settings=said,
    )
