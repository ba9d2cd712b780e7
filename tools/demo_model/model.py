"""A llama-architecture decoder: RMSNorm, RoPE, SwiGLU, grouped-query attention, tied embeddings.

RoPE turns neighbouring pairs (0,1), (2,3), ... of every head, the convention of llama in GGUF, so
the weights are exported as they are.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 4096
    context: int = 1024
    dim: int = 384
    layers: int = 8
    heads: int = 6
    kv_heads: int = 2
    ff: int = 1024
    rope_base: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.heads

    def as_dict(self):
        return asdict(self)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


def rope_table(config, length):
    """cos and sin [length][head_dim/2]."""
    step = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    angle = torch.outer(torch.arange(length, dtype=torch.float64), config.rope_base**-step)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x [batch][length][heads][head_dim]: turn every pair of neighbours."""
    even, odd = x.float()[..., 0::2], x.float()[..., 1::2]
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.attn_norm, self.ffn_norm = RMSNorm(c.dim, c.eps), RMSNorm(c.dim, c.eps)
        self.attn_q = nn.Linear(c.dim, c.heads * c.head_dim, bias=False)
        self.attn_k = nn.Linear(c.dim, c.kv_heads * c.head_dim, bias=False)
        self.attn_v = nn.Linear(c.dim, c.kv_heads * c.head_dim, bias=False)
        self.attn_output = nn.Linear(c.heads * c.head_dim, c.dim, bias=False)
        self.ffn_gate = nn.Linear(c.dim, c.ff, bias=False)
        self.ffn_up = nn.Linear(c.dim, c.ff, bias=False)
        self.ffn_down = nn.Linear(c.ff, c.dim, bias=False)

    def forward(self, x, cos, sin):
        c, (batch, length, _) = self.c, x.shape
        h = self.attn_norm(x)
        q = rotate(self.attn_q(h).view(batch, length, c.heads, c.head_dim), cos, sin).transpose(
            1, 2
        )
        k = rotate(self.attn_k(h).view(batch, length, c.kv_heads, c.head_dim), cos, sin).transpose(
            1, 2
        )
        v = self.attn_v(h).view(batch, length, c.kv_heads, c.head_dim).transpose(1, 2)
        groups = c.heads // c.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(y.transpose(1, 2).reshape(batch, length, -1))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab, config.dim)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = RMSNorm(config.dim, config.eps)
        cos, sin = rope_table(config, config.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.apply(self._start)

    def _start(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, Block):
            for last in (module.attn_output, module.ffn_down):
                nn.init.normal_(last.weight, std=0.02 / (2 * self.config.layers) ** 0.5)

    def forward(self, tokens):
        """tokens [batch][length] -> logits [batch][length][vocab]."""
        x = self.token_embd(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blk:
            x = block(x, cos, sin)
        return F.linear(self.output_norm(x), self.token_embd.weight)
