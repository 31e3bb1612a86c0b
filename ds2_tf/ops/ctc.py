"""Connectionist temporal classification."""

from typing import Any

import tensorflow as tf

from ds2_tf.alphabet import BLANK
from ds2_tf.native import ops as native
from ds2_tf.ops import ctc_portable


def ctc_loss(
    logits: tf.Tensor, logit_lengths: tf.Tensor, labels: tf.Tensor, label_lengths: tf.Tensor
) -> tf.Tensor:
    """Returns -log p(labels | logits) of each utterance, in nats.

    The loss is not divided by any length. An utterance without labels costs what an all-blank
    output costs; one without frames and labels costs 0. It is differentiable once. The native
    operation runs where it loads, on a GPU where it was compiled with CUDA; TensorFlow's own
    otherwise. `native.ops` logs which.

    Args:
      logits: [B, T', V] float; the softmax is taken here. Label 0 is the blank.
      logit_lengths: [B] int32; frames past them are ignored, and their gradient is 0.
      labels: [B, U] int32 in [1, V), padded with anything.
      label_lengths: [B] int32.

    Returns:
      [B] float32.

    Raises:
      tf.errors.InvalidArgumentError: names the batch rows whose labels need more frames than there
        are: their loss is infinite, and no training can go on from there.

    Source: Graves et al. 2006; Deep Speech 2, section 3.
    """
    operations = native.load(has_gpu_kernel=True)
    if operations is None:
        return ctc_portable.ctc_loss(logits, logit_lengths, labels, label_lengths)
    loss, _ = operations.ds2_ctc_loss(logits, logit_lengths, labels, label_lengths, blank=BLANK)
    return loss


@tf.RegisterGradient("Ds2>CtcLoss")
def _ctc_loss_gradient(op: tf.Operation, by_loss: tf.Tensor, _: Any) -> list[tf.Tensor | None]:
    gradient = tf.raw_ops.PreventGradient(
        input=op.outputs[1], message="the CTC loss can be differentiated once only"
    )
    axis = 1 if op.get_attr("time_major") else 0
    shape = [1, 1, 1]
    shape[axis] = -1
    by_logits = tf.cast(tf.reshape(by_loss, shape), gradient.dtype) * gradient
    return [by_logits, None, None, None]
