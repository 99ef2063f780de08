"""Rules of boxes, crops and samples of images."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def box_encode(_: RuleInputs) -> Known:
    """Every box against its own target."""
    return known("n c!, n c! -> n c!", "memory")


def iou(_: RuleInputs) -> Known:
    """Overlap of every target (rows) with every box (columns)."""
    return known("n c!, m c! -> m n", "memory", saves_inputs=())


def crop_and_resize(ports: RuleInputs) -> Known:
    """Boxes of images [n, y, x, c] by image number; an image on another device gives zeros."""
    images = "n" if float(ports.attrs.get("value", 0)) == 0 else "n!"
    return known(
        f"{images} y! x! c, b k!, b -> b p q c",
        "memory",
        linear=((0,),) if images == "n" else (),
        saves_inputs=(0, 1, 2),
    )


def grid_sample(_: RuleInputs) -> Known:
    """Images [n, c, y, x] at the points [n, p, q, 2]."""
    return known("n c y! x!, n p q k! -> n c p q", "memory", linear=((0,),))


def roi_align(_: RuleInputs) -> Known:
    """Regions [r, 5], the image number in front, of features [n, c, y, x]."""
    return known("n c y! x!, r k! -> r c p q", "memory", linear=((0,),), saves_inputs=(1,))


def random_choice_with_mask(ports: RuleInputs) -> Known:
    """Places of some true elements, and a mask of the valid places, whole on every device."""
    input_term = " ".join(f"{f}!" for f in names("d", len(ports.inputs[0])))
    return known(f"{input_term} -> n! r!, n!", "memory", saves_inputs=(), flops=0)


def check_valid(_: RuleInputs) -> Known:
    """Whether every box lies inside its image."""
    return known("n c!, m! -> n", "memory", saves_inputs=())


VISION: dict[str, Builder] = {
    "box_encode": box_encode,
    "iou": iou,
    "crop_and_resize": crop_and_resize,
    "grid_sample": grid_sample,
    "roi_align": roi_align,
    "random_choice_with_mask": random_choice_with_mask,
    "check_valid": check_valid,
}
