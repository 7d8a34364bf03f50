"""Each guard of a sandbox as something that is tried from inside, and what must come of it."""

from sandbox.probes.guards import PROBE_LIMITS, GuardSettings, make_probes
from sandbox.probes.probe import Finding, Probe, Standing, run_probe

__all__ = [
    "PROBE_LIMITS",
    "Finding",
    "GuardSettings",
    "Probe",
    "Standing",
    "make_probes",
    "run_probe",
]
