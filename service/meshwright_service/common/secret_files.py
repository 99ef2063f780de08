"""Secrets from files: a source of settings.

`MESHWRIGHT_DATABASE_PASSWORD_FILE` names a file with the value of `MESHWRIGHT_DATABASE_PASSWORD`.
Docker and Kubernetes mount secrets as files. A file, unlike an environment variable, is not shown
by `docker inspect` and not inherited by child processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

SUFFIX = "_FILE"
LARGEST_BYTES = 1 << 16  # chosen: a device or a wrong path must not fill the memory


class SecretFileError(ValueError):
    """A file of a secret cannot be used."""


class SecretFiles(PydanticBaseSettingsSource):
    """The values of the secret fields whose variable with the suffix `_FILE` names a file.

    A newline at the end of a file is no part of the secret.
    """

    def __init__(self, settings: type[BaseSettings], secrets: Iterable[str]) -> None:
        super().__init__(settings)
        self._secrets = tuple(secrets)

    def get_field_value(
        self,
        field: FieldInfo,  # noqa: ARG002  the signature of the base class
        field_name: str,
    ) -> tuple[Any, str, bool]:
        """The secret of a field, or None."""
        variable = f"{self.config['env_prefix']}{field_name}".upper()
        path = os.environ.get(variable + SUFFIX)
        if not path:
            return None, field_name, False
        if os.environ.get(variable):
            raise SecretFileError(f"{variable} and {variable}{SUFFIX} are both set. Unset one")
        return _secret(variable + SUFFIX, Path(path)), field_name, False

    def __call__(self) -> dict[str, Any]:
        """The secrets by field. Raises SecretFileError."""
        fields = self.settings_cls.model_fields
        found = {name: self.get_field_value(fields[name], name)[0] for name in self._secrets}
        return {name: value for name, value in found.items() if value is not None}


def _secret(variable: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as failure:
        reason = failure.strerror
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    else:
        if len(data) > LARGEST_BYTES:
            reason = f"it has more than {LARGEST_BYTES} bytes"
        elif not text:
            reason = "it is empty"
        elif "\n" in text or "\0" in text:
            reason = "it has more than one line"
        else:
            return text
    raise SecretFileError(
        f"{variable}: {path} cannot be used: {reason}. Name a readable file that holds the secret "
        "alone"
    )
