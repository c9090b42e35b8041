"""Layers: plain objects with their tensors as attributes, called with an input."""

from quern.nn.activations import (
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool2d,
    BCELoss,
    BCEWithLogitsLoss,
    CELU,
    CrossEntropyLoss,
    Dropout,
    ELU,
    Flatten,
    GELU,
    GLU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    HuberLoss,
    Identity,
    KLDivLoss,
    L1Loss,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    MSELoss,
    MaxPool2d,
    Mish,
    PReLU,
    PixelShuffle,
    ReLU,
    ReLU6,
    SELU,
    Sequential,
    SiLU,
    Sigmoid,
    SmoothL1Loss,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
    Unflatten,
)
from quern.nn.attention import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from quern.nn.describe import Layer, describe
from quern.nn.layers import (
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Embedding,
    Linear,
    LSTMCell,
)
from quern.nn.norms import (
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from quern.nn.recurrent import GRU, LSTM, RNN
from quern.nn.scaler import GradScaler
from quern.nn import datasets, lr_scheduler, optim, state

optim.lr_scheduler = lr_scheduler

__all__ = [
    "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "AvgPool2d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "CELU", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "CrossEntropyLoss",
    "Dropout", "ELU", "Embedding", "Flatten", "GELU", "GLU", "GRU", "GradScaler", "GroupNorm", "Hardsigmoid", "Hardswish",
    "Hardtanh", "HuberLoss", "Identity", "InstanceNorm", "KLDivLoss", "L1Loss", "LSTM", "LSTMCell", "Layer", "LayerNorm",
    "LayerNorm2d", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss", "MaxPool2d", "Mish", "MultiheadAttention",
    "PReLU", "PixelShuffle", "RMSNorm", "RNN", "ReLU", "ReLU6", "SELU", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss",
    "Softmax", "Softplus", "Softsign", "Tanh", "TransformerEncoder", "TransformerEncoderLayer", "Unflatten", "datasets",
    "describe", "lr_scheduler", "optim", "state",
]
