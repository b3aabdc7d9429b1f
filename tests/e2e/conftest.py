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


STOOD_STILL_MS = 50  # usual: under 3
ATTEMPTS = 3


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """
    A test that failed while the machine stood still has measured the machine: it is run again, in a new Lab. Only where
    the service itself saw the stop, and only a test that depends on nothing but its Lab.
    """
    names = pyfuncitem._fixtureinfo.argnames
    params = getattr(pyfuncitem, "callspec", None)
    args = {name: pyfuncitem.funcargs[name] for name in names}
    if set(names) - {"lab"} - set(params.params if params else ()) or "lab" not in names:
        return None
    for attempt in range(ATTEMPTS):
        try:
            pyfuncitem.obj(**args)
            return True
        except Exception:
            stopped = args["lab"].stood_still_ms()
            if stopped < STOOD_STILL_MS or attempt == ATTEMPTS - 1:
                raise
        print(f"the machine stood still for {stopped:.0f} ms: once more")
        args["lab"].close()
        args["lab"] = Lab()
        pyfuncitem.addfinalizer(args["lab"].close)
    return True


@pytest.fixture
def lab():
    """Namespaces for clients, a storm and the gateway; removed with all that runs in them."""
    with Lab() as made:
        yield made
