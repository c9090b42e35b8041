"""Attention of several heads, and the encoder of a transformer. Names and shapes of weights are those of PyTorch."""

import copy
import math

from quern._core import ShapeError, Tensor, ValueError, shown  # noqa: A004
from quern.nn import given
from quern.nn.activations import Dropout
from quern.nn.describe import Layer
from quern.nn.layers import Linear
from quern.nn.norms import LayerNorm


def _forbidden(mask: Tensor, dtype) -> Tensor:
    """What is added to the scores: -inf where a mask of bools is true, or the numbers of another mask."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"MultiheadAttention: expected a Tensor as a mask, got {shown(mask)}")
    return mask.where(-math.inf, 0.0).cast(dtype) if mask.dtype.name == "bool" else mask.cast(dtype)


class MultiheadAttention(Layer):
    """Takes query, key and value: (steps, batch, embed_dim), or with batch_first (batch, steps, embed_dim), or without a batch.
    Returns the output and the weights of attention, their mean over the heads unless average_attn_weights=False. In masks of bools,
    True is what is not attended to; numbers are added to the scores."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False):
        self.embed_dim = given.size("MultiheadAttention", "embed_dim", embed_dim, 1)
        self.num_heads = given.size("MultiheadAttention", "num_heads", num_heads, 1)
        if embed_dim % num_heads:
            raise ShapeError(f"MultiheadAttention: embed_dim is {embed_dim}, which cannot be divided among {num_heads} heads")
        if not 0 <= dropout <= 1:
            raise ValueError(f"MultiheadAttention: dropout is {dropout!r}, expected 0 to 1")
        self.dropout, self.batch_first = dropout, batch_first
        self.kdim = embed_dim if kdim is None else given.size("MultiheadAttention", "kdim", kdim, 1)
        self.vdim = embed_dim if vdim is None else given.size("MultiheadAttention", "vdim", vdim, 1)
        self._one_weight = self.kdim == embed_dim == self.vdim
        if self._one_weight:
            self.in_proj_weight = Tensor.glorot_uniform(3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight = Tensor.glorot_uniform(embed_dim, embed_dim)
            self.k_proj_weight = Tensor.glorot_uniform(embed_dim, self.kdim)
            self.v_proj_weight = Tensor.glorot_uniform(embed_dim, self.vdim)
        self.in_proj_bias = Tensor.zeros(3 * embed_dim) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if bias:
            self.out_proj.bias = Tensor.zeros(embed_dim)

    def options(self) -> str:
        """What it was made with."""
        return f"{self.embed_dim}, num_heads={self.num_heads}"

    def _projected(self, query, key, value):
        weights = self.in_proj_weight.chunk(3) if self._one_weight else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [x.linear(w.transpose(), b) for x, w, b in zip((query, key, value), weights, biases)]

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, steps, embed) as (batch, heads, steps, embed / heads)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, -1).transpose(1, 2)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
                 attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                 is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        for name, x, size in (("the query", query, self.embed_dim), ("the key", key, self.kdim), ("the value", value, self.vdim)):
            if given.tensor(self, x, name).ndim != query.ndim or x.ndim not in (2, 3) or x.shape[-1] != size:
                raise ShapeError(f"MultiheadAttention: {name} has shape {x.shape}, expected (steps, {size}) or a batch of such, "
                                 "as the query has")
        is_batch = query.ndim == 3
        if not is_batch:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        q, k, v = (self._heads(x) for x in self._projected(query, key, value))
        scores = (q / math.sqrt(self.embed_dim // self.num_heads)) @ k.transpose(-2, -1)
        if is_causal and attn_mask is None:
            attn_mask = Tensor.ones(scores.shape[-2], scores.shape[-1], dtype="bool", device=scores.device).triu(1)
        if attn_mask is not None:
            mask = _forbidden(attn_mask, scores.dtype)
            if mask.ndim == 3:  # one for each head of each batch
                mask = mask.reshape(-1, self.num_heads, *mask.shape[1:])
            scores = scores + mask
        if key_padding_mask is not None:
            scores = scores + _forbidden(key_padding_mask, scores.dtype).unsqueeze(1).unsqueeze(1)
        weights = scores.softmax(-1).dropout(self.dropout)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        weights = weights.mean(1) if average_attn_weights else weights
        if not is_batch:
            output, weights = output.squeeze(0), weights.squeeze(0)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        return output, weights if need_weights else None


class TransformerEncoderLayer(Layer):
    """Attention to itself and two linear layers, each added to its input, with a LayerNorm behind, or with norm_first in front."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation="relu",
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True):
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward, bias), Linear(dim_feedforward, d_model, bias)
        self.norm1, self.norm2 = LayerNorm(d_model, layer_norm_eps), LayerNorm(d_model, layer_norm_eps)
        if not bias:
            raise ValueError("TransformerEncoderLayer: bias=False is not supported: norms have biases here")
        self.dropout, self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        if activation not in ("relu", "gelu") and not callable(activation):
            raise ValueError(f"TransformerEncoderLayer: activation is {shown(activation)}, expected 'relu', 'gelu' or a function")
        self.activation, self.norm_first = activation, norm_first

    def _activated(self, x):
        return x.relu() if self.activation == "relu" else x.gelu("none") if self.activation == "gelu" else self.activation(x)

    def _attended(self, x, mask, padding, is_causal):
        return self.dropout1(self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)[0])

    def _fed_forward(self, x):
        return self.dropout2(self.linear2(self.dropout(self._activated(self.linear1(x)))))

    def __call__(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                 is_causal: bool = False) -> Tensor:
        if self.norm_first:
            x = src + self._attended(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return x + self._fed_forward(self.norm2(x))
        x = self.norm1(src + self._attended(src, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._fed_forward(x))


class TransformerEncoder(Layer):
    """Copies of a layer, one behind the other."""

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm=None):
        given.size("TransformerEncoder", "num_layers", num_layers, 1)
        if not isinstance(encoder_layer, Layer):
            raise TypeError(f"TransformerEncoder: expected a layer, got {shown(encoder_layer)}")
        self.layers = [copy.deepcopy(encoder_layer) for _ in range(num_layers)]
        self.norm = norm

    def __call__(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                 is_causal: bool = False) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


__all__ = ["MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer"]
