"""Encoders of text in the table of architectures, besides those of architectures.py."""

from __future__ import annotations

from tests.capture.architecture import TEXT, TOKENS, Architecture

_ROBERTA = {**TEXT, "pad_token_id": 1}

TEXT_ENCODERS: tuple[Architecture, ...] = (
    Architecture(
        "encoder",
        "albert",
        {**TEXT, "embedding_size": 16},
        # albert/albert-base-v2
        {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
        seq=512,
    ),
    Architecture(
        "encoder",
        "distilbert",
        {**TOKENS, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
        seq=512,
    ),
    Architecture(
        "encoder",
        "camembert",
        _ROBERTA,
        # almanach/camembert-base
        {"vocab_size": 32005, "max_position_embeddings": 514, "type_vocab_size": 1},
        seq=512,
    ),
    Architecture(
        "encoder",
        "xlm-roberta",
        _ROBERTA,
        # FacebookAI/xlm-roberta-base
        {"vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1},
        seq=512,
    ),
    Architecture("encoder", "xlm-roberta-xl", _ROBERTA, seq=512),
    Architecture(
        "encoder",
        "mpnet",
        _ROBERTA,
        # microsoft/mpnet-base
        {"vocab_size": 30527, "max_position_embeddings": 514},
        seq=512,
    ),
    Architecture(
        "encoder",
        "squeezebert",
        {**TEXT, "embedding_size": 32},
        # squeezebert/squeezebert-uncased
        {"vocab_size": 30528},
        seq=512,
    ),
    Architecture(
        "encoder",
        "rembert",
        {**TEXT, "input_embedding_size": 16, "output_embedding_size": 24},
        seq=512,
    ),
    Architecture("encoder", "roformer", {**TEXT, "embedding_size": 32}, seq=512),
    Architecture(
        "encoder",
        "megatron-bert",
        TEXT,
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
        seq=512,
    ),
    Architecture(
        "encoder",
        "data2vec-text",
        _ROBERTA,
        # facebook/data2vec-text-base
        {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
        seq=512,
    ),
    Architecture("encoder", "ernie", TEXT, {"vocab_size": 40000}, seq=512),
    Architecture(
        "encoder",
        "eurobert",
        {**TEXT, "num_key_value_heads": 4},
        # EuroBERT/EuroBERT-210m
        {"num_hidden_layers": 12, "num_key_value_heads": 12},
    ),
    Architecture("encoder", "nomic_bert", {**TEXT, "num_key_value_heads": 4, "head_dim": 8}),
    Architecture("encoder", "gte", TEXT),
    Architecture(
        "encoder",
        "esm",
        {**TEXT, "mask_token_id": 32, "position_embedding_type": "rotary"},
        # facebook/esm2_t33_650M_UR50D
        {
            "vocab_size": 33,
            "mask_token_id": 32,
            "pad_token_id": 1,
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 33,
            "num_attention_heads": 20,
            "position_embedding_type": "rotary",
            "emb_layer_norm_before": False,
            "token_dropout": False,
            "max_position_embeddings": 1026,
        },
    ),
    Architecture("encoder", "xlm", {**TOKENS, "emb_dim": 32, "n_layers": 2, "n_heads": 4}, seq=512),
)
