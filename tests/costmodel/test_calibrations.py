from costmodel.calibrations import default_calibration


def test_the_default_calibration_says_where_every_number_is_from():
    calibration = default_calibration()
    assert calibration.name == "datasheet"
    for number in ("matmul", "attention", "convolution", "memory", "link_efficiency", "exposed"):
        assert f"{number}:" in calibration.source
    assert "launch_ns:" in calibration.source


def test_tensor_parallel_activations_are_fully_exposed():
    assert default_calibration().exposed.activation == 1
