"""Presets: topologies by name, of devices in the servers or pods that their vendors sell."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from meshwright.schema import Topology
from meshwright_costmodel import presets
from meshwright_costmodel.presets import PresetDevice, preset_devices
from meshwright_service.api import etags
from meshwright_service.auth.principals import Reader

router = APIRouter(prefix="/v1/presets", tags=["topologies"])
ONE: dict[int | str, dict[str, Any]] = {200: {"model": Topology}, 304: etags.NOT_MODIFIED}


class PresetList(BaseModel):
    """The devices that a preset name may begin with."""

    presets: tuple[PresetDevice, ...]


@router.get("", summary="List presets")
def list_presets(by: Reader) -> PresetList:
    """The devices of presets, with their memory and the size of a full server or pod."""
    del by
    return PresetList(presets=preset_devices())


@router.get("/{preset}", responses=ONE, summary="Read a preset")
def get_preset(request: Request, by: Reader, preset: str) -> Response:
    """The topology of a preset name such as `h100-8x8`, which need not be stored. 422 for a name
    that is no preset."""
    del by
    return etags.recent(request, presets.preset(preset))
