"""Limits of values that stand in several sections of the configuration file, as metadata of fields."""

NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_KEY_PATTERN = rf"({DOMAIN}/)?{NAME}"

LABEL_KEY = {"pattern": rf"^{LABEL_KEY_PATTERN}$", "text": "a label key, such as topology.kubernetes.io/zone"}
"""Limits of a field that is a label key."""
LABELS = {
    "pattern": rf"^({NAME})?$",
    "text": "a label value of up to 63 letters, digits, '-', '_' or '.'",
    "key_pattern": rf"^{LABEL_KEY_PATTERN}$",
    "key_text": "a label key, such as example.com/pool",
}
"""Limits of a map of labels."""
