"""`phalanx audit`: what an upgrade of Kubernetes will break, found before it does.

`collecting` and `dumps` make one value, `Evidence`, of a live cluster or of files; `checks` are functions from evidence
to findings; `judging` runs them; `rendering` shows the report. Nothing here writes to a cluster.
"""
