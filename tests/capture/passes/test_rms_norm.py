"""Root-mean-square norms written out."""

import torch


class Norm(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(8))
        self.function = function

    def forward(self, x):
        return self.function(x, self.weight)


def plain(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def widened(x, weight):
    wide = x.to(torch.float32)
    return weight * (wide * torch.rsqrt((wide * wide).mean(-1, True) + 1e-5)).to(x.dtype)


def test_a_written_norm_is_recognised(check_capture):
    (op,) = check_capture(Norm(plain), torch.randn(2, 3, 8)).ops
    assert op.kind == "rms_norm"
    assert op.attrs == {"dims": 1, "eps": 1e-5}


def test_the_dtype_inside_is_kept(check_capture):
    module = Norm(widened).bfloat16()
    (op,) = check_capture(module, torch.randn(2, 3, 8).bfloat16()).ops
    assert op.kind == "rms_norm"
    assert op.attrs["compute"] == "float32"


def test_a_cast_back_may_follow_the_weight(check_capture):
    def late(x, weight):
        wide = x.to(torch.float32)
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (weight * (wide * scale)).to(x.dtype)

    module = Norm(late).bfloat16()
    (op,) = check_capture(module, torch.randn(2, 3, 8).bfloat16()).ops
    assert op.kind == "rms_norm"
    assert op.attrs["compute"] == "float32"


def test_a_norm_that_takes_off_the_mean_is_left_alone(check_capture):
    def centred(x, weight):
        x = x - x.mean(-1, keepdim=True)
        return (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

    graph = check_capture(Norm(centred), torch.randn(2, 3, 8))
    assert all(op.kind != "rms_norm" for op in graph.ops)


def test_a_norm_over_another_dim_is_left_alone(check_capture):
    def rows(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5) * weight

    graph = check_capture(Norm(rows), torch.randn(2, 3, 8))
    assert all(op.kind != "rms_norm" for op in graph.ops)


def test_torch_has_the_norm_itself(check_capture):
    graph = check_capture(torch.nn.RMSNorm(8, eps=1e-6), torch.randn(2, 3, 8))
    assert [op.kind for op in graph.ops] == ["rms_norm"]


def test_a_number_may_be_added_to_the_weight(check_capture):
    def offset(x, weight):
        wide = x.float()
        unit = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (unit * (1.0 + weight.float())).type_as(x)

    (op,) = check_capture(Norm(offset).bfloat16(), torch.randn(2, 3, 8).bfloat16()).ops
    assert op.kind == "rms_norm"
    assert op.attrs == {"dims": 1, "eps": 1e-6, "compute": "float32", "weight_offset": 1.0}
    (op,) = check_capture(Norm(offset), torch.randn(2, 3, 8)).ops
    assert op.attrs == {"dims": 1, "eps": 1e-6, "weight_offset": 1.0}


def test_a_norm_needs_no_weight(check_capture):
    def unit(x, _weight):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)

    graph = check_capture(Norm(unit).bfloat16(), torch.randn(2, 3, 8).bfloat16())
    assert [(op.kind, len(op.inputs)) for op in graph.ops] == [("rms_norm", 1)]
    graph = check_capture(
        torch.nn.RMSNorm(8, elementwise_affine=False, eps=1e-6), torch.randn(2, 3, 8)
    )
    assert [(op.kind, len(op.inputs)) for op in graph.ops] == [("rms_norm", 1)]
