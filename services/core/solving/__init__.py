"""How a placement is found: classes of equal members, rules among pods as counters, filling, domains, and search.

`services.core.solver` is the door: nothing outside the core calls what is in here.
"""
