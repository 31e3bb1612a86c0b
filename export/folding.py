"""A network without batch normalisation that computes the same: cheaper, and easier to quantize."""

import dataclasses

from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.layers.block import Block
from ds2_tf.model import DeepSpeech2


def without_batch_norm(model: AcousticModel) -> AcousticModel:
    """Returns a model of its own weights, into which the batch normalisations are multiplied.

    At inference B(W x) = (scale W) x + shift. What rounding changes is all that changes.
    """
    run_config = dataclasses.replace(
        model.config, model=dataclasses.replace(model.config.model, batch_norm=False)
    )
    folded = DeepSpeech2(run_config.model, model.network.num_bins, model.alphabet.num_labels)
    for old, new in zip(model.network.sequence_layers, folded.sequence_layers, strict=True):
        norm = getattr(old, "batch_norm", None)
        source, target = (old.layer, new.layer) if isinstance(old, Block) else (old, new)
        if norm is None:
            target.set_weights(source.get_weights())
            continue
        scale, shift = norm.scale_and_shift()
        target.kernel.assign(source.kernel.value * scale)
        target.bias.assign(shift)
        if hasattr(target, "recurrent_kernel"):
            target.recurrent_kernel.assign(source.recurrent_kernel)
    return AcousticModel(run_config, model.alphabet, model.normalization, folded)
