"""Lists the devices, tests whether they work, and chooses one.

Each device is tried once, in a separate process, because a compiler that crashes ends
its process. The verdict is stored in the cache folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from . import _pocl, environment

RETRY_AFTER_S = 600  # delay before a device that failed its trial is tried again
TRIAL_TIMEOUT_S = 120  # time limit of the process that tries a device


@dataclass(frozen=True)
class DeviceInfo:
    """A device of this machine.

    Attributes:
        index: The index in ``devices()``; ``PLUGRAD_OPENCL_DEVICE`` accepts it.
        name: The driver's name for the device.
        kind: "gpu", "accelerator" or "cpu".
        platform: The name of the OpenCL platform.
        version: The versions of the platform and of the driver.

    """

    index: int
    name: str
    kind: str
    platform: str
    version: str
    handles: tuple[Any, ...] = field(repr=False)  # PoCL: the second runs small kernels

    @property
    def key(self) -> str:
        """The name in the cache, which depends on the version of the driver."""
        parts = (self.name, self.platform, self.version, _pocl.processor())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]

    def __str__(self) -> str:
        return f"{self.index}: {self.name} ({self.kind}, {self.platform})"


@functools.cache
def devices() -> tuple[DeviceInfo, ...]:
    """Return all devices of this machine, best first."""
    environment.prepare()
    import pyopencl as cl

    found: list[tuple[int, tuple[Any, ...], str]] = []
    for platform in _platforms(cl):
        try:
            handles = platform.get_devices()
        except cl.Error:  # the platform has no devices
            continue
        pocl = platform.name == "Portable Computing Language"
        if pocl:
            for handle in handles:
                _pocl.name_processor(handle)
            small = [h for h in handles if h.name.startswith("basic")]
            rest = [h for h in handles if h not in small]
            groups = [(h, *small[:1]) for h in rest] or [(h,) for h in small]
        else:
            groups = [(h,) for h in handles]
        for group in groups:
            kind = _kind(cl, group[0])
            rank = ("gpu", "accelerator", "cpu").index(kind) + pocl
            found.append((rank, group, kind))
    found.sort(key=lambda entry: entry[0])
    return tuple(
        DeviceInfo(
            index,
            group[0].name.strip(),
            kind,
            group[0].platform.name,
            f"{group[0].platform.version} {group[0].driver_version}",
            group,
        )
        for index, (_, group, kind) in enumerate(found)
    )


def _platforms(cl: Any) -> list[Any]:
    try:
        return list(cl.get_platforms())
    except cl.LogicError:  # there are no platforms
        return []


def _kind(cl: Any, handle: Any) -> str:
    if handle.type & cl.device_type.GPU:
        return "gpu"
    return "cpu" if handle.type & cl.device_type.CPU else "accelerator"


def choose(wanted: str = "") -> DeviceInfo:
    """Return the device that the user wants, or the first that works.

    ``wanted`` is an index in ``devices()``, or a part of a name, kind or platform. If
    it is empty, PYOPENCL_CTX ("0" or "0:1", as in pyopencl) limits the choice. Devices
    are tried in the order of ``devices()``.
    """
    candidates = list(devices())
    reasons: list[str] = []
    if wanted:
        candidates = [d for d in candidates if _matches(d, wanted.strip())]
    elif context := os.environ.get("PYOPENCL_CTX"):
        candidates = [d for d in candidates if _in_context(d, context)]
    for device in candidates:
        reason = refusal(device)
        if reason is None:
            if reasons:
                warnings.warn(
                    f"opencl: skipped {'; '.join(reasons)}; runs on {device}",
                    stacklevel=2,
                )
            return device
        reasons.append(f"{device}: {reason}")
    if reasons:
        why = f"{'; '.join(reasons)}; set PLUGRAD_OPENCL_DEVICE to another device"
        raise _no_device(f"no OpenCL device works: {why}")
    if devices():
        known = "; ".join(map(str, devices()))
        asked = wanted or os.environ["PYOPENCL_CTX"]
        raise _no_device(f"no device matches {asked!r}; choose from {known}")
    raise _no_device(
        "there is no OpenCL device at all; install the driver of your GPU, or on "
        "x86-64 Linux pocl-binary-distribution"
    )


def _no_device(why: str) -> RuntimeError:
    from plugrad.plugin import explained  # only for errors: trials do not need plugrad

    return explained(RuntimeError(f"opencl: {why}"), "no-opencl-device")


def _matches(device: DeviceInfo, wanted: str) -> bool:
    if wanted.isdecimal():
        return device.index == int(wanted)
    text = f"{device.kind} {device.name} {device.platform}"
    return wanted.lower() in text.lower()


def _in_context(device: DeviceInfo, context: str) -> bool:
    """Return whether PYOPENCL_CTX (platform[:devices]) selects the device."""
    import pyopencl as cl

    try:
        chosen = cl.create_some_context(interactive=False, answers=context.split(":"))
    except (cl.Error, RuntimeError, ValueError) as error:
        raise ValueError(f"PYOPENCL_CTX={context}: {error}") from error
    return any(handle in device.handles for handle in chosen.devices)


def remarks(used: DeviceInfo) -> list[str]:
    """Return what ``python -m plugrad doctor`` says about all devices."""
    found = [f"runs on {used}"]
    for device in devices():
        reason = refusal(device)
        if reason is not None:
            found.append(f"skipped {device}: {reason}")
        elif untried := verdict(device).untried:
            found.append(
                f"did not try {device}: {untried}; a compiler that crashes will end "
                "this program"
            )
    return found + environment.remarks()


# --- trying ----------------------------------------------------------------------

TRIAL = "PLUGRAD_OPENCL_TRIAL"  # set in a trial process and its children
TRIAL_BEGINS = "plugrad-opencl: the trial begins"  # the first output of a trial process


class Verdict(NamedTuple):
    """The result of a trial.

    Attributes:
        reason: Why the device is unusable; None if it works, or was not tried.
        untried: Why there was no trial; empty if there was one.

    """

    reason: str | None
    untried: str = ""


def refusal(device: DeviceInfo) -> str | None:
    """Return why a device is unusable; None if it works or cannot be tried."""
    pocl = device.platform == "Portable Computing Language"
    if pocl and not environment.has_linker():
        return "PoCL needs a linker; install binutils, or the package ziglang"
    return verdict(device).reason


def verdict(device: DeviceInfo) -> Verdict:
    """Return the stored verdict on a device, or try the device."""
    file = environment.folder() / "verdicts" / f"{device.key}.json"
    known = _known(file)
    if known is not None:
        return known
    if TRIAL in os.environ:  # the trial started this program instead of Python
        return Verdict(f"this process was started to try it ({TRIAL} is set)")
    if getattr(sys, "frozen", False):
        return Verdict(None, "a frozen program has no interpreter to try it in")
    if not sys.executable:
        return Verdict(None, "there is no interpreter to try it in")
    print(
        f"plugrad-opencl: trying {device.name} (once for this driver)",
        file=sys.stderr,
        flush=True,
    )
    found = _try(device)
    works = found.reason is None
    about = {"device": str(device), "program": sys.executable, "when": time.time()}
    text = json.dumps({"works": works, **found._asdict(), **about})
    with contextlib.suppress(OSError):  # then the device is tried again next time
        environment.save(file, text.encode())
    return found


def _known(file: Path) -> Verdict | None:
    """Return the verdict in a file; None if it is missing, old or damaged.

    A verdict without a trial applies only to the program that wrote it.
    """
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    match found:
        case {"works": True, "untried": str(why), "program": program} if why:
            return Verdict(None, why) if program == sys.executable else None
        case {"works": True, "reason": None}:
            return Verdict(None)
        case {"works": False, "reason": str(reason), "when": int() | float() as when}:
            now = time.time()
            return Verdict(reason) if now - RETRY_AFTER_S < when <= now else None
    return None


def _try(device: DeviceInfo) -> Verdict:
    """Run ``_trial`` in another process, if ``sys.executable`` is an interpreter."""
    command = [sys.executable, "-m", "plugrad_opencl._trial", device.key]
    how: dict[str, Any] = {"env": os.environ | {TRIAL: "1"}, "timeout": TRIAL_TIMEOUT_S}
    how |= {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, **how)
    except OSError as error:
        return Verdict(None, f"{sys.executable!r} does not start: {error.strerror}")
    except subprocess.TimeoutExpired as late:
        if TRIAL_BEGINS not in str(late.stdout):
            return Verdict(None, f"{sys.executable!r} does not run Python modules")
        return Verdict(f"a test of it did not finish in {TRIAL_TIMEOUT_S} seconds")
    if TRIAL_BEGINS not in done.stdout:
        return Verdict(None, f"{sys.executable!r} does not run Python modules")
    if done.returncode == 0:
        return Verdict(None)
    text = done.stderr.strip() or done.stdout.partition(TRIAL_BEGINS)[2].strip()
    ended = f"ended with {done.returncode}"
    return Verdict(f"a test of it {ended}: {' | '.join(text.splitlines()[-2:])[-400:]}")
