"""Attention, and encoders and decoders made of it (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from fluidlite.base.dtypes import VarType, is_integer
from fluidlite.layers.tensors.constants import fill_constant_batch_size_like
from fluidlite.paddle.attributes import ParamAttr
from fluidlite.paddle.nn import functional as F
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.nn.layer.common import Dropout, Linear
from fluidlite.paddle.nn.layer.container import LayerList
from fluidlite.paddle.nn.layer.norm import LayerNorm
from fluidlite.paddle.tensor.creation import full, triu
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.manipulation import concat, reshape, transpose
from fluidlite.paddle.tensor.math import cast

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class Cache(NamedTuple):
    """Keys and values of the steps so far, [batch, heads, steps, size of a head]."""

    k: Any
    v: Any


class StaticCache(NamedTuple):
    """Keys and values that stay the same, those of an encoder's output."""

    k: Any
    v: Any


def _added(mask: Any, dtype: Any) -> Any:
    """A mask as numbers of the scores' dtype that are added to these: -1e9 where a bool or integer is 0."""
    if mask is None or mask.dtype == dtype:
        return mask
    if not (mask.dtype == VarType.BOOL or is_integer(mask.dtype)):
        return cast(mask, dtype)
    return (cast(mask, dtype) - 1.0) * 1e9


def _one_for_each(attr: Any, count: int) -> list[Any]:
    """One attribute for each of `count` parts, from one for all, whose name gets their numbers, or a list of
    them.
    """
    if not isinstance(attr, (list, tuple)):
        return [_numbered(attr, place) for place in range(count)]
    if len(attr) != count:
        raise ValueError(f"{count} attributes are needed, but the list has {len(attr)}")
    return list(attr)


def _numbered(attr: Any, place: int) -> Any:
    """A copy of an attribute with a number behind its name."""
    given = ParamAttr._to_attr(attr)
    if not given or given.name is None:
        return attr
    numbered = copy.copy(given)
    numbered.name = f"{given.name}_{place}"
    return numbered


def _of_both(attr: Any) -> tuple[Any, Any]:
    """The attributes of the layers of an encoder, and of a decoder: lists name that of all parts, those of
    attentions and of the rest, or one for each of a decoder's three parts.
    """
    if not isinstance(attr, (list, tuple)):
        return attr, attr
    if len(attr) not in (1, 2, 3):
        raise ValueError(f"1 to 3 attributes are needed, but the list has {len(attr)}")
    each = [attr[0], attr[1 if len(attr) == 3 else 0], attr[-1]]
    # the encoder has no attention to another's output, the second of three
    return each[::2], each


