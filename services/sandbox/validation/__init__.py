"""Defaults and field rules per kind: functions from (new, old) versions to causes, with no access to the store."""
