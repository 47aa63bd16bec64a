"""Sounds with and without a voice, and a network that tells them apart.

The network and the recording of a voice are those of two packages; without these, a
small network is trained on vowels that are computed.
"""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg

from examples.efficientnet import packaged

Array = np.ndarray[Any, np.dtype[Any]]
NETWORK = ("silero_vad", "data/silero_vad_16k_sequence.onnx")
VOICE = ("f5_tts", "infer/examples/basic/basic_ref_en.wav")
RATE = 16_000  # samples per second
CHUNK, CONTEXT = 512, 64  # samples that the network reads at a time, and before them
LENGTH, STEP = 512, 128  # samples of a window of the spectrogram, and between windows
PATCH = 4  # a patch of the spectrogram has 4 x 4 cells: 32 ms and 125 Hz
Network = Callable[[pg.Tensor], pg.Tensor]


class Scene(NamedTuple):
    """The spectrogram of a mixture, and where its voice is louder than the rest."""

    cells: Array
    is_voice: Array


# --- sounds ----------------------------------------------------------------------


def read(path: Path) -> Array:
    """Return a mono recording of 16-bit samples at ``RATE``, between -1 and 1."""
    with wave.open(str(path)) as file:
        rate, samples = file.getframerate(), file.readframes(file.getnframes())
    spectrum = np.fft.rfft(np.frombuffer(samples, np.int16) / 32_768)
    old = 2 * (len(spectrum) - 1)
    new = old * RATE // rate
    return np.fft.irfft(spectrum[: new // 2 + 1], new) * new / old


def vowels(random: np.random.Generator, seconds: float) -> Array:
    """Return a stand-in for a voice: harmonics with pauses, and a pitch that moves."""
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = 120 + 20 * np.sin(2 * np.pi * (0.7 * t + random.random()))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    tones = sum(np.sin(n * phase) / n for n in range(1, 25))
    is_on = np.sin(2 * np.pi * (1.3 * t + random.random())) > -0.3
    loudness = np.convolve(is_on, np.hanning(800) / np.hanning(800).sum(), "same")
    return 0.2 * tones * loudness


def others(random: np.random.Generator, samples: int) -> Array:
    """Return sounds other than the voice: noise, and beeps that are louder than it."""
    t = np.arange(samples) / RATE
    beeps = np.sin(2 * np.pi * 1_500 * t) * (np.sin(2 * np.pi * 1.1 * t) > 0.6)
    return 0.02 * random.normal(size=samples) + 0.3 * beeps


def spectrogram(sound: Array) -> Array:
    """Return the short-time Fourier transform, ``[windows, frequencies]``."""
    padded = np.pad(sound.astype(np.float32), LENGTH)  # windows end softly there
    cells: Array = pg.signal.stft(padded, LENGTH, STEP).numpy()
    rows, columns = (size // PATCH * PATCH for size in cells.shape)
    return cells[:rows, :columns]


def mix(voice: Array, rest: Array) -> Scene:
    """Return both sounds together."""
    cells, ours, theirs = map(spectrogram, (voice + rest, voice, rest))
    return Scene(cells, np.abs(ours) > np.abs(theirs))


# --- the network -----------------------------------------------------------------


def load_network() -> Network | None:
    """Return Silero's detector of voices, or None if its package is not installed."""
    import plugrad_onnx

    path = packaged(*NETWORK)
    if path is None:
        return None
    model = plugrad_onnx.load(path)
    state = pg.zeros((1, 1, 128))
    return lambda chunks: model(chunks, state, state)[0]


def train_network(steps: int) -> Network:
    """Return a small network that has learned to tell vowels from noise and beeps."""
    import plugrad_train as pt

    random = np.random.default_rng(0)
    voice = vowels(random, 20.0)
    rest = others(random, len(voice))
    chunks = chunked(pg.asarray(voice + rest, dtype="float32"))
    power = pg.sum(chunked(pg.asarray(voice, dtype="float32")) ** 2, axis=1)
    labels = pg.astype(power > 1.0, "float32")
    normal = lambda *shape: pg.random.normal(shape, stddev=shape[0] ** -0.5, seed=1)
    params = {"w": normal(257, 32), "b": pg.zeros(32), "v": normal(32, 1)}

    def logits(params: Any, chunks: pg.Tensor) -> pg.Tensor:
        loudness = pg.abs(pg.signal.stft(chunks[:, CONTEXT:], CHUNK, CHUNK))[:, 0]
        return (pg.relu(loudness @ params["w"] + params["b"]) @ params["v"])[:, 0]

    def loss(params: Any) -> pg.Tensor:
        return pg.losses.sigmoid_cross_entropy(labels, logits(params, chunks))

    optimizer = pt.adam(0.01)
    state = optimizer.init(params)
    for _ in range(steps):
        params, state = optimizer.update(pg.grad(loss)(params), state, params)
    return lambda chunks: pg.sigmoid(logits(params, chunks))


def chunked(sound: pg.Tensor) -> pg.Tensor:
    """Return what the network reads: chunks, each with the end of the one before."""
    padded = pg.concat([pg.zeros(CONTEXT, dtype=sound.dtype), sound])
    return pg.signal.frame(padded, CONTEXT + CHUNK, CHUNK)


def load(steps: int) -> tuple[Network, Scene]:
    """Return a network and a scene: the packages', or a small network's."""
    random = np.random.default_rng(1)
    path = None if steps else packaged(*VOICE)
    network = None if steps else load_network()
    if network is None or path is None:
        print(f"a small network is trained instead of {NETWORK[0]}")
        network, voice = train_network(steps or 300), vowels(random, 3.0)
    else:
        voice = read(path)
    return network, mix(voice, others(random, len(voice)))
