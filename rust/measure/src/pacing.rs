//! Waiting for the moment at which an operation is due.

use pyo3::prelude::*;

use crate::clock::{Counter, Scale};

/// A sleep wakes late by tens of microseconds; the rest of the wait is spent looking at the clock.
const AWAKE_NS: u64 = 120_000;
const LONGEST_SLEEP_NS: u64 = 100_000_000;
/// Below this, giving up the interpreter's lock and taking it again would be most of the wait.
const WITH_LOCK_NS: u64 = 3_000;

/// Returns once `due` (in ticks) has come. Other threads may run meanwhile. Err is a signal's exception.
pub fn wait_until<C: Counter>(py: Python<'_>, due: u64, scale: &Scale) -> PyResult<()> {
    loop {
        let left = due.saturating_sub(C::now());
        if left == 0 {
            return Ok(());
        }
        let left_ns = scale.span_ns(left) as u64;
        if left_ns < WITH_LOCK_NS {
            while C::now() < due {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        py.detach(|| {
            if left_ns > AWAKE_NS {
                sleep((left_ns - AWAKE_NS).min(LONGEST_SLEEP_NS));
            } else {
                while C::now() < due {
                    std::hint::spin_loop();
                }
            }
        });
        py.check_signals()?;
    }
}

fn sleep(ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    // SAFETY: both pointers are valid for the call or null. A signal ends it early, and the caller looks again.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// Asks the kernel not to delay this thread's sleeps in order to join them with others' (50 µs by default).
pub fn exact_sleeps() {
    #[cfg(target_os = "linux")]
    // SAFETY: this option takes one number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
    }
}
