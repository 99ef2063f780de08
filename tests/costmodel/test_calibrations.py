from meshwright.schema import Plan
from meshwright_costmodel.calibrations import (
    calibration_of,
    datasheet_calibration,
    default_calibration,
    first_published_calibration,
    half_exposed_calibration,
    published_calibration,
    shipped_calibration,
)


def test_the_default_calibration_says_where_every_number_is_from():
    calibration = default_calibration()
    assert calibration is published_calibration()
    for curves in calibration.curves:
        for name, own in curves.constants():
            assert own.source.startswith(("fitted:", "published:", "chosen:")), name
    for number in ("matmul", "attention", "convolution", "memory", "link_efficiency", "exposed"):
        assert f"{number}:" in calibration.source
    assert "launch_ns:" in calibration.source


def test_tensor_parallel_activations_are_fully_exposed():
    assert default_calibration().exposed.activation == 1


def test_what_has_no_curves_has_the_data_sheet_s_shares():
    flat, curved = datasheet_calibration(), published_calibration()
    assert not flat.curves
    assert curved.curves
    for field in ("efficiency", "link_efficiency", "launch_ns"):
        assert getattr(curved, field) == getattr(flat, field)


def test_plans_name_what_came_with_the_planner_by_its_id():
    shipped = datasheet_calibration(), half_exposed_calibration(), published_calibration()
    for calibration in shipped:
        assert shipped_calibration(calibration.id) == calibration
    other = datasheet_calibration().model_copy(update={"launch_ns": 1})
    assert shipped_calibration(other.id) is None


def test_the_default_of_stored_plans_keeps_its_id():
    half = half_exposed_calibration()
    assert half.id == "cal_ab876e730642065ac694fa4bcf5ad39cdb4b4ddf28771fa181f6ff5ad8632846"
    assert half.exposed.once is None
    assert (half.exposed.parameter_once, half.exposed.gradient_once) == (0.5, 0.5)
    first = first_published_calibration()
    assert first.id == "cal_b27ef2ae425844f575c689f23c0073006aa0ab7b1b36a9af6819256a48a16eab"
    assert half.curves == first.curves


def test_what_is_given_comes_before_what_a_plan_names_and_that_before_the_default():
    given = datasheet_calibration().model_copy(update={"launch_ns": 1})
    curved = Plan.model_construct(calibration=published_calibration().id)
    assert calibration_of(curved, given) is given
    assert calibration_of(curved, None) is published_calibration()
    assert calibration_of(Plan.model_construct(calibration=given.id), None) is default_calibration()
