"""Encoders with decoders of text in the table of architectures."""

from __future__ import annotations

from tests.capture.architecture import PAIR, TOKENS, Architecture

_POSITIONED = {**PAIR, "max_position_embeddings": 64}
_T5 = {**TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}

ENCODER_DECODERS: tuple[Architecture, ...] = (
    Architecture(
        "encoder-decoder",
        "mbart",
        _POSITIONED,
        # facebook/mbart-large-cc25
        {"vocab_size": 250027},
    ),
    Architecture(
        "encoder-decoder",
        "m2m_100",
        _POSITIONED,
        # facebook/m2m100_418M
        {"vocab_size": 128112},
    ),
    Architecture(
        "encoder-decoder",
        "pegasus",
        _POSITIONED,
        # google/pegasus-large
        {"vocab_size": 96103, "encoder_layers": 16, "decoder_layers": 16},
    ),
    Architecture(
        "encoder-decoder",
        "marian",
        _POSITIONED,
        # Helsinki-NLP/opus-mt-en-de
        {
            "vocab_size": 58101,
            "pad_token_id": 58100,
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
        },
        seq=512,
    ),
    Architecture("encoder-decoder", "blenderbot", _POSITIONED, seq=128),
    Architecture("encoder-decoder", "blenderbot-small", _POSITIONED, seq=512),
    Architecture("encoder-decoder", "plbart", _POSITIONED),
    Architecture("encoder-decoder", "mvp", _POSITIONED),
    Architecture(
        "encoder-decoder",
        "mt5",
        _T5,  # google/mt5-small
        seq=512,
    ),
    Architecture(
        "encoder-decoder",
        "umt5",
        _T5,
        # google/umt5-small
        {"vocab_size": 256384},
        seq=512,
    ),
)
