"""`phalanx taint`: maintenance of devices by ordinary DeviceTaintRules, and what they would break.

The cluster is read by plain lists; `what_if` is a function of what was read. Nothing but the rule itself is written.
"""
