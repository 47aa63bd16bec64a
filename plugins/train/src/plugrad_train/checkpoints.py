"""Checkpoints: atomic, verified, and checked against the model.

A checkpoint consists of two files: ``step-00000012.json``, and a safetensors file that
the JSON file refers to. The name of the safetensors file contains the start of its
checksum. The JSON file is written last. Each file is written under a temporary name,
synchronized and renamed. A killed process therefore leaves the earlier checkpoints
intact; at most it leaves temporary files, which a later ``save`` removes when no other
process is writing.

Contents: ``Checkpoints``; files and checksums; trees.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg

from ._locks import is_abandoned, writing
from ._trees import Tree, check_choice, check_integer, paths

FORMAT = 1
NAME = re.compile(r"step-(\d{8,})\.json")
TENSORS = re.compile(r"step-(\d{8,})\.[0-9a-f]{16}\.safetensors")
# A temporary file of this module, or the temporary folder of pg.save for that file.
DRAFT = re.compile(r"\d+\.[0-9a-f]{8}\.tmp(\.[0-9a-f]{8}\.tmp)?")
MAX_STEP = 10**18  # keeps file names below the limit of 255 characters
# A check for each entry of a JSON file. "file" must be a name, not a path.
ENTRY_CHECKS: dict[str, Callable[[Any], bool]] = {
    "step": lambda x: type(x) is int,
    "file": lambda x: isinstance(x, str) and TENSORS.fullmatch(x) is not None,
    "sha256": lambda x: isinstance(x, str),
    "rest": lambda x: isinstance(x, dict),
    "metrics": lambda x: (
        isinstance(x, dict) and all(type(one) in (int, float) for one in x.values())
    ),
}


class CheckpointError(ValueError):
    """A checkpoint is damaged or belongs to another model."""


class _DamagedError(CheckpointError):
    """A checkpoint is damaged: ``restore`` may skip it."""


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was skipped."""


class Restored(NamedTuple):
    """The content of a checkpoint.

    Attributes:
        step: The number of completed steps.
        tree: The tensors, in the containers of the tree passed to ``restore``.
        rest: The other saved values, as JSON values.
        metrics: The saved metrics, from which the best checkpoint is chosen.

    """

    step: int
    tree: Tree
    rest: dict[str, Any]
    metrics: dict[str, float]


