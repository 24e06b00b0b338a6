"""Our choice of devices beside that of kube-scheduler's structured allocator, for single pods on single nodes."""