class MultiHeadAttention(Layer):
    """softmax(q k' / sqrt(size of a head)) v for each of `num_heads` parts of projected queries, keys and
    values; the parts together are projected again.

    kdim, vdim: sizes of keys and values, by default `embed_dim`. need_weights: give the softmax back, too.
    """

    Cache, StaticCache = Cache, StaticCache

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads != 0:
            raise ValueError(
                f"embed_dim must be divisible by num_heads, both greater than 0: {embed_dim}, {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(embed_dim if kdim is None else kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(embed_dim if vdim is None else vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x: Any) -> Any:
        return transpose(reshape(x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])

    def compute_kv(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Projected keys and values, [batch, heads, steps, size of a head]."""
        k, v = self.k_proj(key), self.v_proj(value)
        return self._heads(k), self._heads(v)

    def gen_cache(self, key: Any, value: Any = None, type: Any = Cache) -> Any:
        """A cache for `forward`: of `key` and `value` projected (`type` StaticCache), without any steps yet
        (`value` None), or of keys and values that are there.
        """
        if type is StaticCache:
            return StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return Cache(key, value)
        shape = [-1, self.num_heads, 0, self.head_dim]
        return Cache(*(fill_constant_batch_size_like(key, shape, key.dtype, 0.0) for _ in range(2)))

    def forward(
        self, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None
    ) -> Any:
        """The attention [batch, steps, embed_dim]; with `need_weights` the weights, with a `cache` the next.

        key, value: by default `query`. attn_mask: added to the scores [batch, heads, steps, steps of the
        keys]; a bool or integer says by 0 what is not seen.
        """
        key = query if key is None else key
        value = query if value is None else value
        q = self._heads(self.q_proj(query))
        if isinstance(cache, StaticCache):
            k, v = cache
        else:
            k, v = self.compute_kv(key, value)
        if isinstance(cache, Cache):
            k, v = concat([cache.k, k], 2), concat([cache.v, v], 2)
            cache = Cache(k, v)
        scores = matmul(q * self.head_dim**-0.5, k, transpose_y=True)
        added = _added(attn_mask, scores.dtype)
        weights = F.softmax(scores if added is None else scores + added)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        mixed = reshape(transpose(matmul(weights, v), [0, 2, 1, 3]), [0, 0, self.embed_dim])
        found = [self.out_proj(mixed)]
        found += [weights] if self.need_weights else []
        found += [] if cache is None else [cache]
        return found[0] if len(found) == 1 else tuple(found)


_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh": F.tanh,
    "sigmoid": F.sigmoid,
    "swish": F.swish,
    "elu": F.elu,
    "selu": F.selu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
}


class _Block(Layer):
    """Common part of encoder and decoder layers: residual sums around normalised parts, the last of them two
    products with an activation between.
    """

    attentions = 0

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation {activation!r} should be one of {', '.join(_ACTIVATIONS)}")
        chances = (dropout, activation, attn_dropout, act_dropout)
        # for the other layers of a stack
        self._config = (d_model, nhead, dim_feedforward, *chances, normalize_before, weight_attr, bias_attr)
        self.normalize_before, self.activation = normalize_before, _ACTIVATIONS[activation]
        weights, biases = (_one_for_each(attr, self.attentions + 1) for attr in (weight_attr, bias_attr))
        dropped = dropout if attn_dropout is None else attn_dropout
        for name, weight, bias in zip(("self_attn", "cross_attn"), weights[:-1], biases[:-1], strict=False):
            attention = MultiHeadAttention(d_model, nhead, dropped, weight_attr=weight, bias_attr=bias)
            self.add_sublayer(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, weights[-1], biases[-1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[-1], biases[-1])
        for place in range(1, self.attentions + 2):
            self.add_sublayer(f"norm{place}", LayerNorm(d_model))
        for place in range(1, self.attentions + 2):
            self.add_sublayer(f"dropout{place}", Dropout(dropout))

    def _around(self, place: int, x: Any, part: Any) -> Any:
        """x + dropout(part(x)), normalised before or after."""
        norm = self._sub_layers[f"norm{place}"]
        dropout = self._sub_layers[f"dropout{place}"]
        assert norm is not None and dropout is not None
        out = x + dropout(part(norm(x) if self.normalize_before else x))
        return out if self.normalize_before else norm(out)

    def _forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _attending(attention: Any, memory: Any, mask: Any, cache: Any, new: list[Any]) -> Any:
    """x -> the attention of x to `memory`, or to itself (None); a cache's successor goes to `new`."""

    def part(x: Any) -> Any:
        other = x if memory is None else memory
        if cache is None:
            return attention(x, other, other, mask)
        out, following = attention(x, other, other, mask, cache)
        new.append(following)
        return out

    return part


class TransformerEncoderLayer(_Block):
    """Self-attention and a feed-forward part, each with a residual sum and a layer normalisation."""

    attentions = 1

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        """[batch, steps, d_model], with a `cache` also the new one."""
        new: list[Any] = []
        out = self._around(1, src, _attending(self.self_attn, None, src_mask, cache, new))
        out = self._around(2, out, self._forward)
        return out if cache is None else (out, new[0])

    def gen_cache(self, src: Any) -> Any:
        """A cache without steps."""
        return self.self_attn.gen_cache(src)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to the encoder's output, and a feed-forward part, each with a residual sum
    and a layer normalisation.
    """

    attentions = 2

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None
    ) -> Any:
        """[batch, steps, d_model], with a `cache` (of itself and of `memory`) also the new one."""
        new: list[Any] = []
        own, other = (None, None) if cache is None else cache
        out = self._around(1, tgt, _attending(self.self_attn, None, tgt_mask, own, new))
        out = self._around(2, out, _attending(self.cross_attn, memory, memory_mask, other, new))
        out = self._around(3, out, self._forward)
        return out if cache is None else (out, tuple(new))

    def gen_cache(self, memory: Any) -> Any:
        """A cache without steps, and the keys and values of `memory`."""
        return self.self_attn.gen_cache(memory), self.cross_attn.gen_cache(memory, memory, StaticCache)


class _Repeated(Layer):
    """`num_layers` layers like the one given, which is the first, and a normalisation of the result."""

    def __init__(self, layer: Any, num_layers: int, norm: Any) -> None:
        super().__init__()
        others = [type(layer)(*layer._config) for _ in range(num_layers - 1)]
        self.layers = LayerList([layer, *others])
        self.num_layers, self.norm = num_layers, norm

    def _through(self, x: Any, cache: Any, *inputs: Any) -> Any:
        new = []
        for place, layer in enumerate(self.layers):
            if cache is None:
                x = layer(x, *inputs)
            else:
                x, following = layer(x, *inputs, cache=cache[place])
                new.append(following)
        out = x if self.norm is None else self.norm(x)
        return out if cache is None else (out, new)


class TransformerEncoder(_Repeated):
    """Encoder layers, one after another."""

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        """[batch, steps, d_model], with caches also the new ones."""
        return self._through(src, cache, src_mask)

    def gen_cache(self, src: Any) -> list[Any]:
        """One cache a layer."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(_Repeated):
    """Decoder layers, one after another."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None
    ) -> Any:
        """[batch, steps, d_model], with caches also the new ones."""
        return self._through(tgt, cache, memory, tgt_mask, memory_mask)

    def gen_cache(self, memory: Any, do_zip: bool = False) -> list[Any]:
        """One cache a layer; `do_zip` gives all caches of themselves first, then all of `memory`."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


class Transformer(Layer):
    """An encoder and a decoder, both with a normalisation at the end."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
    ) -> None:
        super().__init__()
        weights, biases = _of_both(weight_attr), _of_both(bias_attr)
        sizes = (d_model, nhead, dim_feedforward, dropout, activation)
        options = (attn_dropout, act_dropout, normalize_before)
        if custom_encoder is None:
            first = TransformerEncoderLayer(*sizes, *options, weights[0], biases[0])
            self.encoder: Any = TransformerEncoder(first, num_encoder_layers, LayerNorm(d_model))
        else:
            self.encoder = custom_encoder
        if custom_decoder is None:
            begin = TransformerDecoderLayer(*sizes, *options, weights[1], biases[1])
            self.decoder: Any = TransformerDecoder(begin, num_decoder_layers, LayerNorm(d_model))
        else:
            self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    def forward(
        self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None
    ) -> Any:
        """The decoder's output for `tgt`, [batch, steps, d_model]."""
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int) -> Any:
        """A mask [length, length], by which a step sees itself and those before: -inf above the diagonal."""
        return triu(full([length, length], float("-inf"), "float32"), 1)
