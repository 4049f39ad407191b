"""DecoderTransformer's oracles: torch.nn's encoder layers, and one step by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.nn.attention import DecoderTransformer


def torch_transformer(layer: DecoderTransformer) -> nn.TransformerEncoder:
    """torch.nn's layers with the weights of ours."""
    width = layer.width
    one = nn.TransformerEncoderLayer(
        width, layer.num_heads, 4 * width, 0.0, activation="gelu", norm_first=True, dtype=torch.float64
    )
    norm = nn.LayerNorm(width, dtype=torch.float64)
    encoder = nn.TransformerEncoder(one, layer.num_layers, norm, enable_nested_tensor=False)
    with torch.no_grad():
        for theirs, ours in zip(their_parameters(encoder), our_parameters(layer), strict=True):
            theirs.copy_(ours)
    return encoder


def our_parameters(layer: DecoderTransformer) -> list[Tensor]:
    parts = (
        "query_key_value",
        "attention_out",
        "feed_forward_in",
        "feed_forward_out",
        "attention_norm",
        "feed_forward_norm",
    )
    modules = [getattr(block, part) for block in layer.blocks for part in parts]
    return [parameter for module in [*modules, layer.norm] for parameter in (module.weight, module.bias)]


def their_parameters(encoder: nn.TransformerEncoder) -> list[Tensor]:
    parameters: list[Tensor] = []
    for layer in encoder.layers:
        assert isinstance(layer, nn.TransformerEncoderLayer)
        attention = layer.self_attn
        parameters += [attention.in_proj_weight, attention.in_proj_bias]
        modules: list[Any] = [attention.out_proj, layer.linear1, layer.linear2, layer.norm1, layer.norm2]
        parameters += [parameter for module in modules for parameter in (module.weight, module.bias)]
    assert isinstance(encoder.norm, nn.LayerNorm)
    return [*parameters, encoder.norm.weight, encoder.norm.bias]


def by_hand_step(
    layer: DecoderTransformer, x: Tensor, past: list[list[tuple[Tensor, Tensor]]]
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """One step of one row (width,), head by head, on the keys and values of each layer's past; and its own."""

    def norm(module: Any, v: Tensor) -> Tensor:
        centerd = v - v.mean()
        normed: Tensor = centerd / (centerd.square().mean() + 1e-5).sqrt() * module.weight + module.bias
        return normed

    h, new, width, size = x, [], layer.width, layer.width // layer.num_heads
    blocks: Any = layer.blocks
    for block, before in zip(blocks, past, strict=True):
        parts = block.query_key_value.weight @ norm(block.attention_norm, h) + block.query_key_value.bias
        q, k, v = parts[:width], parts[width : 2 * width], parts[2 * width :]
        new.append((k, v))
        mixed = []
        for head in range(layer.num_heads):
            cut = slice(head * size, (head + 1) * size)
            scores = torch.stack([q[cut] @ key[cut] / size**0.5 for key, _ in [*before, (k, v)]])
            weights = scores.exp() / scores.exp().sum()
            mixed.append(
                sum(weight * value[cut] for weight, (_, value) in zip(weights, [*before, (k, v)], strict=True))
            )
        h = h + block.attention_out(torch.cat(mixed))
        h = h + block.feed_forward_out(functional.gelu(block.feed_forward_in(norm(block.feed_forward_norm, h))))
    return norm(layer.norm, h), new
