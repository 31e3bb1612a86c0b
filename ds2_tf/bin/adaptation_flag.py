"""The flag --adapt_seconds of programs that hear with a trained model."""

from typing import TYPE_CHECKING

from absl import flags

if TYPE_CHECKING:
    from ds2_tf.acoustic_model import AcousticModel

_SECONDS = flags.DEFINE_float(
    "adapt_seconds",
    None,
    "Adapt the features' mean and variance to the last seconds heard; 0: don't. As trained by "
    "default.",
    0.0,
)


def applied_to(model: "AcousticModel") -> "AcousticModel":
    """Returns the model, with its features adapted as the flag says."""
    if _SECONDS.value is None:
        return model
    return model.with_features(model.feature_config.adapted(_SECONDS.value))
