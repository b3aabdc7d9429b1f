# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the e2e tests. They need root and the built programs, and say so instead of skipping."""

import os

import pytest

from rig import BUILD, Lab


def pytest_sessionstart(session):
    if session.config.option.collectonly:
        return
    if os.geteuid() != 0:
        pytest.exit("e2e tests make network namespaces and load BPF: run as root", returncode=2)
    missing = [name for name in ("sluiced", "sluicectl", "tools/service") if not (BUILD / name).exists()]
    if missing:
        pytest.exit(f"not built: {', '.join(missing)}; run `make all tools`", returncode=2)


@pytest.fixture
def lab():
    """Namespaces for clients, a storm and the gateway; removed with all that runs in them."""
    with Lab() as made:
        yield made
