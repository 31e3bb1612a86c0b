"""The layers of Deep Speech 2, exact on sequences of different lengths."""
