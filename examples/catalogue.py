"""What is captured from what, and for which batch and sequence."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass
from pathlib import Path

from meshwright.schema import Graph

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Example:
    """One stored graph; `source` is a config under configs/ or the spec of a factory."""

    name: str
    source: str
    batch: int
    seq: int | None = None

    @property
    def path(self) -> Path:
        """Where the captured graph is kept."""
        return HERE / "graphs" / f"{self.name}.json.gz"

    def capture(self) -> Graph:
        """A fresh capture; needs torch, and transformers for a config."""
        from meshwright.capture import capture_factory, capture_hf

        if self.source.endswith(".json"):
            config = HERE / "configs" / self.source
            return capture_hf(config, batch=self.batch, seq=self.seq, name=self.name)
        return capture_factory(self.source, batch=self.batch)

    def load(self) -> Graph:
        """The stored graph."""
        return Graph.from_json(gzip.decompress(self.path.read_bytes()))

    def store(self, graph: Graph) -> None:
        """Keep the graph; equal graphs give equal files."""
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, filename="") as file:
            file.write((graph.to_json() + "\n").encode())
        self.path.write_bytes(packed.getvalue())


EXAMPLES = (
    Example("llama3-8b", "llama3-8b.json", 64, 8192),
    Example("llama3-70b", "llama3-70b.json", 16, 8192),
    Example("llama3-405b", "llama3-405b.json", 128, 8192),
    Example("gpt3-175b", "gpt3-175b.json", 1536, 2048),
    Example("bert-large", "bert-large.json", 1024, 512),
    Example("mixtral-8x7b", "mixtral-8x7b.json", 64, 4096),
    Example("vit-l16", "vit-l16.json", 4096),
    Example("resnet50", "examples.models.resnet50:resnet50", 4096),
    Example("unet3d", "examples.models.unet3d:unet3d", 32),
    Example("wide-deep", "examples.models.wide_deep:wide_deep", 65536),
    Example("face-head", "examples.models.face_head:face_head", 8192),
)
