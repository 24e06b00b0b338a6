"""Our placement beside that of the real kube-scheduler, on small random clusters, with a checker of its own.

`features` names what is varied, `drawing` makes a scenario from a seed, `native` lets kube-scheduler decide it, `ours`
asks `phalanx plan` about the very same objects, `checker` says from the rules alone whether an answer is right, and
`comparison` counts. See docs/differential.md.
"""
