# written by tests/house/stubs.py
"""`paddle.audio.features`: spectra of sound as layers"""

from fluidlite.paddle.audio.features import layers as layers
from fluidlite.paddle.audio.features.layers import LogMelSpectrogram as LogMelSpectrogram
from fluidlite.paddle.audio.features.layers import MFCC as MFCC
from fluidlite.paddle.audio.features.layers import MelSpectrogram as MelSpectrogram
from fluidlite.paddle.audio.features.layers import Spectrogram as Spectrogram
