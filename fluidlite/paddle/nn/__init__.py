"""`paddle.nn`: layers that own their parameters, as classes"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_LAYER = "fluidlite.paddle.nn.layer"
_NAMES = LazyNames(
    __name__,
    {
        "fluidlite.clip": "ClipGradByNorm=GradientClipByNorm ClipGradByValue=GradientClipByValue",
        "fluidlite.paddle.nn.clip": "ClipGradByGlobalNorm",
        "fluidlite.paddle.attributes": "ParamAttr",
        "fluidlite.layers.recurrence.decoders": "BeamSearchDecoder dynamic_decode",
        f"{_LAYER}.base": "Layer",
        f"{_LAYER}.container": "LayerDict LayerList ParameterList Sequential",
        f"{_LAYER}.common": "AlphaDropout Bilinear ChannelShuffle CosineSimilarity Dropout Dropout2D "
        "Dropout3D "
        "Embedding Flatten Fold Identity Linear Pad1D Pad2D Pad3D PairwiseDistance "
        "PixelShuffle PixelUnshuffle Unflatten Unfold Upsample UpsamplingBilinear2D "
        "UpsamplingNearest2D ZeroPad2D",
        f"{_LAYER}.conv": "Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose",
        f"{_LAYER}.pooling": "AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool1D "
        "AdaptiveMaxPool2D AdaptiveMaxPool3D AvgPool1D AvgPool2D AvgPool3D MaxPool1D "
        "MaxPool2D MaxPool3D MaxUnPool1D MaxUnPool2D MaxUnPool3D",
        f"{_LAYER}.norm": "BatchNorm BatchNorm1D BatchNorm2D BatchNorm3D GroupNorm InstanceNorm1D "
        "InstanceNorm2D InstanceNorm3D LayerNorm LocalResponseNorm SpectralNorm "
        "SyncBatchNorm",
        f"{_LAYER}.activation": "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU "
        "LogSigmoid LogSoftmax Maxout Mish PReLU RReLU ReLU ReLU6 SELU Sigmoid Silu Softmax Softmax2D "
        "Softplus Softshrink Softsign Swish Tanh Tanhshrink ThresholdedReLU",
        f"{_LAYER}.loss": "BCELoss BCEWithLogitsLoss CTCLoss CrossEntropyLoss HSigmoidLoss KLDivLoss "
        "L1Loss MSELoss MarginRankingLoss NLLLoss RNNTLoss SmoothL1Loss CosineEmbeddingLoss GaussianNLLLoss "
        "HingeEmbeddingLoss MultiLabelSoftMarginLoss MultiMarginLoss PoissonNLLLoss SoftMarginLoss "
        "TripletMarginLoss TripletMarginWithDistanceLoss",
        f"{_LAYER}.rnn": "BiRNN GRU GRUCell LSTM LSTMCell RNN RNNCellBase SimpleRNN SimpleRNNCell",
        f"{_LAYER}.transformer": "MultiHeadAttention Transformer TransformerDecoder TransformerDecoderLayer "
        "TransformerEncoder TransformerEncoderLayer",
    },
    "functional initializer layer quant utils",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