class Checkpoints:
    """The checkpoints in a folder: the last ``keep`` checkpoints, and the best one.

    Several processes may save into a folder and restore from it. ``save`` never removes
    the checkpoint that it has just written; of the other checkpoints, those with the
    largest steps are kept. Anything else in the folder is left alone, even a folder
    with the name of a checkpoint.

    Args:
        folder: The folder; it is created if it is missing.
        keep: How many of the last checkpoints are kept.
        best: The name of a metric; the checkpoint with its best value is also kept.
        mode: ``"min"`` if a smaller metric is better, ``"max"`` if a larger one is.
        budget: Limits on the memory and time of reading; by default
            ``plugrad.Budget()``.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> checkpoints = pt.Checkpoints(folder.name, keep=2)
        >>> params = {"w": pg.asarray([1.0, 2.0])}
        >>> for step in (1, 2, 3):
        ...     _ = checkpoints.save(step, params, {"epoch": 0})
        >>> checkpoints.steps()
        [2, 3]
        >>> found = checkpoints.restore(params)
        >>> found.step, found.tree["w"].tolist(), found.rest
        (3, [1.0, 2.0], {'epoch': 0})
        >>> folder.cleanup()

    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep: int = 3,
        best: str | None = None,
        mode: str = "min",
        *,
        budget: pg.Budget | None = None,
    ) -> None:
        self.keep = check_integer("Checkpoints", "keep", keep)
        self.mode = check_choice("Checkpoints", "mode", mode, ("min", "max"))
        if best is not None and not isinstance(best, str):
            raise TypeError(
                f"Checkpoints: best must be the name of a metric, got {best!r}"
            )
        self.folder = Path(folder)
        self.best = best
        self.budget = pg.Budget.started(budget, "Checkpoints")
        self.folder.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        """Return the folder and the retention settings."""
        best = f", best={self.best!r}, mode={self.mode!r}" if self.best else ""
        return f"Checkpoints({str(self.folder)!r}, keep={self.keep}{best})"

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, even damaged ones, in order."""
        matches = [NAME.fullmatch(name) for name in os.listdir(self.folder)]
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Return the path of the JSON file of a step."""
        return self.folder / f"step-{check_integer('path', 'step', step, 0):08}.json"

    def save(
        self,
        step: int,
        tree: Tree,
        rest: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Path:
        """Write a checkpoint, then remove the checkpoints that are no longer kept.

        Args:
            step: The number of completed steps.
            tree: A tree of tensors, such as a dict of the parameters, the state of the
                optimizer and a random key.
            rest: Other values needed to resume, as JSON values.
            metrics: Numbers by name, including the metric that ``best`` names. Without
                metrics, the checkpoint is not a candidate for the best one.

        Returns:
            The path of the JSON file.

        Raises:
            TypeError: A leaf is not a tensor, ``rest`` cannot be written as JSON, or
                the step is not an integer.
            ValueError: ``metrics`` has no number for ``best``, or the step is negative
                or above 10¹⁸.
            BudgetError: ``rest`` is too deeply nested or too large to be restored.
            OSError: A file cannot be written.

        """
        step = check_integer("save", "step", step, 0)
        if step > MAX_STEP:
            raise ValueError(f"save: step must be at most 10¹⁸, got {step}")
        numbers = {name: float(x) for name, x in (metrics or {}).items()}
        if metrics is not None and self.best not in {None, *numbers}:
            raise ValueError(
                f"save: metrics must contain {self.best!r}, by which the best "
                f"checkpoint is chosen; got {', '.join(map(repr, numbers)) or 'none'}"
            )
        tensors = _leaves_by_name(tree)
        body: dict[str, Any] = {"format": FORMAT, "step": step, "metrics": numbers}
        body |= {"rest": dict(rest or {})}
        body = self._budget("save").json(_to_json(body))  # the limits of restore apply
        with writing(self.folder) as lock_others_out:
            self._write(step, tensors, body)
            self._remove_old(step)
            self._remove_unused(are_complete=lock_others_out())
        return self.path(step)

    def _write(
        self, step: int, tensors: Mapping[str, Any], body: dict[str, Any]
    ) -> None:
        """Write the two files of a checkpoint, the JSON file last."""
        draft = self.folder / f"{step}.{os.urandom(4).hex()}.tmp"
        try:
            pg.save(draft, tensors)
            checksum = _checksum(draft, self._budget("save"))
            file = f"step-{step:08}.{checksum[:16]}.safetensors"
            os.replace(draft, self.folder / file)
            body |= {"file": file, "sha256": checksum}
            text = _to_json(body | {"checksum": _body_checksum(body)})
            _write(draft, text)
            os.replace(draft, self.path(step))
        finally:
            draft.unlink(missing_ok=True)
        _synchronize(self.folder)

    def restore(self, like: Tree, step: int | None = None) -> Restored:
        """Return the newest undamaged checkpoint, or the checkpoint of a step.

        Args:
            like: A tree with the structure, shapes and dtypes of the saved tree, such
                as new parameters. Its values are not used.
            step: The step to restore. None: the newest step whose checkpoint is not
                damaged; damaged checkpoints are skipped with a warning.

        Returns:
            The step, the tree, the rest and the metrics.

        Raises:
            FileNotFoundError: There is no checkpoint.
            CheckpointError: The checkpoint is damaged, or, without ``step``, all
                checkpoints are; or the checkpoint belongs to another model, and the
                message lists the differences.

        """
        if step is not None:
            step = check_integer("restore", "step", step, 0)
            try:
                return self._as_restored(*self._read_checked(step), like)
            except FileNotFoundError:
                listed = ", ".join(map(str, self.steps())) or "none"
                raise FileNotFoundError(
                    f"restore: {self.folder} has no checkpoint of step {step}; it has "
                    f"{listed}"
                ) from None
        steps = None
        damaged = dict[int, str]()
        # Repeat if another process has added or removed checkpoints meanwhile.
        while steps != (steps := self.steps()):
            for newest in reversed(steps):
                try:
                    restored = self._as_restored(*self._read_checked(newest), like)
                except FileNotFoundError:  # another process has removed it
                    continue
                except _DamagedError as error:
                    damaged[newest] = str(error)
                    continue
                for skipped in damaged.keys() & {*self.steps()}:
                    warnings.warn(damaged[skipped], CheckpointWarning, stacklevel=2)
                return restored
        if damaged:
            raise CheckpointError("; ".join(damaged.values()))
        raise FileNotFoundError(f"restore: {self.folder} has no checkpoint")

    def best_step(self) -> int | None:
        """Return the step with the best metric, or None if there is none."""
        if self.best is None:
            return None
        sign = 1 if self.mode == "min" else -1
        metric_and_step = []
        for step in self.steps():
            with contextlib.suppress(CheckpointError, OSError):
                metric_and_step.append(
                    (self._read_body(step)["metrics"].get(self.best), step)
                )
        numbers = [
            (sign * x, s) for x, s in metric_and_step if x is not None and x == x
        ]
        return min(numbers)[1] if numbers else None

    def _budget(self, function: str) -> pg.Budget:
        return pg.Budget.started(self.budget, function)

    def _as_restored(
        self, body: dict[str, Any], tensors: dict[str, pg.Tensor], like: Tree
    ) -> Restored:
        tree = _as_tree(tensors, like, self.path(body["step"]))
        return Restored(body["step"], tree, body["rest"], body["metrics"])

    def _read_body(self, step: int) -> dict[str, Any]:
        """Return the content of the JSON file of a step; raise if it is damaged."""
        path = self.path(step)
        budget = self._budget("restore")
        try:
            body = budget.json(budget.read(path))
            expected = body.pop("checksum")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise _damaged(path, f"it is not complete ({error})") from error
        except IsADirectoryError as error:
            raise _damaged(path, "it is a folder") from error
        if expected != _body_checksum(body):
            raise _damaged(path, "it was altered: its checksum differs")
        if body.get("format") != FORMAT:
            raise _damaged(path, f"format {body.get('format')} is unknown")
        wrong = [
            name for name, fits in ENTRY_CHECKS.items() if not fits(body.get(name))
        ]
        if wrong or body["step"] != step:
            entry = f"its {wrong[0]}" if wrong else f"step {body['step']}"
            raise _damaged(path, f"{entry} is not what save writes for step {step}")
        return dict(body)

    def _read_checked(self, step: int) -> tuple[dict[str, Any], dict[str, pg.Tensor]]:
        """Return the contents of both files of a step; raise if one is damaged."""
        before = None
        body = self._read_body(step)
        while True:
            try:
                return body, self._read_tensors(body)
            except _DamagedError:
                before = body
                body = self._read_body(step)
                if body == before:  # no other process has saved the step again
                    raise

    def _read_tensors(self, body: Mapping[str, Any]) -> dict[str, pg.Tensor]:
        """Return the tensors; raise if they do not match the JSON file."""
        path = self.folder / body["file"]
        try:
            checksum = _checksum(path, self._budget("restore"))
            if checksum == body["sha256"]:
                return pg.load(path, budget=self.budget)
        except FileNotFoundError:
            reason = f"its file {path.name} is missing"
            raise _damaged(self.path(body["step"]), reason) from None
        except (ValueError, TypeError, IsADirectoryError) as error:
            raise _damaged(path, str(error)) from error
        raise _damaged(path, "it was truncated or altered: its checksum differs")

    def _remove_old(self, step: int) -> None:
        """Remove checkpoints that are not kept; ``step`` was just saved.

        A folder or a pipe with the name of a checkpoint is ignored.
        """
        steps = [step for step in self.steps() if self.path(step).is_file()]
        kept = {*steps[-self.keep :], step, self.best_step()}
        for old in {*steps} - kept:
            file = ""
            with contextlib.suppress(CheckpointError, OSError):
                file = self._read_body(old)["file"]
            _remove(self.path(old))
            if TENSORS.fullmatch(file):  # never a file outside of the folder
                _remove(self.folder / file)

    def _remove_unused(self, *, are_complete: bool) -> None:
        """Remove files that no checkpoint names and no process is writing.

        ``are_complete`` says that no process is writing. It must be known before the
        checkpoints are read: otherwise, a process could write the tensors and then the
        JSON file of a checkpoint in between, and its tensors would seem unused.
        """
        used = set()
        damaged = set()
        for step in self.steps():
            try:
                used.add(self._read_body(step)["file"])
            except FileNotFoundError:  # another process has removed it
                continue
            except (CheckpointError, OSError):  # its tensors may still be useful
                damaged.add(step)
        for path in self.folder.iterdir():
            match = TENSORS.fullmatch(path.name)
            if match is None:
                unused = DRAFT.fullmatch(path.name) is not None
            else:
                unused = path.name not in used and int(match[1]) not in damaged
            if unused and (are_complete or is_abandoned(path)):
                _remove(path)


# --- files and checksums ---------------------------------------------------------


def _damaged(path: Path, reason: str) -> CheckpointError:
    return _DamagedError(f"restore: the checkpoint {path} is refused: {reason}")


def _to_json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, sort_keys=True, indent=1, default=_as_json).encode()
    except (TypeError, ValueError) as error:  # ValueError: a value contains itself
        raise TypeError(f"save: rest cannot be written as JSON: {error}") from error


def _as_json(value: object) -> Any:
    """Convert a NumPy scalar to a JSON value."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is a {type(value).__name__}")


