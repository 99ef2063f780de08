"""Published decoders: the dimensions of well-known models, as graphs without their programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meshwright.capture.decoder import Decoder, LatentAttention, decoder_graph
from meshwright.schema import Graph


@dataclass(frozen=True, slots=True)
class PublishedDecoder:
    """A decoder with the batch and the sequence length of its graph. source: of the dimensions."""

    decoder: Decoder
    batch: int
    seq: int
    source: str

    def graph(self, name: str) -> Graph:
        """Its training graph in bfloat16."""
        return decoder_graph(self.decoder, batch=self.batch, seq=self.seq, name=name)


_LLAMA_3 = "The Llama 3 Herd of Models, arXiv:2407.21783, table 3"
PUBLISHED: Mapping[str, PublishedDecoder] = {
    "llama3-8b": PublishedDecoder(
        Decoder(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=128256),
        64, 8192, _LLAMA_3,
    ),
    "llama3-70b": PublishedDecoder(
        Decoder(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocabulary=128256),
        64, 8192, _LLAMA_3,
    ),
    "llama3-405b": PublishedDecoder(
        Decoder(layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, vocabulary=128256),
        128, 8192, _LLAMA_3,
    ),
    "mixtral-8x7b": PublishedDecoder(
        Decoder(
            layers=32, hidden=4096, heads=32, kv_heads=8, vocabulary=32000, experts=8, top_k=2,
            expert_ffn=14336,
        ),
        64, 4096, "Mixtral of Experts, arXiv:2401.04088, table 1",
    ),
    "gpt3-175b": PublishedDecoder(
        Decoder(layers=96, hidden=12288, heads=96, ffn=49152, vocabulary=50257, gated=False),
        1536, 2048, "Language Models are Few-Shot Learners, arXiv:2005.14165, table 2.1",
    ),
    "deepseek-v3": PublishedDecoder(
        Decoder(
            layers=61, hidden=7168, heads=128, vocabulary=129_280, ffn=18_432, gated=True,
            experts=256, top_k=8, expert_ffn=2048, shared_ffn=2048, dense_layers=3,
            latent=LatentAttention(1536, 512, 128, 64, 128),
        ),
        15360, 4096, "DeepSeek-V3, arXiv:2412.19437, section 4.2, without multi-token prediction",
    ),
}  # fmt: skip
