"""A run whose free texts every store carries: they quote errors and outputs from anywhere."""

from __future__ import annotations

from dataclasses import replace

from runner.domain.records import Run, SetupResult, VerifyResult
from runner.domain.text import clean_text


def clean_run(run: Run) -> Run:
    """Return the run with U+0000 and lone surrogates in its texts replaced by U+FFFD."""
    return replace(
        run,
        reason=clean_text(run.reason).text,
        verify_before=_clean_verify(run.verify_before),
        verify_after=_clean_verify(run.verify_after),
        setup=_clean_setup(run.setup),
    )


def _clean_setup(result: SetupResult | None) -> SetupResult | None:
    if result is None:
        return None
    return replace(result, detail=clean_text(result.detail).text)


def _clean_verify(result: VerifyResult | None) -> VerifyResult | None:
    if result is None:
        return None
    return replace(result, detail=clean_text(result.detail).text)