def _remove(path: Path) -> None:
    """Remove a file or a temporary folder, unless another process has removed it.

    The temporary folder of ``pg.save`` contains only files. Anything else with such a
    name is left alone.
    """
    if path.is_file():
        path.unlink(missing_ok=True)
        return
    match = DRAFT.fullmatch(path.name)
    if match is None or match[1] is None or path.is_symlink():
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if all(one.is_file() for one in path.iterdir()):
            shutil.rmtree(path, ignore_errors=True)


def _body_checksum(body: Mapping[str, Any]) -> str:
    """Return the checksum of the content of a JSON file."""
    return hashlib.sha256(_to_json(body)).hexdigest()


def _checksum(path: Path, budget: pg.Budget) -> str:
    with budget.open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _synchronize(folder: Path) -> None:
    """Make the names in a folder survive a power loss, if the system supports it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- trees -----------------------------------------------------------------------


def _leaf_names(tree: Tree) -> list[str]:
    return [path or "value" for path in paths(tree)]


def _leaves_by_name(tree: Tree) -> dict[str, Any]:
    """Return the leaves of a tree by their paths."""
    leaves = pg.tree.leaves(tree)
    for name, x in zip(_leaf_names(tree), leaves, strict=True):
        if not isinstance(x, pg.Tensor | pg.Variable):
            raise TypeError(
                f"save: {name} is {x!r}; a tree contains only tensors; pass other "
                "values as rest"
            )
    return dict(zip(_leaf_names(tree), leaves, strict=True))


def _as_tree(tensors: dict[str, pg.Tensor], like: Tree, path: Path) -> Tree:
    """Return the loaded tensors in the containers of ``like``; raise if they differ."""
    leaves, structure = pg.tree.flatten(like)
    names = _leaf_names(like)
    wrong = [
        f"{name} is not in the checkpoint" for name in names if name not in tensors
    ]
    wrong += [f"{name} is not in the model" for name in tensors if name not in names]
    for name, x in zip(names, leaves, strict=True):
        y = tensors.get(name)
        if y is not None and (y.shape, y.dtype) != (x.shape, x.dtype):
            wrong.append(f"{name} is {y.dtype} {y.shape}, here {x.dtype} {x.shape}")
    if wrong:
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise CheckpointError(
            f"restore: the checkpoint {path} belongs to another model: "
            f"{'; '.join(wrong[:5])}{more}"
        )
    return structure([tensors[name] for name in names])
