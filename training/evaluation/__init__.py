"""Material to judge networks with, their scores, and how systems compare."""
