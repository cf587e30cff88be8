"""The loss and its terms."""
