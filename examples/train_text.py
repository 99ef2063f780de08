"""Train a small decoder on text that this script makes, under a plan for the ranks of the job.

    torchrun --nproc-per-node 4 examples/train_text.py --checkpoint run1

A later run with the same folder goes on from its checkpoint, also on another number of ranks.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import meshwright

LENGTH, ROWS = 64, 16
CHARACTERS = "0123456789+=;"


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.out = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, hidden = x.shape
        y = self.first(x)
        query, key, value = (
            layer(y).view(rows, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, hidden))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Decoder(nn.Module):
    def __init__(self, layers: int = 2, hidden: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(len(CHARACTERS), hidden)
        self.places = nn.Embedding(LENGTH, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(hidden), nn.Linear(hidden, len(CHARACTERS))

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def batch_of(step: int) -> dict[str, torch.Tensor]:
    """Sums such as `7+5=12;`, the same for every job. The last row is padded."""
    numbers = torch.randint(10, (ROWS, LENGTH, 2), generator=torch.Generator().manual_seed(step))
    texts = ["".join(f"{a}+{b}={a + b};" for a, b in row) for row in numbers.tolist()]
    ids = torch.tensor([[CHARACTERS.index(c) for c in text[: LENGTH + 1]] for text in texts])
    labels = ids[:, 1:].clone()
    labels[-1, LENGTH // 2 :] = -100  # ignored
    return {"ids": ids[:, :-1].contiguous(), "labels": labels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--checkpoint", type=Path)
    arguments = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    is_first = os.environ.get("RANK", "0") == "0"
    torch.manual_seed(0)
    model = Decoder()
    plan = meshwright.plan(model, batch_of(0), topology=f"h100-1x{ranks}", target="fsdp2")
    with meshwright.parallelize(model, plan, engine="torch") as trained:
        if is_first:
            print(plan.plan.notes[0].split(". ")[0])
        optimizer = torch.optim.AdamW(trained.parameters(), lr=3e-3)
        folder, begin = arguments.checkpoint, 0
        if folder is not None and folder.exists():
            begin = trained.load(folder, optimizer)["steps"]
        for step in range(begin, begin + arguments.steps):
            loss = trained.step(**trained.slice(batch_of(step)))
            trained.clip_grad_norm_(1.0)
            optimizer.step()
            optimizer.zero_grad()
            if is_first and (step + 1) % 10 == 0:
                print(f"step {step + 1}: loss {loss:.3f}")
        if folder is not None:
            trained.save(folder, optimizer, extra={"steps": begin + arguments.steps})


if __name__ == "__main__":
    main()
