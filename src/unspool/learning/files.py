"""Files of torch tensors: safetensors with facts and a checksum, from any device."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from unspool.storage.files import write_file
from unspool.storage.tensors import (
    ENTRY,
    SUM,
    Content,
    Form,
    check_sum,
    make_sum,
    open_tensors,
    read_all,
    read_facts,
    reading,
)

#: What the format calls the types of elements that a model may have.
DTYPES = {
    **{torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL"},
    **{torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"},
}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors, from any device, and facts about them, fit for JSON, as one safetensors file.

    The same tensors and facts give the same bytes.
    """
    # Copies on the CPU: the format has no tensors that share memory, as tied weights do.
    kept = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    entry = json.dumps({**facts, SUM: make_sum(_contents(kept), facts)})  # one, as the format keeps several in no order
    write_file(path, safetensors.torch.save(kept, {ENTRY: entry}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; a file that was damaged since, or has no checksum, is refused."""
    with reading(path):
        with open_tensors(path, "pt") as file:
            facts, tensors = read_facts(file), read_all(file)
        check_sum(_contents(tensors), facts)
        return tensors, facts


def read_plain_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of any safetensors file, which need not have a checksum."""
    with reading(path), open_tensors(path, "pt") as file:
        return read_all(file)


def forms_of(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """The forms of tensors, such as those of a module's `state_dict`, which may be on the device "meta"."""
    return {name: Form(DTYPES.get(one.dtype, str(one.dtype)), tuple(one.shape)) for name, one in tensors.items()}


def _contents(tensors: Mapping[str, Tensor]) -> Iterator[Content]:
    for name, tensor in tensors.items():
        data = tensor.reshape(-1).view(torch.uint8).numpy().data
        yield Content(name, str(tensor.dtype), list(tensor.shape), data)
