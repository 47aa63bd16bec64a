"""``fit``, ``evaluate`` and ``predict`` of Keras' models, with steps under ``jit``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import plugrad as pg
from keras.src import callbacks as callbacks_module
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.trainers.trainer import BaseTrainer
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

from .keras_names import config, tree
from .ops.core import convert_to_numpy, convert_to_tensor
from .steps import State, Steps

# Steps depend on the values of variables, which they are passed, and on what a model is
# when it is compiled. To compare all objects of Keras before each step takes too long.
FROZEN = "keras", "keras_plugrad"
Step = Callable[[State, Any], tuple[Any, State]]
# The variables whose values are a state, in the same order.
Groups = tuple[list[Any], list[Any], list[Any], list[Any]]


class Trainer(Steps, BaseTrainer):  # type: ignore[misc]
    """The part of ``keras.Model`` that trains it."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Any = None
        self.test_function: Any = None
        self.predict_function: Any = None

    # --- functions of steps ----------------------------------------------------------

    def make_train_function(self, force: bool = False) -> Any:
        """Set and return the function that trains on a list of batches."""
        if self.train_function is None or force:
            self.train_function = self._function_of(self.train_step)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Set and return the function that evaluates a list of batches."""
        if self.test_function is None or force:
            self.test_function = self._function_of(self.test_step)
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Set and return the function that predicts for a list of batches."""
        if self.predict_function is None or force:
            one = self._function_of(self.predict_step)

            def joined(state: State, batches: list[Any]) -> tuple[Any, State]:
                found = []
                for batch in batches:
                    y, state = one(state, [batch])
                    found.append(y)
                if len(found) == 1:
                    return found[0], state
                return tree.map_structure(lambda *ys: pg.concat(ys), *found), state

            self.predict_function = joined
        return self.predict_function

    def _function_of(self, step: Step) -> Any:
        """Return a function that runs a step for each batch of a list."""
        run = step
        if self.jit_compile and not self.run_eagerly:
            run = pg.jit(step, frozen=FROZEN)

        def run_all(state: State, batches: list[Any]) -> tuple[Any, State]:
            found = None
            for batch in batches:
                found, state = run(state, tree.map_structure(_as_tensor, batch))
            return found, state

        return run_all

    # --- the state -------------------------------------------------------------------

    def _groups(self, *, train: bool = False) -> Groups:
        """Return the variables that a step takes and returns.

        To find them, Keras searches all layers, so a loop does this once.
        """
        return (
            self.trainable_variables,
            self.non_trainable_variables,
            self.optimizer.variables if train else [],
            self.metrics_variables,
        )

    def _step(self, function: Any, batches: list[Any], groups: Groups) -> Any:
        """Run a function of steps on variables; return its logs."""
        one, two, three, four = [[v.value for v in group] for group in groups]
        found, state = function((one, two, three, four), batches)
        for group, values in zip(groups, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable._direct_assign(value)
        return found

    # --- fit -------------------------------------------------------------------------

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> Any:
        """Train the model; see ``keras.Model.fit``."""
        self._assert_compile_called("fit")
        epochs = _at_most(config.max_epochs(), epochs)
        data = x, y, sample_weight
        if validation_split and validation_data is None:
            data, validation_data = array_slicing.train_validation_split(
                data, validation_split=validation_split
            )
        size = validation_batch_size or batch_size
        validation = self._validation(validation_data, size, validation_steps)
        epoch = self._epoch(
            *data,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            shuffle=shuffle,
            class_weight=class_weight,
        )
        listeners = self._listeners(callbacks, epoch, verbose, epochs, add_history=True)
        numbers = range(initial_epoch, epochs)
        self._train(epoch, numbers, listeners, validation, validation_freq)
        return self.history

    def _epoch(
        self, x: Any, y: Any = None, sample_weight: Any = None, **options: Any
    ) -> Any:
        """Return the batches of an epoch, after building the model for them."""
        found = EpochIterator(
            x=x,
            y=y,
            sample_weight=sample_weight,
            steps_per_execution=self.steps_per_execution,
            **options,
        )
        self._symbolic_build(iterator=found)
        found.reset()
        return found

    def _validation(self, data: Any, batch_size: int | None, steps: int | None) -> Any:
        """Return the batches of the validation data; None if there are none."""
        if data is None:
            return None
        parts = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self._epoch(
            *parts, batch_size=batch_size, steps_per_epoch=steps, shuffle=False
        )

    def _listeners(
        self,
        callbacks: Any,
        epoch: Any,
        verbose: Any,
        epochs: int = 1,
        **options: Any,
    ) -> Any:
        """Return the callbacks as one object."""
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        return callbacks_module.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=epochs,
            steps=epoch.num_batches,
            model=self,
            **options,
        )

    def _train(
        self,
        batches: Any,
        epochs: range,
        listeners: Any,
        validation: Any,
        validation_freq: Any,
    ) -> None:
        """Train for some epochs, and validate after some of them."""
        self.stop_training = False
        self.make_train_function()
        listeners.on_train_begin()  # it may set the epoch to resume from
        epochs = range(self._initial_epoch or epochs.start, epochs.stop)
        logs: dict[str, Any] = {}
        for epoch in epochs:
            self.reset_metrics()
            listeners.on_epoch_begin(epoch)
            logs = self._train_epoch(batches, listeners)
            if validation is not None and self._should_eval(epoch, validation_freq):
                found = self._evaluate(validation, listeners)
                logs |= {f"val_{name}": value for name, value in found.items()}
            listeners.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        if self.optimizer is not None and epochs.stop > 0:
            # An optimizer may average the variables.
            self.optimizer.finalize_variable_values(self.trainable_weights)
        listeners.on_train_end(logs=logs)

    def _train_epoch(self, epoch: Any, listeners: Any) -> dict[str, Any]:
        """Train on all batches of an epoch; return the logs at its end."""
        logs: Any = {}
        groups = self._groups(train=True)
        with epoch.catch_stop_iteration():
            for begin, end, batches in epoch.enumerate_epoch():
                listeners.on_train_batch_begin(begin)
                logs = self._step(self.train_function, batches, groups)
                listeners.on_train_batch_end(end, logs)
                if self.stop_training:
                    break
        return dict(pythonify_logs(self._get_metrics_result_or_logs(logs)))

    # --- evaluate and predict --------------------------------------------------------

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **unknown: Any,
    ) -> Any:
        """Return the loss and the metrics of data; see ``keras.Model.evaluate``."""
        self._assert_compile_called("evaluate")
        if unknown:
            raise ValueError(f"evaluate: Arguments not recognized: {unknown}")
        epoch = self._epoch(
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=False,
        )
        logs = self._evaluate(epoch, self._listeners(callbacks, epoch, verbose))
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def _evaluate(self, epoch: Any, listeners: Any) -> dict[str, Any]:
        """Return the logs after all batches of an epoch."""
        self.make_test_function()
        self.stop_evaluating = False
        listeners.on_test_begin()
        self.reset_metrics()
        logs: Any = {}
        groups = self._groups()
        for begin, end, batches in epoch.enumerate_epoch():
            listeners.on_test_batch_begin(begin)
            logs = self._step(self.test_function, batches, groups)
            listeners.on_test_batch_end(end, logs)
            if self.stop_evaluating:
                break
        found = dict(pythonify_logs(self._get_metrics_result_or_logs(logs)))
        listeners.on_test_end(found)
        return found

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return predictions as NumPy arrays; see ``keras.Model.predict``."""
        epoch = EpochIterator(
            x=x,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=False,
            steps_per_execution=self.steps_per_execution,
        )
        self._build_for_prediction(epoch)
        listeners = self._listeners(callbacks, epoch, verbose)
        self.make_predict_function()
        self.stop_predicting = False
        listeners.on_predict_begin()
        parts = []
        groups = self._groups()
        for begin, end, batches in epoch.enumerate_epoch():
            listeners.on_predict_batch_begin(begin)
            found = self._step(self.predict_function, batches, groups)
            parts.append(tree.map_structure(convert_to_numpy, found))
            listeners.on_predict_batch_end(end, {"outputs": found})
            if self.stop_predicting:
                break
        listeners.on_predict_end()
        return tree.map_structure(lambda *ys: np.concatenate(ys), *parts)

    def _build_for_prediction(self, epoch: Any) -> None:
        """Build the model by calling it on the first batch, if it is not built."""
        if all(layer.built for layer in self._flatten_layers()):
            return
        for _, _, batches in epoch.enumerate_epoch():
            x = tree.map_structure(_as_tensor, batches[0])
            self(data_adapter_utils.unpack_x_y_sample_weight(x)[0])
            break
        epoch.reset()

    # --- single batches --------------------------------------------------------------

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Train on a batch; see ``keras.Model.train_on_batch``."""
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Arguments `sample_weight` and `class_weight` cannot be specified "
                    "at the same time. "
                    f"Received: sample_weight={sample_weight}, "
                    f"class_weight={class_weight}"
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(
                y, class_weight
            )
        batch = _batch(x, y, sample_weight)
        self._symbolic_build(data_batch=batch)
        self.make_train_function()
        self.reset_metrics()
        groups = self._groups(train=True)
        return self._logs(self._step(self.train_function, [batch], groups), return_dict)

    def test_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Evaluate a batch; see ``keras.Model.test_on_batch``."""
        self._assert_compile_called("test_on_batch")
        batch = _batch(x, y, sample_weight)
        self._symbolic_build(data_batch=batch)
        self.make_test_function()
        self.reset_metrics()
        groups = self._groups()
        return self._logs(self._step(self.test_function, [batch], groups), return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Return the predictions for a batch as NumPy arrays."""
        if not all(layer.built for layer in self._flatten_layers()):
            self(tree.map_structure(_as_tensor, x))
        self.make_predict_function()
        found = self._step(self.predict_function, [(x,)], self._groups())
        return tree.map_structure(convert_to_numpy, found)

    def _logs(self, logs: Any, return_dict: bool) -> Any:
        logs = tree.map_structure(lambda value: np.array(convert_to_numpy(value)), logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)


def _at_most(limit: int | None, epochs: int) -> int:
    """Return the number of epochs, limited by ``keras.config.set_max_epochs``."""
    if not limit or epochs <= limit:
        return epochs
    warnings.warn(f"Limiting epochs to {limit}", stacklevel=3)
    return limit


def _as_tensor(x: Any) -> Any:
    """Return an array as a tensor."""
    return None if x is None else convert_to_tensor(x)


def _batch(x: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
    """Return a batch of tensors without the parts that are missing."""
    parts: Iterable[Any] = (x, y, sample_weight)
    if sample_weight is None:
        parts = (x,) if y is None else (x, y)
    return tuple(tree.map_structure(_as_tensor, tuple(parts)))
