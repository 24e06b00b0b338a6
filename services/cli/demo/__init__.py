"""`phalanx demo`: the promises of Phalanx, kept before one's eyes on a cluster of its own."""
