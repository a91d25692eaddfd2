"""Why a cut does not pay, beside its rivals and by its times."""

from attnrate.compress.measured import Measurements
from attnrate.compress.rivals import CUT, is_rival
from attnrate.spectra.measures import percent

_MORE = 1.05  # a rival that takes up to 5 % more bytes takes as many
_WORK = {"batch": "a batch", "token": "a token"}


def outdone(measured: Measurements) -> str | None:
    """Which quantised keys (and values) of the whole model take as few bytes and change less.

    Bytes are compared in 16 bits, which favours the cut: with 32 bits the quantised keys would be a
    smaller share still. Up to 5 % more bytes count as equal: heads of half their size and keys in 8
    bits with their scales differ by that.
    """
    cut = next((each for each in measured.rivals if each.way == CUT), None)
    if cut is None:
        return None
    for each in measured.rivals:
        few = is_rival(each.way) and each.bytes_16 <= _MORE * cut.bytes_16
        if few and each.change < cut.change:
            return (
                f"{each.way} of the whole model take {each.bytes_16:,.0f} bytes per token in the "
                f"cache instead of {cut.bytes_16:,.0f} (other numbers in 16 bits), and the output "
                f"changes by {percent(each.change)} instead of {percent(cut.change)}"
            )
    return None


def slower(measured: Measurements, saved: float) -> str | None:
    """Which work takes longer by a larger share than the cut saves.

    Args:
        measured: What was measured; where a token was timed, it is what counts.
        saved: The share of parameters or of the cache that is saved, whichever is larger.

    """
    timing = measured.times[-1] if measured.times else None
    if timing is None or timing.low <= 1 + max(saved, 0.0):
        return None
    return (
        f"{_WORK[timing.work]} takes {timing.ratio:.2f} times as long ({timing.low:.2f} to "
        f"{timing.high:.2f}), and no more than {percent(saved)} is saved"
    )
