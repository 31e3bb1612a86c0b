"""Packaging lies in setup.cfg."""

import setuptools

setuptools.setup()
