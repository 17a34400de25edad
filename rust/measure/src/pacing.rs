//! Waits for the moment at which an operation is due.

use pyo3::prelude::*;

use crate::clock::{Counter, Scale};

/// A sleep wakes late by tens of microseconds: this long before the end of a wait, spin on the clock instead.
const AWAKE_NS: u64 = 120_000;
const LONGEST_SLEEP_NS: u64 = 100_000_000;
/// A shorter wait holds the interpreter's lock: releasing and taking it would be most of the wait.
const WITH_LOCK_NS: u64 = 3_000;

/// Returns at `due` (in ticks). Other threads may run meanwhile. Err is the exception of a signal handler.
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
    // SAFETY: both pointers are valid for the call or null. A signal ends it early; the caller checks the clock again.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// Tells the kernel not to delay this thread's sleeps, which it does by 50 µs to join wake-ups.
pub fn exact_sleeps() {
    #[cfg(target_os = "linux")]
    // SAFETY: this option takes one number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
    }
}
