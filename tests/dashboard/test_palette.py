"""The palette for every kind of eye: hues that stand beside each other, and how far apart they are.

Distances are 100 times those of OKLab (Ottosson 2020), in which 2 is about what a person can just
tell apart side by side. Colour blindness is simulated in linear RGB by the matrices of Machado,
Oliveira and Fernandes (2009, table 1), each at its full severity.
"""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.dashboard.conftest import ROOT

FILES = ROOT / "service" / "meshwright_service" / "dashboard"
PALETTE = (FILES / "palette.css").read_text()
HUES = ("blue", "vermillion", "green", "orange", "pink", "sky", "purple", "brown")
APART = 10.0  # chosen: five times what is just seen; a legend's swatch and its line are far apart
SEEN = 2.0  # of contrast, chosen: pieces have text beside them; marks without any need TEXT
TEXT = 4.5  # WCAG 2.2, 1.4.3
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
TO_LMS = np.array([
    [0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
TO_LAB = np.array([
    [0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660]])  # fmt: skip
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
THEMES = ("light", "dark")
Vector = NDArray[np.float64]


def colour(name: str, theme: str) -> Vector:
    """What a name of the palette comes to, in linear RGB."""
    value = re.search(rf"--{name}: ([^;]+);", PALETTE)
    assert value, name
    said = value[1]
    if other := re.fullmatch(r"var\(--([\w-]+)\)", said):
        return colour(other[1], theme)
    found = re.findall(r"#([0-9a-f]{6})", said)
    code = found[THEMES.index(theme) if len(found) == 2 else 0]
    own = np.array([int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    return np.where(own <= 0.04045, own / 12.92, ((own + 0.055) / 1.055) ** 2.4)


def seen(linear: Vector, eye: str) -> Vector:
    lab: Vector = 100 * TO_LAB @ np.cbrt(TO_LMS @ np.clip(EYES[eye] @ linear, 0, 1))
    return lab


def contrast(one: Vector, other: Vector) -> float:
    dark, light = sorted((float(one @ LUMINANCE), float(other @ LUMINANCE)))
    return (light + 0.05) / (dark + 0.05)


def drawn_together() -> dict[str, list[str]]:
    """Names of the palette that one drawing may have at the same time."""
    kinds = (FILES / "kinds.js").read_text()
    found = {
        name: re.findall(r'colour: "--([\w-]+)"', block)
        for name, block in re.findall(r"export const (\w+) = \{(.*?)^\};", kinds, re.S | re.M)
    }
    lanes = (FILES / "timeline" / "lanes.js").read_text()
    found["timeline"] = (
        found["TIMES"] + found["PASSES"] + re.findall(r'colour: "--([\w-]+)"', lanes)
    )
    passes = (FILES / "timeline" / "passes.js").read_text()
    found["schedule"] = found["PASSES"] + ["bubble", "wait-parameter"]
    found["schedule"] += re.findall(r'colour: "--([\w-]+)"', passes)
    front = (FILES / "views" / "front.js").read_text()
    found["front"] = re.findall(r'colour: "--([\w-]+)"', front)
    found["axes"] = [*(f"axis-{at}" for at in range(8)), "replicated"]
    found["series"] = [f"series-{at}" for at in range(6)]
    found["search"], found["two plans"] = ["incumbent", "bound"], ["one", "other"]
    return {name: list(dict.fromkeys(own)) for name, own in found.items() if own}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("eye", EYES)
def test_what_is_drawn_together_is_told_apart(theme: str, eye: str) -> None:
    groups = drawn_together()
    assert {
        "TIMES",
        "PASSES",
        "PARTS",
        "COLLECTIVES",
        "timeline",
        "schedule",
        "front",
    } <= groups.keys()
    for group, names in groups.items():
        lab = {own: seen(colour(own, theme), eye) for own in names}
        for one, other in combinations(names, 2):
            apart = float(np.linalg.norm(lab[one] - lab[other]))
            assert apart >= APART, f"{group}: {one} and {other} are {apart:.1f} apart"


@pytest.mark.parametrize("theme", THEMES)
def test_hues_are_seen_and_words_are_read_on_both_papers(theme: str) -> None:
    for paper in ("paper", "raised"):
        behind = colour(paper, theme)
        for name in HUES:
            assert contrast(colour(name, theme), behind) >= SEEN, (name, paper)
        for name in ("ink", "ink-2", "link", "good", "warn", "bad"):
            assert contrast(colour(name, theme), behind) >= TEXT, (name, paper)
        for name in ("focus", "line-strong"):
            assert contrast(colour(name, theme), behind) >= 3, (name, paper)  # WCAG 2.2, 1.4.11
    for name in ("good", "warn", "bad"):
        assert contrast(colour(name, theme), colour(f"{name}-paper", theme)) >= TEXT, name


def test_forward_and_backward_passes_have_hues_of_their_own() -> None:
    kinds = (FILES / "kinds.js").read_text()
    found = dict(re.findall(r'^  ([FBIW]): \{ name: "[^"]+", colour: "--(\w+)"', kinds, re.M))
    assert found == {"F": "compute", "B": "backward", "I": "backward", "W": "weights"}
    for theme in THEMES:
        for name in {*found.values(), "bubble"}:
            least = 1.5 if name == "bubble" else SEEN  # a hatch, beside the passes
            assert contrast(colour(name, theme), colour("paper", theme)) >= least, (name, theme)


def test_every_colour_that_is_used_is_of_the_palette() -> None:
    names = set(re.findall(r"--([\w-]+):", PALETTE))
    for path in FILES.rglob("*"):
        if path.suffix in (".js", ".css"):
            used = set(re.findall(r"(?:\"|var\()--([a-z][\w-]*)[\")]", path.read_text()))
            assert used <= names, path
