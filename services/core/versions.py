"""Which of two versions of an object is the earlier one, as far as its metadata tells."""

from services.core.objects import Metadata


def is_older(metadata: Metadata, *, than: Metadata) -> bool:
    """Tell whether this is an earlier version of the same object, or an object that was replaced by another.

    Versions are decimal integers that only grow, also from an object to its successor of the same name (KEP-5504).
    """
    if not (metadata.resource_version.isdecimal() and than.resource_version.isdecimal()):
        return False
    return int(metadata.resource_version) < int(than.resource_version)


def is_end_of(known: Metadata, *, tombstone: Metadata) -> bool:
    """Tell whether a tombstone means that what is known is gone.

    It may be that of a successor of the same name that was made and deleted unseen: the stream keeps only the last
    message of each subject.
    """
    return known.uid == tombstone.uid or is_older(known, than=tombstone)
