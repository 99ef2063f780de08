"""Parameters of public checkpoints, by the name of the row in the table of architectures.

A number is the one that its publisher states, as precise as stated, in a paper or a model card
("card of NAME" is huggingface.co/NAME), or the number of elements that the checkpoint stores.
Numbers with evidence were compared in November 2026 with stored copies of public pages and
repositories, since the sources themselves cannot be opened here. Those without were entered without
access to their sources: read the source before such a number is cited elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Evidence(Enum):
    """What confirms a number."""

    QUOTED = "a copy of the source, or texts that quote it"
    COUNTED = "an exact count of the checkpoint's elements that others report"
    WEIGHED = "the size of the checkpoint's file, divided by the bytes of an element"


QUOTED, COUNTED, WEIGHED = Evidence.QUOTED, Evidence.COUNTED, Evidence.WEIGHED


@dataclass(frozen=True)
class Published:
    """parameters: as stated, such as "6.74B". why: of a difference beyond the last digit."""

    parameters: str
    source: str
    evidence: Evidence | None = None
    why: str = ""

    @property
    def count(self) -> float:
        return float(self.parameters[:-1]) * {"M": 1e6, "B": 1e9}[self.parameters[-1]]

    @property
    def cell(self) -> str:
        """The number and its source as in the table; in parentheses without evidence."""
        if self.evidence is None:
            return f"({self.parameters}; {self.source})"
        return f"{self.parameters} ({self.source})"

    def agrees_with(self, count: int) -> bool:
        """Whether a count is within 1 % of the number, or rounds to it."""
        digits = len(self.parameters[:-1].partition(".")[2])
        unit = {"M": 1e6, "B": 1e9}[self.parameters[-1]] / 10**digits
        return abs(count - self.count) <= max(0.01 * self.count, 0.5 * unit)


_HEAD = "the paper counts no head, which has a matrix of its own"
_NO_POOLER = "the paper counts the pooler, which the head of masked text lacks"

PUBLISHED: dict[str, Published] = {
    "bert": Published("110M", "arXiv:1810.04805", QUOTED),
    "roberta": Published("125M", "arXiv:1907.11692", QUOTED),
    "deberta-v2": Published(
        "900M",
        "github.com/microsoft/DeBERTa",
        QUOTED,
        "it rounds to hundreds of millions, and counts a convolution that the defaults lack",
    ),
    "electra": Published("14M", "github.com/google-research/electra", QUOTED),
    "modernbert": Published("149M", "arXiv:2412.13663", QUOTED),
    "gpt2": Published("124M", "card of openai-community/gpt2", QUOTED),
    "gptj": Published("6.05B", "card of EleutherAI/gpt-j-6b", QUOTED),
    "gpt_neox": Published("20.55B", "card of EleutherAI/gpt-neox-20b", QUOTED),
    "llama": Published("6.74B", "card of meta-llama/Llama-2-7b-hf", COUNTED),
    "mistral": Published("7.24B", "card of mistralai/Mistral-7B-v0.1", COUNTED),
    "qwen2": Published("7.61B", "card of Qwen/Qwen2.5-7B", QUOTED),
    "qwen3": Published("8.2B", "card of Qwen/Qwen3-8B", QUOTED),
    "gemma2": Published("2.61B", "card of google/gemma-2-2b", COUNTED),
    "gemma3_text": Published("1.00B", "card of google/gemma-3-1b-pt", COUNTED),
    "phi3": Published("3.8B", "card of microsoft/Phi-3-mini-4k-instruct", QUOTED),
    "falcon": Published(
        "7.22B",
        "card of tiiuae/falcon-7b",
        COUNTED,
        "the checkpoint stores the head, which is tied, a second time: 0.30B",
    ),
    "opt": Published("125M", "arXiv:2205.01068", QUOTED),
    "bloom": Published("7.07B", "card of bigscience/bloom-7b1", COUNTED),
    "stablelm": Published("2.80B", "card of stabilityai/stablelm-3b-4e1t", QUOTED),
    "olmo2": Published("7.30B", "card of allenai/OLMo-2-1124-7B", COUNTED),
    "cohere": Published("35.0B", "card of CohereLabs/c4ai-command-r-v01", COUNTED),
    "glm": Published("9.40B", "card of zai-org/glm-4-9b-hf", COUNTED),
    "starcoder2": Published("3.03B", "card of bigcode/starcoder2-3b", WEIGHED),
    "t5": Published("60M", "card of google-t5/t5-small", QUOTED),
    "bart": Published("406M", "github.com/huggingface/transformers pretrained_models.rst", QUOTED),
    "mixtral": Published("46.7B", "mistral.ai/news/mixtral-of-experts", QUOTED),
    "qwen2_moe": Published("14.3B", "card of Qwen/Qwen1.5-MoE-A2.7B", QUOTED),
    "qwen3_moe": Published("30.5B", "card of Qwen/Qwen3-30B-A3B", QUOTED),
    "deepseek_v3": Published("671B", "arXiv:2412.19437", QUOTED),
    "gpt_oss": Published("116.83B", "arXiv:2508.10925", QUOTED),
    "mamba": Published("2.77B", "card of state-spaces/mamba-2.8b-hf", COUNTED),
    "mamba2": Published("7.29B", "mistral.ai/news/codestral-mamba", QUOTED),
    "gemma": Published("8.54B", "card of google/gemma-7b", COUNTED),
    "olmo": Published("6.89B", "card of allenai/OLMo-7B-hf", COUNTED),
    "olmo3": Published("7.30B", "card of allenai/Olmo-3-1025-7B", COUNTED),
    "cohere2": Published("8.03B", "card of CohereLabs/c4ai-command-r7b-12-2024", COUNTED),
    "glm4": Published("9.40B", "card of zai-org/GLM-4-9B-0414", COUNTED),
    "nemotron": Published("15.7B", "arXiv:2402.16819", QUOTED),
    "granite": Published("8.17B", "card of ibm-granite/granite-3.1-8b-instruct", COUNTED),
    "hunyuan_v1_dense": Published("8B", "card of tencent/Hunyuan-7B-Pretrain", QUOTED),
    "ernie4_5": Published("0.36B", "card of baidu/ERNIE-4.5-0.3B-PT", COUNTED),
    "exaone4": Published("32.0B", "card of LGAI-EXAONE/EXAONE-4.0-32B", COUNTED),
    "seed_oss": Published("36B", "card of ByteDance-Seed/Seed-OSS-36B-Base", QUOTED),
    "apertus": Published("8.05B", "card of swiss-ai/Apertus-8B-2509", COUNTED),
    "smollm3": Published("3.08B", "card of HuggingFaceTB/SmolLM3-3B", COUNTED),
    "bitnet": Published("2.41B", "card of microsoft/bitnet-b1.58-2B-4T", COUNTED),
    "helium": Published("2.17B", "card of kyutai/helium-1-preview-2b", WEIGHED),
    "phi": Published("1.42B", "card of microsoft/phi-1_5", COUNTED),
    "persimmon": Published(
        "8B",
        "adept.ai/blog/persimmon-8b",
        QUOTED,
        "it rounds down a count without one of the two tables of the vocabulary, of 1.07B each",
    ),
    "minicpm3": Published("4B", "card of openbmb/MiniCPM3-4B", QUOTED),
    "gpt_neo": Published("1.3B", "card of EleutherAI/gpt-neo-1.3B", QUOTED),
    "gpt_bigcode": Published("15.5B", "arXiv:2305.06161", QUOTED),
    "openai-gpt": Published("117M", "Radford et al. 2019, table 2", QUOTED),
    "ctrl": Published("1.63B", "arXiv:1909.05858", QUOTED),
    "biogpt": Published("347M", "arXiv:2210.10341", QUOTED),
    "xglm": Published("564M", "card of facebook/xglm-564M", QUOTED),
    "deepseek_v2": Published("15.7B", "arXiv:2405.04434", QUOTED),
    "kimi-k2": Published(
        "1040B",
        "arXiv:2507.20534",
        QUOTED,
        "the paper rounds; the checkpoint stores 1026B, as the sizes of the configuration sum to",
    ),
    "glm4_moe": Published("106B", "card of zai-org/GLM-4.5-Air", QUOTED),
    "glm4_moe_lite": Published("30B", "card of zai-org/GLM-4.7-Flash", QUOTED),
    "dots1": Published("142B", "arXiv:2506.05767", QUOTED),
    "ernie4_5_moe": Published(
        "21B",
        "card of baidu/ERNIE-4.5-21B-A3B-PT",
        QUOTED,
        "the card rounds down; copies of the checkpoint are listed with 22B",
    ),
    "hunyuan_v1_moe": Published("80B", "card of tencent/Hunyuan-A13B-Instruct", QUOTED),
    "olmoe": Published("6.9B", "arXiv:2409.02060", QUOTED),
    "granitemoe": Published("3.30B", "card of ibm-granite/granite-3.1-3b-a800m-base", COUNTED),
    "minimax_m2": Published("230B", "card of MiniMaxAI/MiniMax-M2", QUOTED),
    "albert": Published("12M", "arXiv:1909.11942", QUOTED, _NO_POOLER),
    "distilbert": Published("66M", "arXiv:1910.01108", QUOTED, _HEAD),
    "camembert": Published("110M", "github.com/facebookresearch/fairseq camembert", QUOTED),
    "xlm-roberta": Published("278M", "card of FacebookAI/xlm-roberta-base", COUNTED),
    "xlm-roberta-xl": Published("3.5B", "arXiv:2105.00572", QUOTED),
    "mpnet": Published("110M", "arXiv:2004.09297"),
    "squeezebert": Published("51.1M", "arXiv:2006.11316", why=_HEAD),
    "rembert": Published("995M", "arXiv:2010.12821"),
    "roformer": Published("125M", "card of junnyu/roformer_chinese_base", WEIGHED),
    "data2vec-text": Published("125M", "card of facebook/data2vec-text-base", WEIGHED),
    "nomic_bert": Published("137M", "card of nomic-ai/nomic-embed-text-v1", COUNTED),
    "gte": Published("305M", "card of Alibaba-NLP/gte-multilingual-base", QUOTED),
    "esm": Published("651M", "card of facebook/esm2_t33_650M_UR50D", COUNTED),
    "xlm": Published("667M", "card of FacebookAI/xlm-mlm-en-2048", WEIGHED),
    "mbart": Published("610M", "github.com/facebookresearch/fairseq mbart", QUOTED),
    "pegasus": Published("568M", "arXiv:1912.08777", QUOTED),
    "blenderbot": Published("2.7B", "arXiv:2004.13637", QUOTED),
    "plbart": Published("139M", "card of uclanlp/plbart-base", WEIGHED),
    "mvp": Published("406M", "arXiv:2206.12131"),
    "mt5": Published(
        "300M",
        "arXiv:2010.11934",
        QUOTED,
        "the checkpoint has two tables of the vocabulary, which transformers ties",
    ),
}

# rows of which every size was compared with a copy of the checkpoint's config.json or with the
# paper's table, or whose sizes give the exact number of elements that the checkpoint stores
COMPARED_CONFIGURATIONS = frozenset(
    {
        "roberta", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "gemma2", "gemma3_text",
        "falcon", "bloom", "stablelm", "olmo2", "cohere", "glm", "qwen3_moe", "mamba", "gemma",
        "olmo", "olmo3", "cohere2", "glm4", "ernie4_5", "exaone4", "seed_oss",
        "apertus", "smollm3", "bitnet", "helium", "phi", "minicpm3", "openai-gpt", "kimi-k2",
        "glm4_moe", "hunyuan_v1_moe", "olmoe", "granitemoe", "mpnet", "squeezebert", "rembert",
        "roformer", "data2vec-text", "xlm", "plbart", "qwen3", "phi3", "mixtral", "qwen2_moe",
        "deepseek_v3", "deepseek_v2", "dots1", "minimax_m2",
    }
)  # fmt: skip
