"""Writes the chart with its defaults into `deploy/default`: `make manifests`."""

from tests.deploy.tools import DEFAULT, Tools
from tests.kubernetes import build


def main() -> None:
    """Render and write."""
    folder = build.ensure(further=build.DEPLOYING)
    DEFAULT.write_text(Tools(folder=folder).render({}))


if __name__ == "__main__":
    main()
