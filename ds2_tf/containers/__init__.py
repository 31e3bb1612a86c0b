"""Whether a sound file is whole and its header true, as far as that shows without decoding."""
