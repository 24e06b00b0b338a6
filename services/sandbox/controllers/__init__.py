"""What moves a simulated cluster: kubelets and the controllers of kube-controller-manager that gangs depend on.

Each module holds one controller: `observe` turns a change into the names of its objects to look at, `reconcile`
looks at one of them and acts through the same rules as every client. `loop` runs them all.
"""
