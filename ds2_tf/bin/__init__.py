"""The programs behind `ds2 VERB`."""
