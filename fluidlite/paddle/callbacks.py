"""`paddle.callbacks`: actions beside a training by `paddle.Model`."""

from fluidlite.paddle.hapi.callbacks import (
    Callback,
    CSVLogger,
    EarlyStopping,
    LRScheduler,
    ModelCheckpoint,
    ProgBarLogger,
    ReduceLROnPlateau,
    TensorBoard,
    VisualDL,
    WandbCallback,
)

__all__ = [
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "LRScheduler",
    "ModelCheckpoint",
    "ProgBarLogger",
    "ReduceLROnPlateau",
    "TensorBoard",
    "VisualDL",
    "WandbCallback",
]
