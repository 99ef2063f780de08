"""Parameters of public checkpoints, by the name of the row in the table of architectures.

A number is the one that its publisher states, as precise as stated: a model card of Hugging Face
(the count of its safetensors), or a paper. Numbers and sizes were entered without access to the
sources: read the source before a number is cited elsewhere. Rows without an entry have none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """parameters: as stated, such as "6.74B". why: of a difference beyond the last digit."""

    parameters: str
    source: str
    why: str = ""

    @property
    def count(self) -> float:
        return float(self.parameters[:-1]) * {"M": 1e6, "B": 1e9}[self.parameters[-1]]

    def agrees_with(self, count: int) -> bool:
        """Whether a count is within 1 % of the number, or rounds to it."""
        digits = len(self.parameters[:-1].partition(".")[2])
        unit = {"M": 1e6, "B": 1e9}[self.parameters[-1]] / 10**digits
        return abs(count - self.count) <= max(0.01 * self.count, 0.5 * unit)


_HEAD = "the paper counts no head, which has a matrix of its own"
_NO_POOLER = "the paper counts the pooler, which the head of masked text lacks"

PUBLISHED: dict[str, Published] = {
    "bert": Published("110M", "arXiv:1810.04805"),
    "roberta": Published("125M", "arXiv:1907.11692"),
    "deberta-v2": Published(
        "900M",
        "card of microsoft/deberta-v2-xlarge",
        "the card rounds to hundreds of millions, and counts a convolution that the defaults lack",
    ),
    "electra": Published("14M", "arXiv:2003.10555"),
    "modernbert": Published("149M", "arXiv:2412.13663"),
    "gpt2": Published("124M", "card of openai-community/gpt2"),
    "gptj": Published("6.05B", "card of EleutherAI/gpt-j-6b"),
    "gpt_neox": Published("20.55B", "arXiv:2204.06745"),
    "llama": Published("6.74B", "card of meta-llama/Llama-2-7b-hf"),
    "mistral": Published("7.24B", "card of mistralai/Mistral-7B-v0.1"),
    "qwen2": Published("7.61B", "card of Qwen/Qwen2.5-7B"),
    "qwen3": Published("8.2B", "card of Qwen/Qwen3-8B"),
    "gemma2": Published("2.61B", "card of google/gemma-2-2b"),
    "gemma3_text": Published("1.00B", "card of google/gemma-3-1b-pt"),
    "phi3": Published("3.8B", "card of microsoft/Phi-3-mini-4k-instruct"),
    "falcon": Published("6.92B", "card of tiiuae/falcon-7b"),
    "opt": Published("125M", "arXiv:2205.01068"),
    "bloom": Published("7.07B", "card of bigscience/bloom-7b1"),
    "stablelm": Published("2.80B", "card of stabilityai/stablelm-3b-4e1t"),
    "olmo2": Published("7.30B", "card of allenai/OLMo-2-1124-7B"),
    "cohere": Published("35.0B", "card of CohereLabs/c4ai-command-r-v01"),
    "glm": Published("9.40B", "card of zai-org/glm-4-9b-hf"),
    "starcoder2": Published("3.03B", "card of bigcode/starcoder2-3b"),
    "t5": Published("60M", "arXiv:1910.10683"),
    "bart": Published("406M", "card of facebook/bart-large"),
    "mixtral": Published("46.7B", "card of mistralai/Mixtral-8x7B-v0.1"),
    "qwen2_moe": Published("14.3B", "card of Qwen/Qwen1.5-MoE-A2.7B"),
    "qwen3_moe": Published("30.5B", "card of Qwen/Qwen3-30B-A3B"),
    "deepseek_v3": Published("671B", "arXiv:2412.19437"),
    "gpt_oss": Published("116.83B", "arXiv:2508.10925"),
    "mamba": Published("2.77B", "card of state-spaces/mamba-2.8b-hf"),
    "mamba2": Published("7.29B", "card of mistralai/Mamba-Codestral-7B-v0.1"),
    "gemma": Published("8.54B", "card of google/gemma-7b"),
    "olmo": Published("6.89B", "card of allenai/OLMo-7B-hf"),
    "olmo3": Published("7.30B", "card of allenai/Olmo-3-1025-7B"),
    "cohere2": Published("8.03B", "card of CohereLabs/c4ai-command-r7b-12-2024"),
    "glm4": Published("9.40B", "card of zai-org/GLM-4-9B-0414"),
    "nemotron": Published("15.7B", "arXiv:2402.16819"),
    "granite": Published("8.17B", "card of ibm-granite/granite-3.1-8b-base"),
    "hunyuan_v1_dense": Published("7.5B", "card of tencent/Hunyuan-7B-Instruct"),
    "ernie4_5": Published("0.36B", "card of baidu/ERNIE-4.5-0.3B-PT"),
    "exaone4": Published("32.0B", "card of LGAI-EXAONE/EXAONE-4.0-32B"),
    "seed_oss": Published("36B", "card of ByteDance-Seed/Seed-OSS-36B-Base"),
    "apertus": Published("8.05B", "card of swiss-ai/Apertus-8B-2509"),
    "smollm3": Published("3.08B", "card of HuggingFaceTB/SmolLM3-3B"),
    "bitnet": Published("2.4B", "card of microsoft/bitnet-b1.58-2B-4T"),
    "helium": Published("2.17B", "card of kyutai/helium-1-preview-2b"),
    "phi": Published("1.42B", "card of microsoft/phi-1_5"),
    "persimmon": Published("9.4B", "card of adept/persimmon-8b-base"),
    "minicpm3": Published("4.07B", "card of openbmb/MiniCPM3-4B"),
    "gpt_neo": Published("1.3B", "card of EleutherAI/gpt-neo-1.3B"),
    "gpt_bigcode": Published("15.5B", "arXiv:2305.06161"),
    "openai-gpt": Published("117M", "card of openai-community/openai-gpt"),
    "ctrl": Published("1.63B", "arXiv:1909.05858"),
    "biogpt": Published("347M", "arXiv:2210.10341"),
    "xglm": Published("564M", "arXiv:2112.10668"),
    "deepseek_v2": Published("15.7B", "arXiv:2405.04434"),
    "kimi-k2": Published(
        "1040B",
        "arXiv:2507.20534",
        "the sizes of the configuration sum to 1026B",
    ),
    "glm4_moe": Published("106B", "arXiv:2508.06471"),
    "glm4_moe_lite": Published("30B", "card of zai-org/GLM-4.7-Flash"),
    "dots1": Published("142B", "arXiv:2506.05767"),
    "ernie4_5_moe": Published("21.8B", "card of baidu/ERNIE-4.5-21B-A3B-PT"),
    "hunyuan_v1_moe": Published("80B", "card of tencent/Hunyuan-A13B-Instruct"),
    "olmoe": Published("6.92B", "arXiv:2409.02060"),
    "granitemoe": Published("3.3B", "card of ibm-granite/granite-3.1-3b-a800m-base"),
    "minimax_m2": Published("229B", "card of MiniMaxAI/MiniMax-M2"),
    "albert": Published("12M", "arXiv:1909.11942", _NO_POOLER),
    "distilbert": Published("66M", "arXiv:1910.01108", _HEAD),
    "camembert": Published("110M", "arXiv:1911.03894"),
    "xlm-roberta": Published("278M", "card of FacebookAI/xlm-roberta-base"),
    "xlm-roberta-xl": Published("3.5B", "arXiv:2105.00572"),
    "mpnet": Published("110M", "arXiv:2004.09297"),
    "squeezebert": Published("51.1M", "arXiv:2006.11316", _HEAD),
    "rembert": Published("995M", "arXiv:2010.12821"),
    "roformer": Published("124M", "card of junnyu/roformer_chinese_base"),
    "data2vec-text": Published("125M", "arXiv:2202.03555"),
    "nomic_bert": Published("137M", "card of nomic-ai/nomic-embed-text-v1"),
    "gte": Published("305M", "card of Alibaba-NLP/gte-multilingual-base"),
    "esm": Published("651M", "card of facebook/esm2_t33_650M_UR50D"),
    "xlm": Published("667M", "card of FacebookAI/xlm-mlm-en-2048"),
    "mbart": Published("611M", "card of facebook/mbart-large-cc25"),
    "pegasus": Published("568M", "arXiv:1912.08777"),
    "blenderbot": Published("2.7B", "arXiv:2004.13637"),
    "plbart": Published("140M", "arXiv:2103.06333"),
    "mvp": Published("406M", "arXiv:2206.12131"),
    "mt5": Published(
        "300M",
        "arXiv:2010.11934",
        "the checkpoint has two tables of the vocabulary, which transformers ties",
    ),
}
