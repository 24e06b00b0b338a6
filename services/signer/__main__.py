"""Run the signer: `python -m services.signer`."""

from services.runtime.lifecycle import main
from services.signer.app import sign
from services.signer.settings import SignerSettings

if __name__ == "__main__":
    main("signer", SignerSettings, sign)
