"""The network in PyTorch and its training; docs/training.md explains how to use it."""
