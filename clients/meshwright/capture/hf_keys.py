"""Keys of a Hugging Face configuration that transformers does not read.

transformers keeps an unknown key as an attribute and builds the model from its defaults. A key is
read if the configuration class has a field of that name, or if the source of the model's
configuration or modeling module, or of `PretrainedConfig`, names it as an attribute or a literal.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import transformers

from meshwright.schema.errors import GraphError

CLOSE = 0.88  # chosen: one or two wrong letters; "in_chans" for "in_channels" has 0.84
READ = re.compile(r"""(?:config\.|["'])([A-Za-z_]\w*)""")
METADATA = frozenset({"model_type", "auto_map", "quantization_config", "transformers_version"})


def unread_keys(settings: Mapping[str, Any], model_type: str) -> list[str]:
    """The keys that no code reads, in order; `text_config.x` for those of a nested configuration.

    Raises GraphError for a key that is a misspelling: a field has nearly its name, and no value.
    """
    return list(_unread(settings, transformers.CONFIG_MAPPING[model_type], ""))


def _unread(settings: Mapping[str, Any], config_class: Any, prefix: str) -> Iterator[str]:
    fields = _fields(config_class)
    words = _words(config_class)
    for key, value in settings.items():
        nested = config_class.sub_configs.get(key)
        if nested is not None and isinstance(value, Mapping):
            yield from _unread(value, _nested_class(nested, value), f"{prefix}{key}.")
        elif key not in fields and key not in words and not _is_metadata(key):
            for field in get_close_matches(key, sorted(fields), n=1, cutoff=CLOSE):
                if field not in settings:
                    raise GraphError(
                        f"the config has the unknown key {prefix + key!r}. Use {field!r}, or "
                        f"remove the key"
                    )
            yield prefix + key


def _is_metadata(key: str) -> bool:
    """Whether a key changes no model: private keys, and ids of tokens."""
    return key in METADATA or key.startswith("_") or key.endswith("_token_id")


def _nested_class(nested: Any, value: Mapping[str, Any]) -> Any:
    """The class of a nested configuration; an AutoConfig is chosen by its model type."""
    if nested is transformers.AutoConfig:
        named = value.get("model_type")
        if isinstance(named, str) and named in transformers.CONFIG_MAPPING:
            return transformers.CONFIG_MAPPING[named]
        return transformers.PretrainedConfig
    return nested


@cache
def _fields(config_class: Any) -> frozenset[str]:
    names = set(inspect.signature(config_class.__init__).parameters) - {"self", "kwargs"}
    aliases = config_class.attribute_map
    return frozenset({*names, *aliases, *aliases.values()})


@cache
def _words(config_class: Any) -> frozenset[str]:
    """The attributes and literals by which the sources may read the configuration."""
    module = config_class.__module__
    modeling = module.replace(".configuration_", ".modeling_")
    sources = [inspect.getsource(transformers.PretrainedConfig)]
    for name in (module, modeling):
        try:
            __import__(name)
            sources.append(inspect.getsource(sys.modules[name]))
        except (ImportError, OSError):  # a configuration without a modeling module of its name
            continue
    rotary = inspect.getsource(sys.modules["transformers.modeling_rope_utils"])
    return frozenset(READ.findall("\n".join([*sources, rotary])))
