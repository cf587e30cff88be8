"""From recordings to packs, and from packs to noisy clips and their targets."""
