"""A TensorFlow profile of a few steps of training."""

import os

import tensorflow as tf
from absl import logging

_WARM_UP_STEPS = 5  # in which graphs are traced and memory is taken


class Profiler:
    """Records some steps for TensorBoard's profile page."""

    def __init__(self, folder: str | os.PathLike, step: int, num_steps: int) -> None:
        """Sets when to record.

        Args:
          folder: of the TensorBoard events.
          step: steps done when the process starts.
          num_steps: how many to record, after a warm-up; 0 for none.
        """
        self._folder = os.fspath(folder)
        self._first = step + _WARM_UP_STEPS
        self._last = self._first + num_steps
        self._is_recording = False

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends a record that is still going on: an epoch is over, or the run stops."""
        if self._is_recording:
            self._finish()

    def after(self, step: int) -> None:
        """Begins or ends the record after a step, if it is time."""
        if self._first == self._last:
            return
        if step == self._first:
            tf.profiler.experimental.start(self._folder)
            self._is_recording = True
        elif step == self._last and self._is_recording:
            self._finish()

    def _finish(self) -> None:
        tf.profiler.experimental.stop()
        self._is_recording = False
        logging.info("profile from step %d on: %s", self._first + 1, self._folder)
