"""FarmHash's Fingerprint64 of many strings at once.

The algorithm is Geoff Pike's FarmHash (https://github.com/google/farmhash): its 64-bit
``na`` hash is the fingerprint, which is the same on every machine and will not change.
Strings of the same length are hashed together, one vector operation per
step; NumPy's unsigned integers wrap.
"""

from collections import defaultdict

import numpy as np

from ..arrays import Array

K0, K1, K2 = (
    np.uint64(k) for k in (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F)
)
Pair = tuple[Array, Array]


def fingerprints(texts: list[bytes]) -> Array:
    """Return a hash of 64 bits for each string."""
    found = np.empty(len(texts), np.uint64)
    by_length: dict[int, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        by_length[len(text)].append(i)
    for length, indices in by_length.items():
        table = np.frombuffer(b"".join([texts[i] for i in indices]), np.uint8)
        found[indices] = _hash_rows(table.reshape(len(indices), length))
    return found


def _hash_rows(table: Array) -> Array:
    """Return the hashes of rows of bytes."""
    length = table.shape[1]
    if length == 0:
        return np.full(len(table), K2)
    if length <= 3:
        return _hash_1_to_3(table)
    if length <= 16:
        return _hash_4_to_16(table)
    if length <= 32:
        return _hash_17_to_32(table)
    return _hash_33_to_64(table) if length <= 64 else _hash_over_64(table)


def _fetch(table: Array, at: int, size: int = 8) -> Array:
    """Return ``size`` bytes of each row as a number; ``at`` may count from the end."""
    at = at + table.shape[1] if at < 0 else at
    part = np.ascontiguousarray(table[:, at : at + size])
    return part.view(f"<u{size}")[:, 0].astype(np.uint64)


def _rotated(x: Array, by: int) -> Array:
    return x >> np.uint64(by) | x << np.uint64(64 - by)


def _mixed(x: Array) -> Array:
    return x ^ x >> np.uint64(47)


def _joined(u: Array, v: Array, factor: Array | np.uint64) -> Array:
    """Combine two numbers into one, as in MurmurHash."""
    a = _mixed((u ^ v) * factor)
    return _mixed((v ^ a) * factor) * factor


def _factor(table: Array) -> np.uint64:
    return K2 + np.uint64(2 * table.shape[1])


def _hash_1_to_3(table: Array) -> Array:
    length = table.shape[1]
    a, b, c = (table[:, i].astype(np.uint64) for i in (0, length >> 1, length - 1))
    y = a + (b << np.uint64(8))
    z = np.uint64(length) + (c << np.uint64(2))
    return _mixed(y * K2 ^ z * K0) * K2


def _hash_4_to_16(table: Array) -> Array:
    length = table.shape[1]
    factor = _factor(table)
    if length < 8:
        a = np.uint64(length) + (_fetch(table, 0, 4) << np.uint64(3))
        return _joined(a, _fetch(table, -4, 4), factor)
    a = _fetch(table, 0) + K2
    b = _fetch(table, -8)
    c = _rotated(b, 37) * factor + a
    d = (_rotated(a, 25) + b) * factor
    return _joined(c, d, factor)


def _hash_17_to_32(table: Array) -> Array:
    factor = _factor(table)
    a = _fetch(table, 0) * K1
    b = _fetch(table, 8)
    c = _fetch(table, -8) * factor
    d = _fetch(table, -16) * K2
    first = _rotated(a + b, 43) + _rotated(c, 30) + d
    return _joined(first, a + _rotated(b + K2, 18) + c, factor)


def _hash_33_to_64(table: Array) -> Array:
    factor = _factor(table)
    a = _fetch(table, 0) * K2
    b = _fetch(table, 8)
    c = _fetch(table, -8) * factor
    d = _fetch(table, -16) * K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _joined(y, a + _rotated(b + K2, 18) + c, factor)
    e = _fetch(table, 16) * factor
    f = _fetch(table, 24)
    g = (y + _fetch(table, -32)) * factor
    h = (z + _fetch(table, -24)) * factor
    first = _rotated(e + f, 43) + _rotated(g, 30) + h
    return _joined(first, e + _rotated(f + a, 18) + g, factor)


def _weak_hash_32(table: Array, at: int, a: Array, b: Array) -> Pair:
    """Return FarmHash's weak hash of 32 bytes and two seeds, a pair of numbers."""
    w, x, y, z = (_fetch(table, at + i) for i in (0, 8, 16, 24))
    a = a + w
    b = _rotated(b + a + z, 21)
    c = a + x + y
    return c + z, b + _rotated(c, 44) + a


def _round(
    table: Array, at: int, state: tuple[Array, Array, Array, Pair, Pair], last: bool
) -> tuple[Array, Array, Array, Pair, Pair]:
    """Mix 64 bytes into the state; the last 64 bytes use different factors."""
    x, y, z, v, w = state
    factor: Array | np.uint64 = K1
    small_factor = np.uint64(1)
    if last:
        factor = K1 + ((z & np.uint64(255)) << np.uint64(1))
        small_factor = np.uint64(9)
        last_byte = np.uint64((table.shape[1] - 1) & 63)
        w = (w[0] + last_byte, w[1])
        v = (v[0] + w[0], v[1])
        w = (w[0] + v[0], w[1])
    x = _rotated(x + y + v[0] + _fetch(table, at + 8), 37) * factor
    y = _rotated(y + v[1] + _fetch(table, at + 48), 42) * factor
    x = x ^ w[1] * small_factor
    y = y + v[0] * small_factor + _fetch(table, at + 40)
    z = _rotated(z + w[0], 33) * factor
    v = _weak_hash_32(table, at, v[1] * factor, x + w[0])
    w = _weak_hash_32(table, at + 32, z + w[1], y + _fetch(table, at + 16))
    return z, y, x, v, w


def _hash_over_64(table: Array) -> Array:
    count, length = table.shape
    seed = np.full(count, 81, np.uint64)
    zero = np.zeros(count, np.uint64)
    y = seed * K1 + np.uint64(113)
    z = _mixed(y * K2 + np.uint64(113)) * K2
    state = seed * K2 + _fetch(table, 0), y, z, (zero, zero), (zero, zero)
    for at in range(0, (length - 1) // 64 * 64, 64):
        state = _round(table, at, state, last=False)
    factor = K1 + ((state[2] & np.uint64(255)) << np.uint64(1))
    x, y, z, v, w = _round(table, length - 64, state, last=True)
    first = _joined(v[0], w[0], factor) + _mixed(y) * K0 + z
    return _joined(first, _joined(v[1], w[1], factor) + x, factor)
