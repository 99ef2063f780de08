"""MindSpore's operators with a parallel rule, and the kind of each.

The names are those that MindSpore 2.7.0 registers (336, read from its source) and the twelve more
of 2.10.0 (from its package). A name for a variant of another op (AddExt, Muls, FFT2) maps to that
op with the attributes that the name implies. A name whose attribute decides maps to the kind of its
value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from meshwright.schema import RuleError

# family -> kind: names of operators
_FAMILIES: Mapping[str, str] = {
    "Element-wise, unary": """
        acos: ACos; abs: Abs; acosh: Acosh; asin: Asin; asinh: Asinh; atan: Atan; atanh: Atanh
        bessel_i0: BesselI0; bessel_i0e: BesselI0e; bessel_i1: BesselI1; bessel_i1e: BesselI1e
        bessel_j0: BesselJ0; bessel_j1: BesselJ1; cast: Cast; ceil: Ceil; cholesky: Cholesky
        clamp: ClampScalar; cos: Cos; cosh: Cosh; cumprod: CumProd; cumsum: CumSum CumsumExt
        cummax: Cummax; cummin: Cummin; dropout: Dropout DropoutExt; elu: Elu EluExt; erf: Erf
        erfc: Erfc; erfinv: Erfinv; exp: Exp; expm1: Expm1; floor: Floor; gelu: FastGeLU GeLU
        hardshrink: HShrink; hardsigmoid: HSigmoid; identity: AShardIdentity Identity
        reciprocal: Inv Reciprocal; bitwise_not: Invert; isfinite: IsFinite; l2_loss: L2Loss
        leaky_relu: LeakyReLUExt; lgamma: Lgamma; log: Log; log1p: Log1p; log_softmax: LogSoftmax
        logical_not: LogicalNot; mish: Mish; nan_to_num: NanToNum; neg: Neg
        full_like: OnesLike ZerosLike; prelu: PReLU; population_count: PopulationCount
        relu: Activation ReLU; relu6: ReLU6; remainder: RemainderScalarTensor RemainderTensorScalar
        repeat_interleave: RepeatElements RepeatInterleave RepeatInterleaveInt
        repeat_interleave: RepeatInterleaveTensor; flip: ReverseV2; round: Rint Round; rsqrt: Rsqrt
        selu: SeLU; silu: SiLU; sigmoid: Sigmoid; sign: Sign; sin: Sin; sinh: Sinh
        softshrink: SoftShrink; softmax: Softmax; softplus: Softplus SoftplusExt
        softsign: Softsign; sort: Sort SortExt; sqrt: Sqrt; square: Square
        reshape: ExpandDims Squeeze; swiglu: Swiglu; tan: Tan; tanh: Tanh; trunc: Trunc
    """,
    "Element-wise, broadcasting": """
        add: Add AddExt AddN; addcmul: AddcmulExt; isclose: ApproximateEqual IsClose
        assign: Assign InplaceCopy; add: AssignAdd; sub: AssignSub; atan2: Atan2; betainc: Betainc
        bias_add: BiasAdd; bitwise_and: BitwiseAnd; bitwise_or: BitwiseOr; bitwise_xor: BitwiseXor
        div: Div DivMod RealDiv; div_no_nan: DivNoNan; eq: Equal; floor_div: FloorDiv
        remainder: FloorMod RemainderTensorTensor; fmod: FmodScalar FmodTensor Mod TruncateMod
        gcd: Gcd; gt: Greater; ge: GreaterEqual; hypot: Hypot; igamma: Igamma; igammac: Igammac
        index_add: InplaceAdd InplaceSub; index_copy: InplaceUpdate; left_shift: LeftShift
        lerp: Lerp; lt: Less; le: LessEqual; logical_and: LogicalAnd; logical_or: LogicalOr
        masked_fill: MaskedFill; maximum: Maximum; minimum: Minimum; mul: Mul Muls
        mul_no_nan: MulNoNan; nextafter: NextAfter; ne: NotEqual; outer: Outer; polar: Polar
        pow: Pow; right_shift: RightShift; where: Select; sub: Sub SubExt
        sigmoid_cross_entropy: SigmoidCrossEntropyWithLogits
        squared_difference: SquaredDifference; trunc_div: TruncateDiv; xdivy: Xdivy; xlogy: Xlogy
        zeta: Zeta
    """,
    "Matrix products": """
        matmul: BatchMatMul BatchMatMulExt MatMul MatMulExt; cdist: Cdist; block_mix: DSDMatmul
        grouped_matmul: GroupedMatmul; block_scores: MatmulDDS; quant_matmul: QuantBatchMatmul
        compressed_matmul: QuantLinearSparse; tensordot: TensorDot
        weight_quant_matmul: WeightQuantBatchMatmul
    """,
    "Attention, position embedding, KV cache": """
        rotary_pair: ApplyRotaryPosEmb; rotary: RotaryPositionEmbedding
        attention: FlashAttentionScore FusedInferAttentionScore IncreFlashAttention
        attention: PromptFlashAttention; fault_injection: GenerateEodMaskV2
        kv_update: KVCacheMgr KVCacheScatterUpdate
        paged_attention: PagedAttention PagedAttentionMask; reshape_and_cache: ReshapeAndCache
        wkv: WKV
    """,
    "FFN and mixture of experts": """
        ffn: FFN FFNExt; moe_expert_tokens: MoeComputeExpertTokens
        moe_finalize_routing: MoeFinalizeRouting; moe_gating_topk: MoeGatingTopKSoftmax
        moe_init_routing: MoeInitRouting; topk_router: TopKRouter; topp_router: TopPRouter
    """,
    "Normalisation": """
        batch_norm: BatchNorm; group_norm: GroupNorm; l2_normalize: L2Normalize
        layer_norm: LayerNorm LayerNormV3; rms_norm: RmsNorm
    """,
    "Convolution, pooling, vision": """
        avg_pool: AvgPool AvgPool3D; box_encode: BoundingBoxEncode
        conv: Conv2D Conv3D Convolution; conv_transpose: Conv2DBackpropInput Conv2DTranspose
        crop_and_resize: CropAndResize; grid_sample: GridSampler2D; iou: IOU
        max_pool: MaxPool MaxPool3D; roi_align: ROIAlign
        random_choice_with_mask: RandomChoiceWithMask
        upsample: ResizeBilinearV2 ResizeNearestNeighbor
    """,
    "Reductions, sorting, losses": """
        max_with_index: ArgMaxWithValue MaxDim; min_with_index: ArgMinWithValue; argmax: Argmax
        argmin: Argmin; kl_div: KLDivLoss; amax: Max ReduceMax; mean: MeanExt ReduceMean
        all: ReduceAll; any: ReduceAny; amin: ReduceMin; prod: ReduceProd; sum: ReduceSum SumExt
        softmax_cross_entropy: SoftmaxCrossEntropyWithLogits; square_sum_all: SquareSumAll
        topk: TopK TopkExt; trace: TraceV2; unsorted_segment_max: UnsortedSegmentMax
        unsorted_segment_min: UnsortedSegmentMin; unsorted_segment_prod: UnsortedSegmentProd
        unsorted_segment_sum: UnsortedSegmentSum
    """,
    "Gather, scatter, embedding": """
        embedding: Embedding EmbeddingLookup; index_select: Gather IndexSelect SparseGatherV2
        gather: GatherD; gather_nd: GatherNd; index: Index
        scatter_rows: ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterSub
        scatter_rows: ScatterUpdate; scatter_nd: ScatterNdAdd ScatterNdSub ScatterNdUpdate
        scatter_nd: TensorScatterAdd TensorScatterDiv TensorScatterMax TensorScatterMin
        scatter_nd: TensorScatterMul TensorScatterSub TensorScatterUpdate
        candidate_sampler: UniformCandidateSampler; unique: Unique
    """,
    "Shape and layout": """
        expand: BroadcastTo; concat: Concat; pad: PadV3; reshape: Reshape
        slice: Slice SliceExt StridedSlice; split: Split SplitTensor SplitV SplitWithSize
        stack: Stack StackExt; tile: Tile; transpose: Transpose; tril: Tril; triu: Triu
    """,
    "Creation, random, one-hot": """
        arange: Arange Range; dropout_mask: DropoutDoMask; full: FillV2; random_gamma: Gamma
        linspace: LinSpace LinSpaceExt; one_hot: OneHot OneHotExt; random_normal: StandardNormal
        random_uniform: UniformReal
    """,
    "FFT and DCT": """
        dct: DCT DCTN IDCT IDCTN; fft: FFT FFT2 FFTN IFFT IFFT2 IFFTN
        fftshift: FFTShift IFFTShift; hfft: HFFT HFFT2 HFFTN; ihfft: IHFFT IHFFT2 IHFFTN
        irfft: IRFFT IRFFT2 IRFFTN; rfft: RFFT RFFT2 RFFTN
    """,
    "Quantisation": """
        dequantize: AntiQuant Dequant; dynamic_quant: DynamicQuantExt
        fake_quant: FakeQuantPerChannel FakeQuantPerLayer
        min_max_update: MinMaxUpdatePerChannel MinMaxUpdatePerLayer; quantize: Quant QuantV2
    """,
    "Structure and fallback": """
        batch_parallel: BatchParallel; check_valid: CheckValid; custom: Custom SelfDefineShard
        get_next: GetNext; least_squares: LstsqV2; solve_triangular: SolveTriangular
        cross_entropy: SparseSoftmaxCrossEntropyWithLogits; stand_alone: StandAlone
        identity: VirtualDataset VirtualOutput
    """,
    "New in 2.10.0": """
        cross_entropy: CrossEntropyLoss; index_add: IndexAddExt; add: InplaceAddExt InplaceAddsExt
        div: InplaceDiv InplaceDivs; floor_div: InplaceFloorDivide InplaceFloorDivides
        mul: InplaceMul InplaceMuls; sub: InplaceSubExt InplaceSubScalar
    """,
}

_TWO = {"dims": [-2, -1]}
_LAST = {"dims": [-1]}

# attributes that a name implies; those of dims, sizes and strides come from the op
_IMPLIED: Mapping[str, Mapping[str, Any]] = {
    "FastGeLU": {"approximate": "sigmoid"},
    "GeLU": {"approximate": "tanh"},
    "OnesLike": {"value": 1},
    "ZerosLike": {"value": 0},
    "ApproximateEqual": {"rtol": 0.0, "atol": 1e-5},
    "InplaceAdd": {"dim": 0},
    "InplaceSub": {"dim": 0, "alpha": -1},
    "InplaceUpdate": {"dim": 0},
    "ResizeBilinearV2": {"mode": "bilinear"},
    "ResizeNearestNeighbor": {"mode": "nearest"},
    "ArgMaxWithValue": {"index_first": True},
    "ArgMinWithValue": {"index_first": True},
    "SparseSoftmaxCrossEntropyWithLogits": {"reduction": "mean"},
    **{
        f"{family}{how}": {"reduce": how.lower()}
        for family, hows in (
            ("Scatter", ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update")),
            ("ScatterNd", ("Add", "Sub", "Update")),
            ("TensorScatter", ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update")),
        )
        for how in hows
    },
    **{f"{name}FFT": _LAST for name in ("", "H", "IH", "R", "IR")},
    **{f"{name}FFT2": _TWO for name in ("", "H", "IH", "R", "IR")},
    "IFFT": {**_LAST, "inverse": True},
    "IFFT2": {**_TWO, "inverse": True},
    "IFFTN": {"inverse": True},
    "IFFTShift": {"inverse": True},
    "DCT": _LAST,
    "IDCT": {**_LAST, "inverse": True},
    "IDCTN": {"inverse": True},
    "FakeQuantPerChannel": {"dim": 1},
    "MinMaxUpdatePerChannel": {"dim": 1},
}

# the attribute whose value decides the kind
_DECIDED: Mapping[str, tuple[str, Mapping[object, str]]] = {
    "Activation": (
        "activation_type",
        {"relu": "relu", "relu6": "relu6", "sigmoid": "sigmoid", "tanh": "tanh", "elu": "elu"},
    ),
    "DivMod": ("rounding_mode", {None: "div", "floor": "floor_div", "trunc": "trunc_div"}),
    "Convolution": ("transposed", {None: "conv", False: "conv", True: "conv_transpose"}),
}


@dataclass(frozen=True, slots=True)
class MindSporeOperator:
    """One operator of MindSpore: its kind here, and the attributes that its name implies.

    decided_by: the attribute that decides the kind, with the kind of each value.
    """

    name: str
    family: str
    kind: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    decided_by: tuple[str, Mapping[object, str]] | None = None

    def kind_for(self, attrs: Mapping[str, Any]) -> str:
        """The kind with the operator's own attributes; RuleError for an unknown value."""
        if self.decided_by is None:
            return self.kind
        attribute, kinds = self.decided_by
        value = attrs.get(attribute)
        if value not in kinds:
            raise RuleError(
                f"{self.name}: {attribute} is {value!r}. Use "
                f"{', '.join(repr(known_value) for known_value in kinds)}"
            )
        return kinds[value]


def _read() -> dict[str, MindSporeOperator]:
    operators: dict[str, MindSporeOperator] = {}
    for family, text in _FAMILIES.items():
        for entry in text.replace("\n", ";").split(";"):
            kind, _, names = entry.strip().partition(": ")
            for name in names.split():
                operators[name] = MindSporeOperator(
                    name, family, kind, _IMPLIED.get(name, {}), _DECIDED.get(name)
                )
    return operators


OPERATORS: Mapping[str, MindSporeOperator] = _read()


def operator(name: str) -> MindSporeOperator:
    """The operator of this name; RuleError, with similar names, for an unknown one."""
    if name not in OPERATORS:
        near = get_close_matches(name, OPERATORS, n=3)
        more = f". Similar names are {', '.join(near)}" if near else ""
        raise RuleError(f"{name!r} is no operator of MindSpore with a parallel rule{more}")
    return OPERATORS[name]
