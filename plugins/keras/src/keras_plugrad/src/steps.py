"""One step of training, evaluation and prediction, as functions without side effects.

A step takes the values of all variables and a batch, and returns new values. So
``plugrad.jit`` can record and replay it. The methods have the signatures that the
guides of Keras use for the JAX backend, and users may override them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plugrad as pg
from keras.src.trainers.data_adapters import data_adapter_utils

from .keras_names import StatelessScope, tree

# The values of the trainable, non-trainable, optimizer and metrics variables.
State = tuple[list[Any], list[Any], list[Any], list[Any]]


def mapping(variables: Sequence[Any], values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return pairs of a variable and its value, for a stateless scope."""
    return list(zip(variables, values, strict=True))


def current(scope: Any, variables: Sequence[Any]) -> list[Any]:
    """Return the values of variables at the end of a stateless scope."""
    return [scope.get_current_value(variable) for variable in variables]


class Steps:
    """The steps of a model; ``trainer.Trainer`` calls them."""

    def value_and_grad(self: Any, f: Any, **options: Any) -> Any:
        """Return a function that returns the value and the gradient of ``f``.

        ``train_step`` calls this method. Override it to change how gradients are
        computed, or what is done with them: to average them over several processes,
        to clip them, or to add noise.

        Args:
            f: A function of the list of trainable values. It returns the scaled loss,
                and what else the step needs.
            options: The options of ``plugrad.value_and_grad``.

        """
        return pg.value_and_grad(f, **options)

    def train_step(self: Any, state: State, data: Any) -> tuple[Any, State]:
        """Return the logs of a batch and the state after its update.

        Args:
            state: The values of the variables, as lists in the order of
                ``trainable_variables``, ``non_trainable_variables``,
                ``optimizer.variables`` and ``metrics_variables``.
            data: A batch: ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.

        """
        trainable, non_trainable, optimizer, metrics = state
        batch = data_adapter_utils.unpack_x_y_sample_weight(data)

        def scaled_loss(values: list[Any]) -> Any:
            found = self.compute_loss_and_updates(
                values, non_trainable, metrics, *batch, training=True
            )
            return self.optimizer.scale_loss(found[0]), found

        gradient_of = self.value_and_grad(scaled_loss, has_aux=True)
        (_, found), gradients = gradient_of(list(trainable))
        loss, y_pred, non_trainable, metrics = found
        trainable, optimizer = self.optimizer.stateless_apply(
            optimizer, gradients, trainable
        )
        logs, metrics = self._logs_of_step(metrics, loss, y_pred, *batch)
        return logs, (trainable, non_trainable, optimizer, metrics)

    def test_step(self: Any, state: State, data: Any) -> tuple[Any, State]:
        """Return the logs of a batch and the new state, without an update."""
        trainable, non_trainable, optimizer, metrics = state
        batch = data_adapter_utils.unpack_x_y_sample_weight(data)
        loss, y_pred, non_trainable, metrics = self.compute_loss_and_updates(
            trainable, non_trainable, metrics, *batch, training=False
        )
        logs, metrics = self._logs_of_step(metrics, loss, y_pred, *batch)
        return logs, (trainable, non_trainable, optimizer, metrics)

    def predict_step(self: Any, state: State, data: Any) -> tuple[Any, State]:
        """Return the predictions for a batch and the new state."""
        trainable, non_trainable, optimizer, metrics = state
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        options = {"training": False} if self._call_has_training_arg else {}
        y_pred, non_trainable = self.stateless_call(
            trainable, non_trainable, x, **options
        )
        return y_pred, (trainable, non_trainable, optimizer, metrics)

    def compute_loss_and_updates(
        self: Any,
        trainable_variables: list[Any],
        non_trainable_variables: list[Any],
        metrics_variables: list[Any],
        x: Any,
        y: Any,
        sample_weight: Any,
        training: bool = False,
    ) -> tuple[Any, Any, list[Any], list[Any]]:
        """Return loss, predictions, non-trainable variables and metrics variables."""
        values = mapping(self.trainable_variables, trainable_variables)
        values += mapping(self.non_trainable_variables, non_trainable_variables)
        values += mapping(self.metrics_variables, metrics_variables)
        options = {"training": training} if self._call_has_training_arg else {}
        with StatelessScope(values, collect_losses=True) as scope:
            y_pred = self(x, **options)
            loss = self._compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
            )
        return (
            loss,
            y_pred,
            current(scope, self.non_trainable_variables),
            current(scope, self.metrics_variables),
        )

    def _logs_of_step(
        self: Any,
        metrics: list[Any],
        loss: Any,
        y_pred: Any,
        x: Any,
        y: Any,
        sample_weight: Any,
    ) -> tuple[Any, list[Any]]:
        """Update the metrics; return the logs and the new values of the metrics."""
        with StatelessScope(mapping(self.metrics_variables, metrics)) as scope:
            count = next((a for a in tree.flatten(x) if a is not None), loss)
            weight = count.shape[0] if getattr(count, "shape", ()) else None
            self._loss_tracker.update_state(loss, sample_weight=weight)
            logs = self.compute_metrics(x, y, y_pred, sample_weight)
        return logs, current(scope, self.metrics_variables)
